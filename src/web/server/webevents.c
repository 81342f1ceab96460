/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of events: each has a position in the shared feed (webfeed.c), and at most one partly sent event.
 * The bytes of the events are sent in place; nothing is copied for a client.
 */
#include "base/str.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BATCH 32 /* events per sendmsg() */

/* The content of one sendmsg(): the connection's own bytes, the rest of a partly sent event, and the events
 * after it. */
struct event_batch {
	struct iovec iov[BATCH + 2];
	struct web_event *ev[BATCH + 2]; /* NULL: the connection's own bytes */
	size_t n, bytes;
	uint64_t next; /* position of the stream after it */
};

static bool stream_wants_event(const struct webc *c, const struct web_event *ev)
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

static void add_to_batch(struct event_batch *b, struct web_event *ev, const char *data, size_t len)
{
	b->ev[b->n] = ev;
	b->iov[b->n++] = (struct iovec){ .iov_base = (char *)data, .iov_len = len };
	b->bytes += len;
}

static void add_gap_event(struct webc *c, uint64_t to)
{
	autobuf struct buf b = BUF_INIT;

	buf_addf(&b, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n", (unsigned long long)c->next_seq,
		 (unsigned long long)to);
	http1_add_chunk_head(&c->out, b.len);
	buf_add(&c->out, b.data, b.len);
	http1_add_chunk_tail(&c->out);
	c->next_seq = to + 1;
}

/* Adds the next event. 1: there may be more; 0: no more for now. */
static int add_next_event(struct webc *c, struct event_batch *b)
{
	struct web_event *ev;
	uint64_t skip = 0;

	switch (web_feed_get(c->web->feed, b->next, &ev, &skip)) {
	case WEB_FEED_LATER:
		return 0;
	case WEB_FEED_FETCH:
		/* Send what is available first. If cofferd takes no request, the next tick tries again. */
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
		add_gap_event(c, skip - 1);
		b->next = c->next_seq;
		add_to_batch(b, NULL, c->out.data, c->out.len);
		return 1;
	}
	b->next = ev->seq + 1;
	if (stream_wants_event(c, ev))
		add_to_batch(b, ev, ev->frame, ev->len);
	return 1;
}

static void fill_batch(struct webc *c, struct event_batch *b)
{
	b->n = b->bytes = 0;
	if (c->out.len > c->out_off)
		add_to_batch(b, NULL, c->out.data + c->out_off, c->out.len - c->out_off);
	if (c->part)
		add_to_batch(b, c->part, c->part->frame + c->part_off, c->part->len - c->part_off);
	if (!c->next_seq)
		c->next_seq = web_feed_next(c->web->feed);
	b->next = c->next_seq;
	while (b->next && b->n < BATCH && b->bytes < WEB_OUT_HIGH && add_next_event(c, b) > 0)
		;
}

static void drop_partial_event(struct webc *c)
{
	web_event_unref(c->part);
	c->part = NULL;
	c->part_off = 0;
}

/* Updates the position after `sent` bytes of the batch. */
static void account_sent(struct webc *c, const struct event_batch *b, size_t sent)
{
	size_t first = 0;

	if (b->n && !b->ev[0]) {
		c->out_off += sent < b->iov[0].iov_len ? sent : b->iov[0].iov_len;
		sent -= sent < b->iov[0].iov_len ? sent : b->iov[0].iov_len;
		first = 1;
		if (c->out_off == c->out.len) {
			/* An idle stream keeps no memory for what it was sent. */
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
				drop_partial_event(c);
			continue;
		}
		/* Events that are not begun are taken from the feed again. */
		if (sent || b->ev[i] == c->part) {
			struct web_event *ev = web_event_ref(b->ev[i]);

			drop_partial_event(c);
			c->part = ev;
			c->part_off = had + sent;
			c->next_seq = ev->seq + 1;
		} else {
			c->next_seq = b->ev[i]->seq;
		}
		return;
	}
}

void webc_send_events(struct webc *c)
{
	struct event_batch b;

	for (;;) {
		struct msghdr m = { .msg_iov = b.iov };
		ssize_t n;

		fill_batch(c, &b);
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
		account_sent(c, &b, n > 0 ? (size_t)n : 0);
		if (n > 0)
			c->moved = clock_nsec(CLOCK_MONOTONIC);
		if (n < (ssize_t)b.bytes || !b.bytes)
			break;
	}
	/* A stream waits for the client's close; with data left, also for room to send. */
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
	/* A number that the log has not reached belongs to another log: begin with new events. */
	c->next_seq = (after < last ? after : last) + 1;
	webc_add_head(c, 200, "text/event-stream", UINT64_MAX, "X-Accel-Buffering: no\r\n");
	c->state = WEBC_SSE;
	c->web->n_streams++;
	/* An idle stream needs nothing of the request but its credential. */
	buf_release(&c->in);
	buf_release(&c->body);
	webc_send_events(c);
}

void webc_beat(struct webc *c)
{
	static const char beat[] = ":\n\n";

	if (c->blocked)
		return;
	http1_add_chunk_head(&c->out, sizeof(beat) - 1);
	buf_adds(&c->out, beat);
	http1_add_chunk_tail(&c->out);
	webc_send_events(c);
}

void webc_end_events(struct webc *c)
{
	/* Complete an event that is partly sent. */
	if (c->part)
		buf_add(&c->out, c->part->frame + c->part_off, c->part->len - c->part_off);
	drop_partial_event(c);
	c->web->n_streams--;
}
