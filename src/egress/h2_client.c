/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 with a server, over nghttp2: many exchanges on one connection.
 *
 * Invariants
 *  W1  A server's push is off; its settings, window and reset games are bounded as a client's are (h2_util.h).
 *  W2  A stream's window is opened again as the client takes its bytes: no answer is gathered here.
 *  W3  After GOAWAY no exchange is begun; those that the server says it has not seen go elsewhere.
 */
#include "egress/h2_util.h"
#include "egress/http_head.h"
#include "egress/http_pool.h"

#include <stdio.h>

#define INTERIM_MAX 32

struct h2_client {
	nghttp2_session *s;
	struct h2_calm calm;
	unsigned streams;
	bool leaving; /* W3 */
	bool failing;
};

static void back_wake(struct exch *e)
{
	nghttp2_session_resume_data(e->up_conn->h2->s, e->back_stream);
	io_kick(&e->up_conn->io);
}

static void back_took(struct exch *e, size_t n)
{
	nghttp2_session_consume(e->up_conn->h2->s, e->back_stream, n);
	io_kick(&e->up_conn->io);
}

static void detach(struct exch *e)
{
	struct upstream *u = e->up_conn;

	nghttp2_session_set_stream_user_data(u->h2->s, e->back_stream, NULL);
	/* Bytes that nobody will take any more do not hold the connection's window. */
	if (http_pipe_len(&e->down))
		nghttp2_session_consume_connection(u->h2->s, http_pipe_len(&e->down));
	u->since = u->in->eg->now;
}

static void back_drop(struct exch *e)
{
	struct upstream *u = e->up_conn;

	detach(e);
	nghttp2_submit_rst_stream(u->h2->s, 0, e->back_stream, NGHTTP2_CANCEL);
	io_kick(&u->io);
	e->up_conn = NULL;
	e->back = NULL;
}

static const struct exch_back h2_back = { .wake = back_wake, .took = back_took, .drop = back_drop };

static ssize_t read_up(nghttp2_session *s, int32_t id, uint8_t *out, size_t len, uint32_t *flags,
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

static void authority(const struct inspect_conn *c, char *out, size_t size)
{
	bool v6 = c->host.kind == HOST_ADDR && strchr(c->host.text, ':');

	snprintf(out, size, "%s%s%s", v6 ? "[" : "", c->host.text, v6 ? "]" : "");
	if (c->port != (c->tls ? 443 : 80))
		snprintf(out + strlen(out), size - strlen(out), ":%u", c->port);
}

static int submit(struct upstream *u, struct exch *e)
{
	const struct http_req *q = &e->req;
	nghttp2_data_provider body = { .source = { .ptr = e }, .read_callback = read_up };
	struct h2_nva a = { 0 };
	char auth[HOST_MAX + 16], length[24];
	int r;

	authority(e->conn, auth, sizeof(auth));
	h2_nva_add(&a, ":method", q->method, strlen(q->method));
	h2_nva_add(&a, ":scheme", u->key.tls ? "https" : "http", u->key.tls ? 5 : 4);
	h2_nva_add(&a, ":authority", auth, strlen(auth));
	h2_nva_add(&a, ":path", q->target.data, q->target.len);
	r = h2_nva_fields(&a, &q->fields);
	if (q->has_length) {
		snprintf(length, sizeof(length), "%llu", (unsigned long long)q->length);
		h2_nva_add(&a, "content-length", length, strlen(length));
	}
	if (q->te_trailers)
		h2_nva_add(&a, "te", "trailers", 8);
	if (q->expect && !e->continued)
		h2_nva_add(&a, "expect", "100-continue", 12);
	if (r == 0)
		r = nghttp2_submit_request(u->h2->s, NULL, a.v, a.n, q->has_body ? &body : NULL, e);
	h2_nva_release(&a);
	return r;
}

void h2_client_start(struct upstream *u, struct exch *e)
{
	int r = submit(u, e);

	if (r < 0) {
		u->h2->leaving = true;
		exch_back_failed(e, true, "HTTP/2: the request could not be begun");
		return;
	}
	e->back_stream = r;
	e->up_conn = u;
	e->back = &h2_back;
	e->state = EXCH_LIVE;
	u->h2->streams++;
	u->used = true;
	io_kick(&u->io);
	e->front->took(e, 0);
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

/* A new head: interim ones are forgotten, behind the final one they are trailers. */
static int on_begin(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);

	(void)ctx;
	if (!e || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (e->head_sent) {
		if (!e->trailers)
			e->trailers = calloc(1, sizeof(*e->trailers));
		return e->trailers ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	http_fields_clear(&e->resp.fields);
	e->resp.has_length = false;
	e->resp.length = 0;
	return 0;
}

static int take_length(struct http_resp *r, struct slice v)
{
	uint64_t n = 0;

	if (v.len == 0 || v.len > 16)
		return -EBADMSG;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return -EBADMSG;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	r->has_length = true;
	r->length = n;
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's to say what it gives */
static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	struct slice n = { (const char *)name, name_len }, v = { (const char *)value, value_len };
	int r;

	(void)flags, (void)ctx;
	if (!e || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (slice_eq(n, ":status")) {
		/* nghttp2 has seen to its being three digits. */
		e->resp.status = (unsigned)((v.p[0] - '0') * 100 + (v.p[1] - '0') * 10 + (v.p[2] - '0'));
		return 0;
	}
	if (!http1_is_token(n) || !http1_is_value(v))
		r = -EBADMSG;
	else if (e->head_sent)
		r = http_head_resp_field(e->trailers, n, v);
	else if (slice_eq(n, "content-length"))
		r = take_length(&e->resp, v);
	else
		r = http_head_resp_field(&e->resp.fields, n, v);
	return r < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static bool has_no_body(const struct exch *e)
{
	unsigned s = e->resp.status;

	return strcmp(e->req.method, "HEAD") == 0 || s == 204 || s == 304;
}

static void take_head(struct exch *e, bool end)
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
		e->resp.no_body = has_no_body(e);
		if (end && !e->resp.no_body && !e->resp.has_length)
			e->resp.has_length = true; /* of 0 */
	}
	exch_head(e);
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *ctx)
{
	struct upstream *u = ctx;
	bool end = (f->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	struct exch *e;

	if (!h2_calm_take(&u->h2->calm, f, u->in->eg->now) && !u->h2->leaving) {
		u->h2->leaving = true;
		nghttp2_session_terminate_session(s, NGHTTP2_ENHANCE_YOUR_CALM);
		return 0;
	}
	if (f->hd.type == NGHTTP2_GOAWAY)
		u->h2->leaving = true;
	if (f->hd.type == NGHTTP2_SETTINGS)
		http_pool_serve(u->in);
	if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA)
		return 0;
	e = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
	if (!e)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && !e->head_sent)
		take_head(e, end);
	if (end && e->head_sent)
		exch_end_down(e);
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);

	(void)flags, (void)ctx;
	if (!e) {
		nghttp2_session_consume(s, id, len);
		return 0;
	}
	return exch_put_down(e, data, len) < 0 ? NGHTTP2_ERR_NOMEM : 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *ctx)
{
	struct exch *e = nghttp2_session_get_stream_user_data(s, id);
	struct upstream *u = ctx;
	char why[96];

	u->h2->streams--;
	http_pool_serve(u->in);
	if (!e)
		return 0;
	detach(e);
	if (e->down.eof) {
		exch_back_gone(e);
		return 0;
	}
	snprintf(why, sizeof(why), "the server ended the stream: %s", nghttp2_http2_strerror(code));
	exch_back_failed(e, code == NGHTTP2_REFUSED_STREAM, why);
	return 0;
}

static nghttp2_session *new_session(struct upstream *u)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_session *s = NULL;
	nghttp2_option *o = NULL;

	if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&o) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
		nghttp2_option_set_no_auto_window_update(o, 1);
		nghttp2_option_set_no_closed_streams(o, 1);
		nghttp2_option_set_peer_max_concurrent_streams(o, H2_STREAMS_MAX);
		if (nghttp2_session_client_new2(&s, cb, u, o) != 0)
			s = NULL;
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(o);
	return s;
}

int h2_client_open(struct upstream *u)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_FIELDS_BYTES },
	};
	struct h2_client *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	u->h2 = h;
	h->s = new_session(u);
	if (!h->s || nghttp2_submit_settings(h->s, 0, settings, ARRAY_SIZE(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(h->s, 0, 0, H2_CONN_WINDOW) != 0)
		return -ENOMEM;
	return 0;
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
		nghttp2_session_set_stream_user_data(u->h2->s, e->back_stream, NULL);
		if (e->down.eof)
			exch_back_gone(e);
		else
			exch_back_failed(e, again, why);
	}
}

void h2_client_run(struct upstream *u)
{
	struct h2_client *h = u->h2;
	int r = h2_feed(&u->io, h->s);

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
