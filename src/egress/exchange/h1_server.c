/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 with the client (a front): one request at a time; pipelined requests wait in the buffer. Heads are
 * parsed by codec/http1, which refuses everything that two programs might read differently.
 *
 * Invariants
 *  S1  A request that could not be read to its end is the connection's last: later bytes would be read out of
 *      step.
 *  S2  Input is read only while there is room for it: at most HTTP1_HEAD_MAX bytes wait here, and a body's
 *      bytes in its pipe.
 *  S3  After an upgrade bytes pass unchanged, both ways, until one side ends.
 */
#include "codec/http/http1.h"
#include "codec/http/http1_chunk.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/inspect.h"

#include <stdio.h>
#include <sys/socket.h>

#define LINGER_BYTES (1u << 20)
#define ROUNDS_MAX 16 /* then other connections get their turn */

enum h1_state {
	H1_HEAD,     /* a request's head */
	H1_BODY,     /* its body */
	H1_RESPONSE, /* the body is read, the response is not finished */
	H1_TUNNEL,   /* S3 */
	H1_LINGER, /* everything is sent; further input is discarded, so that no reset overtakes the response */
};

struct h1_server {
	enum h1_state state;
	struct buf in;
	size_t at; /* consumed up to here */
	struct http1_head *head;
	struct http1_chunks chunks;
	struct exch *e;
	enum http1_body body; /* of the request */
	uint64_t left;
	unsigned minor;
	bool keep; /* the client would keep the connection */
	/* The response. */
	bool head_out, chunked;
	uint64_t down_left;
	bool close; /* S1 */
	bool finished;
	uint64_t head_since; /* when the head being read began; 0: none of it has arrived */
	uint64_t lingered;
};

static void h1_front_head(struct exch *e);
static void h1_front_wake(struct exch *e);
static void h1_front_took(struct exch *e, size_t n);
static void h1_front_fail(struct exch *e);

static const struct exch_front h1_front = {
	.head = h1_front_head, .wake = h1_front_wake, .took = h1_front_took, .fail = h1_front_fail
};

int h1_server_open(struct inspect_conn *c)
{
	c->h1 = calloc(1, sizeof(*c->h1));
	if (!c->h1)
		return -ENOMEM;
	c->io.want_in = true;
	return 0;
}

void h1_server_close(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;

	c->h1 = NULL;
	if (!s)
		return;
	if (s->e)
		exch_front_gone(s->e);
	http1_chunks_release(&s->chunks);
	buf_release(&s->in);
	free(s->head);
	free(s);
}

/* The request cannot be read: one response, then the end of the connection. */
static void h1_refuse_head(struct inspect_conn *c, unsigned status, const char *why)
{
	struct h1_server *s = c->h1;

	s->close = true;
	s->state = H1_RESPONSE;
	s->minor = 1;
	s->e = exch_new(c->in, c, &h1_front);
	if (!s->e) {
		c->io.error = -ENOMEM;
		return;
	}
	s->e->req.why = why;
	s->e->req.refusal = status;
	exch_begin(s->e);
}

static void h1_begin_body(struct inspect_conn *c, const struct http1_head *h)
{
	struct h1_server *s = c->h1;

	s->body = h->body;
	s->left = h->content_length;
	s->state = h->body == HTTP1_BODY_NONE ? H1_RESPONSE : H1_BODY;
	if (h->body == HTTP1_BODY_CHUNKED) {
		http1_chunks_release(&s->chunks);
		s->chunks = HTTP1_CHUNKS_INIT;
	}
}

static void h1_take_request(struct inspect_conn *c, const struct http1_head *h)
{
	struct h1_server *s = c->h1;
	struct exch *e = exch_new(c->in, c, &h1_front);

	if (!e) {
		c->io.error = -ENOMEM;
		return;
	}
	s->e = e;
	s->minor = h->minor;
	s->keep = h->keep_alive;
	s->head_out = s->chunked = s->finished = false;
	h1_begin_body(c, h);
	http_head_from_h1(e, h);
	e->req.has_body = h->body != HTTP1_BODY_NONE;
	e->up.eof = !e->req.has_body;
	exch_begin(e);
}

/* True when a request began. */
static bool h1_read_request_head(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	long n;

	/* One empty line before a request is allowed for old clients (RFC 9112, 2.2); two are not. */
	if (s->at + 2 <= s->in.len && !s->head_since && memcmp(s->in.data + s->at, "\r\n", 2) == 0)
		s->at += 2;
	if (s->at == s->in.len)
		return false;
	if (!s->head_since)
		s->head_since = c->in->eg->now;
	if (!s->head) {
		s->head = malloc(sizeof(*s->head));
		if (!s->head) {
			c->io.error = -ENOMEM;
			return false;
		}
		*s->head = HTTP1_HEAD_INIT;
	}
	n = http1_parse_request(s->head, s->in.data + s->at, s->in.len - s->at);
	if (n == 0)
		return false;
	s->head_since = 0;
	if (n < 0) {
		h1_refuse_head(c, s->head->fail_status ? s->head->fail_status : 400, s->head->why);
		return false;
	}
	h1_take_request(c, s->head);
	s->at += (size_t)n;
	http1_head_reset(s->head);
	return true;
}

static void h1_request_body_done(struct h1_server *s)
{
	if (s->state == H1_BODY)
		s->state = H1_RESPONSE;
	exch_put_end(s->e);
}

/* A body that cannot be read ends the connection. */
static void h1_request_body_bad(struct inspect_conn *c, const char *why)
{
	struct h1_server *s = c->h1;

	s->close = true;
	snprintf(c->io.why, sizeof(c->io.why), "%s", why);
	c->io.error = -EBADMSG;
}

static bool h1_put_body(struct inspect_conn *c, const char *data, size_t len)
{
	int r = exch_put(c->h1->e, data, len);

	c->active = c->in->eg->now;
	if (r < 0)
		c->io.error = r;
	return r == 0;
}

static bool h1_read_length_body(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	size_t n = s->in.len - s->at;

	if (n > s->left)
		n = (size_t)s->left;
	if (n == 0)
		return false;
	s->left -= n;
	s->at += n;
	if (!h1_put_body(c, s->in.data + s->at - n, n))
		return false;
	if (s->left == 0)
		h1_request_body_done(s);
	return true;
}

static bool h1_read_chunked_body(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	struct slice data;
	size_t used = 0;
	int ev = http1_chunks_next(&s->chunks, s->in.data + s->at, s->in.len - s->at, &used, &data);

	s->at += used;
	if (ev < 0) {
		h1_request_body_bad(c, s->chunks.why ? s->chunks.why : "the body cannot be read");
		return false;
	}
	if (ev == HTTP1_CHUNK_DATA)
		return h1_put_body(c, data.p, data.len);
	if (ev == HTTP1_CHUNK_END)
		h1_request_body_done(s);
	return used > 0 || ev == HTTP1_CHUNK_END;
}

/* One step; false when the buffered input permits none. */
static bool h1_server_step(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;

	if (s->at == s->in.len && s->state != H1_HEAD)
		return false;
	switch (s->state) {
	case H1_HEAD:
		return h1_read_request_head(c);
	case H1_BODY:
		if (s->finished || (s->e && s->e->state == EXCH_LOCAL))
			return false;
		if (!exch_wants_body(s->e))
			return false;
		return s->body == HTTP1_BODY_LENGTH ? h1_read_length_body(c) : h1_read_chunked_body(c);
	case H1_TUNNEL: {
		size_t n = s->in.len - s->at;

		if (!exch_wants_body(s->e))
			return false;
		s->at += n;
		return h1_put_body(c, s->in.data + s->at - n, n);
	}
	case H1_LINGER:
		s->lingered += s->in.len - s->at;
		s->at = s->in.len;
		return false;
	default:
		return false;
	}
}

/* Most bytes that may wait in the buffer. */
static size_t h1_input_cap(const struct h1_server *s)
{
	return s->state == H1_HEAD ? HTTP1_HEAD_MAX + 4 : HTTP_PIPE_CAP;
}

static void h1_server_read(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	bool more = true;

	for (int rounds = 0; more && !c->io.error; rounds++) {
		if (rounds == ROUNDS_MAX) {
			io_kick(&c->io);
			break;
		}
		more = io_fill(&c->io, &s->in, s->at + h1_input_cap(s));
		if (more && s->state == H1_HEAD && s->at == 0 && !s->head_since)
			c->active = c->in->eg->now;
		while (!c->io.error && h1_server_step(c))
			more = true;
		if (s->at == s->in.len)
			s->in.len = s->at = 0;
		else if (s->at > HTTP_PIPE_CAP)
			buf_consume(&s->in, s->at), s->at = 0;
	}
	if (s->in.len == 0 && s->in.cap > HTTP_PIPE_CAP)
		buf_release(&s->in);
}

/* Ends one response and prepares for the next request. */
static void h1_server_response_done(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	bool whole = s->state == H1_RESPONSE;
	struct exch *e = s->e;

	s->finished = true;
	s->e = NULL;
	if (!whole || !s->keep)
		s->close = true;
	c->active = c->in->eg->now;
	s->state = s->close ? H1_LINGER : H1_HEAD;
	exch_front_gone(e);
}

static void h1_write_response(struct inspect_conn *c, struct slice data)
{
	struct h1_server *s = c->h1;
	struct buf *out = &c->io.out;

	if (s->chunked)
		http1_add_chunk_head(out, data.len);
	buf_add(out, data.p, data.len);
	if (s->chunked)
		http1_add_chunk_tail(out);
}

static void h1_end_response(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;
	struct buf *out = &c->io.out;
	const struct http_fields *t = s->e->trailers;

	if (s->chunked) {
		http1_add_last_chunk(out);
		for (unsigned i = 0; t && i < t->n; i++) {
			if (http1_add_field(out, http_fields_name(t, i), http_fields_value(t, i)) < 0)
				c->io.error = -EBADMSG;
		}
		if (http1_add_end(out) < 0)
			c->io.error = -ENOMEM;
	} else if (s->e->resp.has_length && !s->e->resp.no_body && s->down_left) {
		c->io.error = -EPIPE; /* shorter than announced: the client must not take it for complete */
	}
	if (!c->io.error)
		h1_server_response_done(c);
}

static void h1_server_write(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;

	while (s->e && s->head_out && !c->io.error) {
		struct exch *e = s->e;
		struct slice data = http_pipe_peek(&e->down);

		if (io_backlog(&c->io) >= IO_BACKLOG_MAX)
			return;
		if (data.len) {
			long n = http_grant_down(e, data.len > 16384 ? 16384 : data.len);

			if (n <= 0)
				return;
			data.len = (size_t)n;
		}
		if (data.len && e->resp.has_length && s->state != H1_TUNNEL) {
			if (data.len > s->down_left) {
				c->io.error = -EPIPE;
				return;
			}
			s->down_left -= data.len;
		}
		if (data.len) {
			h1_write_response(c, data);
			http_pipe_take(&e->down, data.len);
			exch_took_down(e, data.len);
			continue;
		}
		if (!e->down.eof)
			return;
		if (s->state == H1_TUNNEL)
			s->close = true;
		h1_end_response(c);
	}
}

static bool h1_has_response_bytes(const struct h1_server *s)
{
	return s->e && s->head_out && !s->e->paused && (http_pipe_len(&s->e->down) || s->e->down.eof);
}

static void h1_finish_linger(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;

	if (s->state != H1_LINGER || io_backlog(&c->io))
		return;
	io_finish(&c->io);
	if (c->io.eof || s->lingered > LINGER_BYTES)
		inspect_conn_end(c, "server");
}

static const char *io_end_word(const struct io *io)
{
	return io->error == -EDQUOT ? "limit" : io->error == -ECONNRESET ? "reset" : "error";
}

void h1_server_run(struct inspect_conn *c)
{
	struct h1_server *s = c->h1;

	h1_server_read(c);
	for (int rounds = 0; !c->io.error; rounds++) {
		h1_server_write(c);
		io_flush(&c->io);
		if (io_backlog(&c->io) || !h1_has_response_bytes(s))
			break;
		if (rounds == ROUNDS_MAX) {
			io_kick(&c->io);
			break;
		}
	}
	/* The next request may be in the buffer already. */
	if (!c->io.error && s->state == H1_HEAD && s->in.len > s->at)
		io_kick(&c->io);
	if (c->io.error) {
		inspect_conn_end(c, io_end_word(&c->io));
		return;
	}
	if (c->io.eof && s->state != H1_LINGER) {
		/* The client is gone; a request in progress is given up. */
		inspect_conn_end(c, "client");
		return;
	}
	c->io.want_in =
		s->in.len - s->at < h1_input_cap(s) &&
		(s->state != H1_BODY || (s->e && s->e->state != EXCH_LOCAL && exch_wants_body(s->e))) &&
		(s->state != H1_TUNNEL || exch_wants_body(s->e)) && io_backlog(&c->io) < IO_BACKLOG_MAX;
	h1_finish_linger(c);
	if (!c->dying)
		io_arm(&c->io);
}

static void h1_front_head(struct exch *e)
{
	struct inspect_conn *c = e->conn;
	struct h1_server *s = c->h1;
	struct http_resp *r = &e->resp;

	if (r->status < 200 && !r->tunnel) {
		if (s->minor && http_head_to_h1(&c->io.out, e, false, true) < 0)
			c->io.error = -EBADMSG;
		io_kick(&c->io);
		return;
	}
	s->down_left = r->length;
	s->chunked = !r->has_length && !r->no_body && !r->tunnel && s->minor >= 1;
	if (!r->has_length && !r->no_body && !r->tunnel && !s->chunked)
		s->keep = false;
	if (s->state == H1_BODY && !r->tunnel && e->state == EXCH_LOCAL)
		s->keep = false; /* S1, and the client should know */
	if (r->tunnel)
		s->state = H1_TUNNEL;
	s->head_out = true;
	if (http_head_to_h1(&c->io.out, e, s->chunked, s->keep || r->tunnel) < 0)
		c->io.error = -EBADMSG;
	io_kick(&c->io);
}

static void h1_front_wake(struct exch *e)
{
	io_kick(&e->conn->io);
}

static void h1_front_took(struct exch *e, size_t n)
{
	(void)n;
	io_kick(&e->conn->io);
}

static void h1_front_fail(struct exch *e)
{
	e->conn->io.error = -EPIPE;
	io_kick(&e->conn->io);
}

void h1_server_tick(struct inspect_conn *c, uint64_t now)
{
	const struct h1_server *s = c->h1;
	const struct inspect_times *t = &c->in->times;
	uint64_t quiet = (now - c->active) / 1000000000;
	bool late = (s->head_since && (now - s->head_since) / 1000000000 > t->head) ||
		    (s->state == H1_HEAD && !s->head_since && quiet > t->keep) ||
		    (s->state == H1_BODY && s->e && exch_wants_body(s->e) && quiet > t->body);

	if (late)
		inspect_conn_end(c, "timeout");
	else if (s->state == H1_LINGER && quiet > 5)
		inspect_conn_end(c, "server");
}
