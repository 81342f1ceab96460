/* SPDX-License-Identifier: Apache-2.0 */
/* Why a decision was made, and how two policies differ: for people, in lines of text. */
#ifndef POLICY_EXPLAIN_H
#define POLICY_EXPLAIN_H

#include "policy/policy.h"

/*
 * The decision, then every rule that was considered, most specific first. `r` is NULL for a connection alone.
 */
void policy_explain(const struct policy *p, const struct policy_target *t, const struct policy_request *r,
		    struct buf *out, struct policy_verdict *ret);

/* Do two verdicts that allow have the same depth and the same terms? */
bool policy_terms_eq(const struct policy_verdict *a, const struct policy_verdict *b);

struct policy_diff {
	size_t allowed; /* b allows, a did not */
	size_t denied;	/* the other way round */
	size_t changed; /* allowed by both, on other terms */
};

/*
 * The changes from a to b: lines that begin with + (now allowed), - (no longer allowed) or ~ (other terms). Ports are
 * compared exactly, for every name and range that either policy names; requests by one example of each that either
 * lists ("any" stands for a star).
 */
int policy_diff(const struct policy *a, const struct policy *b, struct buf *out, struct policy_diff *ret,
		struct err *e) MUST_CHECK;

#endif
