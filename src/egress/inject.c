/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/inject.h"

#include "codec/http1.h"
#include "vault/forms.h"
#include "vault/shape.h"

#include <sodium.h>
#include <stdio.h>

#define BASIC_MAX 8192 /* characters behind "Basic " that are looked into */
#define OTHER_HALF_MAX 6

struct finder {
	const struct vault_grants *g;
	const struct inject_dest *d;
	struct slice path;
	struct inject_plan *plan;
	struct inject_refusal *no;
};

static struct slice path_of(const struct http_req *q)
{
	return q->url.path_len ? urlpath_path(&q->target, &q->url) : slice_of("/");
}

static const struct vault_grant *find(const struct vault_grants *g, struct slice s, size_t *ret_at)
{
	return s.len ? grants_find_placeholder(g, s.p, s.len, ret_at) : NULL;
}

/* Of all that a placeholder is made of only the colon is encoded by some. */
static struct slice uncolon(struct slice s, struct buf *tmp)
{
	const char *p = s.p, *end;

	if (s.len == 0)
		return s;
	end = s.p + s.len;
	buf_clear(tmp);
	for (const char *c = p; (c = memchr(c, '%', (size_t)(end - c))) != NULL; c++) {
		if (end - c < 3 || c[1] != '3' || (c[2] | 32) != 'a')
			continue;
		buf_add(tmp, p, (size_t)(c - p));
		buf_addc(tmp, ':');
		p = c + 3;
		c += 2;
	}
	if (p == s.p)
		return s;
	buf_add(tmp, p, (size_t)(end - p));
	return buf_error(tmp) ? s : (struct slice){ tmp->data, tmp->len };
}

/* The next piece of `s` up to a separator; false at its end. */
static bool next_piece(struct slice *s, char sep, struct slice *ret)
{
	const char *at;

	if (!s->p)
		return false;
	at = s->len ? memchr(s->p, sep, s->len) : NULL;
	*ret = (struct slice){ s->p, at ? (size_t)(at - s->p) : s->len };
	*s = at ? (struct slice){ at + 1, s->len - ret->len - 1 } : SLICE_NONE;
	return true;
}

static struct slice trim(struct slice s)
{
	while (s.len && (*s.p == ' ' || *s.p == '\t'))
		s.p++, s.len--;
	while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* "Scheme rest": the rest, when the scheme is this one. */
static bool has_scheme(struct slice v, const char *scheme, struct slice *ret)
{
	size_t n = strlen(scheme);

	if (v.len <= n || strncasecmp(v.p, scheme, n) != 0 || (v.p[n] != ' ' && v.p[n] != '\t'))
		return false;
	*ret = trim((struct slice){ v.p + n, v.len - n });
	return true;
}

/* "user:password" of a Basic credential. */
static bool basic_pair(struct slice value, struct buf *out)
{
	struct slice b64;
	size_t n = 0;
	char *p;

	buf_clear(out);
	if (!has_scheme(value, "Basic", &b64) || b64.len > BASIC_MAX)
		return false;
	while (b64.len && b64.p[b64.len - 1] == '=')
		b64.len--;
	p = buf_reserve(out, b64.len);
	if (!p || sodium_base642bin((unsigned char *)p, b64.len, b64.p, b64.len, NULL, &n, NULL,
				    sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0)
		return false;
	out->len += n;
	return true;
}

/* Words for a refusal. */

static void describe_bound(const struct vault_grant *g, char *out, size_t size)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < g->n_bindings && i < 4; i++) {
		if (i)
			buf_adds(&b, ", ");
		binding_describe(&g->bindings[i], &b);
	}
	if (g->n_bindings > 4)
		buf_adds(&b, ", ...");
	snprintf(out, size, "%s", buf_cstr(&b));
}

static int refuse(struct finder *f, const struct vault_grant *g, const char *where)
{
	const struct inject_dest *d = f->d;
	char bound[200];

	f->no->grant = g;
	describe_bound(g, bound, sizeof(bound));
	if (!d->tls)
		snprintf(
			f->no->why, sizeof(f->no->why),
			"the placeholder of the secret '%s' stands in a request without TLS; it is rendered only "
			"over https to %s",
			g->name, bound);
	else if (grants_binding(g, d->host, d->port, f->path, BINDING_AS_ANY, NULL))
		snprintf(
			f->no->why, sizeof(f->no->why),
			"the placeholder of the secret '%s' stands in %s, and there it may not be rendered: it is "
			"bound to %s",
			g->name, where, bound);
	else
		snprintf(
			f->no->why, sizeof(f->no->why),
			"the placeholder of the secret '%s' was sent to %s:%u, and the secret is bound to %s",
			g->name, d->host, d->port, bound);
	return -EACCES;
}

static int refuse_rule(struct finder *f, const struct vault_grant *g)
{
	f->no->grant = g;
	snprintf(f->no->why, sizeof(f->no->why),
		 f->d->rule_secret
			 ? "the rule for %s names another secret than '%s', whose placeholder was sent"
			 : "the rule for %s does not name the secret '%s', whose placeholder was sent",
		 f->d->host, g->name);
	return -EACCES;
}

/* What a server issued is good for the hosts that the policy itself names for it. */
static bool policy_lets(const struct finder *f, const struct vault_grant *g)
{
	if (g->kind == GRANT_ISSUED)
		return true;
	if (f->d->rule_secret)
		return strcmp(f->d->rule_secret, g->name) == 0;
	return f->d->by_line & (1ull << (g - f->g->v));
}

/* J1 */
static bool is_bound_so(const struct finder *f, const struct vault_grant *g, enum binding_as as,
			const char *word)
{
	const struct inject_dest *d = f->d;

	if (!d->tls)
		return false;
	if (grants_binding(g, d->host, d->port, f->path, as, word))
		return true;
	return as == BINDING_AS_BEARER &&
	       grants_binding(g, d->host, d->port, f->path, BINDING_AS_HEADER, "authorization");
}

static int use(struct finder *f, const struct vault_grant *g, enum binding_as as, const char *word,
	       const char *where)
{
	struct inject_plan *p = f->plan;

	if (!is_bound_so(f, g, as, word))
		return refuse(f, g, where);
	if (!policy_lets(f, g))
		return refuse_rule(f, g);
	for (unsigned i = 0; i < p->n; i++) {
		if (p->grant[i] == (unsigned)(g - f->g->v))
			return 0;
	}
	if (p->n == INJECT_MAX) {
		f->no->grant = g;
		snprintf(f->no->why, sizeof(f->no->why),
			 "the request has placeholders of more than %d secrets", INJECT_MAX);
		return -EACCES;
	}
	p->grant[p->n++] = (unsigned)(g - f->g->v);
	return 0;
}

/* Every placeholder in a text. `whole`: it must be all of it. */
static int use_all(struct finder *f, struct slice s, bool whole, enum binding_as as, const char *word,
		   const char *where)
{
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (g = find(f->g, s, &at)) != NULL) {
		if (whole && s.len != g->placeholder_len)
			return refuse(f, g, where);
		r = use(f, g, as, word, where);
		s.p += at + g->placeholder_len;
		s.len -= at + g->placeholder_len;
	}
	return r;
}

static int find_path(struct finder *f)
{
	struct slice rest = f->path, seg;
	autobuf struct buf tmp = BUF_INIT;
	int r = 0;

	while (r == 0 && next_piece(&rest, '/', &seg))
		r = use_all(f, uncolon(seg, &tmp), false, BINDING_AS_PATH, NULL, "the path");
	return r;
}

static struct slice param_name(struct slice pair)
{
	const char *eq = pair.len ? memchr(pair.p, '=', pair.len) : NULL;

	return (struct slice){ pair.p, eq ? (size_t)(eq - pair.p) : pair.len };
}

static struct slice param_value(struct slice pair)
{
	size_t n = param_name(pair).len;

	return n < pair.len ? (struct slice){ pair.p + n + 1, pair.len - n - 1 } : SLICE_NONE;
}

/* A name that fits no binding is an empty one, which fits none either. */
static const char *word_of(struct slice name, char out[BINDING_WORD_MAX + 1], bool lower)
{
	if (name.len > BINDING_WORD_MAX)
		name.len = 0;
	for (size_t i = 0; i < name.len; i++)
		out[i] = (char)(lower && name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
	out[name.len] = '\0';
	return out;
}

static int find_query(struct finder *f, struct slice rest)
{
	autobuf struct buf tmp = BUF_INIT;
	char word[BINDING_WORD_MAX + 1];
	struct slice pair;
	size_t at;
	int r = 0;

	while (r == 0 && rest.len && next_piece(&rest, '&', &pair)) {
		const struct vault_grant *g = find(f->g, param_name(pair), &at);

		if (g)
			return refuse(f, g, "the query");
		r = use_all(f, uncolon(param_value(pair), &tmp), true, BINDING_AS_QUERY,
			    word_of(param_name(pair), word, false), "the query");
	}
	return r;
}

static int find_cookie(struct finder *f, struct slice rest)
{
	char word[BINDING_WORD_MAX + 1];
	struct slice pair;
	size_t at;
	int r = 0;

	while (r == 0 && next_piece(&rest, ';', &pair)) {
		const struct vault_grant *g;

		pair = trim(pair);
		g = find(f->g, param_name(pair), &at);
		if (g)
			return refuse(f, g, "a cookie");
		r = use_all(f, param_value(pair), true, BINDING_AS_COOKIE,
			    word_of(param_name(pair), word, false), "a cookie");
	}
	return r;
}

static int find_authorization(struct finder *f, struct slice value)
{
	CLEANUP(buf_release) struct buf pair = { .wipe = true };
	struct slice rest;
	size_t at;

	if (basic_pair(value, &pair)) {
		struct slice p = { pair.data, pair.len };

		if (find(f->g, p, &at))
			return use_all(f, p, false, BINDING_AS_BASIC, NULL, "a Basic credential");
	}
	if ((has_scheme(value, "Bearer", &rest) || has_scheme(value, "token", &rest))) {
		const struct vault_grant *g = find(f->g, rest, &at);

		if (g && g->placeholder_len == rest.len)
			return use(f, g, BINDING_AS_BEARER, NULL, "the header authorization");
	}
	return use_all(f, value, false, BINDING_AS_HEADER, "authorization", "the header authorization");
}

static int find_field(struct finder *f, struct slice name, struct slice value)
{
	char word[BINDING_WORD_MAX + 1], where[BINDING_WORD_MAX + 16];
	const struct vault_grant *g;
	size_t at;

	g = find(f->g, name, &at);
	if (g)
		return refuse(f, g, "a header's name");
	if (slice_eq_nocase(name, "authorization"))
		return find_authorization(f, value);
	if (slice_eq_nocase(name, "cookie"))
		return find_cookie(f, value);
	word_of(name, word, true);
	snprintf(where, sizeof(where), "the header %s", word);
	return use_all(f, value, false, BINDING_AS_HEADER, word, where);
}

static bool has_encoding(const struct http_req *q)
{
	struct slice v = http_fields_get(&q->fields, "content-encoding");

	return v.len && !slice_eq_nocase(v, "identity");
}

/* Only what is bound so is looked for: a body may be anything, and the rest of it stays as it is. */
static int find_body(struct finder *f, struct slice body)
{
	autobuf struct buf tmp = BUF_INIT;
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	body = uncolon(body, &tmp);
	while (r == 0 && (g = find(f->g, body, &at)) != NULL) {
		if (is_bound_so(f, g, BINDING_AS_BODY, NULL) && policy_lets(f, g)) {
			r = use(f, g, BINDING_AS_BODY, NULL, "the body");
			f->plan->in_body = true;
		}
		body.p += at + g->placeholder_len;
		body.len -= at + g->placeholder_len;
	}
	return r;
}

/* Most requests have none: then two searches are enough to know. */
static bool may_have(const struct vault_grants *g, const struct http_req *q)
{
	autobuf struct buf tmp = BUF_INIT;
	size_t at;

	return find(g, (struct slice){ q->fields.text.data, q->fields.text.len }, &at) ||
	       find(g, uncolon((struct slice){ q->target.data, q->target.len }, &tmp), &at) ||
	       http_fields_has(&q->fields, "authorization");
}

int inject_find(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		struct slice body, struct inject_plan *ret, struct inject_refusal *no)
{
	struct finder f = { .g = g, .d = d, .path = path_of(q), .plan = ret, .no = no };
	int r = 0;

	*ret = (struct inject_plan){ 0 };
	if (may_have(g, q)) {
		r = find_path(&f);
		if (r == 0 && q->url.has_query)
			r = find_query(&f, urlpath_query(&q->target, &q->url));
		for (unsigned i = 0; r == 0 && i < q->fields.n; i++)
			r = find_field(&f, http_fields_name(&q->fields, i), http_fields_value(&q->fields, i));
	}
	if (r == 0 && body.len && !has_encoding(q))
		r = find_body(&f, body);
	return r;
}

bool inject_wants_body(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q)
{
	struct finder f = { .g = g, .d = d, .path = path_of(q) };

	if (!q->has_body || has_encoding(q))
		return false;
	for (size_t i = 0; i < g->n; i++) {
		if (is_bound_so(&f, &g->v[i], BINDING_AS_BODY, NULL) && policy_lets(&f, &g->v[i]))
			return true;
	}
	return false;
}

bool inject_is_bound(const struct vault_grants *g, const char *host, uint16_t port)
{
	for (size_t i = 0; i < g->n; i++) {
		for (size_t k = 0; k < g->v[i].n_bindings; k++) {
			const struct binding *b = &g->v[i].bindings[k];

			if (b->port == port && strcmp(b->host, host) == 0)
				return true;
		}
	}
	return false;
}

/* Rendering. */

enum how { AS_IS, HEADER, PERCENT, JSON };

struct writer {
	const struct vault_grants *g;
	const struct inject_dest *d;
	struct slice path;
	const struct inject_plan *plan;
	const struct slice *value;
	bool in_body;
};

/* J1: what the head may carry, the body may not. */
static const struct slice *value_of(const struct writer *w, const struct vault_grant *g)
{
	if (w->in_body && !grants_binding(g, w->d->host, w->d->port, w->path, BINDING_AS_BODY, NULL))
		return NULL;
	for (unsigned i = 0; i < w->plan->n; i++) {
		if (w->plan->grant[i] == (unsigned)(g - w->g->v))
			return &w->value[i];
	}
	return NULL;
}

/* J3 */
static int add_value(struct buf *out, struct slice v, enum how how)
{
	size_t room = how == PERCENT ? 3 * v.len : how == JSON ? 6 * v.len : v.len;
	char *p;
	long n;

	if (how == HEADER && !http1_is_value(v))
		return -EINVAL;
	p = buf_reserve(out, room + 1);
	if (!p)
		return -ENOMEM;
	if (how == PERCENT || how == JSON) {
		n = forms_render(how == JSON ? FORM_JSON : FORM_PERCENT, v.p, v.len, p, room + 1);
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

static int replace(const struct writer *w, struct buf *out, struct slice s, enum how how)
{
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (g = find(w->g, s, &at)) != NULL) {
		const struct slice *v = value_of(w, g);

		buf_add(out, s.p, at);
		if (v)
			r = add_value(out, *v, how);
		else
			buf_add(out, s.p + at, g->placeholder_len);
		s.p += at + g->placeholder_len;
		s.len -= at + g->placeholder_len;
	}
	buf_add(out, s.p, s.len);
	return r ? r : buf_error(out);
}

/* Piece by piece, so that an encoded colon elsewhere stays as it is. */
static int replace_pieces(const struct writer *w, struct buf *out, struct slice rest, char sep)
{
	autobuf struct buf tmp = BUF_INIT;
	struct slice piece, plain;
	bool first = true;
	size_t at;
	int r = 0;

	while (r == 0 && next_piece(&rest, sep, &piece)) {
		if (!first)
			buf_addc(out, sep);
		first = false;
		plain = uncolon(piece, &tmp);
		r = replace(w, out, find(w->g, plain, &at) ? plain : piece, PERCENT);
	}
	return r ? r : buf_error(out);
}

/* A segment that is nothing but dots would be another path. */
static bool is_dots(struct slice v)
{
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] != '.')
			return false;
	}
	return true;
}

static int render_target(const struct writer *w, const struct http_req *q, struct buf *out)
{
	int r;

	if (q->url.path_len == 0) {
		buf_add(out, q->target.data, q->target.len);
		return buf_error(out);
	}
	for (unsigned i = 0; i < w->plan->n; i++) {
		if (is_dots(w->value[i]))
			return -EINVAL;
	}
	r = replace_pieces(w, out, w->path, '/');
	if (r == 0 && q->url.has_query) {
		struct slice query = urlpath_query(&q->target, &q->url);

		buf_addc(out, '?');
		r = query.len ? replace_pieces(w, out, query, '&') : 0;
	}
	return r ? r : buf_error(out);
}

/* The binding's user, where it names one. */
static const char *basic_user(const struct writer *w, struct slice pair)
{
	const struct vault_grant *g;
	const struct binding *b;
	size_t at;

	g = find(w->g, pair, &at);
	b = g ? grants_binding(g, w->d->host, w->d->port, w->path, BINDING_AS_BASIC, NULL) : NULL;
	return b && b->user[0] ? b->user : NULL;
}

static int render_basic(const struct writer *w, struct buf *out, struct slice pair)
{
	CLEANUP(buf_release) struct buf plain = { .wipe = true };
	const char *user = basic_user(w, pair);
	size_t room, at;
	char *p;
	int r;

	if (user) {
		const struct vault_grant *g = find(w->g, pair, &at);

		buf_addf(&plain, "%s:", user);
		pair = (struct slice){ pair.p + at, g->placeholder_len };
	}
	r = replace(w, &plain, pair, AS_IS);
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

static int render_value(const struct writer *w, struct slice name, struct slice value, struct buf *out)
{
	CLEANUP(buf_release) struct buf pair = { .wipe = true };
	size_t at;
	int r;

	buf_clear(out);
	if (slice_eq_nocase(name, "authorization") && basic_pair(value, &pair)) {
		struct slice p = { pair.data, pair.len };

		if (find(w->g, p, &at))
			return render_basic(w, out, p);
	}
	r = replace(w, out, value, HEADER);
	/* One cookie must not become two. */
	if (r == 0 && slice_eq_nocase(name, "cookie")) {
		for (unsigned i = 0; i < w->plan->n; i++) {
			struct slice v = w->value[i];

			if (find(w->g, value, &at) && (memchr(v.p, ';', v.len) || memchr(v.p, ' ', v.len)))
				return -EINVAL;
		}
	}
	return r;
}

/*
 * An answer must come as it is, or nobody could look through it: whole, and in no encoding. Frames of a websocket may be
 * compressed only by an extension.
 */
static bool is_left_out(struct slice name)
{
	return slice_eq_nocase(name, "accept-encoding") || slice_eq_nocase(name, "range") ||
	       slice_eq_nocase(name, "if-range") || slice_eq_nocase(name, "sec-websocket-extensions");
}

static int render_fields(const struct writer *w, const struct http_fields *in, struct http_fields *out)
{
	CLEANUP(buf_release) struct buf value = { .wipe = true };
	int r = 0;

	out->text.wipe = true;
	for (unsigned i = 0; i < in->n && r == 0; i++) {
		struct slice name = http_fields_name(in, i);

		if (is_left_out(name))
			continue;
		r = render_value(w, name, http_fields_value(in, i), &value);
		if (r == 0)
			r = http_fields_add(out, name, (struct slice){ value.data, value.len });
	}
	return r ? r : http_fields_add(out, slice_of("accept-encoding"), slice_of("identity"));
}

static int render_body(const struct writer *w, const struct http_req *q, struct slice body, struct buf *out)
{
	struct slice type = http_fields_get(&q->fields, "content-type");
	static const char json[] = "json";

	if (slice_starts(type, "application/x-www-form-urlencoded"))
		return replace_pieces(w, out, body, '&');
	return replace(w, out, body,
		       type.len && memmem(type.p, type.len, json, sizeof(json) - 1) ? JSON : AS_IS);
}

int inject_render(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		  struct slice body, const struct inject_plan *plan, const struct slice *value,
		  struct inject_out *out)
{
	struct writer w = { .g = g, .d = d, .path = path_of(q), .plan = plan, .value = value };
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

/* Whose credential? */

static bool is_placeholder(const struct vault_grants *g, struct slice s)
{
	size_t at;
	const struct vault_grant *f = find(g, s, &at);

	return f && at == 0 && f->placeholder_len == s.len;
}

/*
 * The other half of a Basic credential. Servers may look at that one alone, so it must be nothing that could be a credential
 * by itself: too short for one, or what services tell their users to write there.
 */
static bool is_harmless(struct slice s)
{
	static const char *const list[] = {
		"x-access-token", "x-token-auth", "x-oauth-basic", "oauth2", "oauth", "oauth2accesstoken",
		"__token__",	  "git",	  "token",	   "api",    "user"
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (slice_eq(s, list[i]))
			return true;
	}
	return s.len <= OTHER_HALF_MAX;
}

/* Wherever it goes as Basic, the binding's user takes the place of the client's. */
static bool has_own_user(const struct vault_grant *g)
{
	bool has = false;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (g->bindings[i].as == BINDING_AS_BASIC && !g->bindings[i].user[0])
			return false;
		has |= g->bindings[i].as == BINDING_AS_BASIC;
	}
	return has;
}

static bool is_ours_basic(const struct vault_grants *g, struct slice pair)
{
	const char *colon = pair.len ? memchr(pair.p, ':', pair.len) : NULL;
	size_t n = colon ? (size_t)(colon - pair.p) : pair.len;
	struct slice user = { pair.p, n };
	struct slice password = colon ? (struct slice){ colon + 1, pair.len - n - 1 } : SLICE_NONE;
	size_t at;
	const struct vault_grant *f = find(g, pair, &at);

	/* A placeholder may have a colon of its own. */
	if (f && at == 0 && pair.len >= f->placeholder_len) {
		user = (struct slice){ pair.p, f->placeholder_len };
		password = pair.len > f->placeholder_len ? (struct slice){ pair.p + f->placeholder_len + 1,
									   pair.len - f->placeholder_len - 1 }
							 : SLICE_NONE;
	}
	return (is_placeholder(g, password) && (is_harmless(user) || (f && has_own_user(f)))) ||
	       (is_placeholder(g, user) && is_harmless(password));
}

bool inject_is_ours(const struct vault_grants *g, struct slice name, struct slice value)
{
	CLEANUP(buf_release) struct buf tmp = { .wipe = true };
	struct slice rest = value, pair;

	if (slice_eq_nocase(name, "authorization")) {
		if (basic_pair(value, &tmp))
			return is_ours_basic(g, (struct slice){ tmp.data, tmp.len });
		return is_placeholder(g, value) ||
		       (has_scheme(value, "Bearer", &rest) && is_placeholder(g, rest)) ||
		       (has_scheme(value, "token", &rest) && is_placeholder(g, rest));
	}
	if (slice_eq_nocase(name, "cookie")) {
		while (next_piece(&rest, ';', &pair)) {
			if (!is_placeholder(g, param_value(trim(pair))))
				return false;
		}
		return true;
	}
	return is_placeholder(g, value) || (has_scheme(value, "Bearer", &rest) && is_placeholder(g, rest));
}

bool inject_is_ours_param(const struct vault_grants *g, struct slice value)
{
	autobuf struct buf tmp = BUF_INIT;

	return is_placeholder(g, uncolon(value, &tmp));
}
