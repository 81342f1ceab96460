/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the log, shared by all streams: each is formatted once and reference-counted.
 *
 * The newest are in a ring. They come over a pipe from one process that follows the log; its first line is
 * the number after which it begins. Older ones are read by cofferd, a page at a time, when a stream needs
 * them, and kept for other streams: clients that were disconnected together come back together.
 *
 * Everything is bounded by number and by bytes. A stream has only a position (webserve.S3): one that is too
 * slow for what is kept reads from the log again.
 */
#include "base/fd.h"
#include "base/str.h"
#include "codec/http/http1_chunk.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS 4096
#define BYTES (4u << 20)
#define LINE_MAX_ (1100u << 10)
#define PAGES 16
#define PAGE_EVENTS 500
#define FETCHES 4    /* at a time; cofferd has other work too */
#define TOGETHER 100 /* wait for a requested page that begins at most this many events before */
#define KEEP (60 * NSEC_PER_SEC)

struct log_page {
	uint64_t after, upto; /* has the log's events in (after, upto] */
	struct web_event **v;
	size_t n;
	uint64_t used; /* CLOCK_MONOTONIC ns of the last use; 0: empty */
	uint64_t id;   /* of the request to cofferd; 0: answered */
};

struct web_feed {
	struct web *web;
	struct watch w;
	struct buf in;
	struct web_event *ring[EVENTS];
	size_t n, first;
	size_t bytes;
	uint64_t next; /* 0: unknown */
	struct log_page pages[PAGES];
	unsigned n_fetches;
};

/* --- one event ------------------------------------------------------------------------------------------ */

struct web_event *web_event_new(const char *data, size_t len)
{
	const char *p = data, *end = data + len, *part[3];
	size_t n[3];
	autobuf struct buf text = BUF_INIT, frame = BUF_INIT;
	struct web_event *ev;
	char number[24];

	for (int i = 0; i < 3; i++) {
		const char *tab = memchr(p, '\t', (size_t)(end - p));

		if (!tab)
			return NULL;
		part[i] = p;
		n[i] = (size_t)(tab - p);
		p = tab + 1;
	}
	/* An SSE client takes a carriage return for the end of a line too; JSON contains none. */
	if (n[0] > 20 || n[1] > 64 || n[2] > 64 || memchr(data, '\r', len) || memchr(data, '\n', len))
		return NULL;
	buf_addf(&text, "id: %.*s\nevent: %.*s\ndata: ", (int)n[0], part[0], (int)n[1], part[1]);
	buf_add(&text, p, (size_t)(end - p));
	buf_adds(&text, "\n\n");
	http1_add_chunk_head(&frame, text.len);
	buf_add(&frame, text.data, text.len);
	http1_add_chunk_tail(&frame);
	snprintf(number, sizeof(number), "%.*s", (int)n[0], part[0]);
	ev = buf_error(&text) || buf_error(&frame) ? NULL : malloc(sizeof(*ev) + frame.len);
	if (!ev)
		return NULL;
	*ev = (struct web_event){ .refs = 1, .len = frame.len };
	snprintf(ev->type, sizeof(ev->type), "%.*s", (int)n[1], part[1]);
	snprintf(ev->sandbox, sizeof(ev->sandbox), "%.*s", (int)n[2], part[2]);
	memcpy(ev->frame, frame.data, frame.len);
	if (str_to_u64(number, &ev->seq) == 0 && ev->seq > 0)
		return ev;
	free(ev);
	return NULL;
}

struct web_event *web_event_ref(struct web_event *ev)
{
	ev->refs++;
	return ev;
}

void web_event_unref(struct web_event *ev)
{
	if (ev && --ev->refs == 0)
		free(ev);
}

/* --- the ring ------------------------------------------------------------------------------------------- */

struct web_feed *web_feed_new(struct web *w)
{
	struct web_feed *f = calloc(1, sizeof(*f));

	if (f) {
		f->web = w;
		f->w = WATCH_INIT;
	}
	return f;
}

static size_t event_size(const struct web_event *ev)
{
	return sizeof(*ev) + ev->len;
}

static void drop_oldest_event(struct web_feed *f)
{
	struct web_event *ev = f->ring[f->first];

	f->bytes -= event_size(ev);
	web_event_unref(ev);
	f->first = (f->first + 1) % EVENTS;
	f->n--;
}

static void close_feed(struct web_feed *f)
{
	if (f->w.fd < 0)
		return;
	loop_unwatch(&f->web->loop, &f->w);
	f->w.fd = fd_close(f->w.fd);
	buf_release(&f->in);
	f->in = BUF_INIT;
	f->next = 0;
	while (f->n)
		drop_oldest_event(f);
}

/* Takes ownership of the event. */
static void add_event(struct web_feed *f, struct web_event *ev)
{
	if (ev->seq < f->next) {
		web_event_unref(ev);
		return;
	}
	while (f->n && (f->n == EVENTS || f->bytes + event_size(ev) > BYTES || ev->seq != f->next))
		drop_oldest_event(f);
	f->next = ev->seq + 1;
	f->ring[(f->first + f->n) % EVENTS] = ev;
	f->n++;
	f->bytes += event_size(ev);
}

static void take_feed_line(struct web_feed *f, const char *p, size_t len)
{
	struct web_event *ev;
	char number[24];

	if (f->next == 0) {
		snprintf(number, sizeof(number), "%.*s", (int)(len < 20 ? len : 0), p);
		if (str_to_u64(number, &f->next) == 0)
			f->next++;
		return;
	}
	ev = web_event_new(p, len);
	if (ev)
		add_event(f, ev);
}

static void send_to_streams(struct web_feed *f)
{
	for (struct webc *c = f->web->conns, *next; c; c = next) {
		next = c->next;
		if (c->state == WEBC_SSE)
			webc_send_events(c);
	}
}

static void on_feed_data(struct watch *w, uint32_t events)
{
	struct web_feed *f = w->ctx;
	char *p = buf_reserve(&f->in, 65536), *nl;
	ssize_t n = p ? read(w->fd, p, 65536) : -1;
	size_t at = 0;

	(void)events;
	if (n < 0 && p && (errno == EAGAIN || errno == EINTR))
		return;
	/* cofferd starts another feed while there are streams. */
	if (n <= 0) {
		close_feed(f);
		return;
	}
	f->in.len += (size_t)n;
	while ((nl = memchr(f->in.data + at, '\n', f->in.len - at))) {
		take_feed_line(f, f->in.data + at, (size_t)(nl - f->in.data) - at);
		at = (size_t)(nl - f->in.data) + 1;
	}
	buf_consume(&f->in, at);
	if (f->in.len > LINE_MAX_)
		close_feed(f);
	send_to_streams(f);
}

void web_feed_open(struct web_feed *f, int fd)
{
	close_feed(f);
	f->w = (struct watch){ .fd = fd, .fn = on_feed_data, .ctx = f };
	if (loop_watch(&f->web->loop, &f->w, EPOLLIN) < 0)
		f->w.fd = fd_close(fd);
}

/* --- pages ---------------------------------------------------------------------------------------------- */

static void page_release(struct log_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		web_event_unref(p->v[i]);
	free(p->v);
	*p = (struct log_page){ 0 };
}

static uint64_t first_in_ring(const struct web_feed *f)
{
	return f->n ? f->ring[f->first]->seq : f->next;
}

/* A place for another page: an empty one, or the one unused for longest. */
static struct log_page *free_page_place(struct web_feed *f)
{
	struct log_page *best = NULL;

	for (size_t i = 0; i < PAGES; i++) {
		struct log_page *p = &f->pages[i];

		if (!p->id && (!best || p->used < best->used))
			best = p;
	}
	if (best)
		page_release(best);
	return best;
}

bool web_feed_fetch(struct web_feed *f, uint64_t seq, const struct webp_req *who)
{
	struct webp_req q = { .cred = who->cred, .op = WEB_BACKLOG };
	struct log_page *p;

	for (size_t i = 0; i < PAGES; i++) {
		p = &f->pages[i];
		if (p->id && p->after < seq && seq - p->after <= TOGETHER)
			return true;
	}
	if (f->n_fetches == FETCHES)
		return true; /* retried when one of them arrives */
	p = free_page_place(f);
	if (!p)
		return true;
	memcpy(q.key, who->key, HASH_LEN);
	q.v[0] = (struct web_value){ .has = true, .n = seq - 1 };
	q.v[1] = (struct web_value){ .has = true, .n = PAGE_EVENTS };
	if (web_send(f->web, NULL, &q) < 0)
		return false;
	*p = (struct log_page){ .after = seq - 1, .id = q.id, .used = clock_nsec(CLOCK_MONOTONIC) };
	f->n_fetches++;
	return true;
}

static void parse_page(struct log_page *p, const char *data, size_t len)
{
	const char *end = data + len, *nl;

	p->v = calloc(PAGE_EVENTS, sizeof(struct web_event *));
	for (const char *s = data;
	     p->v && s < end && p->n < PAGE_EVENTS && (nl = memchr(s, '\n', (size_t)(end - s))); s = nl + 1) {
		struct web_event *ev = web_event_new(s, (size_t)(nl - s));

		if (ev && ev->seq > p->upto)
			p->upto = (p->v[p->n++] = ev)->seq;
		else
			web_event_unref(ev);
	}
}

void web_feed_take_page(struct web_feed *f, uint64_t id, const char *data, size_t len)
{
	for (size_t i = 0; i < PAGES; i++) {
		struct log_page *p = &f->pages[i];

		if (p->id != id)
			continue;
		f->n_fetches--;
		if (!data) {
			page_release(p);
			return; /* streams that need it retry with the next tick */
		}
		p->id = 0;
		p->upto = p->after;
		parse_page(p, data, len);
		/* The feed says that there are more, but the log does not have them: they were pruned, or the
		 * log was cut. */
		if (!p->n && first_in_ring(f))
			p->upto = first_in_ring(f) - 1;
		break;
	}
	send_to_streams(f);
}

void web_feed_age(struct web_feed *f, uint64_t now)
{
	for (size_t i = 0; i < PAGES; i++) {
		if (f->pages[i].used && !f->pages[i].id && now - f->pages[i].used > KEEP)
			page_release(&f->pages[i]);
	}
	/* For streams that could not request a page before. */
	if (f->web->n_streams)
		send_to_streams(f);
}

void web_feed_free(struct web_feed *f)
{
	if (!f)
		return;
	close_feed(f);
	for (size_t i = 0; i < PAGES; i++)
		page_release(&f->pages[i]);
	free(f);
}

/* --- lookup --------------------------------------------------------------------------------------------- */

uint64_t web_feed_next(const struct web_feed *f)
{
	return f->next;
}

static bool find_in_page(struct log_page *p, uint64_t seq, struct web_event **ret, uint64_t *ret_skip)
{
	size_t lo = 0, hi = p->n;

	if (p->id || !p->used || seq <= p->after || seq > p->upto)
		return false;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->v[mid]->seq < seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	p->used = clock_nsec(CLOCK_MONOTONIC);
	if (lo < p->n)
		*ret = p->v[lo];
	else
		*ret_skip = p->upto + 1;
	return true;
}

enum web_feed_found web_feed_get(struct web_feed *f, uint64_t seq, struct web_event **ret, uint64_t *ret_skip)
{
	*ret = NULL;
	if (!f->next || seq >= f->next)
		return WEB_FEED_LATER;
	if (f->n && seq >= f->ring[f->first]->seq) {
		*ret = f->ring[(f->first + (seq - f->ring[f->first]->seq)) % EVENTS];
		return WEB_FEED_HERE;
	}
	for (size_t i = 0; i < PAGES; i++) {
		if (find_in_page(&f->pages[i], seq, ret, ret_skip))
			return *ret ? WEB_FEED_HERE : WEB_FEED_GONE;
	}
	return WEB_FEED_FETCH;
}
