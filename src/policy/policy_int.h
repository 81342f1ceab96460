/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. */
#ifndef POLICY_POLICY_INT_H
#define POLICY_POLICY_INT_H

#include "policy/blocklist.h"
#include "policy/build.h"

struct layer {
	struct policy_layer_opts opts;
	struct policy_rule **rules; /* as added */
	size_t n;
	struct policy_rule **by_host; /* by pattern's text, then id */
	size_t n_by_host;
	struct policy_rule **by_addr; /* longest prefix first, then by range, then id */
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
	struct policy_proxies *pools;
	size_t n_pools;
	struct blocklist blocklists[POLICY_BLOCKLISTS_MAX];
	size_t n_blocklists;
	struct layer widened; /* what a person granted on top: policy_widen.c */
	unsigned char digest[POLICY_DIGEST_LEN];
};

/* Everything about one rule that can be said without the others. */
int rule_check(const struct policy_rule *r, struct err *e) MUST_CHECK;
struct policy_limits limits_lower(struct policy_limits a, const struct policy_limits *b);

/* Everything that decides, as bytes; its digest is the policy's. */
int pack_body(const struct policy *p, struct buf *out, struct err *e) MUST_CHECK;
int seal_as(struct policy *p, const unsigned char digest[POLICY_DIGEST_LEN], struct err *e) MUST_CHECK;

/*
 * The rules of one layer that match a target, from the most specific on, a step at a time. All rules of one step have
 * the same host pattern and are equally specific by port.
 */
struct walk {
	const struct layer *l;
	const struct host *name; /* NULL: addr */
	struct addr addr;
	uint16_t port;
	int stage;
	const char *next; /* of name: behind the last dot that was looked at */
	struct policy_rule *const *set;
	size_t lo, hi; /* rules of this host pattern, in set */
	unsigned spec; /* of this step; the smaller, the more specific by port */
};

void walk_begin(struct walk *w, const struct layer *l, const struct policy_target *t);
bool walk_level(struct walk *w); /* to the next host pattern, whatever its ports; false at the end */
bool walk_step(struct walk *w);	 /* to the next step; false at the end */
/* The next rule of this step behind *at, which begins at 0; NULL at the end. */
const struct policy_rule *walk_rule(const struct walk *w, size_t *at);
bool walk_is_any(const struct walk *w); /* at "*" */

/* How specific a rule is for a port: 1 a single one … 65536 any or none named; 0 when it does not match. */
unsigned rule_port_spec(const struct policy_rule *r, uint16_t port);

/* "allow *.github.com:443", and " (team.yaml:12)". */
void rule_add_head(const struct policy_rule *r, struct buf *out);
void rule_add_source(const struct policy_rule *r, uint32_t line, struct buf *out);

/* Sorted for lookup. */
int sort_layer(struct layer *l, struct err *e) MUST_CHECK;
void layer_release(struct layer *l);
int seal_digest(struct policy *p, struct err *e) MUST_CHECK; /* anew, of a policy that is sealed */

/* What was granted on top, where a layer has nothing to say: policy_widen.c. At this step it may speak against a deny of all names. */
bool widen_may_speak(const struct walk *w);
bool widen_connect(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   struct policy_verdict *v);
/* `omitted`: the step whose rule lists requests and not this one, by which *v is: its terms hold on, and rules that name no requests do
 * not count. NULL: they do. */
bool widen_request(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   const struct policy_request *q, struct slice path, const struct walk *omitted,
		   struct policy_verdict *v);
/* All rules of the step that let something in: the lowest of each limit, the greatest depth. decide.c. */
void terms_add_equals(const struct walk *w, struct policy_verdict *v);

/* Filling in verdicts: verdict.c. `a` is what was decided; what nobody can give yet turns it into a denial. */
void verdict_by_rule(struct policy_verdict *v, const struct walk *w, const struct policy_rule *r,
		     const struct policy_entry *en, enum policy_action a);
void verdict_default(struct policy_verdict *v, const struct policy *p, const struct policy_target *t,
		     bool entries);
/* The words of an allowance, which are only made for the answer that is given. */
void verdict_words(struct policy_verdict *v);
/* Allowed after all, because it is only observed and no rule says no by name. */
void verdict_observe(struct policy_verdict *v);
void verdict_why(struct policy_verdict *v, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The stricter of the two into v. */
void verdict_merge(struct policy_verdict *v, const struct policy_verdict *other);
bool verdict_blocked(const struct policy *p, const struct host *name, struct policy_verdict *v);

#define TARGET_TEXT_MAX (HOST_MAX + 16)
char *target_text(const struct policy_target *t, char out[TARGET_TEXT_MAX]); /* "example.com:443" */
const struct host *target_name(const struct policy_target *t);		     /* NULL: an address literal */
struct addr target_addr(const struct policy_target *t);

/* policy_connect() without words. */
void connect_quietly(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret);

/* What the entries of one step say about a request: find.c. */
enum found {
	FOUND_NOTHING, /* not what these entries are about */
	FOUND_ALLOW,
	FOUND_ASK,
	FOUND_DENY,
	FOUND_UNNAMED, /* what they are about, and none names it */
	FOUND_NEED,    /* only the body can say */
};
struct finding {
	enum found found;
	const struct policy_rule *rule;
	const struct policy_entry *entry;
	unsigned need;
	char scope[PATHPAT_MAX + 1]; /* the paths that this is about; "" when all */
	char what[128];		     /* "mutation mergePullRequest", "push to refs/heads/main" */
};
void find_http(const struct walk *w, method_set method, struct slice path, const char *within,
	       struct finding *f);
void find_graphql(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f);
void find_git(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f);

#endif
