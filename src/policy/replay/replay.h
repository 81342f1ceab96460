/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a recorded run did again by another policy: what would change, grouped by rule.
 *
 * Pure. All input comes from a log whose names, paths and refs a sandbox chose: rows are capped, and the caller that shows them makes
 * them harmless.
 *
 * Invariants
 *  Y1  Nothing is guessed. If the log lacks what the new policy would decide by (the operation of a GraphQL request, the
 *      refs of a push, requests on a connection that was not inspected, a path that was truncated, a refusal that no rule
 *      caused), the result is REPLAY_UNKNOWN with the reason.
 *  Y2  What does not depend on the missing part is still decided: no request passes if its connection would not.
 *  Y3  The same policy gives the same result as it did then, or REPLAY_UNKNOWN. So the recorded decision is the policy's,
 *      not a person's answer: to ask is a decision of its own.
 */
#ifndef POLICY_REPLAY_H
#define POLICY_REPLAY_H

#include "policy/acts.h"
#include "policy/policy.h"

#define REPLAY_ROWS_MAX 65536 /* as many as one sandbox has names; further ones are only counted */
#define REPLAY_EXAMPLES 3     /* paths that a row stores */

/*
 * `act` of a request line: what was decided about beside method and path, as words with a space between.
 *	query:FIELD mutation:FIELD subscription:FIELD	fields at the root of the GraphQL request
 *	create:REF update:REF delete:REF force:REF	the push's commands; push:none when it has none
 *	refs:fetch refs:push refs:none			which service /info/refs was asked for
 *	also:METHOD:PATH				a second path that a header names
 *	...						there were more
 */
#define REPLAY_ACT_MAX 320 /* bytes */
#define REPLAY_ACT_CUT "..."

enum replay_kind {
	REPLAY_LOOKUP,
	REPLAY_CONNECT,
	REPLAY_ADDRESS,
	REPLAY_REQUEST,
	REPLAY_SECRET, /* may it be used there? For an ask that no event of a request followed */
	REPLAY_TOOL,
	REPLAY_APPLY,
	REPLAY_KIND_COUNT
};
const char *replay_kind_name(enum replay_kind k); /* "lookup" */

/* One recorded decision. Strings belong to the caller; NULL or "" if the log has none. */
struct replay_seen {
	enum replay_kind kind;
	enum policy_action was;
	const char *host; /* a name, or an address as text; the name of a tool or secret is in `what` */
	uint16_t port;	  /* 0: unknown, or a lookup */
	const char *rule; /* the deciding rule; empty: none */
	const char *why;
	const char *depth;	/* of a connection */
	const char *addr;	/* REPLAY_ADDRESS: the address that was dialled or refused */
	const char *method;	/* of a request; empty: only its number is known */
	const char *path, *act; /* as in the journal, query values as digests */
	const char *secrets;	/* of the vault's secrets that it was to carry: names separated by commas */
	const char *what;	/* the tool, the secret */
	const char *list;	/* acts_digest() of the policy that decided on a tool */
	bool refused;		/* in spite of a policy that allowed it */
	bool granted; /* the policy had no rule for it, and one that a person had granted on top let it through */
	bool asked_for_another; /* the first bytes of the connection named another host */
	uint64_t count;		/* number of identical events */
};

enum replay_now { REPLAY_DENY, REPLAY_ASK, REPLAY_ALLOW, REPLAY_UNKNOWN, REPLAY_NOW_COUNT };
const char *replay_now_name(enum replay_now n); /* "deny", "ask", "allow", "unknown" */

struct replay_row {
	enum replay_kind kind;
	enum policy_action was;
	enum replay_now now;
	char *key; /* the key that identifies the row */
	char *host, *method, *what;
	uint16_t port;
	char *was_rule, *rule, *why;
	char *paths[REPLAY_EXAMPLES];
	size_t n_paths;
	bool more_paths;
	uint64_t count;
};

struct replay;

/* Borrows both; acts may be NULL: the policy has no rules for tools and apply. */
int replay_new(struct replay **ret, const struct policy *p, const struct acts *acts,
	       struct err *e) MUST_CHECK;
void replay_free(struct replay *r);
static inline void replay_freep(struct replay **r)
{
	replay_free(*r);
}

int replay_add(struct replay *r, const struct replay_seen *s) MUST_CHECK; /* 0 or -ENOMEM */

/*
 * Counts further events of this kind, decided like this then, of which only the name is missing: each is like one that was added, or
 * will be. After all were added, replay_settle() counts them as unchanged if all of those are, otherwise as unknown.
 */
void replay_add_again(struct replay *r, const struct replay_seen *s, uint64_t count);
int replay_settle(struct replay *r) MUST_CHECK;

struct replay_sums {
	uint64_t decisions; /* all */
	uint64_t same;
	uint64_t to[REPLAY_NOW_COUNT]; /* changed, or unknown */
	uint64_t others;	       /* of those, the ones without a row of their own */
};

/* Sorted: denied first, then asked, allowed, unknown; most frequent first. Valid until the next call. */
size_t replay_rows(struct replay *r, const struct replay_row **ret);
struct replay_sums replay_sums(const struct replay *r);

/* Decides one event without storing anything; sets *ret_why with REPLAY_UNKNOWN, and v otherwise. For
 * tests. */
enum replay_now replay_decide(struct replay *r, const struct replay_seen *s, struct policy_verdict *v,
			      const char **ret_why);

#endif
