/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on what may leave a sandbox. Pure: the same policy and query give the same result, without I/O,
 * clock or state. Built by room config from YAML (policy/build.h), passed to coffer-egress and coffer-dial as a
 * bundle (policy_pack()), never changed once built.
 *
 * Invariants
 *  P1  Anything but POLICY_ALLOW is a denial. A zeroed verdict denies. POLICY_ASK is a denial until a person has approved
 *      (egress/core/asking.h); a caller that cannot ask denies. Its terms apply once it is approved.
 *  P2  The most specific matching rule decides, by host, then port, then path, then method, whatever the order of the
 *      rules; between equals (and between two paths of which neither contains the other) deny beats ask beats
 *      allow. If nothing matches: denied in enforce, allowed and marked `would_deny` in observe.
 *  P3  A policy has layers (the file, the command line): only what every layer allows is allowed. Depth is the
 *      deepest, each limit the lowest, of all layers.
 *  P4  Names, addresses and paths are compared in the canonical form of codec/net/host.h, codec/net/addr.h and
 *      codec/http/urlpath.h. Deny and ask patterns match a path also in other letter case, with a trailing slash, or with
 *      ";parameters".
 *  P5  A special address (codec/net/addr.h) is dialled only because of a rule's `to:`. No other rule can change that.
 *  P6  Work is bounded: for a connection by the labels of the name and the rules of one host; for a request by the entries
 *      of those rules times the length of the path, without backtracking.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/body/gitpkt.h"
#include "codec/body/graphql.h"
#include "codec/net/addr.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_RULE_TEXT_MAX 192
#define POLICY_WHY_MAX 256
#define POLICY_PROXY_SET_MAX 31 /* bytes of the name of a proxy set */
#define POLICY_SECRET_MAX 63	/* bytes of a secret's name */
#define POLICY_DIGEST_LEN 32
#define POLICY_RULE_NONE UINT32_MAX

enum policy_mode { POLICY_OBSERVE, POLICY_ENFORCE };
enum policy_action { POLICY_DENY, POLICY_ASK, POLICY_ALLOW };
enum policy_depth { POLICY_TUNNEL, POLICY_PEEK, POLICY_INSPECT };

const char *policy_action_name(enum policy_action a); /* "deny" */
const char *policy_depth_name(enum policy_depth d);   /* "peek" */

struct policy;
struct policy_rule; /* policy/build.h */
struct policy_entry;

/* 0: no limit. */
struct policy_limits {
	uint64_t bytes_up;  /* of all connections of the rule (of the sandbox) together, for its lifetime */
	uint64_t bandwidth; /* bytes per second, each way */
	uint32_t requests_per_minute; /* inspected requests; connections if nothing is inspected */
	uint32_t connections;	      /* at the same time */
};

/* The terms of a connection or request besides the decision. Strings belong to the policy, and are NULL if not set. */
struct policy_terms {
	struct policy_limits limits; /* of the rule; those of the sandbox are policy_limits() */
	bool has_pin;		     /* `to:`: dial only this address, without resolving */
	struct addr pin;
	uint16_t pin_port;     /* the port to dial; equal to the target's if `to:` names none */
	const char *ca;	       /* PEM: the only CA that may have issued the server's certificate */
	const char *proxy_set; /* dial through it, never directly */
	const char *secret;    /* requests may carry it; denied if the sandbox was not granted it */
	/* name under which credentials that servers issue are stored; denied if nothing stores them */
	const char *capture;
	bool secret_ask; /* a person must approve before a request carries it; denied if nobody can be asked */
	bool credentials_only; /* `credentials: only`: refuse requests with credentials of the sandbox's own */
};

struct policy_verdict {
	enum policy_action action;
	enum policy_depth depth; /* valid if allowed or asked */
	unsigned need;	  /* POLICY_NEED_*: denied only until the body is known; see policy_request() */
	bool would_deny;  /* allowed only because of observe; enforce would deny */
	bool is_default;  /* no rule matched */
	bool is_unnamed;  /* of a request: no entry covers its path or body */
	bool is_omitted;  /* denied because the rule lists requests by method and path, and not this one */
	uint32_t rule_id; /* a key for counting limits; POLICY_RULE_NONE if no rule decided */
	const struct policy_rule *rule;	  /* NULL if no rule decided */
	const struct policy_entry *entry; /* of the rule, if an entry decided on the request */
	struct policy_terms terms;
	/* "allow *.github.com:443 (team.yaml:12)", "default", "blocklist ads" */
	char rule_text[POLICY_RULE_TEXT_MAX];
	char why[POLICY_WHY_MAX]; /* one sentence for people, without a full stop */
	const char *hint;	  /* what to do about a denial; static text or NULL */
};

enum { POLICY_NEED_GRAPHQL = 1, POLICY_NEED_PUSH = 2 };

static inline bool policy_allows(const struct policy_verdict *v)
{
	return v->action == POLICY_ALLOW;
}

/* Allowed, or to be asked: for steps before the act itself. A name that a person may yet allow may be
 * resolved. */
static inline bool policy_may_allow(const struct policy_verdict *v)
{
	return v->action == POLICY_ALLOW || v->action == POLICY_ASK;
}

/*
 * A text about a rule as a sandbox may read it: the place of a rule is given by the base name of its file, "(team.yaml:12)" and not
 * "(/home/ann/work/team.yaml:12)". The sandbox must not learn more about the host. Every text that is sent inside goes
 * through this function.
 */
void policy_text_inside(const char *text, struct buf *out);

/* DNS: is there a port on which this name could be reached? Such a name gets an address, others NXDOMAIN. */
void policy_name(const struct policy *p, const struct host *name, struct policy_verdict *ret);

struct policy_target {
	const struct host *name; /* canonical. For an address literal: NULL, or a host of kind HOST_ADDR */
	struct addr addr;	 /* if name is NULL */
	uint16_t port;
};

/*
 * May this target be connected to, and at which depth? Before a byte is sent. In observe, traffic at depth peek that is neither
 * TLS nor HTTP continues as a tunnel if `would_deny` or `is_default` is set; otherwise only if depth is tunnel.
 */
void policy_connect(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret);

/*
 * One command of a push. An update counts as POLICY_PUSH_FORCE unless the caller knows that it is a fast-forward:
 * the protocol does not tell, and the worse case is assumed.
 */
enum policy_push_act {
	POLICY_PUSH_CREATE = 1,
	POLICY_PUSH_UPDATE = 2,
	POLICY_PUSH_DELETE = 4,
	POLICY_PUSH_FORCE = 8,
};

struct policy_push {
	struct slice ref; /* "refs/heads/main" */
	enum policy_push_act act;
};

static inline struct policy_push policy_push_of(const struct gitpkt_command *c)
{
	return (struct policy_push){ c->ref, c->is_delete   ? POLICY_PUSH_DELETE
					     : c->is_create ? POLICY_PUSH_CREATE
							    : POLICY_PUSH_FORCE };
}

struct policy_request {
	struct slice method;  /* as sent: methods are case-sensitive */
	struct slice path;    /* urlpath_path() */
	struct slice slashed; /* urlpath_slashed() if the path had a %2F; otherwise empty. Both are judged. */
	struct slice query;   /* raw, without "?"; for git's service */
	/* Known once the body is: leave NULL and 0 until verdict.need is set. If no document is readable:
	 * none, with is_body_known. */
	const struct graphql_doc *const *gql; /* each document of a batch */
	size_t n_gql;
	const struct policy_push *push;
	size_t n_push;
	bool is_body_known; /* the body is complete: whatever is still needed is denied */
};

/*
 * One request on an inspected connection. If `need` is set, the decision depends on the body: hold it back (bounded),
 * parse it with codec/body/graphql.h or codec/body/gitpkt.h, and call again with the result and is_body_known. Until then the
 * action is POLICY_DENY, so that a caller that forgets this lets nothing through.
 */
void policy_request(const struct policy *p, const struct policy_target *t, const struct policy_request *r,
		    struct policy_verdict *ret);

/*
 * coffer-dial: may this address, which the target's name resolved to (or which it is), be dialled? After policy_connect().
 * Call it for every candidate. With terms.has_pin the only valid candidate is the pin.
 */
void policy_address(const struct policy *p, const struct policy_target *t, const struct addr *resolved,
		    struct policy_verdict *ret);

/*
 * The same three for frequent callers: if a rule allows, rule_text and why are left empty, because they cost more than the
 * decision. Denials, and what only observe lets through, have them.
 */
void policy_name_quietly(const struct policy *p, const struct host *name, struct policy_verdict *ret);
void policy_connect_quietly(const struct policy *p, const struct policy_target *t,
			    struct policy_verdict *ret);
void policy_address_quietly(const struct policy *p, const struct policy_target *t,
			    const struct addr *resolved, struct policy_verdict *ret);
/*
 * For the journal: the policy's own decision, if the outcome differs from it; otherwise NULL. "ask": approval was required;
 * "allow": it was refused nevertheless; "deny": the policy had no rule for it, and one that a person granted on top let it
 * through. `judged` is v->action as the policy gave it.
 */
const char *policy_journal_note(const struct policy_verdict *v, enum policy_action judged, bool allowed);
/* v->rule_text, or the same made in `out` if that is empty; "" if no rule decided. */
const char *policy_verdict_rule(const struct policy_verdict *v, char out[POLICY_RULE_TEXT_MAX]);

/* May a CNAME target occur in a chain? Only a deny rule or blocklist that names it forbids it. */
void policy_alias(const struct policy *p, const struct host *name, struct policy_verdict *ret);

/* "allow *.github.com:443 (team.yaml:12)". Returns out. */
char *policy_rule_text(const struct policy_rule *r, char out[POLICY_RULE_TEXT_MAX]);

/* Properties of the whole policy. */
enum policy_mode policy_mode(const struct policy *p); /* enforce unless every layer has observe */
uint32_t policy_generation(const struct policy *p);
void policy_set_generation(struct policy *p, uint32_t generation); /* before policy_pack() */
bool policy_needs_ca(const struct policy *p);	   /* some rule may require that TLS is terminated */
bool policy_needs_proxies(const struct policy *p); /* some rule, or the sandbox, names a proxy set */
bool policy_is_browser(const struct policy *p);
bool policy_allows_nothing(const struct policy *p);	    /* enforce, and no rule can allow anything */
struct policy_limits policy_limits(const struct policy *p); /* of the sandbox */

struct policy_resolver {
	struct addr addr;
	uint16_t port;
};
size_t policy_resolvers(const struct policy *p,
			const struct policy_resolver **ret); /* 0: those of resolv.conf */

/* The range of synthetic addresses; false if the policy names none. */
bool policy_synthetic(const struct policy *p, struct addr_range *ret);

enum policy_proxy_type { POLICY_PROXY_CONNECT, POLICY_PROXY_SOCKS5 };
enum policy_rotate { POLICY_ROTATE_STICKY, POLICY_ROTATE_CONNECTION, POLICY_ROTATE_REQUEST };

struct policy_proxy {
	enum policy_proxy_type type;
	struct host host;
	uint16_t port;
};

/* Without credentials: coffer-dial receives those on a separate descriptor, or from the vault. */
struct policy_proxies {
	char name[POLICY_PROXY_SET_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1]; /* name in the vault; "": none */
	enum policy_rotate rotate;
	uint32_t sticky_seconds;  /* how long a (sandbox, registrable domain) keeps its proxy */
	uint32_t check_seconds;	  /* between active checks; 0: none */
	char check[HOST_MAX + 8]; /* HOST:PORT that a check connects to; empty: none */
	const struct policy_proxy *proxies;
	size_t n_proxies; /* at least 1 */
};
size_t policy_proxies(const struct policy *p, const struct policy_proxies **ret);
const struct policy_proxies *policy_proxies_find(const struct policy *p, const char *name);

/* The part of the policy that a program inside may know: one line for each rule ("allow api.github.com:443 http GET /x"). */
void policy_describe(const struct policy *p, struct buf *out);
/* The same as a JSON object. For people outside it also has the address of a rule (`to`), whether it has a CA
 * of its own (`ca`), and its proxy set, secret and capture. */
void policy_describe_json(const struct policy *p, bool outside, struct buf *out);

/*
 * The bundle: a versioned, self-contained sequence of bytes, with a digest over everything that decides (not over the
 * generation). policy_unpack() trusts nothing in it: every count and length is checked, every rule is built by the
 * same functions as from a file. `data` must stay unchanged until policy_free(): blocklists are used in place.
 */
int policy_pack(const struct policy *p, struct buf *out, struct err *e) MUST_CHECK;
int policy_unpack(const void *data, size_t len, struct policy **ret, struct err *e) MUST_CHECK;
void policy_digest(const struct policy *p, unsigned char ret[POLICY_DIGEST_LEN]);

void policy_free(struct policy *p); /* NULL is fine */

static inline void policy_freep(struct policy **p)
{
	policy_free(*p);
}

#endif
