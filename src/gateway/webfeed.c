/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last events of the log, shared by all streams. They come over a pipe from a process that follows the log; its first line
 * is the number of the last event that was there when it began. Bounded by number and by bytes.
 */
#include "base/fd.h"
#include "base/str.h"
#include "gateway/webserve.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS 4096
#define BYTES (4u << 20)
#define LINE_MAX_ (1100u << 10)

struct item {
	uint64_t seq;
	char *type, *sandbox, *line; /* one allocation, at `type` */
	size_t len, size;
};

struct web_feed {
	struct web *web;
	struct watch w;
	struct buf in;
	struct item ring[EVENTS];
	size_t n, first;
	size_t bytes;
	uint64_t next; /* 0: not known */
};

struct web_feed *web_feed_new(struct web *w)
{
	struct web_feed *f = calloc(1, sizeof(*f));

	if (f) {
		f->web = w;
		f->w = WATCH_INIT;
	}
	return f;
}

static void pop(struct web_feed *f)
{
	struct item *x = &f->ring[f->first];

	f->bytes -= x->size;
	free(x->type);
	f->first = (f->first + 1) % EVENTS;
	f->n--;
}

static void feed_close(struct web_feed *f)
{
	if (f->w.fd < 0)
		return;
	loop_unwatch(&f->web->loop, &f->w);
	f->w.fd = fd_close(f->w.fd);
	buf_clear(&f->in);
	f->next = 0;
	while (f->n)
		pop(f);
}

void web_feed_free(struct web_feed *f)
{
	if (!f)
		return;
	feed_close(f);
	buf_release(&f->in);
	free(f);
}

bool web_event_parse(const char *data, size_t len, struct web_event *ret, struct buf *texts)
{
	const char *p = data, *end = data + len;
	size_t at[4];

	buf_clear(texts);
	for (int i = 0; i < 4; i++) {
		const char *tab = i < 3 ? memchr(p, '\t', (size_t)(end - p)) : end;

		if (!tab)
			return false;
		at[i] = texts->len;
		buf_add(texts, p, (size_t)(tab - p));
		buf_addc(texts, '\0');
		p = i < 3 ? tab + 1 : end;
	}
	if (buf_error(texts))
		return false;
	ret->type = texts->data + at[1];
	ret->sandbox = texts->data + at[2];
	ret->line = texts->data + at[3];
	ret->line_len = texts->len - at[3] - 1;
	return str_to_u64(texts->data + at[0], &ret->seq) == 0 && ret->seq > 0;
}

static void push(struct web_feed *f, const struct web_event *ev)
{
	size_t a = strlen(ev->type) + 1, b = strlen(ev->sandbox) + 1, size = a + b + ev->line_len + 1;
	char *p;

	if (ev->seq < f->next)
		return;
	while (f->n && (f->n == EVENTS || f->bytes + size > BYTES || ev->seq != f->next))
		pop(f);
	f->next = ev->seq + 1;
	p = malloc(size);
	if (!p) {
		while (f->n)
			pop(f);
		return;
	}
	memcpy(p, ev->type, a);
	memcpy(p + a, ev->sandbox, b);
	memcpy(p + a + b, ev->line, ev->line_len + 1);
	f->ring[(f->first + f->n) % EVENTS] = (struct item){ .seq = ev->seq,
							     .type = p,
							     .sandbox = p + a,
							     .line = p + a + b,
							     .len = ev->line_len,
							     .size = size };
	f->n++;
	f->bytes += size;
}

static void take_line(struct web_feed *f, const char *p, size_t len)
{
	autobuf struct buf texts = BUF_INIT;
	struct web_event ev;
	char number[24];

	if (f->next == 0) {
		snprintf(number, sizeof(number), "%.*s", (int)(len < 20 ? len : 0), p);
		if (str_to_u64(number, &f->next) == 0)
			f->next++;
		return;
	}
	if (web_event_parse(p, len, &ev, &texts))
		push(f, &ev);
}

static void on_feed(struct watch *w, uint32_t events)
{
	struct web_feed *f = w->ctx;
	char *p = buf_reserve(&f->in, 65536), *nl;
	ssize_t n = p ? read(w->fd, p, 65536) : -1;
	size_t at = 0;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* cofferd starts another one as long as somebody listens. */
	if (n <= 0) {
		feed_close(f);
		return;
	}
	f->in.len += (size_t)n;
	while ((nl = memchr(f->in.data + at, '\n', f->in.len - at))) {
		take_line(f, f->in.data + at, (size_t)(nl - f->in.data) - at);
		at = (size_t)(nl - f->in.data) + 1;
	}
	buf_consume(&f->in, at);
	if (f->in.len > LINE_MAX_)
		feed_close(f);
	for (struct webc *c = f->web->conns, *next; c; c = next) {
		next = c->next;
		if (c->state == WEBC_SSE)
			webc_pump(c);
	}
}

void web_feed_open(struct web_feed *f, int fd)
{
	feed_close(f);
	f->w = (struct watch){ .fd = fd, .fn = on_feed, .ctx = f };
	if (loop_watch(&f->web->loop, &f->w, EPOLLIN) < 0)
		f->w.fd = fd_close(fd);
}

uint64_t web_feed_next(const struct web_feed *f)
{
	return f->next;
}

int web_feed_get(const struct web_feed *f, uint64_t seq, struct web_event *ret)
{
	const struct item *x;

	if (f->next && seq >= f->next)
		return 1;
	if (!f->n || seq < f->ring[f->first].seq)
		return -1;
	x = &f->ring[(f->first + (seq - f->ring[f->first].seq)) % EVENTS];
	*ret = (struct web_event){ x->seq, x->type, x->sandbox, x->line, x->len };
	return 0;
}
