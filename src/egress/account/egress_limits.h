/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the sandbox and of each rule: bytes up, bandwidth, connections at once, requests a minute. Time is given.
 *
 * Invariants
 *  L1  Bytes are granted before they are sent and given back when they were not, so that however many connections
 *      send at once, what has left is never more than the limit.
 *  L2  A connection counts against its rule's limits and the sandbox's; the smaller grant holds.
 *  L3  Bytes up outlive a restart of this process and a reload of the policy: a rule is known by its text, without the
 *      place where it stands.
 */
#ifndef EGRESS_EGRESS_LIMITS_H
#define EGRESS_EGRESS_LIMITS_H

#include "egress/account/names.h"
#include "policy/policy.h"

#define LIMITS_MAX \
	(NAMES_COUNTERS - 2) /* rules that can have limits at once; two counters are the sandbox's */

enum limit_way { LIMIT_UP, LIMIT_DOWN };

struct limit {
	struct policy_limits max; /* 0: no limit */
	uint64_t key;
	uint64_t *up;	      /* bytes so far; lives in the names file */
	uint64_t tokens[2];   /* by enum limit_way: bytes that may pass now */
	uint64_t filled;      /* when that was reckoned, ns */
	unsigned connections; /* now */
	uint64_t minute;      /* which minute `requests` counts */
	unsigned requests;
	struct limit *next;
};

struct limits {
	struct names *names;
	struct limit all;    /* the sandbox */
	struct limit *rules; /* each that was ever met; addresses do not change */
	unsigned n;
};

int limits_init(struct limits *l, struct names *names, struct err *e) MUST_CHECK;
void limits_release(struct limits *l);

/* A new policy; NULL is none. Rules are brought up to date as they are met. */
void limits_load(struct limits *l, const struct policy *p);

/* The limit of the rule that decided: *ret is NULL when it has none. -ENOMEM, -ENOSPC: deny. */
int limits_of(struct limits *l, const struct policy_verdict *v, struct limit **ret) MUST_CHECK;

/* May one more be opened? Counts it. NULL: yes, else why not, for people. `rule` may be NULL here and below. */
const char *limits_connect(struct limits *l, struct limit *rule);
void limits_disconnect(struct limits *l, struct limit *rule);

/* May one more request pass in this minute? Counts it. NULL: yes, else why not. */
const char *limits_request(struct limits *l, struct limit *rule, uint64_t now_ns);

/* Of `want` bytes so many: 0 when bandwidth is short now, -EDQUOT when bytes_up is used up. */
long limits_take(struct limits *l, struct limit *rule, enum limit_way way, size_t want, uint64_t now_ns);
/* All of `n` bytes that were read before there was a limit to ask, or -EDQUOT and nothing. */
int limits_charge_up(struct limits *l, struct limit *rule, size_t n) MUST_CHECK;
/* So many are on their way already: they count, also past the limit. */
void limits_count_up(struct limits *l, struct limit *rule, size_t n);
void limits_return(struct limits *l, struct limit *rule, enum limit_way way, size_t unused);

/* Is there a limit that limits_take() could run into? */
static inline bool limits_bytes(const struct limits *l, const struct limit *rule)
{
	return l->all.max.bytes_up || l->all.max.bandwidth ||
	       (rule && (rule->max.bytes_up || rule->max.bandwidth));
}

#endif
