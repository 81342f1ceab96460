/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams a command's output as a response. For events see webevents.c. It must not queue more than
 * WEB_OUT_HIGH bytes for a client that does not read (webserve.S2).
 */
#include "base/fd.h"
#include "base/json.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#define PIECE 12288

static void add_stream_chunk(struct webc *c, const struct buf *b)
{
	http1_add_chunk_head(&c->out, b->len);
	buf_add(&c->out, b->data, b->len);
	http1_add_chunk_tail(&c->out);
}

static void finish_stream(struct webc *c)
{
	http1_add_last_chunk(&c->out);
	buf_adds(&c->out, "\r\n");
	c->state = WEBC_WRITE;
	webc_flush(c);
}

/* --- a command ------------------------------------------------------------------------------------------ */

static void add_exit_line(struct webc *c)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "stream", "end");
	json_i64(&j, "exit_code", c->exit_code);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	add_stream_chunk(c, &b);
	finish_stream(c);
}

static void check_exec_ended(struct webc *c)
{
	if (c->has_exit && c->pipe[0].fd < 0 && c->pipe[1].fd < 0)
		add_exit_line(c);
	else
		webc_flush(c);
}

static void on_command_output(struct watch *w, uint32_t events)
{
	struct webc *c = w->ctx;
	unsigned char data[PIECE];
	char text[sodium_base64_ENCODED_LEN(PIECE, sodium_base64_VARIANT_ORIGINAL)];
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	ssize_t n;

	(void)events;
	/* A client that does not read blocks the command, and is dropped for it (webserve.S2). */
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
		check_exec_ended(c);
		return;
	}
	sodium_bin2base64(text, sizeof(text), data, (size_t)n, sodium_base64_VARIANT_ORIGINAL);
	json_obj(&j, NULL);
	json_str(&j, "stream", w == &c->pipe[0] ? "stdout" : "stderr");
	json_str(&j, "data", text);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	add_stream_chunk(c, &b);
	webc_flush(c);
}

void webc_begin_exec(struct webc *c, int out, int err)
{
	/* The output itself is not stored. */
	static const char was_run[] =
		"{\"error\":{\"code\":\"conflict\",\"message\":\"this command was run\",\"hint\":null}}\n";
	const int fds[2] = { out, err };

	if (c->ask.idem[0])
		web_once_end(c->web->once, &c->ask, 409, was_run, sizeof(was_run) - 1);
	c->ask.idem[0] = '\0';
	webc_add_head(c, 200, "application/x-ndjson", UINT64_MAX, "X-Accel-Buffering: no\r\n");
	c->state = WEBC_EXEC;
	c->has_exit = false; /* left from an earlier command on this connection */
	for (int i = 0; i < 2; i++) {
		c->pipe[i] = (struct watch){ .fd = fds[i], .fn = on_command_output, .ctx = c };
		if (loop_watch(&c->web->loop, &c->pipe[i], EPOLLIN) < 0)
			c->pipe[i].fd = fd_close(c->pipe[i].fd);
	}
	webc_flush(c);
}

void webc_resume(struct webc *c)
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
	check_exec_ended(c);
}

void webc_end_stream(struct webc *c)
{
	c->id = 0;
	if (c->state == WEBC_SSE)
		webc_end_events(c);
	c->keep = false;
	finish_stream(c);
}
