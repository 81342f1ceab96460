/* SPDX-License-Identifier: Apache-2.0 */
/* The two answers that do not end at once: a command's output, and events as they come. */
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "gateway/webserve.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#define PIECE 12288
#define PAGE 500 /* events that are read from the log at once */

static void add_chunk(struct webc *c, const struct buf *b)
{
	http1_add_chunk_head(&c->out, b->len);
	buf_add(&c->out, b->data, b->len);
	http1_add_chunk_tail(&c->out);
}

static void finish(struct webc *c)
{
	http1_add_last_chunk(&c->out);
	buf_adds(&c->out, "\r\n");
	c->state = WEBC_WRITE;
	webc_flush(c);
}

/* --- a command -------------------------------------------------------------------------------------------------------- */

static void add_end(struct webc *c)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "stream", "end");
	json_i64(&j, "exit_code", c->exit_code);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	add_chunk(c, &b);
	c->id = 0;
	finish(c);
}

static void settle_exec(struct webc *c)
{
	if (c->has_exit && c->pipe[0].fd < 0 && c->pipe[1].fd < 0)
		add_end(c);
	else
		webc_flush(c);
}

static void on_pipe(struct watch *w, uint32_t events)
{
	struct webc *c = w->ctx;
	unsigned char data[PIECE];
	char text[sodium_base64_ENCODED_LEN(PIECE, sodium_base64_VARIANT_ORIGINAL)];
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	ssize_t n;

	(void)events;
	/* Who does not read holds the command up, and is dropped for it (S2). */
	if (c->out.len - c->out_off > WEB_OUT_HIGH) {
		loop_unwatch(&c->web->loop, w);
		return;
	}
	n = read(w->fd, data, sizeof(data));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_unwatch(&c->web->loop, w);
		w->fd = fd_close(w->fd);
		settle_exec(c);
		return;
	}
	sodium_bin2base64(text, sizeof(text), data, (size_t)n, sodium_base64_VARIANT_ORIGINAL);
	json_obj(&j, NULL);
	json_str(&j, "stream", w == &c->pipe[0] ? "stdout" : "stderr");
	json_str(&j, "data", text);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	add_chunk(c, &b);
	webc_flush(c);
}

void webc_begin_exec(struct webc *c, int out, int err)
{
	/* What it printed is not kept. */
	static const char was_run[] =
		"{\"error\":{\"code\":\"conflict\",\"message\":\"this command was run\",\"hint\":null}}\n";
	const int fds[2] = { out, err };

	if (c->ask.idem[0])
		web_once_end(c->web->once, &c->ask, 409, was_run, sizeof(was_run) - 1);
	c->ask.idem[0] = '\0';
	webc_add_head(c, 200, "application/x-ndjson", UINT64_MAX, "X-Accel-Buffering: no\r\n");
	c->state = WEBC_EXEC;
	for (int i = 0; i < 2; i++) {
		c->pipe[i] = (struct watch){ .fd = fds[i], .fn = on_pipe, .ctx = c };
		if (loop_watch(&c->web->loop, &c->pipe[i], EPOLLIN) < 0)
			c->pipe[i].fd = fd_close(c->pipe[i].fd);
	}
	webc_flush(c);
}

void webc_more(struct webc *c)
{
	for (int i = 0; i < 2; i++) {
		if (c->pipe[i].fd >= 0)
			(void)!loop_watch(&c->web->loop, &c->pipe[i], EPOLLIN);
	}
	webc_flush(c);
}

void webc_exec_ended(struct webc *c, int code)
{
	c->has_exit = true;
	c->exit_code = code;
	c->id = 0;
	settle_exec(c);
}

/* --- events ----------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct webc *c, const struct web_event *ev)
{
	if (c->of[0] && !str_eq(c->of, ev->sandbox))
		return false;
	if (!c->types[0])
		return true;
	for (const char *p = c->types; *p;) {
		size_t n = strcspn(p, ",");

		if (n && strncmp(ev->type, p, n) == 0 && (ev->type[n] == '\0' || ev->type[n] == '.'))
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

static void add_event(struct webc *c, const struct web_event *ev)
{
	autobuf struct buf b = BUF_INIT;

	c->next_seq = ev->seq + 1;
	if (!is_wanted(c, ev))
		return;
	buf_addf(&b, "id: %llu\nevent: %s\ndata: ", (unsigned long long)ev->seq, ev->type);
	buf_add(&b, ev->line, ev->line_len);
	buf_adds(&b, "\n\n");
	add_chunk(c, &b);
}

/* S3: what is no longer in the ring, or never was, is read from the log. */
static void fetch(struct webc *c)
{
	struct webp_req q = { .cred = c->ask.req.cred, .op = WEB_BACKLOG };

	if (c->fetch)
		return;
	memcpy(q.key, c->ask.req.key, HASH_LEN);
	q.v[0] = (struct web_value){ .has = true, .n = c->next_seq - 1 };
	q.v[1] = (struct web_value){ .has = true, .n = PAGE };
	if (web_send(c->web, c, &q, true) < 0)
		webc_drop(c);
}

void webc_pump(struct webc *c)
{
	struct web_event ev;

	if (!c->next_seq)
		c->next_seq = web_feed_next(c->web->feed);
	while (!c->fetch && c->next_seq && web_feed_next(c->web->feed) &&
	       c->out.len - c->out_off < WEB_OUT_HIGH) {
		int r = web_feed_get(c->web->feed, c->next_seq, &ev);

		if (r > 0)
			break;
		if (r < 0) {
			fetch(c);
			return;
		}
		add_event(c, &ev);
	}
	webc_flush(c);
}

void webc_backlog(struct webc *c, const char *data, size_t len)
{
	const char *end = data + len, *nl;
	autobuf struct buf texts = BUF_INIT, gap = BUF_INIT;
	uint64_t before = c->next_seq;
	struct web_event ev;

	for (const char *p = data; p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
		if (!web_event_parse(p, (size_t)(nl - p), &ev, &texts))
			continue;
		if (ev.seq > c->next_seq) {
			buf_addf(&gap, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
				 (unsigned long long)c->next_seq, (unsigned long long)ev.seq - 1);
			add_chunk(c, &gap);
			buf_clear(&gap);
		}
		add_event(c, &ev);
	}
	/* The feed says that there are more, and the log does not have them: they were pruned, or it was cut. */
	if (c->next_seq == before && c->next_seq < web_feed_next(c->web->feed))
		c->next_seq = web_feed_next(c->web->feed);
	webc_pump(c);
}

void webc_begin_events(struct webc *c)
{
	const struct webp_req *q = &c->ask.req;
	const char *of = webp_str(q, "sandbox"), *types = webp_str(q, "type");
	uint64_t none = UINT64_MAX, after = webp_num(q, "Last-Event-ID", webp_num(q, "after", none));

	snprintf(c->of, sizeof(c->of), "%s", of ? of : "");
	snprintf(c->types, sizeof(c->types), "%s", types ? types : "");
	c->next_seq = after == none ? 0 : after + 1;
	webc_add_head(c, 200, "text/event-stream", UINT64_MAX, "X-Accel-Buffering: no\r\n");
	c->state = WEBC_SSE;
	c->web->n_streams++;
	/* An idle stream needs nothing of the request but who it is. */
	buf_release(&c->in);
	buf_release(&c->body);
	webc_pump(c);
}

void webc_beat(struct webc *c)
{
	static const char beat[] = ":\n\n";

	if (c->out.len > c->out_off)
		return;
	http1_add_chunk_head(&c->out, sizeof(beat) - 1);
	buf_adds(&c->out, beat);
	http1_add_chunk_tail(&c->out);
	webc_flush(c);
}

void webc_end_stream(struct webc *c)
{
	c->id = 0;
	if (c->state == WEBC_SSE)
		c->web->n_streams--;
	c->keep = false;
	finish(c);
}
