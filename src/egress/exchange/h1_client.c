/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 with a server (a back): one exchange at a time. The server is hostile too: its heads are parsed by
 * the same strict parser, and a response that could be read in two ways is refused.
 *
 * Invariants
 *  K1  The connection is reused only when request and response were both complete and nothing followed the
 *      response.
 *  K2  Bytes that arrive without a request end it.
 */
#include "codec/http/http1.h"
#include "codec/http/http1_chunk.h"
#include "egress/exchange/http_ask.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/upstream.h"

#include <stdio.h>

#define INTERIM_MAX 32
#define ROUNDS_MAX 16 /* then other connections get their turn */

enum h1c_state { H1C_IDLE, H1C_WAIT /* nothing was sent yet */, H1C_HEAD, H1C_BODY, H1C_TUNNEL };

struct h1_client {
	enum h1c_state state;
	struct exch *e;
	struct buf in;
	size_t at;
	struct http1_head *head;
	struct http1_chunks chunks;
	enum http1_body body;
	uint64_t left;
	unsigned interim;
	bool keep;
	bool sent; /* the request is complete */
	bool got;  /* some of the response has arrived */
	uint64_t up_left;
};

static void h1_back_wake(struct exch *e)
{
	io_kick(&e->up_conn->io);
}

static void h1_back_took(struct exch *e, size_t n)
{
	(void)n;
	io_kick(&e->up_conn->io);
}

/*
 * The response is no longer wanted: its rest would have to be read and discarded, so the connection is
 * closed.
 */
static void h1_back_drop(struct exch *e)
{
	struct upstream *u = e->up_conn;

	u->h1->e = NULL;
	e->up_conn = NULL;
	e->back = NULL;
	upstream_fail(u, false, "the client has gone");
}

static void h1_back_begin(struct exch *e)
{
	struct upstream *u = e->up_conn;
	struct h1_client *k = u->h1;

	k->state = H1C_HEAD;
	k->up_left = secret_length(e);
	e->state = EXCH_LIVE;
	exch_ask_sent(e);
	if (http_head_request_h1(&u->io.out, e) < 0)
		u->io.error = -EINVAL;
	io_kick(&u->io);
	e->front->took(e, 0);
}

static const struct exch_back h1_back = {
	.begin = h1_back_begin, .wake = h1_back_wake, .took = h1_back_took, .drop = h1_back_drop
};

int h1_client_open(struct upstream *u)
{
	u->h1 = calloc(1, sizeof(*u->h1));
	if (!u->h1)
		return -ENOMEM;
	u->h1->keep = true;
	u->h1->in.wipe = u->io.wipe;
	return 0;
}

void h1_client_close(struct upstream *u)
{
	struct h1_client *k = u->h1;

	if (!k)
		return;
	u->h1 = NULL;
	http1_chunks_release(&k->chunks);
	buf_release(&k->in);
	free(k->head);
	free(k);
}

bool h1_client_is_idle(const struct upstream *u)
{
	return u->h1 && u->h1->state == H1C_IDLE && u->h1->keep && !u->io.eof && !u->io.error;
}

struct exch *h1_client_take(struct upstream *u)
{
	return TAKE_PTR(u->h1->e);
}

void h1_client_start(struct upstream *u, struct exch *e)
{
	struct h1_client *k = u->h1;

	k->state = H1C_WAIT;
	k->e = e;
	k->interim = 0;
	k->sent = k->got = false;
	e->up_conn = u;
	e->back = &h1_back;
	if (secret_is_planned(e))
		secret_fetch(e);
	else
		h1_back_begin(e);
}

/* Writes one piece of the body into io->out, framed. */
static void h1_send_piece(struct upstream *u, struct slice data)
{
	struct h1_client *k = u->h1;
	bool raw = k->state == H1C_TUNNEL, chunk = !raw && !k->e->req.has_length;

	if (!raw && !chunk) {
		if (data.len > k->up_left) {
			u->io.error = -EBADMSG;
			return;
		}
		k->up_left -= data.len;
	}
	if (chunk)
		http1_add_chunk_head(&u->io.out, data.len);
	buf_add(&u->io.out, data.p, data.len);
	if (chunk)
		http1_add_chunk_tail(&u->io.out);
	http_pipe_take(&k->e->up, data.len);
	exch_took_up(k->e, data.len);
}

/* Sends as much of the body as limits and the server permit. */
static void h1_send_body(struct upstream *u)
{
	struct h1_client *k = u->h1;
	struct exch *e = k->e;
	struct slice data;

	while (!k->sent && !u->io.error && io_backlog(&u->io) < IO_BACKLOG_MAX &&
	       (data = http_pipe_peek(&e->up)).len) {
		long n = http_grant_up(e, data.len > 16384 ? 16384 : data.len);

		if (n < 0)
			u->io.error = -EDQUOT;
		if (n <= 0)
			return;
		data.len = (size_t)n;
		h1_send_piece(u, data);
	}
	if (k->sent || !http_pipe_done(&e->up) || k->state == H1C_TUNNEL || e->req.websocket)
		return;
	k->sent = true;
	if (e->req.has_body && !e->req.has_length) {
		http1_add_last_chunk(&u->io.out);
		if (http1_add_end(&u->io.out) < 0)
			u->io.error = -ENOMEM;
	}
}

static void h1_client_response_done(struct upstream *u)
{
	struct h1_client *k = u->h1;
	struct exch *e = k->e;

	k->keep = k->keep && k->sent && !u->one_request;
	k->state = H1C_IDLE;
	k->e = NULL;
	if (u->io.wipe)
		http1_chunks_release(&k->chunks);
	u->used = true;
	u->since = u->in->eg->now;
	exch_end_down(e);
	exch_back_gone(e);
}

static bool h1_client_bad(struct upstream *u, const char *why)
{
	snprintf(u->io.why, sizeof(u->io.why), "%s", why);
	u->io.error = -EBADMSG;
	return false;
}

static const char *exch_over_reason(const struct exch *e)
{
	return e->over ? e->over_why : "out of memory";
}

static bool h1_take_response_head(struct upstream *u, const struct http1_head *h)
{
	struct h1_client *k = u->h1;
	int r;

	if (h->body == HTTP1_BODY_TUNNEL &&
	    !(h->status == 101 && k->e->req.websocket && slice_eq_nocase(h->upgrade_to, "websocket")))
		return h1_client_bad(u, "the server changed the protocol without a request to do so");
	if (h->status < 200 && h->status != 101 && ++k->interim > INTERIM_MAX)
		return h1_client_bad(u, "the server sends too many interim responses");
	r = http_head_resp_from_h1(k->e, h);
	if (r < 0)
		return h1_client_bad(u, "the head of the response is too large");
	if (h->status >= 200 || h->body == HTTP1_BODY_TUNNEL) {
		k->keep = h->keep_alive;
		k->body = h->body;
		k->left = h->content_length;
		k->state = h->body == HTTP1_BODY_TUNNEL ? H1C_TUNNEL : H1C_BODY;
		http1_chunks_release(&k->chunks);
		k->chunks = HTTP1_CHUNKS_INIT;
		k->chunks.trailer.wipe = u->io.wipe;
	}
	return exch_head(k->e) || h1_client_bad(u, k->e->over_why);
}

static bool h1_read_response_head(struct upstream *u)
{
	struct h1_client *k = u->h1;
	bool ok;
	long n;

	if (!k->head) {
		k->head = malloc(sizeof(*k->head));
		if (!k->head)
			return h1_client_bad(u, "out of memory");
		*k->head = HTTP1_HEAD_INIT;
	}
	n = http1_parse_response(k->head, k->in.data + k->at, k->in.len - k->at, slice_of(k->e->req.method));
	if (n == 0)
		return false;
	if (n < 0)
		return h1_client_bad(u, k->head->why);
	ok = h1_take_response_head(u, k->head);
	k->at += (size_t)n;
	http1_head_reset(k->head);
	if (ok && k->state == H1C_BODY && (k->body == HTTP1_BODY_NONE))
		h1_client_response_done(u);
	return ok;
}

static int h1_keep_trailers(struct exch *e, const struct http1_chunks *c)
{
	int r = 0;

	if (!c->n_trailers)
		return 0;
	e->trailers = calloc(1, sizeof(*e->trailers));
	if (!e->trailers)
		return -ENOMEM;
	e->trailers->text.wipe = secret_is_planned(e);
	for (unsigned i = 0; i < c->n_trailers && r == 0; i++)
		r = http_head_resp_field(e->trailers, c->trailers[i].name, c->trailers[i].value);
	return r;
}

static bool h1_read_chunked_response(struct upstream *u)
{
	struct h1_client *k = u->h1;
	struct slice data;
	size_t used = 0;
	int ev = http1_chunks_next(&k->chunks, k->in.data + k->at, k->in.len - k->at, &used, &data);

	k->at += used;
	if (ev < 0)
		return h1_client_bad(u, k->chunks.why ? k->chunks.why
						      : "the body of the response cannot be read");
	if (ev == HTTP1_CHUNK_DATA)
		return exch_put_down(k->e, data.p, data.len) == 0 || h1_client_bad(u, exch_over_reason(k->e));
	if (ev == HTTP1_CHUNK_END) {
		if (h1_keep_trailers(k->e, &k->chunks) < 0)
			return h1_client_bad(u, "the trailers are too large");
		h1_client_response_done(u);
	}
	return used > 0 || ev == HTTP1_CHUNK_END;
}

static bool h1_read_plain_response(struct upstream *u)
{
	struct h1_client *k = u->h1;
	size_t n = k->in.len - k->at;

	if (k->body == HTTP1_BODY_LENGTH && n > k->left)
		n = (size_t)k->left;
	if (n == 0)
		return false;
	k->at += n;
	if (exch_put_down(k->e, k->in.data + k->at - n, n) < 0)
		return h1_client_bad(u, exch_over_reason(k->e));
	if (k->body == HTTP1_BODY_LENGTH) {
		k->left -= n;
		if (k->left == 0)
			h1_client_response_done(u);
	}
	return true;
}

static bool h1_client_step(struct upstream *u)
{
	struct h1_client *k = u->h1;

	if (k->at == k->in.len)
		return false;
	if (k->state == H1C_IDLE || k->state == H1C_WAIT)
		return h1_client_bad(u, "the server sent bytes without a request");
	k->got = true;
	if (k->state == H1C_HEAD)
		return h1_read_response_head(u);
	if (http_pipe_room(&k->e->down) == 0)
		return false;
	return k->body == HTTP1_BODY_CHUNKED ? h1_read_chunked_response(u) : h1_read_plain_response(u);
}

static bool h1_client_wants_input(const struct h1_client *k)
{
	return !k->e || k->state == H1C_HEAD || k->state == H1C_WAIT || http_pipe_room(&k->e->down) > 0;
}

static void h1_client_read(struct upstream *u)
{
	struct h1_client *k = u->h1;

	for (int rounds = 0; !u->io.error && h1_client_wants_input(k); rounds++) {
		size_t cap = k->state == H1C_HEAD ? HTTP1_HEAD_MAX + 4 : HTTP_PIPE_CAP;
		bool more = io_fill(&u->io, &k->in, k->at + cap);

		while (!u->io.error && h1_client_step(u))
			more = true;
		if (k->at == k->in.len)
			buf_clear(&k->in), k->at = 0;
		else if (k->at > HTTP_PIPE_CAP)
			buf_consume(&k->in, k->at), k->at = 0;
		if (!more)
			break;
		if (rounds == ROUNDS_MAX) {
			io_kick(&u->io);
			break;
		}
	}
	/* Zeroing and growing it again in every round of a response would cost more than keeping it. */
	if (k->in.len == 0 && k->in.cap > HTTP_PIPE_CAP && !(u->io.wipe && k->e))
		buf_release(&k->in);
}

/* The server has ended its direction. */
static void h1_client_eof(struct upstream *u)
{
	struct h1_client *k = u->h1;
	bool all = k->at == k->in.len;
	bool ends_so =
		(k->state == H1C_BODY && k->body == HTTP1_BODY_CLOSE && !u->io.cut) || k->state == H1C_TUNNEL;

	if (k->e && all && ends_so) {
		k->keep = false;
		h1_client_response_done(u);
		upstream_fail(u, false, "done");
	} else if (all || k->state <= H1C_HEAD) {
		upstream_fail(u, (u->used && !k->got) || k->state == H1C_WAIT,
			      "the server closed the connection before its response was complete");
	}
}

void h1_client_run(struct upstream *u)
{
	struct h1_client *k = u->h1;

	for (int rounds = 0; !u->io.error; rounds++) {
		if (k->e && k->state != H1C_WAIT)
			h1_send_body(u);
		io_flush(&u->io);
		if (io_backlog(&u->io) || !k->e || k->state == H1C_WAIT || k->e->paused ||
		    !http_pipe_len(&k->e->up))
			break;
		if (rounds == ROUNDS_MAX) {
			io_kick(&u->io);
			break;
		}
	}
	if (!u->io.error)
		h1_client_read(u);
	if (u->io.error) {
		upstream_fail(u, (u->used && !k->got) || k->state == H1C_WAIT,
			      u->io.why[0] ? u->io.why : strerror(-u->io.error));
		return;
	}
	if (u->io.eof) {
		h1_client_eof(u);
		if (u->state == UP_DEAD)
			return;
	}
	if (k->state == H1C_IDLE && !k->keep) {
		upstream_fail(u, false, "done");
		return;
	}
	if (k->state == H1C_IDLE)
		upstream_serve(u->in);
	/* upstream_serve() may have started the next exchange on it, which kicks it. */
	u->io.want_in = h1_client_wants_input(k);
	io_arm(&u->io);
}
