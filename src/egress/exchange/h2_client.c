/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 with a server (a back), over nghttp2: many exchanges on one connection.
 *
 * Invariants
 *  W1  Server push is off; floods of settings, windows and resets are bounded as a client's are (h2_util.h).
 *  W2  A stream's window is reopened as the client consumes its bytes: no response is gathered here.
 *  W3  After GOAWAY no exchange is started; those that the server has not seen are retried elsewhere.
 */
#include "egress/exchange/h2_util.h"
#include "egress/exchange/http_ask.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/upstream.h"

#include <stdio.h>

#define INTERIM_MAX 32

struct h2_client {
	nghttp2_session *s;
	struct h2_calm calm;
	unsigned streams;
	bool leaving; /* h2_client.W3 */
	bool failing;
};

static void h2_back_wake(struct exch *e)
{
	nghttp2_session_resume_data(e->up_conn->h2->s, e->back_stream);
	io_kick(&e->up_conn->io);
}

static void h2_back_took(struct exch *e, size_t n)
{
	nghttp2_session_consume(e->up_conn->h2->s, e->back_stream, n);
	io_kick(&e->up_conn->io);
}

static void h2_detach(struct exch *e)
{
	struct upstream *u = e->up_conn;
	size_t left = http_pipe_len(&e->down) + secret_held(e);

	nghttp2_session_set_stream_user_data(u->h2->s, e->back_stream, NULL);
	/* Bytes that will not be consumed must not hold the connection's window. */
	if (left)
		nghttp2_session_consume_connection(u->h2->s, left);
	u->since = u->in->eg->now;
}

/* It has no stream yet, only a reserved place. */
static void h2_leave_unsent(struct upstream *u)
{
	u->h2->streams--;
	u->since = u->in->eg->now;
	upstream_serve(u->in);
}

static void h2_back_drop(struct exch *e)
{
	struct upstream *u = e->up_conn;

	if (e->back_stream) {
		h2_detach(e);
		nghttp2_submit_rst_stream(u->h2->s, 0, e->back_stream, NGHTTP2_CANCEL);
	} else {
		h2_leave_unsent(u);
	}
	io_kick(&u->io);
	e->up_conn = NULL;
	e->back = NULL;
}

static void h2_back_begin(struct exch *e);

static const struct exch_back h2_back = {
	.begin = h2_back_begin, .wake = h2_back_wake, .took = h2_back_took, .drop = h2_back_drop
};

static ssize_t h2_read_up(nghttp2_session *s, int32_t id, uint8_t *out, size_t len, uint32_t *flags,
			  nghttp2_data_source *src, void *ctx)
{
	struct exch *e = src->ptr;
	struct slice data = http_pipe_peek(&e->up);
	long n = 0;

	(void)s, (void)id, (void)ctx;
	if (data.len) {
		n = http_grant_up(e, data.len < len ? data.len : len);
		if (n < 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		if (n == 0)
			return NGHTTP2_ERR_DEFERRED;
		memcpy(out, data.p, (size_t)n);
		http_pipe_take(&e->up, (size_t)n);
		exch_took_up(e, (size_t)n);
	} else if (!e->up.eof) {
		return NGHTTP2_ERR_DEFERRED;
	}
	if (http_pipe_done(&e->up))
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return n;
}

static int h2_submit_request(struct upstream *u, struct exch *e)
{
	const struct http_req *q = &e->req;
	nghttp2_data_provider body = { .source = { .ptr = e }, .read_callback = h2_read_up };
	const struct buf *target = secret_target(e);
	struct h2_nva a = { 0 };
	char auth[HTTP_HOST_MAX], length[24];
	int r;

	http_head_host(e->conn, auth);
	h2_nva_add(&a, ":method", q->method, strlen(q->method));
	h2_nva_add(&a, ":scheme", u->key.tls ? "https" : "http", u->key.tls ? 5 : 4);
	h2_nva_add(&a, ":authority", auth, strlen(auth));
	h2_nva_add(&a, ":path", target->data, target->len);
	r = h2_nva_fields(&a, secret_fields(e));
	if (q->has_length) {
		snprintf(length, sizeof(length), "%llu", (unsigned long long)secret_length(e));
		h2_nva_add(&a, "content-length", length, strlen(length));
	}
	if (q->te_trailers)
		h2_nva_add(&a, "te", "trailers", 8);
	if (q->expect && !e->continued)
		h2_nva_add(&a, "expect", "100-continue", 12);
	if (secret_is_planned(e))
		h2_nva_hide(&a);
	if (r == 0)
		r = nghttp2_submit_request(u->h2->s, NULL, a.v, a.n, q->has_body ? &body : NULL, e);
	h2_nva_release(&a);
	return r;
}

static void h2_back_begin(struct exch *e)
{
	struct upstream *u = e->up_conn;
	/* While the secret was fetched the server may have announced that it accepts no more. */
	int r = nghttp2_session_check_request_allowed(u->h2->s) ? h2_submit_request(u, e)
								: NGHTTP2_ERR_INVALID_STATE;

	if (r < 0) {
		u->h2->streams--;
		u->h2->leaving = true;
		io_kick(&u->io);
		exch_back_failed(e, true, "HTTP/2: the request could not be begun");
		return;
	}
	e->back_stream = r;
	e->state = EXCH_LIVE;
	exch_ask_sent(e);
	u->used = true;
	io_kick(&u->io);
	e->front->took(e, 0);
}

void h2_client_start(struct upstream *u, struct exch *e)
{
	e->back_stream = 0;
	e->up_conn = u;
	e->back = &h2_back;
	u->h2->streams++;
	if (secret_is_planned(e))
		secret_fetch(e);
	else
		h2_back_begin(e);
}

bool h2_client_has_room(const struct upstream *u)
{
	const struct h2_client *h = u->h2;
	uint32_t max = nghttp2_session_get_remote_settings(h->s, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return !h->leaving && h->streams < (max < H2_STREAMS_MAX ? max : H2_STREAMS_MAX) && !u->one_request &&
	       nghttp2_session_check_request_allowed(h->s);
}

bool h2_client_is_idle(const struct upstream *u)
{
	return u->h2->streams == 0;
}

/* h2_client.W1: too many frames without purpose. */
static void h2_client_flooded(struct upstream *u)
{
	u->h2->leaving = true;
	nghttp2_session_terminate_session(u->h2->s, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_server_frame_begin(nghttp2_session *s, const nghttp2_frame_hd *hd, void *ctx)
{
	struct upstream *u = ctx;

	(void)s;
	h2_calm_begin(&u->h2->calm, hd);
	return 0;
}

static int on_server_frame_wrong(nghttp2_session *s, const nghttp2_frame *f, int error, void *ctx)
{
	struct upstream *u = ctx;

	(void)s, (void)f, (void)error;
	if (!h2_calm_wrong(&u->h2->calm, u->in->eg->now))
		h2_client_flooded(u);
	return 0;
}

/* A new head: replaces interim ones; after the final one it carries trailers. */
static int on_response_begin(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);

	(void)ctx;
	if (!e || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (e->head_came) {
		if (!e->trailers)
			e->trailers = calloc(1, sizeof(*e->trailers));
		if (e->trailers)
			e->trailers->text.wipe = secret_is_planned(e);
		return e->trailers ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	http_fields_clear(&e->resp.fields);
	e->resp.has_length = false;
	e->resp.length = 0;
	return 0;
}

static int h2_take_response_length(struct http_resp *r, struct slice v)
{
	r->has_length = true;
	return h2_length(v, &r->length);
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's to say what it gives */
static int on_response_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
			     const uint8_t *value, size_t value_len, uint8_t flags, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	struct slice n = { (const char *)name, name_len }, v = { (const char *)value, value_len };
	int r;

	(void)flags, (void)ctx;
	if (!e || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (slice_eq(n, ":status")) {
		/* nghttp2 has checked that it has three digits. */
		e->resp.status = (unsigned)((v.p[0] - '0') * 100 + (v.p[1] - '0') * 10 + (v.p[2] - '0'));
		return 0;
	}
	if (!http1_is_token(n) || !http1_is_value(v))
		r = -EBADMSG;
	else if (e->head_came)
		r = http_head_resp_field(e->trailers, n, v);
	else if (slice_eq(n, "content-length"))
		r = h2_take_response_length(&e->resp, v);
	else
		r = http_head_resp_field(&e->resp.fields, n, v);
	return r < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static bool response_has_no_body(const struct exch *e)
{
	unsigned s = e->resp.status;

	return strcmp(e->req.method, "HEAD") == 0 || s == 204 || s == 304;
}

static void h2_take_response_head(struct exch *e, bool end)
{
	if (e->resp.status == 101) {
		nghttp2_submit_rst_stream(e->up_conn->h2->s, 0, e->back_stream, NGHTTP2_PROTOCOL_ERROR);
		return;
	}
	if (e->resp.status < 200 && ++e->interim > INTERIM_MAX) {
		nghttp2_submit_rst_stream(e->up_conn->h2->s, 0, e->back_stream, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	if (e->resp.status >= 200) {
		e->resp.no_body = response_has_no_body(e);
		if (end && !e->resp.no_body && !e->resp.has_length)
			e->resp.has_length = true; /* of 0 */
	}
	if (!exch_head(e))
		nghttp2_submit_rst_stream(e->up_conn->h2->s, 0, e->back_stream, NGHTTP2_CANCEL);
}

static int on_server_frame(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct upstream *u = ctx;
	bool end = (f->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	struct exch *e;

	if (!h2_calm_take(&u->h2->calm, f, u->in->eg->now)) {
		h2_client_flooded(u);
		return 0;
	}
	if (f->hd.type == NGHTTP2_GOAWAY)
		u->h2->leaving = true;
	if (f->hd.type == NGHTTP2_SETTINGS)
		upstream_serve(u->in);
	if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA)
		return 0;
	e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	if (!e)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && !e->head_came)
		h2_take_response_head(e, end);
	if (end && e->head_came)
		exch_end_down(e);
	return 0;
}

static int on_response_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
			    void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);

	(void)flags, (void)ctx;
	if (!e) {
		nghttp2_session_consume(s, id, len);
		return 0;
	}
	if (exch_put_down(e, data, len) == 0)
		return 0;
	if (!e->over)
		return NGHTTP2_ERR_NOMEM;
	/* Ends this stream, not the connection. */
	nghttp2_session_consume(s, id, len);
	nghttp2_submit_rst_stream(s, 0, id, NGHTTP2_CANCEL);
	return 0;
}

static int on_server_stream_close(nghttp2_session *s, int32_t id, uint32_t code, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);
	struct upstream *u = ctx;
	char why[96];

	u->h2->streams--;
	upstream_serve(u->in);
	if (!e)
		return 0;
	h2_detach(e);
	if (e->whole) {
		exch_back_gone(e);
		return 0;
	}
	snprintf(why, sizeof(why), "the server ended the stream: %s", nghttp2_http2_strerror(code));
	exch_back_failed(e, code == NGHTTP2_REFUSED_STREAM, why);
	return 0;
}

static const struct h2_side h2_client_side = {
	.on_begin_frame = on_server_frame_begin,
	.on_begin = on_response_begin,
	.on_header = on_response_field,
	.on_frame = on_server_frame,
	.on_wrong = on_server_frame_wrong,
	.on_data = on_response_data,
	.on_close = on_server_stream_close,
};

int h2_client_open(struct upstream *u)
{
	struct h2_client *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	u->h2 = h;
	h->s = h2_session_new(&h2_client_side, u, u->io.wipe);
	return h->s ? 0 : -ENOMEM;
}

void h2_client_close(struct upstream *u)
{
	struct h2_client *h = u->h2;

	if (!h)
		return;
	nghttp2_session_del(h->s);
	u->h2 = NULL;
	free(h);
}

void h2_client_fail_all(struct upstream *u, bool again, const char *why)
{
	struct exch *next;

	u->h2->leaving = true;
	for (struct exch *e = u->in->exchs; e; e = next) {
		next = e->all_next;
		if (e->up_conn != u || e->back != &h2_back)
			continue;
		if (e->back_stream)
			nghttp2_session_set_stream_user_data(u->h2->s, e->back_stream, NULL);
		if (e->whole)
			exch_back_gone(e);
		else
			exch_back_failed(e, again || !e->back_stream, why);
	}
}

void h2_client_run(struct upstream *u)
{
	struct h2_client *h = u->h2;
	int r = h2_feed(&u->io, h->s, &h->calm);

	(void)!h2_drain(&u->io, h->s);
	if (r < 0 || u->io.error) {
		upstream_fail(u, false, u->io.why[0] ? u->io.why : "the connection broke");
		return;
	}
	if (u->io.eof || (!nghttp2_session_want_read(h->s) && !nghttp2_session_want_write(h->s)) ||
	    (h->leaving && h->streams == 0 && !io_backlog(&u->io))) {
		upstream_fail(u, false, "the server ended the connection");
		return;
	}
	u->io.want_in = true;
	io_arm(&u->io);
}
