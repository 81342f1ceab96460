/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets that a profile offers (net_offer.h): which of them can be used, how they are bound, and what
 * people are told. The agent must not get a secret whose servers no rule allows (net_offer.O3).
 */
#include "netd/plan/net_offer.h"

#include "base/cleanup.h"
#include "netd/plan/net_secret.h"

#include <errno.h>

static const struct net_offer *find_offer(const struct net_secrets *s, const char *name)
{
	for (size_t i = 0; s->offers && i < s->offers->n; i++) {
		if (str_eq(s->offers->v[i].name, name))
			return &s->offers->v[i];
	}
	return NULL;
}

static int read_offer_binding(const struct net_offer *o, const char *as, struct vault_grant *g, struct err *e)
{
	struct binding *b = &g->bindings[g->n_bindings];
	int r;

	if (g->n_bindings == GRANTS_BINDINGS_MAX)
		return err_set(e, -E2BIG, "there are too many ways");
	*b = (struct binding){ 0 };
	r = binding_parse_host(o->host, strlen(o->host), 0, b, e);
	if (r == 0 && as)
		r = binding_parse_as(as, strlen(as), b, e);
	else if (r == 0)
		binding_usual_as(b);
	if (r == 0 && b->as == BINDING_AS_SSH)
		r = err_set(e, -EINVAL, "a key that signs is bound in the vault, not by a profile");
	if (r == 0 && b->as == BINDING_AS_PROXY)
		r = err_set(e, -EINVAL, "a proxy's credential is bound in the vault, not by a profile");
	g->n_bindings += r == 0;
	return r;
}

static int read_offer_bindings(const struct net_offer *o, struct vault_grant *g, struct err *e)
{
	const size_t n = o->as ? o->as->n : 0;
	int r = n ? 0 : read_offer_binding(o, NULL, g, e);

	if (r == 0 && !n) {
		g->bindings[1] = g->bindings[0];
		g->n_bindings += binding_usual_other(&g->bindings[1]);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_offer_binding(o, o->as->v[i], g, e);
	return r < 0 ? err_wrap(e, r, "the profile's secret '%s'", o->name) : 0;
}

int net_offer_check(const struct net_offer *o, struct err *e)
{
	struct vault_grant g = { 0 };

	bool is_long = strlen(o->name) > GRANTS_NAME_MAX;

	for (size_t i = 0; o->env && i < o->env->n; i++)
		is_long = is_long || strlen(o->env->v[i]) > GRANTS_NAME_MAX;
	if (is_long)
		return err_set(e, -EINVAL, "the profile's secret '%.80s': a name is too long", o->name);
	return o->host ? read_offer_bindings(o, &g, e) : 0;
}

static bool offer_may_bind(const struct net_secrets *s, const char *name)
{
	const struct net_offer *o = find_offer(s, name);

	return o && o->host && s->offers->may_bind;
}

int net_offer_bind(const struct net_secrets *s, struct vault_grant *g, struct err *e)
{
	int r;

	if (!offer_may_bind(s, g->name) || g->n_bindings)
		return 0;
	r = read_offer_bindings(find_offer(s, g->name), g, e);
	return r < 0 ? r : 1;
}

const char *net_offer_env(const struct net_secrets *s, const char *name, size_t i)
{
	const struct net_offer *o = find_offer(s, name);

	return o && o->env && i + 1 < o->env->n ? o->env->v[i + 1] : NULL;
}

uint64_t net_offer_usable(const struct net_secrets *s, const struct net_found *f)
{
	uint64_t ret = s->offered & f->there & ~f->expired & f->meets;

	for (size_t i = 0; i < s->ask.n; i++) {
		uint64_t bit = 1ull << i;

		if (s->offered & f->there & ~f->expired & f->unbound & bit &&
		    offer_may_bind(s, s->ask.v[i].name))
			ret |= bit;
	}
	return ret;
}

/* Reports a secret that exists and cannot be used. */
static void report_unusable(const struct net_secrets *s, const struct net_found *f, size_t i)
{
	const struct net_offer *o = find_offer(s, s->ask.v[i].name);
	const char *way = o->as && o->as->n ? o->as->v[0] : NULL;
	autobuf struct buf b = BUF_INIT;

	if (f->expired & (1ull << i))
		buf_addf(
			&b,
			"the secret '%s' has expired and is not used: coffer secret rotate %s --expires DATE",
			o->name, o->name);
	else if (f->unbound & (1ull << i))
		buf_addf(
			&b,
			"the secret '%s' is bound nowhere and is not used: coffer secret bind %s --host %s%s%s",
			o->name, o->name, o->host ? o->host : "HOST", way ? " --as " : "", way ? way : "");
	else
		buf_addf(&b, "the secret '%s' only signs, and is not used", o->name);
	s->offers->say(buf_cstr(&b));
}

static void report_missing(const struct net_offers *l)
{
	autobuf struct buf b = BUF_INIT;
	const char *env = NULL;

	buf_adds(&b, "the agent gets no key, because the vault has none: coffer secret set ");
	for (size_t i = 0; i < l->n; i++) {
		buf_addf(&b, "%s%s", i == 0 ? "" : i + 1 < l->n ? ", " : " or ", l->v[i].name);
		env = env || !l->v[i].env || !l->v[i].env->n ? env : l->v[i].env->v[0];
	}
	buf_adds(&b, " puts one there, and the sandbox then has a placeholder");
	if (env)
		buf_addf(&b, "; -e %s hands it in as it is", env);
	l->say(buf_cstr(&b));
}

/* net_offer.O3, if no secret is left. */
static void report_unreached(const struct net_secrets *s, uint64_t unreached)
{
	autobuf struct buf b = BUF_INIT;
	const char *host = NULL;

	buf_adds(&b, "the agent gets no key, because no rule allows a server that takes one (");
	for (size_t i = 0; i < s->ask.n; i++) {
		const struct net_offer *o = find_offer(s, s->ask.v[i].name);

		if (!(unreached & (1ull << i)))
			continue;
		buf_addf(&b, "%s%s%s%s", host ? ", " : "", o->name, o->host ? ": " : "",
			 o->host ? o->host : "");
		host = host ? host : o->host ? o->host : "HOST";
	}
	if (s->offers->has_file)
		buf_addf(&b, "): the policy file must allow %s, and the profile or --allow must too", host);
	else
		buf_addf(&b, "): add --allow %s", host);
	s->offers->say(buf_cstr(&b));
}

void net_offer_say(const struct net_secrets *s, const struct net_found *f)
{
	uint64_t usable = f ? net_offer_usable(s, f) : 0;
	bool said = false;

	if (!s->offers || !s->offers->n || !s->offers->say)
		return;
	for (size_t i = 0; f && i < s->ask.n; i++) {
		uint64_t bit = 1ull << i;

		/* For secrets that were typed, the vault itself gives the reason. */
		if (!(s->offered & ~s->by_line & f->there & ~usable & bit))
			continue;
		report_unusable(s, f, i);
		said = true;
	}
	if (!said && !usable && !s->offers->has_key)
		report_missing(s->offers);
	if (usable && !(usable & ~f->unreached) && !s->offers->has_key)
		report_unreached(s, usable & f->unreached);
}
