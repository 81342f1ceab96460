/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/h2_util.h"

#include <stdio.h>

#define DRAIN_MAX 8
#define FEED_MAX (256u << 10) /* at once; the other connections have their turn then */

/* nghttp2 takes what it only reads by a pointer that could write. */
static uint8_t *bytes(const char *p)
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
		a->v[a->n++] = (nghttp2_nv){
			.name = bytes(name), .namelen = strlen(name), .value = bytes(value), .valuelen = len
		};
}

/* A credential is never put into a table from which a later request could learn it by its size. */
static bool is_sensitive(struct slice name)
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
		a->v[a->n++] = (nghttp2_nv){ .name = (uint8_t *)p,
					     .namelen = name.len,
					     .value = bytes(value.p),
					     .valuelen = value.len,
					     .flags = is_sensitive(name) ? NGHTTP2_NV_FLAG_NO_INDEX : 0 };
	}
	return 0;
}

void h2_nva_release(struct h2_nva *a)
{
	buf_release(&a->text);
}

static unsigned cost_of(const nghttp2_frame *f)
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

bool h2_calm_take(struct h2_calm *c, const nghttp2_frame *f, uint64_t now)
{
	unsigned cost = cost_of(f);
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

int h2_feed(struct io *io, nghttp2_session *s)
{
	uint8_t raw[16384];
	size_t total = 0, n;

	while (total < FEED_MAX && (n = io_read(io, raw, sizeof(raw))) > 0) {
		ssize_t r = nghttp2_session_mem_recv(s, raw, n);

		total += n;
		if (r < 0) {
			snprintf(io->why, sizeof(io->why), "HTTP/2: %s", nghttp2_strerror((int)r));
			return -EBADMSG;
		}
	}
	return io->error;
}

static int gather(struct io *io, nghttp2_session *s)
{
	while (io_backlog(io) < IO_BACKLOG_MAX) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(s, &data);

		if (n < 0)
			return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EBADMSG;
		if (n == 0)
			break;
		buf_add(&io->out, data, (size_t)n);
	}
	return buf_error(&io->out);
}

int h2_drain(struct io *io, nghttp2_session *s)
{
	for (int rounds = 0; rounds < DRAIN_MAX; rounds++) {
		int r = gather(io, s);

		if (r < 0)
			io->error = r;
		if (r < 0 || io_backlog(io) == 0)
			return r;
		if (io_flush(io) < 0 || io_backlog(io))
			return io->error;
	}
	/* It takes all that we have: the others have their turn first. */
	io_kick(io);
	return 0;
}
