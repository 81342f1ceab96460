/* SPDX-License-Identifier: Apache-2.0 */
/* coffer apply with the approval of a person (--ask, or the policy's `apply: ask`): the question shows what
 * would be written, and the answer holds for exactly that. */
#ifndef CLI_APPLY_ASK_H
#define CLI_APPLY_ASK_H

#include "approval/server/askhold.h"
#include "cli/common/changed.h"
#include "policy/acts.h"
#include "workspace/apply/apply.h"

struct apply_ask {
	bool wanted;	    /* --ask, or the policy's apply: ask */
	uint64_t timeout_s; /* 0: the default */
	char rule[ASK_RULE_MAX];
	char id[ASK_ID_MAX]; /* of the question, once it was asked */
	/* For a call's layer: the changes that were approved before there was a plan. Making the plan freezes
	 * the target sandbox, which must not stay frozen while a person decides. */
	struct changes listed;
	unsigned char *go;
	unsigned char digest[APPLY_DIGEST_LEN];
};

/* Reads the policy that the run was started with. -EPERM if it says `apply: deny`. */
int cli_apply_ask_policy(struct apply_ask *a, const struct changed *run, bool dry_run,
			 struct err *e) MUST_CHECK;

/* Asks about a plan. 0: approved; -ECANCELED: denied, with the reason; -EINTR: interrupted. */
int cli_apply_ask_plan(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
		       const struct apply_plan *plan, struct err *e) MUST_CHECK;

/* cli_apply_ask_layer() asks about the changes of a layer that the paths cover, before there is a plan.
 * cli_apply_ask_still() checks, when there is a plan, that the layer is still what was approved; -ESTALE if
 * not. */
int cli_apply_ask_layer(struct apply_ask *a, struct changed *run, struct audit *audit, const char *target,
			const struct strv *paths, struct err *e) MUST_CHECK;
int cli_apply_ask_still(const struct apply_ask *a, int upper_fd, struct err *e) MUST_CHECK;
void cli_apply_ask_release(struct apply_ask *a);

#endif
