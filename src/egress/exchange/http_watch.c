/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches requests for placeholders that would leave unrendered (http_watch.h). Finds and reports only:
 * http_secret.c refuses.
 */
#include "egress/exchange/http_watch.h"

#include "egress/credential/scrub.h"
#include "egress/exchange/http_secret_int.h"
#include "egress/exchange/inspect.h"
#include "vault/common/forms.h"

#include <assert.h>
#include <stdio.h>

/* The search set, tagged by index of grant. A request keeps the set that it began with. */
struct watch_set {
	unsigned refs;
	uint64_t key;
	struct scrub_set set;
};

struct exch_watch {
	struct watch_set *set;
	struct scrub flow;
	uint64_t fine; /* by index of grant: these may be in the body */
	bool is_known; /* another secret is bound here: nothing is refused */
	uint64_t found;
	bool is_stale; /* a placeholder of another sandbox was found */
};

static_assert(GRANTS_MAX <= 64, "a bit for each");

static void watch_set_unref(struct watch_set *w)
{
	if (!w || --w->refs)
		return;
	scrub_set_release(&w->set);
	free(w);
}

static uint64_t hash_mix(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return (h ^ (h >> 29)) * 0x9e3779b97f4a7c15ull;
}

static uint64_t grants_key(const struct vault_grants *g)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < g->n; i++)
		h = hash_mix(h ^ i, g->v[i].placeholder, g->v[i].placeholder_len);
	return h;
}

/* Adds the forms in which a program might send it. */
static int watch_set_add(struct scrub_set *set, struct slice what)
{
	autobuf struct buf text = BUF_INIT;
	size_t cap = 2 * what.len + 8;
	int r = 0;

	if (!buf_reserve(&text, cap))
		return -ENOMEM;
	for (enum form_kind k = FORM_RAW; r == 0 && k <= FORM_BASE64URL_2; k++) {
		long n = forms_render(k, what.p, what.len, text.data, cap);

		struct slice form = { text.data, n < 0 ? 0 : (size_t)n };

		r = n < 0	    ? (int)n
		    : k == FORM_RAW ? scrub_set_add_loose(set, form, NULL, SCRUB_ESCAPED)
				    : scrub_set_add(set, form, NULL);
	}
	return r;
}

static const struct vault_grants no_grants;

static const struct vault_grants *inspect_grants(const struct inspect *in)
{
	return in->secrets ? &in->secrets->grants : &no_grants;
}

static struct watch_set *watch_set_new(const struct vault_grants *g, const struct marks *m, uint64_t key)
{
	struct watch_set *w = calloc(1, sizeof(*w));
	int r = w ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < g->n; i++) {
		w->set.tag = (uint8_t)i;
		if (g->v[i].placeholder_len)
			r = watch_set_add(&w->set,
					  (struct slice){ g->v[i].placeholder, g->v[i].placeholder_len });
	}
	for (size_t i = 0; r == 0 && marks_any(m) && i < MARK_KINDS; i++) {
		w->set.tag = SCRUB_INNER;
		r = watch_set_add(&w->set, slice_of(m->v[i]));
	}
	if (r < 0) {
		if (w)
			scrub_set_release(&w->set);
		free(w);
		return NULL;
	}
	scrub_set_ready(&w->set);
	w->refs = 1;
	w->key = key;
	return w;
}

/* The set changes as servers issue credentials. */
static struct watch_set *current_watch_set(struct inspect *in)
{
	const struct vault_grants *g = inspect_grants(in);
	uint64_t key = hash_mix(grants_key(g), &in->marks, sizeof(in->marks));

	if (!in->watch || in->watch->key != key) {
		watch_set_unref(in->watch);
		in->watch = watch_set_new(g, &in->marks, key);
	}
	return in->watch;
}

void watch_close(struct inspect *in)
{
	watch_set_unref(in->watch);
	in->watch = NULL;
}

static bool grant_is_bound_to(const struct vault_grant *g, const struct inspect_conn *c)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (g->bindings[i].port == c->port && strcmp(g->bindings[i].host, c->host.text) == 0)
			return true;
	}
	return false;
}

static uint64_t grants_bound_here(const struct exch *e)
{
	const struct vault_grants *g = inspect_grants(e->in);
	uint64_t mask = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (grant_is_bound_to(&g->v[i], e->conn))
			mask |= 1ull << i;
	}
	return mask;
}

/* Is there anything to search for? */
static bool has_placeholders(const struct exch *e)
{
	const struct vault_grants *g = inspect_grants(e->in);

	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].placeholder_len)
			return true;
	}
	return marks_any(&e->in->marks);
}

bool watch_wants_body(const struct exch *e)
{
	return e->req.has_body && e->req.has_length && e->req.length <= WATCH_PEEK_MAX &&
	       has_placeholders(e) && !grants_bound_here(e);
}

static int watch_begin(struct exch *e)
{
	struct watch_set *set = current_watch_set(e->in);
	struct exch_watch *w = set ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return -ENOMEM;
	set->refs++;
	w->set = set;
	w->flow.set = &set->set;
	w->fine = grants_bound_here(e);
	w->is_known = w->fine != 0;
	e->watch = w;
	return 0;
}

/* The first of them that still exists. */
static const struct vault_grant *first_grant_of(const struct exch *e, uint64_t tags)
{
	const struct vault_grants *g = inspect_grants(e->in);

	for (size_t i = 0; i < g->n; i++) {
		if (tags >> i & 1 && g->v[i].placeholder_len)
			return &g->v[i];
	}
	return NULL;
}

void watch_say_stale(const struct exch *e, const char *where, char why[INJECT_WHY_MAX])
{
	const struct vault_grant *g = first_grant_of(e, grants_bound_here(e));

	snprintf(
		why, INJECT_WHY_MAX,
		"the request has in %s a placeholder of an earlier run, of another home, or of a secret that this sandbox was "
		"not given; it has no meaning here. ",
		where);
	if (g)
		snprintf(
			why + strlen(why), INJECT_WHY_MAX - strlen(why),
			"The secret '%s' is bound to this host%s%s: log in again, or remove the file in which the program "
			"saved the old placeholder",
			g->name, g->env[0] ? ", and its placeholder is in $" : "", g->env);
	else
		snprintf(
			why + strlen(why), INJECT_WHY_MAX - strlen(why),
			"Log in again, remove the file in which the program saved it, or run with --secret NAME");
}

/* Alerts once for each secret and host, as far as there is room to remember them. */
static void alert_once(struct exch *e, const struct vault_grant *g)
{
	uint64_t h = hash_mix(hash_mix(e->conn->port, e->conn->host.text, strlen(e->conn->host.text)),
			      g ? g->placeholder : "", g ? g->placeholder_len : 0);
	uint64_t *slot = &e->in->told[h % ARRAY_SIZE(e->in->told)];

	if (*slot == h)
		return;
	*slot = h;
	if (g)
		egress_alert(
			e->in->eg, "secret", e->conn->host.text,
			"the placeholder of the secret '%s' was sent to %s:%u in a body, where it is not bound; it is "
			"worth nothing there; this alert is given once",
			g->name, e->conn->host.text, e->conn->port);
	else
		egress_alert(
			e->in->eg, "secret", e->conn->host.text,
			"a placeholder of an earlier run, of another home, or of a secret that this sandbox was not given was "
			"sent to %s:%u in a body; it is worth nothing there; this alert is given once",
			e->conn->host.text, e->conn->port);
}

int watch_put(struct exch *e, const void *data, size_t len)
{
	struct exch_watch *w;
	const struct vault_grant *g;
	uint64_t tags = 0;
	int r;

	if (!e->conn || e->req.websocket || (!e->watch && !has_placeholders(e)))
		return 0;
	r = e->watch ? 0 : watch_begin(e);
	w = e->watch;
	if (r == 0)
		r = scrub_seek(&w->flow, data, len, false, &tags);
	if (r < 0)
		return r;
	if (w->flow.inner && !w->is_stale) {
		w->is_stale = true;
		if (w->is_known)
			alert_once(e, NULL);
	}
	tags &= ~w->fine;
	if (!tags)
		return 0;
	w->fine |= tags;
	g = first_grant_of(e, tags);
	if (g && w->is_known)
		alert_once(e, g);
	else if (g)
		w->found |= tags;
	return 0;
}

bool watch_is_stale(const struct exch *e)
{
	return e->watch && e->watch->is_stale;
}

bool watch_found(const struct exch *e, struct watch_hit *ret)
{
	struct watch_hit hit = { 0 };

	if (e->watch) {
		hit.grant = first_grant_of(e, e->watch->found);
		hit.is_stale = e->watch->is_stale && !e->watch->is_known;
	}
	if (ret)
		*ret = hit;
	return hit.grant || hit.is_stale;
}

int watch_head(const struct exch *e, struct watch_hit *ret)
{
	const struct http_req *q = &e->req;
	struct watch_set *set = has_placeholders(e) ? current_watch_set(e->in) : NULL;
	uint64_t tags = 0;
	int r = set || !has_placeholders(e) ? 0 : -ENOMEM;

	*ret = (struct watch_hit){ 0 };
	for (unsigned i = 0; set && r == 0 && i < 2; i++) {
		const struct buf *b = i ? &q->fields.text : &q->target;
		struct scrub flow = { .set = &set->set };

		if (b->len >= set->set.min)
			r = scrub_seek(&flow, b->data, b->len, true, &tags);
		ret->is_stale |= flow.inner;
		scrub_release(&flow);
	}
	ret->grant = tags ? first_grant_of(e, tags & ~grants_bound_here(e)) : NULL;
	return r;
}

void watch_free(struct exch *e)
{
	if (!e->watch)
		return;
	scrub_release(&e->watch->flow);
	watch_set_unref(e->watch->set);
	free(e->watch);
	e->watch = NULL;
}
