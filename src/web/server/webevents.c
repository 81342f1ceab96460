/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of events: a place in what all share (webfeed.c), and at most one event of which a part is written. What is written
 * are the bytes of the events themselves; nothing is copied for a client.
 */
#include "base/str.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BATCH 32 /* events in one call */

/* What one call writes: what the connection has of its own, the rest of an event, and the events behind it. */
struct batch {
	struct iovec iov[BATCH + 2];
	struct web_event *ev[BATCH + 2]; /* NULL: its own */
	size_t n, bytes;
	uint64_t next; /* where the stream is behind it */
};

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

static void batch_add(struct batch *b, struct web_event *ev, const char *data, size_t len)
{
	b->ev[b->n] = ev;
	b->iov[b->n++] = (struct iovec){ .iov_base = (char *)data, .iov_len = len };
	b->bytes += len;
}

static void add_gap(struct webc *c, uint64_t to)
{
	autobuf struct buf b = BUF_INIT;

	buf_addf(&b, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n", (unsigned long long)c->next_seq,
		 (unsigned long long)to);
	http1_add_chunk_head(&c->out, b.len);
	buf_add(&c->out, b.data, b.len);
	http1_add_chunk_tail(&c->out);
	c->next_seq = to + 1;
}

/* Adds what comes next. 1: there may be more; 0: that is all for now. */
static int gather_one(struct webc *c, struct batch *b)
{
	struct web_event *ev;
	uint64_t skip = 0;

	switch (web_feed_get(c->web->feed, b->next, &ev, &skip)) {
	case WEB_FEED_LATER:
		return 0;
	case WEB_FEED_FETCH:
		/* First what is there already. Where cofferd takes no question, the next tick asks again. */
		if (!b->n)
			(void)web_feed_fetch(c->web->feed, b->next, &c->ask.req);
		return 0;
	case WEB_FEED_GONE:
		break;
	default:
		skip = ev->seq;
	}
	if (skip > b->next) {
		if (b->n)
			return 0;
		add_gap(c, skip - 1);
		b->next = c->next_seq;
		batch_add(b, NULL, c->out.data, c->out.len);
		return 1;
	}
	b->next = ev->seq + 1;
	if (is_wanted(c, ev))
		batch_add(b, ev, ev->frame, ev->len);
	return 1;
}

static void gather(struct webc *c, struct batch *b)
{
	b->n = b->bytes = 0;
	if (c->out.len > c->out_off)
		batch_add(b, NULL, c->out.data + c->out_off, c->out.len - c->out_off);
	if (c->part)
		batch_add(b, c->part, c->part->frame + c->part_off, c->part->len - c->part_off);
	if (!c->next_seq)
		c->next_seq = web_feed_next(c->web->feed);
	b->next = c->next_seq;
	while (b->next && b->n < BATCH && b->bytes < WEB_OUT_HIGH && gather_one(c, b) > 0)
		;
}

static void drop_part(struct webc *c)
{
	web_event_unref(c->part);
	c->part = NULL;
	c->part_off = 0;
}

/* So many bytes of it are out. */
static void settle(struct webc *c, const struct batch *b, size_t sent)
{
	size_t first = 0;

	if (b->n && !b->ev[0]) {
		c->out_off += sent < b->iov[0].iov_len ? sent : b->iov[0].iov_len;
		sent -= sent < b->iov[0].iov_len ? sent : b->iov[0].iov_len;
		first = 1;
		if (c->out_off == c->out.len) {
			/* An idle stream holds no memory for what it was sent. */
			buf_release(&c->out);
			c->out = BUF_INIT;
			c->out_off = 0;
		}
	}
	c->next_seq = b->next;
	for (size_t i = first; i < b->n; i++) {
		size_t had = b->ev[i] == c->part ? c->part_off : 0;

		if (sent >= b->iov[i].iov_len) {
			sent -= b->iov[i].iov_len;
			if (b->ev[i] == c->part)
				drop_part(c);
			continue;
		}
		/* What is not begun is taken from the feed again. */
		if (sent || b->ev[i] == c->part) {
			struct web_event *ev = web_event_ref(b->ev[i]);

			drop_part(c);
			c->part = ev;
			c->part_off = had + sent;
			c->next_seq = ev->seq + 1;
		} else {
			c->next_seq = b->ev[i]->seq;
		}
		return;
	}
}

void webc_pump(struct webc *c)
{
	struct batch b;

	for (;;) {
		struct msghdr m = { .msg_iov = b.iov };
		ssize_t n;

		gather(c, &b);
		m.msg_iovlen = b.n;
		if (buf_error(&c->out)) {
			webc_drop(c);
			return;
		}
		n = b.bytes ? sendmsg(c->w.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			webc_drop(c);
			return;
		}
		settle(c, &b, n > 0 ? (size_t)n : 0);
		if (n > 0)
			c->moved = clock_nsec(CLOCK_MONOTONIC);
		if (n < (ssize_t)b.bytes || !b.bytes)
			break;
	}
	/* A stream listens for the client's end; whoever waits for room, for that. */
	c->blocked = b.bytes > 0;
	if (loop_watch(&c->web->loop, &c->w, EPOLLIN | (c->blocked ? EPOLLOUT : 0)) < 0)
		webc_drop(c);
}

void webc_begin_events(struct webc *c, uint64_t last)
{
	const struct webp_req *q = &c->ask.req;
	const char *of = webp_str(q, "sandbox"), *types = webp_str(q, "type");
	uint64_t after = webp_num(q, "Last-Event-ID", webp_num(q, "after", last));

	snprintf(c->of, sizeof(c->of), "%s", of ? of : "");
	snprintf(c->types, sizeof(c->types), "%s", types ? types : "");
	/* A number that the log has not reached is of another log: from now on. */
	c->next_seq = (after < last ? after : last) + 1;
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

	if (c->blocked)
		return;
	http1_add_chunk_head(&c->out, sizeof(beat) - 1);
	buf_adds(&c->out, beat);
	http1_add_chunk_tail(&c->out);
	webc_pump(c);
}

void webc_end_events(struct webc *c)
{
	/* A frame that is begun is ended. */
	if (c->part)
		buf_add(&c->out, c->part->frame + c->part_off, c->part->len - c->part_off);
	drop_part(c);
	c->web->n_streams--;
}
