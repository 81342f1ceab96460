/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the placeholders of a request and decides whether each may be rendered where it is (inject.J1).
 * Searches all of the head; of the body only placeholders bound to be sent there. A refusal gives its reason,
 * for the person who reads the log.
 */
#include "egress/credential/inject.h"

#include "egress/credential/inject_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct inject_finder {
	const struct vault_grants *g;
	const struct inject_dest *d;
	struct slice path;
	struct inject_plan *plan;
	struct inject_refusal *no;
};

/* ---- Texts of refusals. ---- */

static void describe_bindings(const struct vault_grant *g, char *out, size_t size)
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

static int refuse_use(struct inject_finder *f, const struct vault_grant *g, const char *where)
{
	const struct inject_dest *d = f->d;
	char bound[200];

	f->no->grant = g;
	describe_bindings(g, bound, sizeof(bound));
	if (!d->tls)
		snprintf(
			f->no->why, sizeof(f->no->why),
			"the placeholder of the secret '%s' is in a request without TLS; it is rendered only "
			"over https to %s",
			g->name, bound);
	else if (grants_binding(g, d->host, d->port, f->path, BINDING_AS_ANY, NULL))
		snprintf(f->no->why, sizeof(f->no->why),
			 "the placeholder of the secret '%s' is in %s, where it must not be rendered: it is "
			 "bound to %s",
			 g->name, where, bound);
	else
		snprintf(
			f->no->why, sizeof(f->no->why),
			"the placeholder of the secret '%s' was sent to %s:%u, and the secret is bound to %s",
			g->name, d->host, d->port, bound);
	return -EACCES;
}

void inject_refuse(const struct vault_grant *g, const struct inject_dest *d, const struct http_req *q,
		   const char *where, struct inject_refusal *no)
{
	struct inject_finder f = { .d = d, .path = inject_path(q), .no = no };

	(void)!refuse_use(&f, g, where);
}

static int refuse_by_rule(struct inject_finder *f, const struct vault_grant *g)
{
	f->no->grant = g;
	snprintf(f->no->why, sizeof(f->no->why),
		 f->d->rule_secret
			 ? "the rule for %s names another secret than '%s', whose placeholder was sent"
			 : "the rule for %s does not name the secret '%s', whose placeholder was sent",
		 f->d->host, g->name);
	return -EACCES;
}

/* ---- Places where a placeholder may be. ---- */

/* An issued credential is valid for the hosts that the policy itself names for it. */
static bool policy_allows_secret(const struct inject_finder *f, const struct vault_grant *g)
{
	if (g->kind == GRANT_ISSUED)
		return true;
	if (f->d->rule_secret)
		return strcmp(f->d->rule_secret, g->name) == 0;
	return f->d->by_line & (1ull << (g - f->g->v));
}

/* inject.J1: is the secret bound to this destination, in this way? */
static bool grant_is_bound_so(const struct inject_finder *f, const struct vault_grant *g, enum binding_as as,
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

static int plan_use(struct inject_finder *f, const struct vault_grant *g, enum binding_as as,
		    const char *word, const char *where)
{
	struct inject_plan *p = f->plan;

	if (!grant_is_bound_so(f, g, as, word))
		return refuse_use(f, g, where);
	if (!policy_allows_secret(f, g))
		return refuse_by_rule(f, g);
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

/* Plans every placeholder in a text. `whole`: the placeholder must be all of it. */
static int plan_all_in(struct inject_finder *f, struct slice s, bool whole, enum binding_as as,
		       const char *word, const char *where)
{
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (g = inject_placeholder(f->g, s, &at)) != NULL) {
		if (whole && s.len != g->placeholder_len)
			return refuse_use(f, g, where);
		r = plan_use(f, g, as, word, where);
		s.p += at + g->placeholder_len;
		s.len -= at + g->placeholder_len;
	}
	return r;
}

static int find_in_path(struct inject_finder *f)
{
	struct slice rest = f->path, seg;
	autobuf struct buf tmp = BUF_INIT;
	int r = 0;

	while (r == 0 && inject_next_piece(&rest, '/', &seg))
		r = plan_all_in(f, inject_uncolon(seg, &tmp), false, BINDING_AS_PATH, NULL, "the path");
	return r;
}

/* A name too long for any binding becomes an empty one, which matches none. */
static const char *binding_word(struct slice name, char out[BINDING_WORD_MAX + 1], bool lower)
{
	if (name.len > BINDING_WORD_MAX)
		name.len = 0;
	for (size_t i = 0; i < name.len; i++)
		out[i] = (char)(lower && name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
	out[name.len] = '\0';
	return out;
}

static int find_in_query(struct inject_finder *f, struct slice rest)
{
	autobuf struct buf tmp = BUF_INIT;
	char word[BINDING_WORD_MAX + 1];
	struct slice pair;
	size_t at;
	int r = 0;

	while (r == 0 && rest.len && inject_next_piece(&rest, '&', &pair)) {
		const struct vault_grant *g = inject_placeholder(f->g, inject_param_name(pair), &at);

		if (g)
			return refuse_use(f, g, "the query");
		r = plan_all_in(f, inject_uncolon(inject_param_value(pair), &tmp), true, BINDING_AS_QUERY,
				binding_word(inject_param_name(pair), word, false), "the query");
	}
	return r;
}

static int find_in_cookie(struct inject_finder *f, struct slice rest)
{
	char word[BINDING_WORD_MAX + 1];
	struct slice pair;
	size_t at;
	int r = 0;

	while (r == 0 && inject_next_piece(&rest, ';', &pair)) {
		const struct vault_grant *g;

		pair = inject_trim(pair);
		g = inject_placeholder(f->g, inject_param_name(pair), &at);
		if (g)
			return refuse_use(f, g, "a cookie");
		r = plan_all_in(f, inject_param_value(pair), true, BINDING_AS_COOKIE,
				binding_word(inject_param_name(pair), word, false), "a cookie");
	}
	return r;
}

static int find_in_authorization(struct inject_finder *f, struct slice value)
{
	CLEANUP(buf_release) struct buf pair = { .wipe = true };
	struct slice rest;
	size_t at;

	if (inject_basic_pair(value, &pair)) {
		struct slice p = { pair.data, pair.len };

		if (inject_placeholder(f->g, p, &at))
			return plan_all_in(f, p, false, BINDING_AS_BASIC, NULL, "a Basic credential");
	}
	if ((inject_has_scheme(value, "Bearer", &rest) || inject_has_scheme(value, "token", &rest))) {
		const struct vault_grant *g = inject_placeholder(f->g, rest, &at);

		if (g && g->placeholder_len == rest.len)
			return plan_use(f, g, BINDING_AS_BEARER, NULL, "the header authorization");
	}
	return plan_all_in(f, value, false, BINDING_AS_HEADER, "authorization", "the header authorization");
}

static int find_in_field(struct inject_finder *f, struct slice name, struct slice value)
{
	char word[BINDING_WORD_MAX + 1], where[BINDING_WORD_MAX + 16];
	const struct vault_grant *g;
	size_t at;

	g = inject_placeholder(f->g, name, &at);
	if (g)
		return refuse_use(f, g, "a header's name");
	if (slice_eq_nocase(name, "authorization"))
		return find_in_authorization(f, value);
	if (slice_eq_nocase(name, "cookie"))
		return find_in_cookie(f, value);
	binding_word(name, word, true);
	snprintf(where, sizeof(where), "the header %s", word);
	return plan_all_in(f, value, false, BINDING_AS_HEADER, word, where);
}

static bool body_is_encoded(const struct http_req *q)
{
	struct slice v = http_fields_get(&q->fields, "content-encoding");

	return v.len && !slice_eq_nocase(v, "identity");
}

/*
 * Only placeholders bound to bodies are searched for: a body may be anything, and the rest of it stays
 * unchanged.
 */
static int find_in_body(struct inject_finder *f, struct slice body)
{
	autobuf struct buf tmp = BUF_INIT;
	const struct vault_grant *g;
	size_t at = 0;
	int r = 0;

	body = inject_uncolon(body, &tmp);
	while (r == 0 && (g = inject_placeholder(f->g, body, &at)) != NULL) {
		if (grant_is_bound_so(f, g, BINDING_AS_BODY, NULL) && policy_allows_secret(f, g)) {
			r = plan_use(f, g, BINDING_AS_BODY, NULL, "the body");
			f->plan->in_body = true;
		}
		body.p += at + g->placeholder_len;
		body.len -= at + g->placeholder_len;
	}
	return r;
}

/* Most requests have none: a quick search rules them out. */
static bool may_have_placeholder(const struct vault_grants *g, const struct http_req *q)
{
	autobuf struct buf tmp = BUF_INIT;
	size_t at;

	return inject_placeholder(g, (struct slice){ q->fields.text.data, q->fields.text.len }, &at) ||
	       inject_placeholder(g, inject_uncolon((struct slice){ q->target.data, q->target.len }, &tmp),
				  &at) ||
	       http_fields_has(&q->fields, "authorization");
}

int inject_find(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		struct slice body, struct inject_plan *ret, struct inject_refusal *no)
{
	struct inject_finder f = { .g = g, .d = d, .path = inject_path(q), .plan = ret, .no = no };
	int r = 0;

	*ret = (struct inject_plan){ 0 };
	if (may_have_placeholder(g, q)) {
		r = find_in_path(&f);
		if (r == 0 && q->url.has_query)
			r = find_in_query(&f, urlpath_query(&q->target, &q->url));
		for (unsigned i = 0; r == 0 && i < q->fields.n; i++)
			r = find_in_field(&f, http_fields_name(&q->fields, i),
					  http_fields_value(&q->fields, i));
	}
	if (r == 0 && body.len && !body_is_encoded(q))
		r = find_in_body(&f, body);
	return r;
}

bool inject_wants_body(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q)
{
	struct inject_finder f = { .g = g, .d = d, .path = inject_path(q) };

	if (!q->has_body || body_is_encoded(q))
		return false;
	for (size_t i = 0; i < g->n; i++) {
		if (grant_is_bound_so(&f, &g->v[i], BINDING_AS_BODY, NULL) &&
		    policy_allows_secret(&f, &g->v[i]))
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
