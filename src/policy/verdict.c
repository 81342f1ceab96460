/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills in verdicts: their texts for people, their terms, and the merging of several layers into one
 * result. Pure: no I/O, no clock. A verdict that nothing has filled in denies (policy.P1).
 */
#include "policy/policy_int.h"

#include "base/str.h"
#include "policy/shorten.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void verdict_why(struct policy_verdict *v, const char *fmt, ...)
{
	char text[POLICY_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	str_safe(text, v->why, sizeof(v->why));
}

/* The proxy set of the rule, otherwise that of its layer; NULL: none. */
static const char *effective_proxy_set(const struct layer *l, const struct policy_rule *r)
{
	if (r && r->proxy_set[0])
		return r->proxy_set;
	return l->opts.proxy_set[0] ? l->opts.proxy_set : NULL;
}

/* Copies the terms of the deciding rule. */
static void set_terms(struct policy_terms *t, const struct walk *w, const struct policy_rule *r)
{
	t->limits = limits_lower(t->limits, &r->limits);
	t->has_pin = r->has_pin;
	t->pin = r->pin;
	t->pin_port = r->pin_port ? r->pin_port : w->port;
	t->ca = r->ca;
	t->proxy_set = effective_proxy_set(w->l, r);
	t->secret = r->secret[0] ? r->secret : NULL;
	t->capture = r->capture[0] ? r->capture : NULL;
	t->credentials_only = r->credentials_only;
	t->secret_ask = r->secret_ask;
}

/* The text if nobody is asked, or nobody answers. */
static void explain_ask(struct policy_verdict *v)
{
	if (v->action != POLICY_ASK)
		return;
	verdict_why(v, "%s: a person has to allow it", v->rule_text);
	v->hint = "`coffer ask ls` shows what waits for an answer, `coffer approve ID` answers";
}

static bool lacks_proxy_set(const struct policy_verdict *v, const struct walk *w, const struct policy_rule *r)
{
	return v->action != POLICY_DENY && w->l->opts.require_proxy_set && !effective_proxy_set(w->l, r);
}

static void deny_without_proxy_set(struct policy_verdict *v)
{
	v->action = POLICY_DENY;
	verdict_why(v, "%s: the policy requires a proxy set, and the rule names none", v->rule_text);
	v->hint = "give the rule, or the whole policy, a 'pool:'";
}

/* The deciding rule, with the line of the deciding entry. */
static void write_rule_text(const struct policy_verdict *v, char out[POLICY_RULE_TEXT_MAX])
{
	const struct policy_rule *r = v->rule;
	const struct policy_entry *en = v->entry;
	autobuf struct buf b = BUF_INIT;

	rule_add_head(r, &b);
	if (en) {
		buf_addc(&b, ' ');
		buf_adds(&b, policy_action_name(en->action));
		buf_addc(&b, ' ');
		policy_entry_text(en, &b);
	}
	rule_add_source(r, en && en->line ? en->line : r->line, &b);
	str_safe(buf_cstr(&b), out, POLICY_RULE_TEXT_MAX);
}

const char *policy_verdict_rule(const struct policy_verdict *v, char out[POLICY_RULE_TEXT_MAX])
{
	if (!v->rule || v->rule_text[0])
		return v->rule_text;
	write_rule_text(v, out);
	return out;
}

const char *policy_journal_note(const struct policy_verdict *v, enum policy_action judged, bool allowed)
{
	if (judged == POLICY_ASK)
		return policy_action_name(POLICY_ASK);
	if (allowed)
		return v->rule && v->rule->layer == POLICY_LAYERS_MAX ? policy_action_name(POLICY_DENY)
								      : NULL;
	return judged == POLICY_ALLOW ? policy_action_name(POLICY_ALLOW) : NULL;
}

void verdict_words(struct policy_verdict *v)
{
	static const char by[] = "allowed by the rule ";
	size_t len;

	if (!v->rule || v->rule_text[0])
		return;
	write_rule_text(v, v->rule_text);
	/* The rule text is already safe to print, and shorter than the space left. */
	static_assert(POLICY_WHY_MAX >= sizeof(by) + POLICY_RULE_TEXT_MAX, "both fit");
	len = strlen(v->rule_text);
	memcpy(v->why, by, sizeof(by) - 1);
	memcpy(v->why + sizeof(by) - 1, v->rule_text, len + 1);
}

void verdict_by_rule(struct policy_verdict *v, const struct walk *w, const struct policy_rule *r,
		     const struct policy_entry *en, enum policy_action a)
{
	*v = (struct policy_verdict){ .action = a, .rule = r, .entry = en, .rule_id = r->id };
	v->depth = policy_rule_depth(r);
	set_terms(&v->terms, w, r);
	if (a == POLICY_ALLOW && !lacks_proxy_set(v, w, r))
		return;
	write_rule_text(v, v->rule_text);
	verdict_why(v, "denied by the rule %s", v->rule_text);
	if (a == POLICY_DENY)
		v->hint = "the policy says so; 'coffer policy explain' shows how it was decided";
	explain_ask(v);
	if (lacks_proxy_set(v, w, r))
		deny_without_proxy_set(v);
}

/* The rule by which this layer alone would allow the target; NULL: none. */
static const struct policy_rule *layer_allowing_rule(const struct layer *l, const struct policy_target *t)
{
	struct walk w;

	walk_begin(&w, l, t);
	while (walk_step(&w)) {
		size_t at = 0;
		const struct policy_rule *r = walk_rule(&w, &at);

		if (r)
			return r->action == POLICY_DENY ? NULL : r;
	}
	return NULL;
}

/* The layer as people know it: "profile claude", "the command line", or a file without its directories. */
static void describe_layer(const struct policy *p, unsigned at, char out[POLICY_SOURCE_MAX + 1])
{
	const struct layer *l = &p->layers[at];
	const char *name = at + 1 == p->n_layers ? "the command line" : "the policy file";
	size_t len = strlen(name);

	for (size_t i = 0; i < l->n; i++) {
		const char *source = l->rules[i]->source, *slash = strrchr(source, '/');

		if (str_starts(source, "profile ")) {
			name = source;
			len = strcspn(source, ",");
			break;
		}
		if (!source[0] || str_starts(source, "--allow") || str_starts(source, "preset "))
			continue;
		name = slash ? slash + 1 : source;
		len = strlen(name);
	}
	len = len > POLICY_SOURCE_MAX ? POLICY_SOURCE_MAX : len;
	memcpy(out, name, len);
	out[len] = '\0';
}

/* "example.com:443"; a name that does not fit keeps its end. */
static void add_short_target(const struct policy_target *t, const char *text, size_t max, struct buf *out)
{
	const struct host *name = target_name(t);
	size_t len = name && str_starts(text, name->text) ? name->len : 0;

	if (!len) {
		shorten_text(text, max, "...", out);
		return;
	}
	shorten_text(name->text, max - strlen(text + len), "...", out);
	buf_adds(out, text + len);
}

/* One layer allows the target, and another has no rule for it. */
static void explain_one_layer(struct policy_verdict *v, const struct policy *p, const struct policy_target *t,
			      unsigned by, const char *text)
{
	const struct host *name = target_name(t);
	const char *option = name && t->port == 443 ? name->text : text;
	char has[POLICY_SOURCE_MAX + 1], lacks[POLICY_SOURCE_MAX + 1];
	autobuf struct buf what = BUF_INIT;
	unsigned other = 0;
	bool need, named;

	while (other < p->n_layers && layer_allowing_rule(&p->layers[other], t))
		other++;
	describe_layer(p, by, has);
	describe_layer(p, other < p->n_layers ? other : by, lacks);
	need = str_starts(lacks, "profile ") || str_eq(lacks, "the command line");
	/* The option must be complete: a host cut at its end would be another host, and people copy the
	 * option. */
	named = need && strlen(option) < 64;
	add_short_target(t, text, 52, &what);
	verdict_why(v, "%.40s allows %s, but %.40s does not. Both must allow it: add %s%s", has,
		    buf_cstr(&what), lacks,
		    named  ? "--allow "
		    : need ? "it by --allow"
			   : "it to that file",
		    named ? option : "");
	v->hint = need ? "--allow HOST opens one host of the policy file, --allow @policy all that it allows"
		       : "the policy file must also allow everything that --allow or a profile names";
}

/* Why nothing matches, if it is a common mistake. */
static void explain_default(struct policy_verdict *v, const struct policy *p, const struct policy_target *t)
{
	const struct host *name = target_name(t);
	char text[TARGET_TEXT_MAX], below[HOST_MAX + 3];
	autobuf struct buf shown = BUF_INIT;
	unsigned by = 0;

	target_text(t, text);
	while (by < p->n_layers && !layer_allowing_rule(&p->layers[by], t))
		by++;
	add_short_target(t, text, 200, &shown);
	verdict_why(v, "no rule allows %s", buf_cstr(&shown));
	v->hint = name ? "allow it: --allow HOST[:PORT], or a rule in the policy"
		       : "let the program use a name, or allow the address by a rule with 'address:'";
	if (by < p->n_layers)
		explain_one_layer(v, p, t, by, text);
	if (!name)
		return;
	snprintf(below, sizeof(below), "*.%s", name->text);
	for (unsigned i = 0; i < p->n_layers; i++) {
		struct walk w;

		if (layer_allowing_rule(&p->layers[i], t))
			continue;
		walk_begin(&w, &p->layers[i], t);
		while (walk_level(&w)) {
			if (w.set[w.lo]->action == POLICY_DENY)
				continue;
			verdict_why(v, "no rule allows %s: %s is for other ports", text,
				    w.set[w.lo]->host.text);
			v->hint = "name the port in the rule, or --allow HOST:PORT";
		}
		for (size_t k = 0; k < p->layers[i].n_by_host; k++) {
			if (str_eq(p->layers[i].by_host[k]->host.text, below))
				verdict_why(v, "no rule allows %s: %s does not cover %s itself", text, below,
					    name->text);
		}
	}
}

void verdict_observe(struct policy_verdict *v)
{
	v->action = POLICY_ALLOW;
	v->would_deny = true;
	v->hint = NULL;
}

void verdict_default(struct policy_verdict *v, const struct policy *p, const struct policy_target *t,
		     bool entries)
{
	*v = (struct policy_verdict){ .is_default = true, .rule_id = POLICY_RULE_NONE };
	v->depth = entries ? POLICY_INSPECT : POLICY_PEEK;
	memcpy(v->rule_text, "default", sizeof("default"));
	explain_default(v, p, t);
	if (p->mode == POLICY_OBSERVE)
		verdict_observe(v);
}

bool verdict_blocked(const struct policy *p, const struct host *name, struct policy_verdict *v)
{
	const char *category = policy_blocked_by(p, name);

	if (!category)
		return false;
	*v = (struct policy_verdict){ .rule_id = POLICY_RULE_NONE };
	snprintf(v->rule_text, sizeof(v->rule_text), "blocklist %s", category);
	verdict_why(v, "%s is on the blocklist '%s'", name->text, category);
	v->hint = "a blocklist overrides all rules that allow";
	return true;
}

static bool agree_or_unset(const char *a, const char *b)
{
	return !a || !b || str_eq(a, b);
}

/* Both allow: their terms must not contradict each other. */
static bool terms_merge(struct policy_terms *t, const struct policy_terms *o)
{
	if (t->has_pin && o->has_pin && (!addr_eq(&t->pin, &o->pin) || t->pin_port != o->pin_port))
		return false;
	if (!agree_or_unset(t->ca, o->ca) || !agree_or_unset(t->proxy_set, o->proxy_set) ||
	    !agree_or_unset(t->secret, o->secret))
		return false;
	if (o->has_pin) {
		t->has_pin = true;
		t->pin = o->pin;
		t->pin_port = o->pin_port;
	}
	t->ca = t->ca ? t->ca : o->ca;
	t->proxy_set = t->proxy_set ? t->proxy_set : o->proxy_set;
	t->secret = t->secret ? t->secret : o->secret;
	t->capture = t->capture ? t->capture : o->capture;
	t->credentials_only = t->credentials_only || o->credentials_only;
	t->secret_ask = t->secret_ask || o->secret_ask;
	t->limits = limits_lower(t->limits, &o->limits);
	return true;
}

void verdict_merge(struct policy_verdict *v, const struct policy_verdict *o)
{
	enum policy_depth depth = v->depth > o->depth ? v->depth : o->depth;
	struct policy_terms terms = v->terms;
	bool would_deny = v->would_deny || o->would_deny;

	if (o->action == POLICY_DENY && (v->action != POLICY_DENY || (v->need && !o->need))) {
		*v = *o;
		return;
	}
	if (v->action == POLICY_DENY) {
		v->need |= v->need ? o->need : 0;
		return;
	}
	if (!terms_merge(&terms, &o->terms)) {
		struct policy_verdict other = *o;

		verdict_words(v);
		verdict_words(&other);
		v->action = POLICY_DENY;
		verdict_why(v, "%s and %s set different values of 'to', 'ca', 'pool' or 'secret'",
			    v->rule_text, other.rule_text);
		v->hint = "set these in one of the two rules only";
		return;
	}
	/* The texts are those of the layer that asks. */
	if ((!v->rule && o->rule && o->action <= v->action) || o->action < v->action)
		*v = *o;
	v->terms = terms;
	v->depth = depth;
	v->would_deny = would_deny;
}
