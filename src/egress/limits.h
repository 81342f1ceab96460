/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the sandbox and of each rule: bytes up, bandwidth, connections at once, requests a minute. Pure but for the
 * counters that live in names.h; time is given.
 *
 * Invariants
 *  L1  Bytes are granted before they are sent and given back when they were not, so that however many connections
 *      send at once, what has left is never more than the limit.
 *  L2  A connection counts against its rule's limits and the sandbox's; the smaller grant holds.
 *  L3  Bytes up outlive a restart of this process and a reload of the policy: a rule is known by its text.
 */
#ifndef EGRESS_LIMITS_H
#define EGRESS_LIMITS_H

#include "egress/names.h"
#include "policy/policy.h"

struct limit {
	struct policy_limits max; /* 0: no limit */
	uint64_t key;		  /* of the counter */
	uint64_t *up;		  /* bytes so far: in the names file, or own_up when that is full */
	uint64_t own_up;
	uint64_t tokens, filled; /* bandwidth: bytes that may pass, and when that was reckoned (ns) */
	unsigned connections;	 /* now */
	uint64_t minute;	 /* which minute `requests` counts */
	unsigned requests;
};

struct limits {
	struct limit all;    /* the sandbox */
	struct limit *rules; /* those that have limits, n of them */
	const struct policy_rule **of;
	unsigned n;
};

/* For a new policy; flows must look their limit up again by limits_of(). p may be NULL. */
int limits_load(struct limits *l, const struct policy *p, struct names *names, struct err *e) MUST_CHECK;
void limits_release(struct limits *l);
struct limit *limits_of(struct limits *l, const struct policy_rule *r); /* NULL: no limit of its own */

/* May one more be opened? Counts it. NULL: yes, else why not, for people; `rule` may be NULL. */
const char *limits_connect(struct limits *l, struct limit *rule);
void limits_disconnect(struct limits *l, struct limit *rule);

/* May one more request pass in this minute? Counts it. NULL: yes, else why not. */
const char *limits_request(struct limits *l, struct limit *rule, uint64_t now_ns);

/* Of `want` bytes up so many; 0 when bandwidth is short now, -EDQUOT when bytes_up is used up. */
long limits_up(struct limits *l, struct limit *rule, size_t want, uint64_t now_ns);
void limits_return_up(struct limits *l, struct limit *rule, size_t unused);
size_t limits_down(struct limits *l, struct limit *rule, size_t want, uint64_t now_ns);
void limits_return_down(struct limits *l, struct limit *rule, size_t unused);

#endif
