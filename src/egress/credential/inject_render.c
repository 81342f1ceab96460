/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders the request with the secrets in place: a copy (inject.J2), in which no secret can change the form
 * of its surroundings (inject.J3), and which demands a response that can be searched. Buffers that hold a
 * secret are zeroed.
 */
#include "codec/http/http1.h"
#include "egress/credential/inject.h"
#include "egress/credential/inject_int.h"
#include "vault/common/forms.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

enum value_form { AS_IS, HEADER, PERCENT, JSON };

struct inject_writer {
	const struct vault_grants *g;
	const struct inject_dest *d;
	struct slice path;
	const struct inject_plan *plan;
	const struct slice *value;
	bool in_body;
};

/* inject.J1: a secret bound to the head may not be rendered in the body. */
static const struct slice *planned_value(const struct inject_writer *w, const struct vault_grant *g)
{
	if (w->in_body && !grants_binding(g, w->d->host, w->d->port, w->path, BINDING_AS_BODY, NULL))
		return NULL;
	for (unsigned i = 0; i < w->plan->n; i++) {
		if (w->plan->grant[i] == (unsigned)(g - w->g->v))
			return &w->value[i];
	}
	return NULL;
}

/* inject.J3: encodes the value for its place, or refuses it. */
static int add_secret_value(struct buf *out, struct slice v, enum value_form value_form)
{
	size_t room = value_form == PERCENT ? 3 * v.len : value_form == JSON ? 6 * v.len : v.len;
	char *p;
	long n;

	if (value_form == HEADER && !http1_is_value(v))
		return -EINVAL;
	p = buf_reserve(out, room + 1);
	if (!p)
		return -ENOMEM;
	if (value_form == PERCENT || value_form == JSON) {
		n = forms_render(value_form == JSON ? FORM_JSON : FORM_PERCENT, v.p, v.len, p, room + 1);
		if (n <= 0)
			return -EINVAL;
		out->len += (size_t)n;
	} else {
		memcpy(p, v.p, v.len);
		out->len += v.len;
	}
	out->data[out->len] = '\0';
	return 0;
}

static int replace_placeholders(const struct inject_writer *w, struct buf *out, struct slice s,
				enum value_form value_form)
{
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (g = inject_placeholder(w->g, s, &at)) != NULL) {
		const struct slice *v = planned_value(w, g);

		buf_add(out, s.p, at);
		if (v)
			r = add_secret_value(out, *v, value_form);
		else
			buf_add(out, s.p + at, g->placeholder_len);
		s.p += at + g->placeholder_len;
		s.len -= at + g->placeholder_len;
	}
	buf_add(out, s.p, s.len);
	return r ? r : buf_error(out);
}

/* Piece by piece, so that an encoded colon elsewhere is left alone. */
static int replace_in_pieces(const struct inject_writer *w, struct buf *out, struct slice rest, char sep)
{
	autobuf struct buf tmp = BUF_INIT;
	struct slice piece, plain;
	bool first = true;
	size_t at;
	int r = 0;

	while (r == 0 && inject_next_piece(&rest, sep, &piece)) {
		if (!first)
			buf_addc(out, sep);
		first = false;
		plain = inject_uncolon(piece, &tmp);
		r = replace_placeholders(w, out, inject_placeholder(w->g, plain, &at) ? plain : piece,
					 PERCENT);
	}
	return r ? r : buf_error(out);
}

/* A segment of nothing but dots would change the path. */
static bool is_all_dots(struct slice v)
{
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] != '.')
			return false;
	}
	return true;
}

static int render_target(const struct inject_writer *w, const struct http_req *q, struct buf *out)
{
	int r;

	if (q->url.path_len == 0) {
		buf_add(out, q->target.data, q->target.len);
		return buf_error(out);
	}
	for (unsigned i = 0; i < w->plan->n; i++) {
		if (is_all_dots(w->value[i]))
			return -EINVAL;
	}
	r = replace_in_pieces(w, out, w->path, '/');
	if (r == 0 && q->url.has_query) {
		struct slice query = urlpath_query(&q->target, &q->url);

		buf_addc(out, '?');
		r = query.len ? replace_in_pieces(w, out, query, '&') : 0;
	}
	return r ? r : buf_error(out);
}

/* The binding's user, where it names one. */
static const char *basic_user(const struct inject_writer *w, struct slice pair)
{
	const struct vault_grant *g;
	const struct binding *b;
	size_t at;

	g = inject_placeholder(w->g, pair, &at);
	b = g ? grants_binding(g, w->d->host, w->d->port, w->path, BINDING_AS_BASIC, NULL) : NULL;
	return b && b->user[0] ? b->user : NULL;
}

static int render_basic(const struct inject_writer *w, struct buf *out, struct slice pair)
{
	CLEANUP(buf_release) struct buf plain = { .wipe = true };
	const char *user = basic_user(w, pair);
	size_t room, at;
	char *p;
	int r;

	if (user) {
		const struct vault_grant *g = inject_placeholder(w->g, pair, &at);

		buf_addf(&plain, "%s:", user);
		pair = (struct slice){ pair.p + at, g->placeholder_len };
	}
	r = replace_placeholders(w, &plain, pair, AS_IS);
	if (r < 0)
		return r;
	buf_adds(out, "Basic ");
	room = sodium_base64_encoded_len(plain.len, sodium_base64_VARIANT_ORIGINAL);
	p = buf_reserve(out, room);
	if (!p)
		return -ENOMEM;
	sodium_bin2base64(p, room, (const unsigned char *)plain.data, plain.len,
			  sodium_base64_VARIANT_ORIGINAL);
	out->len += strlen(p);
	return 0;
}

static int render_value(const struct inject_writer *w, struct slice name, struct slice value, struct buf *out)
{
	CLEANUP(buf_release) struct buf pair = { .wipe = true };
	size_t at;
	int r;

	buf_clear(out);
	if (slice_eq_nocase(name, "authorization") && inject_basic_pair(value, &pair)) {
		struct slice p = { pair.data, pair.len };

		if (inject_placeholder(w->g, p, &at))
			return render_basic(w, out, p);
	}
	r = replace_placeholders(w, out, value, HEADER);
	/* One cookie must not become two. */
	if (r == 0 && slice_eq_nocase(name, "cookie")) {
		for (unsigned i = 0; i < w->plan->n; i++) {
			struct slice v = w->value[i];

			if (inject_placeholder(w->g, value, &at) &&
			    (memchr(v.p, ';', v.len) || memchr(v.p, ' ', v.len)))
				return -EINVAL;
		}
	}
	return r;
}

/*
 * A response must be complete and unencoded, or it could not be searched. Frames of a websocket may be
 * compressed only by an extension.
 */
static bool is_left_out_field(struct slice name)
{
	return slice_eq_nocase(name, "accept-encoding") || slice_eq_nocase(name, "range") ||
	       slice_eq_nocase(name, "if-range") || slice_eq_nocase(name, "sec-websocket-extensions");
}

static int render_fields(const struct inject_writer *w, const struct http_fields *in, struct http_fields *out)
{
	CLEANUP(buf_release) struct buf value = { .wipe = true };
	int r = 0;

	out->text.wipe = true;
	for (unsigned i = 0; i < in->n && r == 0; i++) {
		struct slice name = http_fields_name(in, i);

		if (is_left_out_field(name))
			continue;
		r = render_value(w, name, http_fields_value(in, i), &value);
		if (r == 0)
			r = http_fields_add(out, name, (struct slice){ value.data, value.len });
	}
	return r ? r : http_fields_add(out, slice_of("accept-encoding"), slice_of("identity"));
}

static int render_body(const struct inject_writer *w, const struct http_req *q, struct slice body,
		       struct buf *out)
{
	struct slice type = http_fields_get(&q->fields, "content-type");
	static const char json[] = "json";

	if (slice_starts(type, "application/x-www-form-urlencoded"))
		return replace_in_pieces(w, out, body, '&');
	return replace_placeholders(
		w, out, body, type.len && memmem(type.p, type.len, json, sizeof(json) - 1) ? JSON : AS_IS);
}

int inject_render(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		  struct slice body, const struct inject_plan *plan, const struct slice *value,
		  struct inject_out *out)
{
	struct inject_writer w = { .g = g, .d = d, .path = inject_path(q), .plan = plan, .value = value };
	int r;

	out->target.wipe = out->body.wipe = true;
	r = render_target(&w, q, &out->target);
	if (r == 0)
		r = render_fields(&w, &q->fields, &out->fields);
	w.in_body = true;
	if (r == 0 && plan->in_body)
		r = render_body(&w, q, body, &out->body);
	return r;
}

void inject_out_release(struct inject_out *out)
{
	buf_release(&out->target);
	http_fields_release(&out->fields);
	buf_release(&out->body);
}
