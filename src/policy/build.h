/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a policy is built: room config does it from YAML, policy_unpack() from a bundle, both through these functions, so that a
 * bundle cannot contain anything that a file could not say.
 *
 *	policy_new → policy_add_layer → policy_add_rule … → policy_seal → decide, pack, describe
 *
 * Invariants
 *  B1  Nothing can be added once the policy is sealed, and nothing decided before.
 *  B2  An allow or ask never covers a public suffix, every address, or (except by `to:`) a special address.
 *  B3  Two rules that can decide the same connection agree on its way: `to:`, `ca:` and `pool:`.
 */
#ifndef POLICY_BUILD_H
#define POLICY_BUILD_H

#include "policy/hostpat.h"
#include "policy/method.h"
#include "policy/pathpat.h"
#include "policy/policy.h"

#define POLICY_LAYERS_MAX 8
#define POLICY_RULES_MAX 8192	/* of all layers */
#define POLICY_ENTRIES_MAX 1024 /* of one rule */
#define POLICY_PORTS_MAX 16	/* of one rule */
#define POLICY_CA_MAX (64u << 10)
#define POLICY_SOURCE_MAX 255
#define POLICY_PROXY_SETS_MAX 32
#define POLICY_PROXIES_MAX 1024 /* of one proxy set */
#define POLICY_RESOLVERS_MAX 8
#define POLICY_BLOCKLISTS_MAX 32
#define POLICY_BLOCKED_MAX (32u << 20) /* names of one blocklist */
#define POLICY_FIELD_MAX 128	       /* bytes of a GraphQL field's pattern */
#define POLICY_CATEGORY_MAX 31
#define POLICY_WIDENED_MAX 256 /* rules that a person granted on top */

enum policy_entry_kind { POLICY_HTTP, POLICY_GRAPHQL, POLICY_GIT, POLICY_ENTRY_KIND_COUNT };

#define POLICY_GIT_FETCH 16u /* in acts, together with enum policy_push_act */
#define POLICY_GIT_PUSH_ALL 15u
#define POLICY_GRAPHQL_ALL 7u /* 1 << enum graphql_type */

struct policy_entry {
	enum policy_entry_kind kind;
	enum policy_action action;
	method_set methods; /* POLICY_HTTP */
	unsigned acts; /* POLICY_GRAPHQL: 1 << type; POLICY_GIT: POLICY_GIT_FETCH, enum policy_push_act */
	char *path;    /* a pathpat. POLICY_GRAPHQL: of the endpoint; POLICY_GIT: of the repository, "/o/r" */
	char *name; /* POLICY_GRAPHQL: a root field, may contain *; POLICY_GIT: a ref pattern, NULL for fetch */
	uint32_t line;
};

struct policy_ports {
	uint16_t lo, hi;
};

struct policy_rule {
	enum policy_action action;
	bool by_addr; /* uses `range` instead of `host` */
	struct hostpat host;
	struct addr_range range;
	struct policy_ports ports[POLICY_PORTS_MAX];
	unsigned n_ports;
	bool port_given; /* a rule without a port is less specific than any that names one */
	int depth;	 /* an enum policy_depth; -1: the lowest that suffices */
	struct policy_entry *entries;
	size_t n_entries;
	struct policy_limits limits;
	bool has_pin;
	struct addr pin;
	uint16_t pin_port; /* 0: the target's port */
	char *ca;
	char *ca_file; /* where it was read from, for messages; not in bundles */
	char proxy_set[POLICY_PROXY_SET_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1];
	char capture[POLICY_SECRET_MAX + 1];
	bool credentials_only;
	bool secret_ask;		    /* a person must approve before it is used */
	char source[POLICY_SOURCE_MAX + 1]; /* "team.yaml", "--allow", "preset npm" */
	uint32_t line;			    /* 0: unknown */

	uint32_t id; /* set by policy_add_rule() */
	unsigned layer;
};

#define POLICY_RULE_INIT ((struct policy_rule){ .depth = -1 })

int policy_new(enum policy_mode mode, struct policy **ret, struct err *e) MUST_CHECK;

/* The rules of one origin. `proxy_set` (or "") applies to rules that name none; *ret_layer counts from 0. */
struct policy_layer_opts {
	struct policy_limits limits;
	char proxy_set[POLICY_PROXY_SET_MAX + 1];
	bool require_proxy_set; /* connections without a proxy set are denied */
	bool browser;
};
int policy_add_layer(struct policy *p, const struct policy_layer_opts *o, unsigned *ret_layer,
		     struct err *e) MUST_CHECK;

/* For options that are known only after everything was read. Before policy_seal(). */
void policy_set_layer_opts(struct policy *p, unsigned layer, const struct policy_layer_opts *o);
void policy_set_mode(struct policy *p, enum policy_mode mode);

/* Takes ownership of what the rule owns and leaves the rule empty; on failure the caller still owns it. */
int policy_add_rule(struct policy *p, unsigned layer, struct policy_rule *r, struct err *e) MUST_CHECK;
int policy_rule_add_entry(struct policy_rule *r, const struct policy_entry *en,
			  struct err *e) MUST_CHECK; /* copies */
void policy_rule_release(struct policy_rule *r);

void policy_clear_resolvers(struct policy *p);
int policy_add_resolver(struct policy *p, const struct policy_resolver *r, struct err *e) MUST_CHECK;
int policy_set_synthetic(struct policy *p, const struct addr_range *r, struct err *e) MUST_CHECK;
int policy_add_proxies(struct policy *p, const struct policy_proxies *set,
		       struct err *e) MUST_CHECK; /* copies */

/* Canonical names; each blocks everything below it, too (policy/blocklist.h). Takes ownership of the list. */
struct blocklist;
int policy_add_blocklist(struct policy *p, struct blocklist *b, struct err *e) MUST_CHECK;

int policy_seal(struct policy *p, struct err *e) MUST_CHECK;

/*
 * Sets the rules that a person granted on top (policy_widen.c), replacing the earlier ones. Takes ownership of what the rules own.
 * On failure nothing changes, and the rules remain the caller's. Works on a sealed policy, too (policy_widen.W3).
 */
int policy_widen(struct policy *p, struct policy_rule *rules, size_t n, struct err *e) MUST_CHECK;
size_t policy_widened(const struct policy *p, struct policy_rule *const **ret); /* ret may be NULL */
bool policy_is_widened_by(const struct policy *p, const char *source);
/* May this rule be requested? -EPERM: the policy denies it; -EEXIST: no request is needed; -EINVAL: such a
 * rule cannot be granted. */
int policy_widen_check(const struct policy *p, const struct policy_rule *r, struct err *e) MUST_CHECK;

/* The contents, for explain, diff and tests: in the order of layers, then as added. */
size_t policy_rule_count(const struct policy *p);
const struct policy_rule *policy_rule_at(const struct policy *p, size_t i);
size_t policy_layer_count(const struct policy *p);
/* Does this rule alone decide what its layer says about requests to the target? It lists requests, so nothing
 * is left to less specific rules, and no other rule is as specific or more. */
bool policy_rule_is_alone(const struct policy *p, const struct policy_rule *r, const struct policy_target *t);
/* The category of the blocklist that contains it; NULL if none does. */
const char *policy_blocked_by(const struct policy *p, const struct host *name);

/* "GET,HEAD /x/y", "mutation addComment at /graphql", "push /o/r refs/heads/bot/x create,update". */
void policy_entry_text(const struct policy_entry *en, struct buf *out);

/* The depth that a rule by itself requires. */
enum policy_depth policy_rule_depth(const struct policy_rule *r);

#endif
