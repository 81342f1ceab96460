/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 with the client (a front), over nghttp2, which checks frames, HPACK and the form of messages; each
 * stream is an exchange.
 *
 * Invariants
 *  V1  At most H2_STREAMS_MAX streams; a stream's window is reopened only as its bytes are consumed on the
 *      other side, or while its body is held for a rule, which is bounded by itself.
 *  V2  Trailers of a request end it and are otherwise ignored: the verdict stays valid (http_exch.X1).
 *  V3  Frames that request nothing are counted; a client that sends too many gets ENHANCE_YOUR_CALM, and is
 *      disconnected.
 *  V4  A response may be complete before its request is: the rest of the request is discarded, up to a limit
 *      of bytes and time; then the stream is reset. Resetting at once is correct (RFC 9113, 8.1), but some
 *      clients lose the response by it.
 *  V5  A head that is too large gets a 431, as in HTTP/1.1, and the connection continues: bytes over
 *      H2_LISTED_MAX are counted and discarded. nghttp2 cannot continue after a field of more than 64 KiB or
 *      invalid HPACK; then, and wherever else it drops a request before it is complete, a refusal is written
 *      to the journal.
 */
#include "egress/exchange/h2_util.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/inspect.h"

#include <stdio.h>

#define H2_LISTED_MAX ((size_t)2 * HTTP_FIELDS_BYTES)	 /* of a request, by HTTP/2's way of counting */
#define H2_LISTED_FLOOD ((size_t)16 * HTTP_FIELDS_BYTES) /* no honest client goes that far */
#define DRAIN_MAX (1u << 20)
#define DRAIN_SECONDS 5
#define LINGER_BYTES (1u << 20)
#define TOO_LARGE "the head is too large"

struct h2_server {
	nghttp2_session *s;
	struct h2_calm calm;
	unsigned streams, draining;
	bool leaving;
	bool long_head; /* the last head did not fit into its first frame */
	bool broken;	/* we have sent a GOAWAY with an error */
	bool over; /* the session is over: further input is discarded, so that no reset overtakes our last frames */
	uint64_t lingered;
	uint64_t since;
	uint64_t tx, moved; /* bytes sent, and when that number last changed while some were waiting */
};

/* e->front_ctx: the state of a request while its fields arrive. */
struct h2_stream {
	struct buf cookie;
	bool method, path, scheme, authority, begun, over;
	size_t credited;    /* reopened before it was consumed */
	size_t listed;	    /* bytes of its fields, by HTTP/2's way of counting */
	uint64_t responded; /* eg->now when V4 began; 0: it did not */
	uint64_t drain_end; /* of e->up.total */
};

static struct h2_stream *h2_stream_of(struct exch *e)
{
	return e->front_ctx;
}

static void h2_stream_free(struct exch *e)
{
	struct h2_stream *t = e->front_ctx;

	if (!t)
		return;
	e->front_ctx = NULL;
	buf_release(&t->cookie);
	free(t);
}

/* ---- The front's half of an exchange. ---- */

static ssize_t h2_read_down(nghttp2_session *s, int32_t id, uint8_t *out, size_t len, uint32_t *flags,
			    nghttp2_data_source *src, void *ctx)
{
	struct exch *e = src->ptr;
	struct slice data = http_pipe_peek(&e->down);

	(void)ctx;
	if (data.len == 0 && !e->down.eof)
		return NGHTTP2_ERR_DEFERRED;
	if (data.len) {
		long n = http_grant_down(e, data.len > len ? len : data.len);

		if (n <= 0)
			return NGHTTP2_ERR_DEFERRED;
		data.len = (size_t)n;
	}
	if (data.len)
		memcpy(out, data.p, data.len);
	http_pipe_take(&e->down, data.len);
	exch_took_down(e, data.len);
	if (!http_pipe_done(&e->down))
		return (ssize_t)data.len;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (e->trailers && e->trailers->n) {
		struct h2_nva a = { 0 };

		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (h2_nva_fields(&a, e->trailers) < 0 || nghttp2_submit_trailer(s, id, a.v, a.n) != 0) {
			h2_nva_release(&a);
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		}
		h2_nva_release(&a);
	}
	return (ssize_t)data.len;
}

static void h2_front_head(struct exch *e)
{
	struct inspect_conn *c = e->conn;
	const struct http_resp *r = &e->resp;
	nghttp2_data_provider body = { .source = { .ptr = e }, .read_callback = h2_read_down };
	struct h2_nva a = { 0 };
	char status[8], length[24];
	int err;

	snprintf(status, sizeof(status), "%u", r->status);
	h2_nva_add(&a, ":status", status, strlen(status));
	err = h2_nva_fields(&a, &r->fields);
	if (r->has_length && r->status >= 200) {
		snprintf(length, sizeof(length), "%llu", (unsigned long long)r->length);
		h2_nva_add(&a, "content-length", length, strlen(length));
	}
	if (err == 0 && r->status < 200)
		err = nghttp2_submit_headers(c->h2->s, 0, e->front_stream, NULL, a.v, a.n, NULL);
	else if (err == 0)
		err = nghttp2_submit_response(c->h2->s, e->front_stream, a.v, a.n, r->no_body ? NULL : &body);
	h2_nva_release(&a);
	if (err)
		nghttp2_submit_rst_stream(c->h2->s, 0, e->front_stream, NGHTTP2_INTERNAL_ERROR);
	io_kick(&c->io);
}

static void h2_front_wake(struct exch *e)
{
	nghttp2_session_resume_data(e->conn->h2->s, e->front_stream);
	io_kick(&e->conn->io);
}

/* h2_server.V1: reopens the window, less what was reopened early. */
static void h2_front_took(struct exch *e, size_t n)
{
	struct h2_stream *t = h2_stream_of(e);
	size_t early = n < t->credited ? n : t->credited;

	t->credited -= early;
	if (n > early)
		nghttp2_session_consume(e->conn->h2->s, e->front_stream, n - early);
	io_kick(&e->conn->io);
}

static void h2_front_fail(struct exch *e)
{
	nghttp2_submit_rst_stream(e->conn->h2->s, 0, e->front_stream, NGHTTP2_INTERNAL_ERROR);
	io_kick(&e->conn->io);
}

static const struct exch_front h2_front = {
	.head = h2_front_head, .wake = h2_front_wake, .took = h2_front_took, .fail = h2_front_fail
};

/* h2_server.V3: too many frames without purpose. */
static void h2_server_flooded(struct inspect_conn *c)
{
	if (c->h2->leaving)
		return;
	c->h2->leaving = true;
	egress_alert(c->in->eg, "http2_flood", c->host.text, "too many HTTP/2 frames that serve no purpose");
	nghttp2_session_terminate_session(c->h2->s, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ---- Callbacks of nghttp2. ---- */

static int on_client_frame_begin(nghttp2_session *s, const nghttp2_frame_hd *hd, void *ctx)
{
	struct inspect_conn *c = ctx;

	(void)s;
	h2_calm_begin(&c->h2->calm, hd);
	if (hd->type == NGHTTP2_HEADERS)
		c->h2->long_head = !(hd->flags & NGHTTP2_FLAG_END_HEADERS);
	return 0;
}

/* A frame for which we reset its stream costs the peer as little as a reset of its own. */
static int on_client_frame_wrong(nghttp2_session *s, const nghttp2_frame *f, int error, void *ctx)
{
	struct inspect_conn *c = ctx;

	(void)s, (void)f, (void)error;
	if (!h2_calm_wrong(&c->h2->calm, c->in->eg->now))
		h2_server_flooded(c);
	return 0;
}

static int on_request_begin(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct inspect_conn *c = ctx;
	struct h2_stream *t;
	struct exch *e;

	if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	t = calloc(1, sizeof(*t));
	e = t ? exch_new(c->in, c, &h2_front) : NULL;
	if (!e) {
		free(t);
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	e->front_ctx = t;
	e->front_stream = f->hd.stream_id;
	nghttp2_session_set_stream_user_data(s, f->hd.stream_id, e);
	c->h2->streams++;
	c->active = c->in->eg->now;
	return 0;
}

static void h2_refuse(struct exch *e, unsigned status, const char *why)
{
	if (!e->req.why) {
		e->req.why = why;
		e->req.refusal = status;
	}
}

static void h2_take_authority(struct exch *e, struct slice v)
{
	struct h2_stream *t = h2_stream_of(e);
	struct host host;
	uint16_t port = 0;

	t->authority = true;
	/* An explicit port is compared; a missing one means that of the connection. */
	if (host_port_parse(v.p, v.len, e->conn->port, &host, &port, NULL) < 0)
		h2_refuse(e, 400, "the host cannot be read");
	else
		http_head_authority(e, &host, port);
}

static void h2_take_pseudo(struct exch *e, struct slice n, struct slice v)
{
	struct h2_stream *t = h2_stream_of(e);

	if (slice_eq(n, ":method")) {
		t->method = true;
		if (v.len > EXCH_METHOD_MAX || !http1_is_token(v))
			h2_refuse(e, 400, "the method cannot be read");
		else
			snprintf(e->req.method, sizeof(e->req.method), "%.*s", (int)v.len, v.p);
	} else if (slice_eq(n, ":path")) {
		t->path = true;
		if (slice_eq(v, "*"))
			buf_adds(&e->req.target, "*");
		else
			http_head_target(e, v);
	} else if (slice_eq(n, ":scheme")) {
		t->scheme = true;
		if (!slice_eq(v, e->conn->tls ? "https" : "http"))
			h2_refuse(e, 421, "the scheme is not that of this connection");
	} else if (slice_eq(n, ":authority")) {
		h2_take_authority(e, v);
	} else {
		h2_refuse(e, 400, "an unknown pseudo-header");
	}
}

static void h2_take_request_length(struct exch *e, struct slice v)
{
	if (e->req.has_length || h2_length(v, &e->req.length) < 0)
		h2_refuse(e, 400, "the length cannot be read");
	e->req.has_length = true;
}

static void h2_take_request_field(struct exch *e, struct slice n, struct slice v)
{
	struct h2_stream *t = h2_stream_of(e);

	if (slice_eq(n, "content-length")) {
		h2_take_request_length(e, v);
	} else if (slice_eq(n, "te")) {
		e->req.te_trailers = true; /* nghttp2 accepts only "trailers" */
	} else if (slice_eq(n, "expect")) {
		if (slice_eq_nocase(v, "100-continue"))
			e->req.expect = true;
		else
			h2_refuse(e, 417, "an unknown expectation");
	} else if (slice_eq(n, "host")) {
		h2_take_authority(e, v);
	} else if (slice_eq(n, "cookie")) {
		/* HTTP/2 may split it into crumbs; elsewhere it is one field. */
		if (t->cookie.len + v.len > HTTP_FIELDS_BYTES)
			h2_refuse(e, 431, "the request has too many headers");
		else if (t->cookie.len)
			buf_adds(&t->cookie, "; "), buf_add(&t->cookie, v.p, v.len);
		else
			buf_add(&t->cookie, v.p, v.len);
	} else if (!http1_is_token(n) || !http1_is_value(v)) {
		h2_refuse(e, 400, "a header cannot be read");
	} else {
		http_head_field(e, n, v);
	}
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's to say what it gives */
static int on_request_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
			    const uint8_t *value, size_t value_len, uint8_t flags, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	struct slice n = { (const char *)name, name_len }, v = { (const char *)value, value_len };

	(void)flags;
	/* h2_server.V2 */
	if (!e || h2_stream_of(e)->begun || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	/*
	 * h2_server.V5. One byte on the wire may expand to kilobytes from a table: too much gets a response,
	 * far too much does not.
	 */
	h2_stream_of(e)->listed += name_len + value_len + 32;
	if (h2_stream_of(e)->listed > H2_LISTED_FLOOD) {
		h2_server_flooded(ctx);
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	if (h2_stream_of(e)->listed > H2_LISTED_MAX) {
		h2_refuse(e, 431, TOO_LARGE);
		return 0;
	}
	if (name_len && name[0] == ':')
		h2_take_pseudo(e, n, v);
	else
		h2_take_request_field(e, n, v);
	return 0;
}

static void h2_begin_exchange(struct exch *e, bool end)
{
	struct h2_stream *t = h2_stream_of(e);

	t->begun = true;
	if (!t->authority)
		h2_refuse(e, 400, "the request names no host");
	if (t->cookie.len)
		http_head_field(e, slice_of("cookie"), (struct slice){ t->cookie.data, t->cookie.len });
	buf_release(&t->cookie);
	http_head_finish(e);
	e->req.has_body = !end;
	e->up.eof = end;
	if (!end && e->req.has_length && e->req.length == 0)
		e->req.has_length = false;
	exch_begin(e);
}

static int on_client_frame(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct inspect_conn *c = ctx;
	struct exch *e;

	if (!h2_calm_take(&c->h2->calm, f, c->in->eg->now)) {
		h2_server_flooded(c);
		return 0;
	}
	if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA)
		return 0;
	e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	if (!e)
		return 0;
	if (!h2_stream_of(e)->begun)
		h2_begin_exchange(e, (f->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
	else if (f->hd.flags & NGHTTP2_FLAG_END_STREAM)
		exch_put_end(e);
	return 0;
}

static int on_request_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
			   void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);
	struct inspect_conn *c = ctx;

	(void)flags;
	c->active = c->in->eg->now;
	if (!e || e->state == EXCH_LOCAL || h2_stream_of(e)->responded) {
		if (e)
			e->up.total += len;
		nghttp2_session_consume(s, id, len);
		if (e && h2_stream_of(e)->responded && e->up.total > h2_stream_of(e)->drain_end)
			nghttp2_submit_rst_stream(s, 0, id, NGHTTP2_NO_ERROR);
		return 0;
	}
	if (e->state == EXCH_HOLD) {
		h2_stream_of(e)->credited += len;
		nghttp2_session_consume(s, id, len);
	}
	return exch_put(e, data, len) < 0 ? NGHTTP2_ERR_NOMEM : 0;
}

/* h2_server.V5: logs a request whose head never became readable. */
static void h2_log_given_up(struct exch *e)
{
	struct h2_stream *t = h2_stream_of(e);
	const char *why = "the head cannot be read";

	if (t->begun)
		return;
	t->begun = true;
	if (e->failed)
		why = "the head was not complete in time";
	else if (t->listed > H2_LISTED_MAX || e->conn->h2->long_head)
		why = TOO_LARGE;
	exch_log_refusal(e, why);
}

static void h2_log_all_given_up(struct inspect_conn *c)
{
	for (struct exch *e = c->in->exchs; e; e = e->all_next) {
		if (e->conn == c)
			h2_log_given_up(e);
	}
}

/* h2_server.V4: the response is complete, the request is not. */
static int on_response_sent(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct inspect_conn *c = ctx;
	struct exch *e;

	if (f->hd.type == NGHTTP2_GOAWAY && f->goaway.error_code != NGHTTP2_NO_ERROR)
		c->h2->broken = true;
	if ((f->hd.type != NGHTTP2_DATA && f->hd.type != NGHTTP2_HEADERS) ||
	    !(f->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
	    nghttp2_session_get_stream_remote_close(s, f->hd.stream_id) != 0)
		return 0;
	e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	if (!e || e->up_conn) {
		nghttp2_submit_rst_stream(s, 0, f->hd.stream_id, NGHTTP2_NO_ERROR);
	} else if (!h2_stream_of(e)->responded) {
		h2_stream_of(e)->responded = c->in->eg->now;
		h2_stream_of(e)->drain_end = e->up.total + DRAIN_MAX;
		c->h2->draining++;
	}
	return 0;
}

static void h2_end_drains(struct inspect_conn *c, uint64_t now)
{
	for (struct exch *e = c->in->exchs; e && c->h2->draining; e = e->all_next) {
		struct h2_stream *t = e->conn == c ? h2_stream_of(e) : NULL;

		if (t && t->responded && now - t->responded > DRAIN_SECONDS * 1000000000ull)
			nghttp2_submit_rst_stream(c->h2->s, 0, e->front_stream, NGHTTP2_NO_ERROR);
	}
	if (c->h2->draining)
		io_kick(&c->io);
}

static int on_client_stream_close(nghttp2_session *s, int32_t id, uint32_t code, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);
	struct inspect_conn *c = ctx;

	(void)code;
	c->h2->streams--;
	c->h2->since = c->in->eg->now;
	if (!e)
		return 0;
	h2_log_given_up(e);
	c->h2->draining -= h2_stream_of(e)->responded != 0;
	/* Bytes that will not be consumed must not hold the connection's window. */
	if (http_pipe_len(&e->up) > h2_stream_of(e)->credited)
		nghttp2_session_consume_connection(s, http_pipe_len(&e->up) - h2_stream_of(e)->credited);
	nghttp2_session_set_stream_user_data(s, id, NULL);
	h2_stream_free(e);
	exch_front_gone(e);
	return 0;
}

static const struct h2_side h2_server_side = {
	.on_begin_frame = on_client_frame_begin,
	.on_begin = on_request_begin,
	.on_header = on_request_field,
	.on_frame = on_client_frame,
	.on_wrong = on_client_frame_wrong,
	.on_data = on_request_data,
	.on_sent = on_response_sent,
	.on_close = on_client_stream_close,
	.is_server = true,
};

int h2_server_open(struct inspect_conn *c)
{
	struct h2_server *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->since = h->moved = c->in->eg->now;
	h->s = h2_session_new(&h2_server_side, c, false);
	c->h2 = h;
	c->io.want_in = true;
	return h->s ? 0 : -ENOMEM;
}

void h2_server_close(struct inspect_conn *c)
{
	struct h2_server *h = c->h2;
	struct exch *next;

	if (!h)
		return;
	if (h->broken)
		h2_log_all_given_up(c);
	for (struct exch *e = c->in->exchs; e; e = next) {
		next = e->all_next;
		if (e->conn == c) {
			h2_stream_free(e);
			exch_front_gone(e);
		}
	}
	nghttp2_session_del(h->s);
	c->h2 = NULL;
	free(h);
}

static void h2_linger(struct inspect_conn *c)
{
	struct h2_server *h = c->h2;
	uint8_t raw[16384];
	size_t n;

	while (h->lingered < LINGER_BYTES && (n = io_read(&c->io, raw, sizeof(raw))) > 0)
		h->lingered += n;
	if (c->io.eof || c->io.error || h->lingered >= LINGER_BYTES)
		inspect_conn_end(c, "error");
	else
		io_arm(&c->io);
}

/* The session has ended, or cannot continue. */
static void h2_finish(struct inspect_conn *c)
{
	struct h2_server *h = c->h2;

	io_finish(&c->io);
	if (!h->broken || h->leaving || io_backlog(&c->io)) {
		inspect_conn_end(c, h->broken ? "error" : "server");
		return;
	}
	h2_log_all_given_up(c);
	h->over = h->leaving = c->io.want_in = true;
	h2_linger(c);
}

void h2_server_run(struct inspect_conn *c)
{
	struct h2_server *h = c->h2;
	int r;

	if (h->over) {
		h2_linger(c);
		return;
	}
	r = io_backlog(&c->io) < IO_BACKLOG_MAX ? h2_feed(&c->io, h->s, &h->calm) : 0;
	if (h->calm.block > H2_BLOCK_MAX)
		h2_server_flooded(c);
	else if (r < 0 && !c->io.error)
		nghttp2_session_terminate_session(h->s, h->long_head ? NGHTTP2_ENHANCE_YOUR_CALM
								     : NGHTTP2_PROTOCOL_ERROR);
	h->broken = h->broken || (r < 0 && !c->io.error);
	/* Even then our last frames are sent to the peer. */
	(void)!h2_drain(&c->io, h->s);
	if (c->io.error) {
		inspect_conn_end(c, c->io.error == -ECONNRESET ? "reset" : "error");
		return;
	}
	if (c->io.eof) {
		inspect_conn_end(c, "client");
		return;
	}
	if (r < 0 ||
	    (!nghttp2_session_want_read(h->s) && !nghttp2_session_want_write(h->s) && !io_backlog(&c->io))) {
		h2_finish(c);
		return;
	}
	c->io.want_in = io_backlog(&c->io) < IO_BACKLOG_MAX;
	io_arm(&c->io);
}

void h2_server_tick(struct inspect_conn *c, uint64_t now)
{
	struct h2_server *h = c->h2;
	uint64_t quiet = (now - (h->since > c->active ? h->since : c->active)) / 1000000000;

	h2_end_drains(c, now);
	if (h->streams == 0 && quiet > c->in->times.keep) {
		nghttp2_session_terminate_session(h->s, NGHTTP2_NO_ERROR);
		io_kick(&c->io);
	}
	if (io_backlog(&c->io) == 0 || c->io.tx != h->tx) {
		h->tx = c->io.tx;
		h->moved = now;
	}
	if ((h->streams == 0 && quiet > c->in->times.keep + 10) || (h->leaving && quiet > 5) ||
	    (now - h->moved) / 1000000000 > c->in->times.stall)
		inspect_conn_end(c, "timeout");
}
