/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the sandbox and of each rule: bytes up, bandwidth, simultaneous connections, requests per minute.
 * The caller passes the time.
 *
 * Invariants
 *  L1  Bytes are granted before they are sent, and returned when they were not: however many connections send
 *      at once, no more bytes leave than the limit allows.
 *  L2  A connection counts against its rule's limits and the sandbox's; the smaller grant applies.
 *  L3  Bytes up survive a restart of this process and a reload of the policy: a rule is identified by its
 *      text, without the file and line where it is written.
 */
#ifndef EGRESS_EGRESS_LIMITS_H
#define EGRESS_EGRESS_LIMITS_H

#include "egress/account/egress_names.h"
#include "policy/policy.h"

#define LIMITS_MAX (EGRESS_NAMES_COUNTERS - 2) /* rules with limits; two counters belong to the sandbox */

enum limit_way { LIMIT_UP, LIMIT_DOWN };

struct limit {
	struct policy_limits max; /* 0: no limit */
	uint64_t key;
	uint64_t *up;	      /* bytes so far; stored in the names file */
	uint64_t tokens[2];   /* by enum limit_way: bytes that may pass now */
	uint64_t filled;      /* time of the last refill, ns */
	unsigned connections; /* now */
	uint64_t minute;      /* number of the minute that `requests` counts */
	unsigned requests;
	struct limit *next;
};

struct limits {
	struct egress_names *names;
	struct limit all;    /* the sandbox */
	struct limit *rules; /* every rule met so far; addresses do not change */
	unsigned n;
};

int limits_init(struct limits *l, struct egress_names *names, struct err *e) MUST_CHECK;
void limits_release(struct limits *l);

/* A new policy; NULL: none. A rule's limits are updated when the rule is next used. */
void limits_load(struct limits *l, const struct policy *p);

/* The limit of the matching rule: *ret is NULL when it has none. -ENOMEM, -ENOSPC: deny. */
int limits_of(struct limits *l, const struct policy_verdict *v, struct limit **ret) MUST_CHECK;

/*
 * May one more connection be opened? Counts it. NULL: yes, else the reason, for people. `rule` may be NULL
 * here and below.
 */
const char *limits_connect(struct limits *l, struct limit *rule);
void limits_disconnect(struct limits *l, struct limit *rule);

/* May one more request pass in this minute? Counts it. NULL: yes, else the reason. */
const char *limits_request(struct limits *l, struct limit *rule, uint64_t now_ns);

/*
 * Returns how many of `want` bytes may pass: 0 when bandwidth is short now, -EDQUOT when bytes_up is used up.
 */
long limits_take(struct limits *l, struct limit *rule, enum limit_way way, size_t want, uint64_t now_ns);
/* Takes all of `n` bytes that were read before their limit was known, or -EDQUOT and none. */
int limits_charge_up(struct limits *l, struct limit *rule, size_t n) MUST_CHECK;
/* Counts bytes that are being sent already, also beyond the limit. */
void limits_count_up(struct limits *l, struct limit *rule, size_t n);
void limits_return(struct limits *l, struct limit *rule, enum limit_way way, size_t unused);

/* Does any limit apply to limits_take()? */
static inline bool limits_bytes(const struct limits *l, const struct limit *rule)
{
	return l->all.max.bytes_up || l->all.max.bandwidth ||
	       (rule && (rule->max.bytes_up || rule->max.bandwidth));
}

#endif
