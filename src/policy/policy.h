/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about what may leave a sandbox. Pure: the same policy and question give the same answer, with no I/O,
 * clock or state. Built by room config out of YAML (policy/build.h), carried to coffer-egress and coffer-dial as a
 * bundle (policy_pack), never changed once built.
 *
 * Invariants
 *  P1  Anything but POLICY_ALLOW is a denial. A zeroed verdict denies. POLICY_ASK is one until a person has said
 *      otherwise (egress/core/asking.h); who cannot ask denies. Its terms are those that hold once it is allowed.
 *  P2  The most specific rule that matches decides, by host, then port, then path, then method, in whatever order
 *      rules stand; between equals (and between two paths of which neither contains the other) deny beats ask beats
 *      allow. Nothing that matches: denied in enforce, allowed and marked `would_deny` in observe.
 *  P3  A policy has layers (the file, the command line): what is allowed is what every layer allows. Depth is the
 *      deepest, each limit the lowest, of all layers.
 *  P4  Names, addresses and paths are compared in the one form that codec/host, codec/addr and codec/urlpath give.
 *      Deny and ask patterns match a path also in other letter case, with a slash behind, or with ";parameters".
 *  P5  A special address (codec/net/addr.h) is never dialled but by a rule's `to:`. No rule can change that.
 *  P6  Work is bounded: by labels of the name and rules of one host for a connection; for a request by the entries
 *      of those rules times the length of the path, no backtracking.
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
#define POLICY_POOL_MAX 31   /* bytes of a pool's name */
#define POLICY_SECRET_MAX 63 /* bytes of a secret's name */
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

/* 0 in each: no limit. */
struct policy_limits {
	uint64_t bytes_up;  /* all connections of the rule (of the sandbox) together, for its life */
	uint64_t bandwidth; /* bytes a second, each way */
	uint32_t requests_per_minute; /* inspected requests; connections where nothing is inspected */
	uint32_t connections;	      /* at once */
};

/* What holds for a connection or request beside the decision; strings belong to the policy, NULL when not set. */
struct policy_terms {
	struct policy_limits limits; /* of the rule; those of the sandbox are policy_limits() */
	bool has_pin;		     /* `to:`: dial this and nothing else, instead of resolving */
	struct addr pin;
	uint16_t pin_port;   /* the port that is dialled; equal to the target's when `to:` names none */
	const char *ca;	     /* PEM: the only CA that the server's certificate may come from */
	const char *pool;    /* of proxies: never dial directly */
	const char *secret;  /* that requests may carry; who lets them through denies what was not given it */
	const char *capture; /* under which what servers issue is kept; denied where nobody keeps it */
	bool secret_ask;     /* before a request carries it a person is asked; who cannot ask denies */
	bool credentials_only; /* `credentials: only`: requests with credentials of the sandbox's own are refused */
};

struct policy_verdict {
	enum policy_action action;
	enum policy_depth depth; /* meaningful when allowed or asked */
	unsigned need;	  /* POLICY_NEED_*: denied only until the body is known; see policy_request() */
	bool would_deny;  /* allowed only because of observe; enforce would deny */
	bool is_default;  /* no rule matched */
	bool is_unnamed;  /* of a request: no entry is about its path or body */
	bool is_omitted;  /* denied, for the rule lists requests by method and path, and not this one */
	uint32_t rule_id; /* a key to count limits by; POLICY_RULE_NONE when no rule decided */
	const struct policy_rule *rule;	  /* NULL likewise */
	const struct policy_entry *entry; /* of the rule, when a request was decided by one */
	struct policy_terms terms;
	char rule_text
		[POLICY_RULE_TEXT_MAX]; /* "allow *.github.com:443 (team.yaml:12)", "default", "blocklist ads" */
	char why[POLICY_WHY_MAX];	/* one sentence for a person, without a full stop */
	const char *hint;		/* what to do about a denial; static text or NULL */
};

enum { POLICY_NEED_GRAPHQL = 1, POLICY_NEED_PUSH = 2 };

static inline bool policy_allows(const struct policy_verdict *v)
{
	return v->action == POLICY_ALLOW;
}

/* Allowed, or to be asked: for what comes before the act itself. A name may be looked up that a person may yet allow. */
static inline bool policy_may_allow(const struct policy_verdict *v)
{
	return v->action == POLICY_ALLOW || v->action == POLICY_ASK;
}

/*
 * A text about a rule as a sandbox may read it: where a rule stands is told by its file's name alone, "(team.yaml:12)" and not
 * "(/home/ann/work/team.yaml:12)". What a sandbox may know of the host ends there. Whatever is answered inside goes through it.
 */
void policy_text_inside(const char *text, struct buf *out);

/* DNS: is there a port on which this name could be reached? An allowed name gets an address, others NXDOMAIN. */
void policy_name(const struct policy *p, const struct host *name, struct policy_verdict *ret);

struct policy_target {
	const struct host *name; /* canonical. An address literal: NULL, or a host of kind HOST_ADDR */
	struct addr addr;	 /* when name is NULL */
	uint16_t port;
};

/*
 * May this be connected to, and how deep must be looked? Before a byte is dialled. In observe, what is neither TLS nor
 * HTTP at depth peek goes on as a tunnel when `would_deny` or `is_default` is set; else only where depth is tunnel.
 */
void policy_connect(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret);

/*
 * One command of a push. An update counts as POLICY_PUSH_FORCE unless the caller knows that it is a fast-forward:
 * the protocol does not say, and what cannot be seen is the worse of the two.
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
	struct slice slashed; /* urlpath_slashed() where the path had a %2F; else empty. Both are judged. */
	struct slice query;   /* raw, without "?"; for git's service */
	/* Known once the body is: leave NULL and 0 until verdict.need asks. No readable document: none, is_body_known. */
	const struct graphql_doc *const *gql; /* each document of a batch */
	size_t n_gql;
	const struct policy_push *push;
	size_t n_push;
	bool is_body_known; /* nothing more will come: what is still needed is denied */
};

/*
 * One request on an inspected connection. With `need` set the answer depends on the body: hold it back (bounded),
 * read it as codec/graphql or codec/gitpkt, and ask again with what was found and is_body_known. Until then the
 * action is POLICY_DENY, so that a caller who forgets lets nothing through.
 */
void policy_request(const struct policy *p, const struct policy_target *t, const struct policy_request *r,
		    struct policy_verdict *ret);

/*
 * coffer-dial: may this address, which the target's name resolved to (or is), be dialled? policy_connect() comes
 * first. Ask for every candidate. With terms.has_pin the one right candidate is the pin.
 */
void policy_address(const struct policy *p, const struct policy_target *t, const struct addr *resolved,
		    struct policy_verdict *ret);

/*
 * The same three for those who decide often: what a rule allows comes without rule_text and why, which cost more than the
 * decision. Denials, and what only observe lets through, have their words.
 */
void policy_name_quietly(const struct policy *p, const struct host *name, struct policy_verdict *ret);
void policy_connect_quietly(const struct policy *p, const struct policy_target *t,
			    struct policy_verdict *ret);
void policy_address_quietly(const struct policy *p, const struct policy_target *t,
			    const struct addr *resolved, struct policy_verdict *ret);
/*
 * For the journal: what the policy said of it, where something else became of it. NULL: nothing else did. "ask": a person was to
 * be asked; "allow": it was refused all the same; "deny": it said nothing of it, and what a person had granted on top let it
 * through. `judged` is v->action as the policy gave it.
 */
const char *policy_said(const struct policy_verdict *v, enum policy_action judged, bool allowed);
/* v->rule_text, made in `out` where it is not there; "" when no rule decided. */
const char *policy_verdict_rule(const struct policy_verdict *v, char out[POLICY_RULE_TEXT_MAX]);

/* May a CNAME target stand in a chain? Only a deny rule or blocklist that names it says no. */
void policy_alias(const struct policy *p, const struct host *name, struct policy_verdict *ret);

/* "allow *.github.com:443 (team.yaml:12)". Returns out. */
char *policy_rule_text(const struct policy_rule *r, char out[POLICY_RULE_TEXT_MAX]);

/* Properties of the whole. */
enum policy_mode policy_mode(const struct policy *p); /* enforce unless every layer says observe */
uint32_t policy_generation(const struct policy *p);
void policy_set_generation(struct policy *p, uint32_t generation); /* before policy_pack() */
bool policy_needs_ca(const struct policy *p);			   /* some rule may want TLS ended here */
bool policy_needs_proxies(const struct policy *p); /* some rule, or the sandbox, names a pool of proxies */
bool policy_is_browser(const struct policy *p);
bool policy_allows_nothing(const struct policy *p);	    /* enforce, and no rule can allow anything */
struct policy_limits policy_limits(const struct policy *p); /* of the sandbox */

struct policy_resolver {
	struct addr addr;
	uint16_t port;
};
size_t policy_resolvers(const struct policy *p, const struct policy_resolver **ret); /* 0: resolv.conf's */

/* The range of synthetic addresses; false when the policy names none. */
bool policy_synthetic(const struct policy *p, struct addr_range *ret);

enum policy_proxy_type { POLICY_PROXY_CONNECT, POLICY_PROXY_SOCKS5 };
enum policy_rotate { POLICY_ROTATE_STICKY, POLICY_ROTATE_CONNECTION, POLICY_ROTATE_REQUEST };

struct policy_proxy {
	enum policy_proxy_type type;
	struct host host;
	uint16_t port;
};

/* Without credentials: those come to coffer-dial on a descriptor of their own, or it asks the vault for them. */
struct policy_proxies {
	char name[POLICY_POOL_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1]; /* in the vault; "": none */
	enum policy_rotate rotate;
	uint32_t sticky_seconds;  /* how long a (sandbox, registrable domain) keeps its proxy */
	uint32_t check_seconds;	  /* between active checks; 0: none */
	char check[HOST_MAX + 8]; /* HOST:PORT that a check connects to; empty: none */
	const struct policy_proxy *proxies;
	size_t n_proxies; /* at least 1 */
};
size_t policy_proxies(const struct policy *p, const struct policy_proxies **ret);
const struct policy_proxies *policy_proxies_find(const struct policy *p, const char *name);

/* What a person inside may be told: one line for each rule ("allow api.github.com:443 http GET /x"). */
void policy_describe(const struct policy *p, struct buf *out);
/* The same as JSON, an object. For a person outside it also tells where a rule leads (`to`), whether a CA of its own is trusted
 * (`ca`), and which pool, secret and capture it names. */
void policy_describe_json(const struct policy *p, bool outside, struct buf *out);

/*
 * The bundle: one versioned, self-contained piece of bytes, with a digest over all that decides (not over the
 * generation). policy_unpack() believes nothing in it: every count and length is checked, every rule is built by the
 * same functions as from a file. `data` must stay as it is until policy_free(): blocklists are used where they lie.
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
