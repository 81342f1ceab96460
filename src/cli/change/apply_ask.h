/* SPDX-License-Identifier: Apache-2.0 */
/* coffer apply, where a person elsewhere has to say yes: what would be written, shown and bound. */
#ifndef CLI_APPLY_ASK_H
#define CLI_APPLY_ASK_H

#include "approval/server/askhold.h"
#include "cli/common/changed.h"
#include "policy/acts.h"

struct apply_ask {
	bool wanted;	    /* --ask, or the policy's apply: ask */
	uint64_t timeout_s; /* 0: as usual */
	char rule[ASK_RULE_MAX];
	char id[ASK_ID_MAX]; /* of the question, once it was asked */
	/* What was agreed to before there was a plan: of a call's layer, for its target would stand still meanwhile. */
	struct changes listed;
	unsigned char *go;
	unsigned char digest[APPLY_DIGEST_LEN];
};

/* What the policy that the run began with says: -EPERM when it denies. */
int apply_ask_policy(struct apply_ask *a, const struct changed *run, bool dry_run, struct err *e) MUST_CHECK;

/* Asks about a plan. 0: yes; -ECANCELED: no, and why; -EINTR. */
int apply_ask_plan(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
		   const struct apply_plan *plan, struct err *e) MUST_CHECK;

/* Asks about all of a layer that the paths cover, against what it lies on; then, when there is a plan, whether it still is
 * that. */
int apply_ask_layer(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
		    const struct strv *paths, struct err *e) MUST_CHECK;
int apply_ask_still(const struct apply_ask *a, int upper_fd, struct err *e) MUST_CHECK;
void apply_ask_release(struct apply_ask *a);

#endif
