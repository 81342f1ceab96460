/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP connection of coffer-web: reads head and body, sends the request to cofferd, writes the response
 * (webserve.h). It must not judge a credential: cofferd does.
 */
#include "base/container.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 16384

static void on_conn_event(struct watch *w, uint32_t events);
static void on_conn_timeout(struct wheel_entry *t);

struct webc *webc_add(struct web *w, int fd, const struct web_via *via)
{
	unsigned kept = w->max_conns > 2 * WEB_CONNS_OWNER ? WEB_CONNS_OWNER : w->max_conns / 2;
	bool room = w->n_conns < w->max_conns && (via->owner || w->n_net < w->max_conns - kept);
	struct webc *c = room ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		fd_close(fd);
		return NULL;
	}
	c->web = w;
	c->via = *via;
	c->file = -1;
	c->pipe[0] = c->pipe[1] = WATCH_INIT;
	c->w = (struct watch){ .fd = fd, .fn = on_conn_event, .ctx = c };
	c->late.fn = on_conn_timeout;
	c->moved = clock_nsec(CLOCK_MONOTONIC);
	c->next = w->conns;
	c->link = &w->conns;
	if (c->next)
		c->next->link = &c->next;
	w->conns = c;
	w->n_conns++;
	w->n_net += !via->owner;
	wheel_arm(&w->wheel, &c->late, c->moved + WEB_HEAD_WITHIN);
	if (loop_watch(&w->loop, &c->w, EPOLLIN) < 0) {
		webc_drop(c);
		return NULL;
	}
	return c;
}

/* Releases everything that belongs to one request. */
static void release_request(struct webc *c)
{
	if (c->ask.idem[0] && !c->proving &&
	    (c->state == WEBC_WAIT || c->state == WEBC_EXEC || c->state == WEBC_SSE))
		web_once_abandon(c->web->once, &c->ask);
	if (c->id)
		web_cancel(c->web, c->id);
	c->id = 0;
	for (int i = 0; i < 2; i++) {
		loop_unwatch(&c->web->loop, &c->pipe[i]);
		c->pipe[i].fd = fd_close(c->pipe[i].fd);
	}
	if (c->state == WEBC_SSE)
		webc_end_events(c);
	web_ask_release(&c->ask);
	c->ask = WEB_ASK_INIT;
	buf_release(&c->body);
	buf_release(&c->replayed);
	c->replay = 0;
	c->proving = false;
	http1_chunks_release(&c->chunks);
	c->chunks = HTTP1_CHUNKS_INIT;
	c->file = fd_close(c->file);
	c->file_left = 0;
}

void webc_drop(struct webc *c)
{
	struct web *w = c->web;

	release_request(c);
	wheel_disarm(&w->wheel, &c->late);
	loop_unwatch(&w->loop, &c->w);
	fd_close(c->w.fd);
	buf_release(&c->in);
	buf_release(&c->out);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	w->n_conns--;
	w->n_net -= !c->via.owner;
	free(c);
}

static uint64_t conn_timeout(const struct webc *c)
{
	switch (c->state) {
	case WEBC_HEAD:
		return c->in.len ? WEB_HEAD_WITHIN : WEB_IDLE;
	case WEBC_BODY:
		return WEB_BODY_WITHIN;
	default:
		return WEB_STALL;
	}
}

/* webserve.S2. A connection that waits for cofferd, or has nothing to send, is not late. */
static void on_conn_timeout(struct wheel_entry *t)
{
	struct webc *c = CONTAINER_OF(t, struct webc, late);
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	bool waits = c->state == WEBC_WAIT || (c->state == WEBC_SSE && !c->blocked) ||
		     (c->state == WEBC_EXEC && c->out.len == c->out_off);

	if (waits)
		c->moved = now;
	if (now >= c->moved + conn_timeout(c)) {
		c->web->stats.dropped += c->state != WEBC_HEAD || c->in.len;
		webc_drop(c);
		return;
	}
	wheel_arm(&c->web->wheel, &c->late, c->moved + conn_timeout(c));
}

static void set_conn_state(struct webc *c, enum webc_state s)
{
	c->state = s;
	c->moved = clock_nsec(CLOCK_MONOTONIC);
	wheel_arm(&c->web->wheel, &c->late, c->moved + conn_timeout(c));
}

/* --- writing -------------------------------------------------------------------------------------------- */

/* webserve.S4. Only the page's own scripts and styles; no other site may frame it, and it may contact no
 * other. */
#define COMMON_FIELDS                                                                                        \
	"X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"                                       \
	"Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"                      \
	"Cross-Origin-Opener-Policy: same-origin\r\n"                                                        \
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                  \
	"require-trusted-types-for 'script'; trusted-types 'none'\r\n"

static void count_response(struct webc *c, unsigned status)
{
	static const unsigned known[WEB_STATUS_COUNT] = WEB_STATUSES;
	unsigned i = 0;

	while (i < WEB_STATUS_COUNT && known[i] != status)
		i++;
	c->web->stats.responses[i]++;
}

void webc_add_head(struct webc *c, unsigned status, const char *type, uint64_t len, const char *extra)
{
	count_response(c, status);
	buf_addf(&c->out, "HTTP/1.1 %u %s\r\n" COMMON_FIELDS, status, http1_reason(status));
	if (type)
		buf_addf(&c->out, "Content-Type: %s\r\n", type);
	if (len == UINT64_MAX)
		buf_adds(&c->out, "Transfer-Encoding: chunked\r\n");
	else if (status != 204 && status != 304)
		buf_addf(&c->out, "Content-Length: %llu\r\n", (unsigned long long)len);
	if (status == 401)
		buf_adds(&c->out, "WWW-Authenticate: Bearer\r\n");
	if (!extra || !strstr(extra, "Cache-Control:"))
		buf_adds(&c->out, "Cache-Control: no-store\r\n");
	if (extra)
		buf_adds(&c->out, extra);
	buf_addf(&c->out, "Connection: %s\r\n\r\n", c->keep ? "keep-alive" : "close");
}

void webc_reply(struct webc *c, unsigned status, const char *type, const void *data, size_t len,
		const char *extra)
{
	if (c->ask.idem[0] && c->state == WEBC_WAIT && !c->proving)
		web_once_end(c->web->once, &c->ask, status, data ? data : "", len);
	c->ask.idem[0] = '\0';
	webc_add_head(c, status, type, len, extra);
	if (!c->is_head && len)
		buf_add(&c->out, data, len);
	set_conn_state(c, WEBC_WRITE);
	webc_flush(c);
}

void webc_error(struct webc *c, unsigned status, const char *code, const char *message, const char *hint)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_obj(&j, "error");
	json_str(&j, "code", code);
	json_str(&j, "message", message);
	json_str(&j, "hint", hint && *hint ? hint : NULL);
	json_end_obj(&j);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	/* webserve.S1: a client that guesses tokens, or sends malformed requests, must reconnect. */
	if (status == 400 || status == 401 || status == 413 || status == 421 || status == 431)
		c->keep = false;
	webc_reply(c, status, "application/json", buf_cstr(&b), b.len,
		   status == 429 ? "Retry-After: 1\r\n" : NULL);
}

/* Reads more of the memory file into `out`; false if that fails: the response is cut off. */
static bool read_response_file(struct webc *c)
{
	while (c->file >= 0 && c->out.len - c->out_off < WEB_OUT_HIGH) {
		size_t want = c->file_left < READ_SIZE ? c->file_left : READ_SIZE;
		char *p = want ? buf_reserve(&c->out, want) : NULL;
		ssize_t n = p ? read(c->file, p, want) : 0;

		if (want && n <= 0)
			return false;
		c->out.len += (size_t)n;
		c->file_left -= (uint64_t)n;
		if (!c->file_left)
			c->file = fd_close(c->file);
	}
	return true;
}

/* The response is sent. */
static void response_sent(struct webc *c)
{
	bool keep = c->keep;

	release_request(c);
	if (!keep) {
		/* Further input is read for a moment and discarded, since a reset would destroy the response. */
		shutdown(c->w.fd, SHUT_WR);
		set_conn_state(c, WEBC_LAST);
		buf_release(&c->in);
		if (loop_watch(&c->web->loop, &c->w, EPOLLIN) < 0)
			webc_drop(c);
		return;
	}
	buf_consume(&c->in, c->head_len);
	c->head_len = 0;
	set_conn_state(c, WEBC_HEAD);
	/* Input that has arrived already is parsed from on_conn_event(), not here: one response would recurse
	 * into the next. */
	if (loop_watch(&c->web->loop, &c->w, EPOLLIN | (c->in.len ? EPOLLOUT : 0)) < 0)
		webc_drop(c);
}

static bool conn_is_streaming(const struct webc *c)
{
	return c->state == WEBC_EXEC || c->state == WEBC_SSE;
}

void webc_flush(struct webc *c)
{
	bool broken = !read_response_file(c) || buf_error(&c->out);

	while (!broken && c->out_off < c->out.len) {
		ssize_t n = send(c->w.fd, c->out.data + c->out_off, c->out.len - c->out_off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			broken = true;
			break;
		}
		c->out_off += (size_t)n;
		c->moved = clock_nsec(CLOCK_MONOTONIC);
		if (c->out_off == c->out.len) {
			/* An idle stream keeps no memory for what it was sent. */
			buf_release(&c->out);
			c->out = BUF_INIT;
			c->out_off = 0;
			broken = !read_response_file(c);
		}
	}
	if (broken) {
		webc_drop(c);
		return;
	}
	if (c->out.len == c->out_off && !conn_is_streaming(c)) {
		response_sent(c);
		return;
	}
	/* A stream waits for the client's close; with data queued, also for room to send. */
	if (loop_watch(&c->web->loop, &c->w,
		       (conn_is_streaming(c) ? EPOLLIN : 0) | (c->out.len > c->out_off ? EPOLLOUT : 0)) < 0)
		webc_drop(c);
}

/* --- requests ------------------------------------------------------------------------------------------- */

static const struct web_file *find_page_file(const struct http1_head *h)
{
	const char *q = memchr(h->path.p, '?', h->path.len);
	struct slice path = { h->path.p, q ? (size_t)(q - h->path.p) : h->path.len };

	for (size_t i = 0; i < n_web_files; i++) {
		if (slice_eq(path, web_files[i].path))
			return &web_files[i];
	}
	return NULL;
}

static void serve_page_file(struct webc *c, const struct web_file *f, const struct http1_head *h)
{
	const struct slice *known = http1_get(h, "if-none-match");
	char extra[128];

	if (!f) {
		webc_error(c, 404, "not_found", "there is nothing at this path", "the API is below /v1");
		return;
	}
	snprintf(extra, sizeof(extra), "Cache-Control: no-cache\r\nETag: %s\r\n", f->etag);
	if (known && slice_eq(*known, f->etag))
		webc_reply(c, 304, NULL, NULL, 0, extra);
	else
		webc_reply(c, 200, f->type, f->data, f->len, extra);
}

static bool handle_idempotency(struct webc *c)
{
	struct slice body;
	unsigned status = 0;

	if (!c->ask.idem[0])
		return false;
	switch (web_once_begin(c->web->once, &c->ask, (struct slice){ buf_cstr(&c->body), c->body.len },
			       clock_nsec(CLOCK_MONOTONIC), &status, &body)) {
	case WEB_ONCE_NEW:
		return false;
	case WEB_ONCE_DONE:
		/* The stored response is sent only after cofferd accepted the credential again: a status
		 * request proves that. */
		c->ask.idem[0] = '\0';
		c->replay = status;
		buf_add(&c->replayed, body.p, body.len);
		c->ask.req.op = WEB_STATUS;
		return false;
	case WEB_ONCE_LOST:
		c->ask.idem[0] = '\0';
		webc_error(
			c, 409, "conflict",
			"a request with this Idempotency-Key was begun, and nobody waited for its response",
			"check whether it was done");
		return true;
	case WEB_ONCE_RUNS:
		c->ask.idem[0] = '\0';
		webc_error(c, 409, "conflict", "a request with this Idempotency-Key is still in progress",
			   NULL);
		return true;
	case WEB_ONCE_OTHER:
		c->ask.idem[0] = '\0';
		webc_error(c, 422, "mismatch", "this Idempotency-Key was used for another request",
			   "use a new one");
		return true;
	default:
		c->ask.idem[0] = '\0';
		webc_error(c, 503, "unavailable", "too many requests with an Idempotency-Key", NULL);
		return true;
	}
}

static void send_to_cofferd(struct webc *c)
{
	set_conn_state(c, WEBC_WAIT);
	/* The client's close cancels the request. */
	if (loop_watch(&c->web->loop, &c->w, LOOP_HANG_UP) < 0) {
		webc_drop(c);
		return;
	}
	if (web_send(c->web, c, &c->ask.req) < 0)
		webc_error(c, 503, "unavailable", "the gateway is overloaded", "try again in a moment");
}

static void send_checked_request(struct webc *c)
{
	if (handle_idempotency(c))
		return;
	if (c->ask.req.op == WEB_METRICS)
		web_send_stats(c->web);
	c->status = web_route(c->ask.req.op)->status;
	send_to_cofferd(c);
}

/* webonce.O2: does cofferd accept the credential? Any valid one may request the status. */
static void ask_for_credential(struct webc *c)
{
	c->proving = true;
	c->proven_op = c->ask.req.op;
	c->ask.req.op = WEB_STATUS;
	send_to_cofferd(c);
}

static void credential_accepted(struct webc *c)
{
	c->proving = false;
	c->ask.req.op = c->proven_op;
	send_checked_request(c);
}

static void build_and_send_request(struct webc *c)
{
	struct http1_head *h = &c->web->head;

	http1_head_reset(h);
	if (http1_parse_request(h, c->in.data, c->head_len) <= 0 ||
	    web_build(h, buf_cstr(&c->body), c->body.len, &c->ask) < 0) {
		const struct web_refusal *no = &c->ask.no;

		c->ask.idem[0] = '\0';
		webc_error(c, no->status ? no->status : 400, no->code ? no->code : "bad_request", no->message,
			   no->hint);
		return;
	}
	if (!web_rate_allows(c->web, &c->ask.req, &c->via, clock_nsec(CLOCK_MONOTONIC))) {
		c->ask.idem[0] = '\0';
		webc_error(c, 429, "too_many_requests", "too many requests", "wait a second");
		return;
	}
	if (c->ask.req.op == WEB_EVENTS && c->web->n_streams >= WEB_STREAMS) {
		webc_error(c, 503, "unavailable", "too many streams are open",
			   "close some, or try again later");
		return;
	}
	if (c->ask.idem[0] && !web_rate_knows(c->web, &c->ask.req))
		ask_for_credential(c);
	else
		send_checked_request(c);
}

/* Takes received bytes of the body; true once it is complete. On failure the error response is already sent. */
static bool take_body_bytes(struct webc *c)
{
	char *data = c->in.data + c->head_len;
	size_t len = c->in.len - c->head_len, used;
	struct slice piece;

	if (!c->chunked_in) {
		used = len < c->body_left ? len : c->body_left;
		buf_add(&c->body, data, used);
		c->body_left -= used;
		memmove(data, data + used, len - used);
		c->in.len -= used;
		return c->body_left == 0;
	}
	for (;;) {
		int ev = http1_chunks_next(&c->chunks, data, len, &used, &piece);

		if (ev == HTTP1_CHUNK_DATA)
			buf_add(&c->body, piece.p, piece.len);
		if (ev < 0 || c->body.len > WEB_BODY_MAX) {
			webc_error(c, ev < 0 ? 400 : 413, ev < 0 ? "bad_request" : "too_large",
				   ev < 0 ? "the body is badly chunked" : "the body is too large", NULL);
			return false;
		}
		memmove(data, data + used, len - used);
		len -= used;
		c->in.len -= used;
		if (ev == HTTP1_CHUNK_END)
			return true;
		if (ev == HTTP1_CHUNK_MORE)
			return false;
	}
}

static void read_request_body(struct webc *c)
{
	if (c->state == WEBC_BODY && take_body_bytes(c))
		build_and_send_request(c);
}

static void take_request_head(struct webc *c, long n)
{
	struct http1_head *h = &c->web->head;
	enum web_op op = WEB_OP_COUNT;

	c->head_len = (size_t)n;
	c->is_head = slice_eq(h->method, "HEAD");
	c->keep = h->keep_alive;
	if (c->is_head)
		h->method = (struct slice){ "GET", 3 };
	if (web_check_head(h, &c->via, &c->ask, &op) < 0) {
		/* webserve.S1: a body that may follow is not read, and must not be parsed as the next
		 * request. */
		c->keep = false;
		webc_error(c, c->ask.no.status, c->ask.no.code, c->ask.no.message, c->ask.no.hint);
		return;
	}
	if (op == WEB_OP_COUNT || op == WEB_OPENAPI) {
		serve_page_file(c, slice_eq(h->method, "GET") ? find_page_file(h) : NULL, h);
		return;
	}
	if (c->is_head) {
		webc_error(c, 405, "method_not_allowed", "this path does not take this method", NULL);
		return;
	}
	c->chunked_in = h->body == HTTP1_BODY_CHUNKED;
	c->body_left = h->body == HTTP1_BODY_LENGTH ? h->content_length : 0;
	set_conn_state(c, WEBC_BODY);
	read_request_body(c);
}

static void begin_request(struct webc *c)
{
	struct http1_head *h = &c->web->head;
	long n;

	http1_head_reset(h);
	n = http1_parse_request(h, c->in.data, c->in.len < WEB_HEAD_MAX ? c->in.len : WEB_HEAD_MAX);
	if (n < 0) {
		c->keep = false;
		webc_error(c, h->fail_status ? h->fail_status : 400, "bad_request", h->why, NULL);
	} else if (n == 0 && c->in.len >= WEB_HEAD_MAX) {
		c->keep = false;
		webc_error(c, 431, "too_large", "the head of the request is too long", NULL);
	} else if (n > 0) {
		take_request_head(c, n);
	}
}

/* Parses a request that arrived together with the one before. */
static void begin_pipelined_request(struct webc *c)
{
	if (loop_watch(&c->web->loop, &c->w, EPOLLIN) < 0)
		webc_drop(c);
	else
		begin_request(c);
}

static void on_conn_event(struct watch *w, uint32_t events)
{
	struct webc *c = w->ctx;
	char *p;
	ssize_t n;

	if (c->state == WEBC_WAIT || (events & (EPOLLHUP | EPOLLERR))) {
		webc_drop(c);
		return;
	}
	if (c->state == WEBC_SSE && (events & EPOLLOUT)) {
		webc_send_events(c);
		return;
	}
	if (c->out.len > c->out_off && (events & EPOLLOUT)) {
		webc_resume(c);
		return;
	}
	if (c->state == WEBC_HEAD && (events & EPOLLOUT)) {
		begin_pipelined_request(c);
		return;
	}
	p = buf_reserve(&c->in, READ_SIZE);
	n = p ? recv(w->fd, p, READ_SIZE, MSG_DONTWAIT) : -1;
	if (n < 0 && p && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || conn_is_streaming(c)) {
		/* A client has nothing to send during a stream: this is its close. */
		webc_drop(c);
		return;
	}
	if (c->state == WEBC_LAST) {
		c->past += (uint64_t)n;
		if (c->past > WEB_PAST_MAX)
			webc_drop(c);
		return;
	}
	c->in.len += (size_t)n;
	if (c->state == WEBC_HEAD)
		begin_request(c);
	else if (c->state == WEBC_BODY)
		read_request_body(c);
}

/* --- responses of cofferd ------------------------------------------------------------------------------- */

static void reply_memory_file(struct webc *c, const struct webp_answer *a, int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	autobuf struct buf b = BUF_INIT;

	if (size < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		fd_close(fd);
		webc_error(c, 500, "failed", "the response cannot be read", NULL);
		return;
	}
	/* A response with an Idempotency-Key is read as a whole, so that it can be stored. */
	if (c->ask.idem[0]) {
		if (fd_read_all(fd, 1u << 20, &b) < 0)
			webc_error(c, 500, "failed", "the response cannot be read", NULL);
		else
			webc_reply(c, c->status, "application/json", buf_cstr(&b), b.len, NULL);
		fd_close(fd);
		return;
	}
	webc_add_head(c, c->status,
		      a->flags & WEBP_F_TEXT ? "text/plain; version=0.0.4; charset=utf-8"
					     : "application/json",
		      (uint64_t)size, NULL);
	c->file = fd;
	c->file_left = (uint64_t)size;
	set_conn_state(c, WEBC_WRITE);
	webc_flush(c);
}

void webc_answer(struct webc *c, const struct webp_answer *a, int fd)
{
	if (c->replay && a->type == WEBP_REPLY && !buf_error(&c->replayed)) {
		fd_close(fd);
		webc_reply(c, c->replay, c->replay == 204 ? NULL : "application/json", buf_cstr(&c->replayed),
			   c->replayed.len, "Idempotency-Replayed: true\r\n");
		return;
	}
	if (a->type == WEBP_ERROR) {
		webc_error(c, a->status, a->code, a->message, a->hint);
	} else if (c->proving) {
		fd_close(fd);
		credential_accepted(c);
	} else if (fd >= 0) {
		reply_memory_file(c, a, fd);
	} else {
		webc_reply(c, 204, NULL, NULL, 0, NULL);
	}
}
