/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a policy is put together: room config does it from YAML, policy_unpack() from a bundle, both through these
 * functions, so that what could not be written in a file cannot be smuggled in as bytes either.
 *
 *	policy_new → policy_add_layer → policy_add_rule … → policy_seal → decide, pack, describe
 *
 * Invariants
 *  B1  Nothing can be added once sealed, nothing be decided before.
 *  B2  An allow or ask never covers a public suffix, every address, or (but by `to:`) a special address.
 *  B3  Two rules that can decide the same connection agree on where it goes: `to:`, `ca:` and `pool:`.
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
#define POLICY_POOLS_MAX 32
#define POLICY_PROXIES_MAX 1024 /* of one pool */
#define POLICY_RESOLVERS_MAX 8
#define POLICY_BLOCKLISTS_MAX 32
#define POLICY_BLOCKED_MAX (32u << 20) /* names of one blocklist */
#define POLICY_FIELD_MAX 128	       /* bytes of a GraphQL field's pattern */
#define POLICY_CATEGORY_MAX 31
#define POLICY_WIDENED_MAX 256 /* rules that a person granted on top */

enum policy_entry_kind { POLICY_HTTP, POLICY_GRAPHQL, POLICY_GIT, POLICY_ENTRY_KIND_COUNT };

#define POLICY_GIT_FETCH 16u /* in acts, beside enum policy_push_act */
#define POLICY_GIT_PUSH_ALL 15u
#define POLICY_GRAPHQL_ALL 7u /* 1 << enum graphql_type */

struct policy_entry {
	enum policy_entry_kind kind;
	enum policy_action action;
	method_set methods; /* POLICY_HTTP */
	unsigned acts; /* POLICY_GRAPHQL: 1 << type; POLICY_GIT: POLICY_GIT_FETCH, enum policy_push_act */
	char *path;    /* a pathpat. POLICY_GRAPHQL: of the endpoint; POLICY_GIT: of the repository, "/o/r" */
	char *name; /* POLICY_GRAPHQL: a root field, may hold *; POLICY_GIT: a ref's pattern, NULL for fetch */
	uint32_t line;
};

struct policy_ports {
	uint16_t lo, hi;
};

struct policy_rule {
	enum policy_action action;
	bool by_addr; /* `range` and not `host` */
	struct hostpat host;
	struct addr_range range;
	struct policy_ports ports[POLICY_PORTS_MAX];
	unsigned n_ports;
	bool port_given; /* a rule that names no port is less specific than any that does */
	int depth;	 /* an enum policy_depth, -1: the least that is needed */
	struct policy_entry *entries;
	size_t n_entries;
	struct policy_limits limits;
	bool has_pin;
	struct addr pin;
	uint16_t pin_port; /* 0: the target's */
	char *ca;
	char *ca_file; /* where that was read, for people; in no bundle */
	char pool[POLICY_POOL_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1];
	char capture[POLICY_SECRET_MAX + 1];
	bool credentials_only;
	bool secret_ask;		    /* a person is asked before it is used */
	char source[POLICY_SOURCE_MAX + 1]; /* "team.yaml", "--allow", "preset npm" */
	uint32_t line;			    /* 0: none */

	uint32_t id; /* set by policy_add_rule() */
	unsigned layer;
};

#define POLICY_RULE_INIT ((struct policy_rule){ .depth = -1 })

int policy_new(enum policy_mode mode, struct policy **ret, struct err *e) MUST_CHECK;

/* Rules of one origin. `pool` (or "") stands in where a rule names none; *ret_layer counts from 0. */
struct policy_layer_opts {
	struct policy_limits limits;
	char pool[POLICY_POOL_MAX + 1];
	bool require_pool; /* what has no pool is denied */
	bool browser;
};
int policy_add_layer(struct policy *p, const struct policy_layer_opts *o, unsigned *ret_layer,
		     struct err *e) MUST_CHECK;

/* What is known only when all is read. Before policy_seal(). */
void policy_set_layer_opts(struct policy *p, unsigned layer, const struct policy_layer_opts *o);
void policy_set_mode(struct policy *p, enum policy_mode mode);

/* Takes over what the rule owns and leaves it empty; on failure the caller still owns it. */
int policy_add_rule(struct policy *p, unsigned layer, struct policy_rule *r, struct err *e) MUST_CHECK;
int policy_rule_add_entry(struct policy_rule *r, const struct policy_entry *en,
			  struct err *e) MUST_CHECK; /* copies */
void policy_rule_release(struct policy_rule *r);

void policy_clear_resolvers(struct policy *p);
int policy_add_resolver(struct policy *p, const struct policy_resolver *r, struct err *e) MUST_CHECK;
int policy_set_synthetic(struct policy *p, const struct addr_range *r, struct err *e) MUST_CHECK;
int policy_add_proxies(struct policy *p, const struct policy_proxies *pool,
		       struct err *e) MUST_CHECK; /* copies */

/* Names in canonical form, each blocked with all below it; see policy/blocklist.h. Takes over the list. */
struct blocklist;
int policy_add_blocklist(struct policy *p, struct blocklist *b, struct err *e) MUST_CHECK;

int policy_seal(struct policy *p, struct err *e) MUST_CHECK;

/*
 * What a person granted on top (policy_widen.c), in place of what was granted before. Takes over what the rules own. On failure all is as
 * it was, but for the rules, which are the caller's to release. Of a sealed policy too (policy_widen.W3).
 */
int policy_widen(struct policy *p, struct policy_rule *rules, size_t n, struct err *e) MUST_CHECK;
size_t policy_widened(const struct policy *p, struct policy_rule *const **ret); /* ret may be NULL */
bool policy_is_widened_by(const struct policy *p, const char *source);
/* May it be asked for? -EPERM: the policy says no; -EEXIST: it needs no asking; -EINVAL: nobody may grant such a rule. */
int policy_widen_check(const struct policy *p, const struct policy_rule *r, struct err *e) MUST_CHECK;

/* What is in it, for explain, diff and tests: in the order of layers, then as added. */
size_t policy_rule_count(const struct policy *p);
const struct policy_rule *policy_rule_at(const struct policy *p, size_t i);
size_t policy_layer_count(const struct policy *p);
/* Does this rule decide by itself what its layer says of requests to the target? It lists some, so that nothing is left to less
 * specific ones, and no other is as specific, or more. */
bool policy_rule_is_alone(const struct policy *p, const struct policy_rule *r, const struct policy_target *t);
/* The blocklist that names it, NULL when none does. */
const char *policy_blocked_by(const struct policy *p, const struct host *name);

/* "GET,HEAD /x/y", "mutation addComment at /graphql", "push /o/r refs/heads/bot/x create,update". */
void policy_entry_text(const struct policy_entry *en, struct buf *out);

/* The depth that a rule needs by itself. */
enum policy_depth policy_rule_depth(const struct policy_rule *r);

#endif
