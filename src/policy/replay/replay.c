/* SPDX-License-Identifier: Apache-2.0 */
/* Decides the events of a log again by another policy (replay.h). replay_rows.c sums the results up. Nothing
 * is guessed (replay.Y1). */
#include "policy/replay/replay.h"

#include "policy/policy_int.h"
#include "policy/replay/replay_int.h"

#include "base/str.h"
#include "codec/http/urlpath.h"

#include <errno.h>
#include <string.h>

#define PATH_CUT 700 /* the journal stores at most this many bytes of a path */

static bool has_text(const char *s)
{
	return s && *s;
}

/* Do the rules for this target examine single requests? Then the verdict on a connection is not that on its
 * requests. */
static bool target_has_entries(const struct policy *p, const struct policy_target *t)
{
	for (unsigned i = 0; i < p->n_layers; i++) {
		struct walk w;

		walk_begin(&w, &p->layers[i], t);
		while (walk_step(&w)) {
			const struct policy_rule *r;
			size_t at = 0;

			while ((r = walk_rule(&w, &at))) {
				if (r->n_entries)
					return true;
			}
		}
	}
	return false;
}

static enum replay_now now_from_verdict(const struct policy_verdict *v)
{
	return v->action == POLICY_ALLOW ? REPLAY_ALLOW : v->action == POLICY_ASK ? REPLAY_ASK : REPLAY_DENY;
}

static enum replay_now set_unknown(const char **ret_why, const char *why)
{
	*ret_why = why;
	return REPLAY_UNKNOWN;
}

/* A refusal that another policy need not repeat: by no rule, or in spite of one that allows (a limit, or its
 * first bytes). */
static bool was_refused_otherwise(const struct replay_seen *s)
{
	if (s->was != POLICY_DENY)
		return false;
	if (s->refused || s->asked_for_another || !has_text(s->rule))
		return true;
	return s->kind != REPLAY_REQUEST && str_starts(s->rule, "allow ");
}

/* replay.Y1: allowed now, but refused then for a reason that is not in any policy. */
static enum replay_now unless_refused_otherwise(const struct replay_seen *s, enum replay_now now,
						const char **ret_why)
{
	if (now == REPLAY_DENY || !was_refused_otherwise(s))
		return now;
	return set_unknown(ret_why, s->asked_for_another
					    ? "it was refused because its first bytes asked for another name"
					    : "it was refused for another reason than a rule");
}

/* Decides a connection again; unknown if the depth at that time does not tell what would have passed. */
static enum replay_now replay_connect(struct replay *r, const struct replay_seen *s,
				      const struct policy_target *t, struct policy_verdict *v,
				      const char **ret_why)
{
	policy_connect_quietly(r->p, t, v);
	if (!policy_allows(v))
		return now_from_verdict(v);
	if (s->was == POLICY_ALLOW && has_text(s->depth)) {
		if (v->depth != POLICY_TUNNEL && str_eq(s->depth, "tunnel") && !v->would_deny &&
		    !v->is_default)
			return set_unknown(ret_why,
					   "it was not inspected, and would have to be TLS or HTTP now");
		if (!str_eq(s->depth, "inspect") && target_has_entries(r->p, t))
			return set_unknown(
				ret_why, "the rule decides by request, and requests were not inspected then");
	}
	return unless_refused_otherwise(s, REPLAY_ALLOW, ret_why);
}

/* An address that the name resolved to. If the connection itself would not pass, its own event says so. */
static enum replay_now replay_address(struct replay *r, const struct replay_seen *s,
				      const struct policy_target *t, struct policy_verdict *v,
				      const char **ret_why)
{
	struct addr a;

	policy_connect_quietly(r->p, t, v);
	if (!policy_allows(v) || v->terms.proxy_set)
		return s->was == POLICY_ALLOW ? REPLAY_ALLOW : REPLAY_DENY;
	if (v->terms.has_pin)
		return REPLAY_ALLOW;
	if (!has_text(s->addr) || addr_parse(s->addr, strlen(s->addr), &a, NULL) < 0)
		return s->was == POLICY_ALLOW ? set_unknown(ret_why, "the address is not in the log")
					      : REPLAY_DENY;
	policy_address_quietly(r->p, t, &a, v);
	return unless_refused_otherwise(s, now_from_verdict(v), ret_why);
}

/* --- requests -------------------------------------------------------------------------------------------------- */

static bool strip_prefix(struct slice w, const char *prefix, struct slice *ret)
{
	size_t n = strlen(prefix);

	if (!slice_starts(w, prefix) || w.len == n)
		return false;
	*ret = (struct slice){ w.p + n, w.len - n };
	return true;
}

/* One word of `act`: a root field of a GraphQL operation. */
static bool take_graphql_field(struct replay *r, struct slice w)
{
	static const char *const of[] = { [GRAPHQL_QUERY] = "query:",
					  [GRAPHQL_MUTATION] = "mutation:",
					  [GRAPHQL_SUBSCRIPTION] = "subscription:" };

	for (int k = 0; k < GRAPHQL_TYPE_COUNT; k++) {
		struct graphql_doc *g = &r->docs[k];
		struct slice name;

		if (!strip_prefix(w, of[k], &name))
			continue;
		if (g->n_ops == 0) {
			g->n_ops = 1;
			g->ops[0] = (struct graphql_op){ .type = (enum graphql_type)k };
			r->gql[r->n_gql++] = g;
		}
		if (g->n_fields == GRAPHQL_FIELDS_MAX)
			return false;
		g->fields[g->n_fields++] = name;
		g->ops[0].n_fields++;
		return true;
	}
	return false;
}

/* One word of `act`: a command of a push. */
static bool take_push_ref(struct replay *r, struct slice w)
{
	static const struct {
		const char *word;
		enum policy_push_act act;
	} of[] = { { "create:", POLICY_PUSH_CREATE },
		   { "update:", POLICY_PUSH_UPDATE },
		   { "delete:", POLICY_PUSH_DELETE },
		   { "force:", POLICY_PUSH_FORCE } };
	struct slice ref;

	if (slice_eq(w, "push:none")) {
		r->has_push = true;
		return true;
	}
	for (size_t k = 0; k < ARRAY_SIZE(of); k++) {
		if (!strip_prefix(w, of[k].word, &ref) || r->n_push == REPLAY_PUSH_MAX)
			continue;
		r->has_push = true;
		r->push[r->n_push++] = (struct policy_push){ ref, of[k].act };
		return true;
	}
	return false;
}

/* One word of `act`: the git service, or a second path. */
static bool take_other_act(struct replay *r, struct slice w)
{
	struct slice rest;

	if (strip_prefix(w, "refs:", &rest)) {
		r->query = slice_eq(rest, "push")    ? slice_of("service=git-receive-pack")
			   : slice_eq(rest, "fetch") ? slice_of("service=git-upload-pack")
						     : SLICE_NONE;
		r->has_service = true;
		return true;
	}
	if (!strip_prefix(w, "also:", &rest) || r->n_also == REPLAY_ALSO_MAX)
		return false;
	r->also[r->n_also++] = rest;
	return true;
}

/* Text that cannot be parsed counts as truncated: there was something. */
static void parse_act(struct replay *r, const char *act)
{
	for (int k = 0; k < GRAPHQL_TYPE_COUNT; k++)
		r->docs[k].n_ops = r->docs[k].n_fields = 0;
	r->n_gql = r->n_push = r->n_also = 0;
	r->has_push = r->has_service = r->is_cut = false;
	r->query = SLICE_NONE;
	while (has_text(act)) {
		struct slice w = { act, strcspn(act, " ") };

		act += w.len + (act[w.len] == ' ');
		if (!take_graphql_field(r, w) && !take_push_ref(r, w) && !take_other_act(r, w))
			r->is_cut = true;
	}
}

/* The path as it was judged; false: the log has none, or not all of it. */
static bool parse_replay_path(struct replay *r, const char *text, struct policy_request *q,
			      bool *ret_has_query)
{
	size_t len = strcspn(text, "?");
	struct urlpath u;

	*ret_has_query = text[len] == '?';
	/* If the middle of a path is left out, its digest is there; older logs have only the beginning. */
	if (len >= PATH_CUT || memchr(text, '#', len))
		return false;
	if (text[0] != '/') { /* OPTIONS * */
		q->path = slice_of("/");
		return true;
	}
	if (urlpath_canon(text, len, URLPATH_KEEP_SLASH, &r->path, &u, NULL) < 0)
		return false;
	q->path = urlpath_path(&r->path, &u);
	if (!u.slash)
		return true;
	if (urlpath_slashed(q->path, &r->slashed) < 0)
		return false;
	q->slashed = (struct slice){ r->slashed.data, r->slashed.len };
	return true;
}

/* Decides by the body, if that is known and needed. */
static enum replay_now replay_body(struct replay *r, const struct policy_target *t, struct policy_request *q,
				   struct policy_verdict *v, const char **ret_why)
{
	unsigned need = v->need;

	if (r->is_cut)
		return set_unknown(ret_why, "its body's operation was too long for the log");
	if (need & POLICY_NEED_GRAPHQL && r->n_gql == 0)
		return set_unknown(ret_why, "the GraphQL operation is not in the log");
	if (need & POLICY_NEED_PUSH && !r->has_push)
		return set_unknown(ret_why, "the refs of the push are not in the log");
	q->gql = r->gql;
	q->n_gql = r->n_gql;
	q->push = r->push;
	q->n_push = r->n_push;
	q->is_body_known = true;
	policy_request(r->p, t, q, v);
	return now_from_verdict(v);
}

/* An old log does not say which git service /info/refs was for: decided only if it makes no difference. */
static bool depends_on_service(struct replay *r, const struct policy_target *t, struct policy_request *q)
{
	static const char *const of[] = { "", "service=git-upload-pack", "service=git-receive-pack" };
	enum policy_action first = POLICY_DENY;
	struct policy_verdict v;

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		q->query = slice_of(of[i]);
		policy_request(r->p, t, q, &v);
		if (i && v.action != first)
			return true;
		first = v.action;
	}
	return false;
}

/* Paths that headers name are judged like the first, and denied if they would need a body. */
static enum replay_now replay_second_paths(struct replay *r, const struct policy_target *t,
					   struct policy_verdict *v, const char **ret_why)
{
	for (size_t i = 0; i < r->n_also; i++) {
		const char *colon = memchr(r->also[i].p, ':', r->also[i].len);
		size_t n = colon ? (size_t)(colon - r->also[i].p) : 0;
		struct policy_request q = { .method = { r->also[i].p, n } };
		char path[REPLAY_ACT_MAX + 1];
		bool has_query;

		if (!colon || r->also[i].len - n > sizeof(path))
			return set_unknown(ret_why,
					   "a second path of the request cannot be read from the log");
		memcpy(path, colon + 1, r->also[i].len - n - 1);
		path[r->also[i].len - n - 1] = '\0';
		if (!parse_replay_path(r, path, &q, &has_query))
			return set_unknown(ret_why,
					   "a second path of the request cannot be read from the log");
		policy_request(r->p, t, &q, v);
		if (!policy_allows(v))
			return now_from_verdict(v);
	}
	return REPLAY_ALLOW;
}

/* Was the request to carry this secret? */
static bool carries_secret(const struct replay_seen *s, const char *secret)
{
	const char *p = s->secrets;
	size_t n = secret ? strlen(secret) : 0;

	while (n && has_text(p)) {
		size_t len = strcspn(p, ",");

		if (len == n && memcmp(p, secret, n) == 0)
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

/* Decides a request whose method and path are in the log. */
static enum replay_now replay_known_request(struct replay *r, const struct replay_seen *s,
					    const struct policy_target *t, struct policy_verdict *v,
					    const char **ret_why)
{
	struct policy_request q = { .method = slice_of(s->method) };
	struct policy_verdict first;
	enum replay_now now;
	bool has_query;

	if (!parse_replay_path(r, s->path, &q, &has_query))
		return set_unknown(ret_why, "its path was too long for the log");
	q.query = r->query;
	if (has_query && !r->has_service && gitpkt_service(q.path, SLICE_NONE, NULL) == GITPKT_DUMB &&
	    depends_on_service(r, t, &q))
		return set_unknown(ret_why, "the git service of the request is not in the log");
	q.query = r->query;
	policy_request(r->p, t, &q, v);
	now = v->need ? replay_body(r, t, &q, v, ret_why) : now_from_verdict(v);
	if (now != REPLAY_ALLOW)
		return now;
	first = *v;
	now = replay_second_paths(r, t, v, ret_why);
	if (now != REPLAY_ALLOW)
		return now;
	*v = first;
	if (r->is_cut)
		return set_unknown(ret_why, "the rest of the request was too long for the log");
	if (v->terms.credentials_only && !has_text(s->secrets))
		return set_unknown(ret_why,
				   "the log does not tell whether the request had a credential of its own");
	if (v->terms.secret_ask && carries_secret(s, v->terms.secret)) {
		verdict_words(v);
		verdict_why(v, "a person is asked before its secret is used");
		return REPLAY_ASK;
	}
	return unless_refused_otherwise(s, REPLAY_ALLOW, ret_why);
}

static enum replay_now replay_request(struct replay *r, const struct replay_seen *s,
				      const struct policy_target *t, struct policy_verdict *v,
				      const char **ret_why)
{
	policy_connect_quietly(r->p, t, v);
	if (!policy_allows(v))
		return now_from_verdict(v);
	if (!has_text(s->method) || !has_text(s->path)) {
		if (target_has_entries(r->p, t) || v->terms.credentials_only)
			return set_unknown(ret_why,
					   "method and path are not in the log: it was only counted");
		return unless_refused_otherwise(s, REPLAY_ALLOW, ret_why);
	}
	parse_act(r, s->act);
	return replay_known_request(r, s, t, v, ret_why);
}

/* --- all ------------------------------------------------------------------------------------------------------- */

static enum replay_now replay_lookup(struct replay *r, const struct replay_seen *s, const struct host *h,
				     struct policy_verdict *v, const char **ret_why)
{
	policy_name_quietly(r->p, h, v);
	/* A name that a person is to be asked about may be looked up. */
	return policy_may_allow(v) ? unless_refused_otherwise(s, REPLAY_ALLOW, ret_why) : now_from_verdict(v);
}

/* An ask whether a secret may be used there, about which nothing else is known. */
static enum replay_now replay_secret(struct replay *r, const struct replay_seen *s,
				     const struct policy_target *t, struct policy_verdict *v,
				     const char **ret_why)
{
	policy_connect_quietly(r->p, t, v);
	if (!policy_allows(v))
		return now_from_verdict(v);
	verdict_words(v);
	if (!v->terms.secret || !has_text(s->what) || !str_eq(v->terms.secret, s->what))
		return set_unknown(ret_why, "the rule does not name this secret");
	if (target_has_entries(r->p, t))
		return set_unknown(ret_why, "the rule decides by request, and the request is not in the log");
	return v->terms.secret_ask ? REPLAY_ASK : REPLAY_ALLOW;
}

/* Does the policy have no rule, or only `deny: "*"`? There rules that a person granted on top apply
 * (policy_widen.c). */
static bool policy_has_no_opinion(const struct policy_verdict *v)
{
	if (v->is_default || v->is_omitted)
		return true;
	return v->rule && !v->entry && !v->rule->by_addr && str_eq(v->rule->host.text, "*") &&
	       v->rule->n_ports == 1 && v->rule->ports[0].lo == 1 && v->rule->ports[0].hi == 65535;
}

/* Decides an event about the network again. */
static enum replay_now replay_network(struct replay *r, const struct replay_seen *s, struct policy_verdict *v,
				      const char **ret_why)
{
	struct policy_target t = { .port = s->port };
	struct host h;

	if (s->host && str_eq(s->host, "*"))
		return set_unknown(ret_why, "the name is not in the log: it was only counted");
	if (!has_text(s->host) || host_canon(s->host, strlen(s->host), &h, NULL) < 0)
		return set_unknown(ret_why, "the requested name cannot be the subject of a rule");
	if (s->kind == REPLAY_LOOKUP)
		return replay_lookup(r, s, &h, v, ret_why);
	if (s->port == 0)
		return set_unknown(ret_why, "the port is not in the log");
	t.name = &h;
	switch (s->kind) {
	case REPLAY_CONNECT:
		return replay_connect(r, s, &t, v, ret_why);
	case REPLAY_ADDRESS:
		return replay_address(r, s, &t, v, ret_why);
	case REPLAY_SECRET:
		return replay_secret(r, s, &t, v, ret_why);
	default:
		return replay_request(r, s, &t, v, ret_why);
	}
}

enum replay_now replay_decide(struct replay *r, const struct replay_seen *s, struct policy_verdict *v,
			      const char **ret_why)
{
	enum replay_now now;

	*v = (struct policy_verdict){ 0 };
	if (s->kind == REPLAY_TOOL)
		return replay_decide_tool(r, s, v, ret_why);
	if (s->kind == REPLAY_APPLY)
		return replay_decide_apply(r, v);
	now = replay_network(r, s, v, ret_why);
	return s->granted && now == REPLAY_DENY && policy_has_no_opinion(v) ? REPLAY_ALLOW : now;
}
