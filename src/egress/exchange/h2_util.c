/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of nghttp2 over struct io. Allocations of a session that carries secrets are zeroed when freed;
 * the frame budget protects against floods by either peer. A credential must not get into a compression
 * table.
 */
#include "egress/exchange/h2_util.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define DRAIN_MAX 8
#define FEED_MAX (256u << 10) /* per call; then other connections get their turn */

/* nghttp2 takes read-only data by a non-const pointer. */
static uint8_t *unconst_bytes(const char *p)
{
	union {
		const char *in;
		uint8_t *out;
	} u = { .in = p };

	return u.out;
}

void h2_nva_add(struct h2_nva *a, const char *name, const char *value, size_t len)
{
	if (a->n < H2_NV_MAX)
		a->v[a->n++] = (nghttp2_nv){ .name = unconst_bytes(name),
					     .namelen = strlen(name),
					     .value = unconst_bytes(value),
					     .valuelen = len };
}

/* A credential is never put into a compression table, where a later request could learn it from sizes. */
static bool is_credential_field(struct slice name)
{
	return slice_eq_nocase(name, "authorization") || slice_eq_nocase(name, "x-api-key") ||
	       (slice_eq_nocase(name, "cookie")) || slice_eq_nocase(name, "proxy-authorization");
}

int h2_nva_fields(struct h2_nva *a, const struct http_fields *f)
{
	size_t total = 0;

	for (unsigned i = 0; i < f->n; i++)
		total += http_fields_name(f, i).len;
	if (!buf_reserve(&a->text, total + 1))
		return -ENOMEM;
	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);
		char *p = a->text.data + a->text.len;

		if (a->n >= H2_NV_MAX)
			return -E2BIG;
		for (size_t k = 0; k < name.len; k++)
			p[k] = (char)(name.p[k] >= 'A' && name.p[k] <= 'Z' ? name.p[k] + 32 : name.p[k]);
		a->text.len += name.len;
		a->v[a->n++] =
			(nghttp2_nv){ .name = (uint8_t *)p,
				      .namelen = name.len,
				      .value = unconst_bytes(value.p),
				      .valuelen = value.len,
				      .flags = is_credential_field(name) ? NGHTTP2_NV_FLAG_NO_INDEX : 0 };
	}
	return 0;
}

void h2_nva_hide(struct h2_nva *a)
{
	for (size_t i = 0; i < a->n; i++)
		a->v[i].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
}

void h2_nva_release(struct h2_nva *a)
{
	buf_release(&a->text);
}

static void *zeroing_alloc(size_t size, void *ctx)
{
	(void)ctx;
	return malloc(size);
}

static void zeroing_free(void *p, void *ctx)
{
	(void)ctx;
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *zeroing_calloc(size_t n, size_t size, void *ctx)
{
	(void)ctx;
	return calloc(n, size);
}

static void *zeroing_realloc(void *p, size_t size, void *ctx)
{
	size_t old = p ? malloc_usable_size(p) : 0;
	void *q;

	if (old >= size && old)
		return p;
	q = malloc(size ? size : 1);
	if (q && p) {
		memcpy(q, p, old);
		zeroing_free(p, ctx);
	}
	return q;
}

/* For a session that carries secrets: zeroes memory when it is freed. */
static nghttp2_mem wiping_mem = { NULL, zeroing_alloc, zeroing_free, zeroing_calloc, zeroing_realloc };

int h2_length(struct slice v, uint64_t *ret)
{
	uint64_t n = 0;

	if (v.len == 0 || v.len > 16)
		return -EBADMSG;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return -EBADMSG;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	*ret = n;
	return 0;
}

static nghttp2_session *new_session(const nghttp2_session_callbacks *cb, const nghttp2_option *o,
				    bool is_server, void *ctx, bool wipe)
{
	nghttp2_mem *mem = wipe ? &wiping_mem : NULL;
	nghttp2_session *s = NULL;
	int r = is_server ? nghttp2_session_server_new3(&s, cb, ctx, o, mem)
			  : nghttp2_session_client_new3(&s, cb, ctx, o, mem);

	return r == 0 ? s : NULL;
}

/* Server push is off; only the server limits the number of streams. */
static int submit_h2_settings(nghttp2_session *s, bool is_server, bool wipe)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_FIELDS_BYTES },
		is_server
			? (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX }
			: (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0 },
	};
	/* A table would keep what a server sends about a secret for the life of the connection. */
	int r = nghttp2_submit_settings(s, 0, settings, ARRAY_SIZE(settings) - !wipe);

	return r ? r : nghttp2_session_set_local_window_size(s, 0, 0, H2_CONN_WINDOW);
}

nghttp2_session *h2_session_new(const struct h2_side *side, void *ctx, bool wipe)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_session *s = NULL;
	nghttp2_option *o = NULL;

	if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&o) == 0) {
		nghttp2_session_callbacks_set_on_begin_frame_callback(cb, side->on_begin_frame);
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, side->on_begin);
		nghttp2_session_callbacks_set_on_header_callback(cb, side->on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, side->on_frame);
		nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, side->on_wrong);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, side->on_data);
		nghttp2_session_callbacks_set_on_frame_send_callback(cb, side->on_sent);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, side->on_close);
		nghttp2_option_set_no_auto_window_update(o, 1);
		nghttp2_option_set_no_closed_streams(o, 1);
		nghttp2_option_set_peer_max_concurrent_streams(o, H2_STREAMS_MAX);
		s = new_session(cb, o, side->is_server, ctx, wipe);
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(o);
	if (s && submit_h2_settings(s, side->is_server, wipe) != 0) {
		nghttp2_session_del(s);
		s = NULL;
	}
	return s;
}

static unsigned frame_cost(const nghttp2_frame *f)
{
	switch (f->hd.type) {
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_PING:
		return 2;
	case NGHTTP2_SETTINGS:
		return f->hd.flags & NGHTTP2_FLAG_ACK ? 0 : 5;
	case NGHTTP2_PRIORITY:
		return 1;
	case NGHTTP2_DATA:
		return f->hd.length == 0 && !(f->hd.flags & NGHTTP2_FLAG_END_STREAM) ? 5 : 0;
	case NGHTTP2_WINDOW_UPDATE:
		/* Honest peers open windows by kilobytes. */
		return f->window_update.window_size_increment < 128 ? 1 : 0;
	default:
		return 0;
	}
}

static bool calm_pay(struct h2_calm *c, unsigned cost, uint64_t now)
{
	uint64_t fresh = c->at ? (now - c->at) / (1000000000 / H2_CALM_PER_SECOND) : H2_CALM_BURST;

	if (cost == 0)
		return true;
	if (fresh) {
		c->tokens = fresh + c->tokens > H2_CALM_BURST ? H2_CALM_BURST : c->tokens + (unsigned)fresh;
		c->at = now;
	}
	if (c->tokens < cost)
		return false;
	c->tokens -= cost;
	return true;
}

bool h2_calm_take(struct h2_calm *c, const nghttp2_frame *f, uint64_t now)
{
	return calm_pay(c, frame_cost(f), now);
}

void h2_calm_begin(struct h2_calm *c, const nghttp2_frame_hd *hd)
{
	if (hd->type != NGHTTP2_CONTINUATION)
		c->block = 0;
}

bool h2_calm_wrong(struct h2_calm *c, uint64_t now)
{
	return calm_pay(c, 5, now);
}

int h2_feed(struct io *io, nghttp2_session *s, struct h2_calm *c)
{
	uint8_t raw[16384];
	size_t total = 0, n;

	while (total < FEED_MAX && (n = io_read(io, raw, sizeof(raw))) > 0) {
		ssize_t r = nghttp2_session_mem_recv(s, raw, n);

		total += n;
		if (r < 0) {
			snprintf(io->why, sizeof(io->why), "HTTP/2: %s", nghttp2_strerror((int)r));
			if (io->wipe)
				explicit_bzero(raw, sizeof(raw));
			return -EBADMSG;
		}
		c->block += n;
		if (c->block > H2_BLOCK_MAX) {
			snprintf(io->why, sizeof(io->why),
				 "HTTP/2: an endless head, or frames of unknown type");
			if (io->wipe)
				explicit_bzero(raw, sizeof(raw));
			return -EBADMSG;
		}
	}
	if (io->wipe && total)
		explicit_bzero(raw, sizeof(raw));
	return io->error;
}

static int gather_frames(struct io *io, nghttp2_session *s)
{
	while (io_backlog(io) < IO_BACKLOG_MAX) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(s, &data);

		if (n < 0)
			return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EBADMSG;
		if (n == 0)
			break;
		buf_add(&io->out, data, (size_t)n);
		/* Zero the session's own buffer after use; but its greeting is a constant. */
		if (io->wipe &&
		    !(n == NGHTTP2_CLIENT_MAGIC_LEN && memcmp(data, NGHTTP2_CLIENT_MAGIC, (size_t)n) == 0))
			explicit_bzero(unconst_bytes((const char *)data), (size_t)n);
	}
	return buf_error(&io->out);
}

int h2_drain(struct io *io, nghttp2_session *s)
{
	for (int rounds = 0; rounds < DRAIN_MAX; rounds++) {
		int r = gather_frames(io, s);

		if (r < 0)
			io->error = r;
		if (r < 0 || io_backlog(io) == 0)
			return r;
		if (io_flush(io) < 0 || io_backlog(io))
			return io->error;
	}
	/* It accepts everything we have: other connections get their turn first. */
	io_kick(io);
	return 0;
}
