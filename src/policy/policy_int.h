/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room. */
#ifndef POLICY_POLICY_INT_H
#define POLICY_POLICY_INT_H

#include "policy/blocklist.h"
#include "policy/build.h"

struct layer {
	struct policy_layer_opts opts;
	struct policy_rule **rules; /* as added */
	size_t n;
	struct policy_rule **by_host; /* by the pattern's text, then by id */
	size_t n_by_host;
	struct policy_rule **by_addr; /* longest prefix first, then by range, then by id */
	size_t n_by_addr;
};

struct policy {
	enum policy_mode mode;
	uint32_t generation;
	bool sealed;
	struct layer layers[POLICY_LAYERS_MAX];
	unsigned n_layers;
	size_t n_rules;
	struct policy_resolver resolvers[POLICY_RESOLVERS_MAX];
	size_t n_resolvers;
	bool has_synthetic;
	struct addr_range synthetic;
	struct policy_proxies *proxy_sets;
	size_t n_proxy_sets;
	struct blocklist blocklists[POLICY_BLOCKLISTS_MAX];
	size_t n_blocklists;
	struct layer widened; /* rules that a person granted on top: policy_widen.c */
	unsigned char digest[POLICY_DIGEST_LEN];
};

/* Checks everything about one rule that does not depend on the others. */
int rule_check(const struct policy_rule *r, struct err *e) MUST_CHECK;
struct policy_limits limits_lower(struct policy_limits a, const struct policy_limits *b);

/* Everything that decides, as bytes; its digest is the policy's. */
int bundle_pack_body(const struct policy *p, struct buf *out, struct err *e) MUST_CHECK;
int seal_as(struct policy *p, const unsigned char digest[POLICY_DIGEST_LEN], struct err *e) MUST_CHECK;

/*
 * The rules of one layer that match a target, from the most specific on, one step at a time. All rules of a step have
 * the same host pattern and are equally specific by port.
 */
struct walk {
	const struct layer *l;
	const struct host *name; /* NULL: use addr */
	struct addr addr;
	uint16_t port;
	int stage;
	const char *next; /* in name: after the last dot that was examined */
	struct policy_rule *const *set;
	size_t lo, hi; /* the rules of this host pattern, in set */
	unsigned spec; /* of this step; smaller means more specific by port */
};

void walk_begin(struct walk *w, const struct layer *l, const struct policy_target *t);
bool walk_level(struct walk *w); /* to the next host pattern, whatever its ports; false at the end */
bool walk_step(struct walk *w);	 /* to the next step; false at the end */
/* The next rule of this step after *at, which begins at 0; NULL at the end. */
const struct policy_rule *walk_rule(const struct walk *w, size_t *at);
bool walk_is_any(const struct walk *w); /* at the pattern "*" */

/* How specific a rule is for a port: 1 for a single port … 65536 for any or none; 0 if it does not match. */
unsigned rule_port_spec(const struct policy_rule *r, uint16_t port);

/* "allow *.github.com:443", and " (team.yaml:12)". */
void rule_add_head(const struct policy_rule *r, struct buf *out);
void rule_add_source(const struct policy_rule *r, uint32_t line, struct buf *out);

/* Sorts the rules of a layer for lookup. */
int layer_sort(struct layer *l, struct err *e) MUST_CHECK;
void layer_release(struct layer *l);
int seal_digest(struct policy *p,
		struct err *e) MUST_CHECK; /* computes the digest of a sealed policy again */

/* Rules that were granted on top, used where a layer has no rule: policy_widen.c. At this step they may
 * override a deny of all names. */
bool widen_may_speak(const struct walk *w);
bool widen_connect(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   struct policy_verdict *v);
/* `omitted`: the step whose rule lists requests but not this one, and which *v comes from: its terms still
 * apply, and granted rules that list no requests do not count. NULL: they do. */
bool widen_request(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   const struct policy_request *q, struct slice path, const struct walk *omitted,
		   struct policy_verdict *v);
/* Combines all rules of the step that let something through: the lowest of each limit, the greatest depth.
 * decide.c. */
void terms_add_equals(const struct walk *w, struct policy_verdict *v);

/* Filling in verdicts: verdict.c. `a` is the decision; a requirement that cannot be met turns it into a
 * denial. */
void verdict_by_rule(struct policy_verdict *v, const struct walk *w, const struct policy_rule *r,
		     const struct policy_entry *en, enum policy_action a);
void verdict_default(struct policy_verdict *v, const struct policy *p, const struct policy_target *t,
		     bool entries);
/* Adds the texts of an allowance, which are only made for the final result. */
void verdict_words(struct policy_verdict *v);
/* Turns it into an allowance, because it is only observed and no rule denies it by name. */
void verdict_observe(struct policy_verdict *v);
void verdict_why(struct policy_verdict *v, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Merges the stricter of the two into v. */
void verdict_merge(struct policy_verdict *v, const struct policy_verdict *other);
bool verdict_blocked(const struct policy *p, const struct host *name, struct policy_verdict *v);

#define TARGET_TEXT_MAX (HOST_MAX + 16)
char *target_text(const struct policy_target *t, char out[TARGET_TEXT_MAX]); /* "example.com:443" */
const struct host *target_name(const struct policy_target *t);		     /* NULL: an address literal */
struct addr target_addr(const struct policy_target *t);

/* policy_connect() without texts. */
void connect_quietly(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret);

/* The verdict of one step's entries on a request: find.c. */
enum found {
	FOUND_NOTHING, /* these entries do not apply */
	FOUND_ALLOW,
	FOUND_ASK,
	FOUND_DENY,
	FOUND_UNNAMED, /* they apply, but none names it */
	FOUND_NEED,    /* depends on the body */
};
struct finding {
	enum found found;
	const struct policy_rule *rule;
	const struct policy_entry *entry;
	unsigned need;
	char scope[PATHPAT_MAX + 1]; /* the paths that the entry covers; "" for all */
	char what[128];		     /* "mutation mergePullRequest", "push to refs/heads/main" */
};
void find_http(const struct walk *w, method_set method, struct slice path, const char *within,
	       struct finding *f);
void find_graphql(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f);
void find_git(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f);

#endif
