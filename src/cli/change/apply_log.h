/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of coffer apply in the audit log: "workspace.apply" before the first file is touched, with the
 * name of every file that will be written, and "workspace.applied" after the last. If the names do not fit
 * into one line, events with ".more" added to their type and a number ("part") follow at once.
 */
#ifndef CLI_APPLY_LOG_H
#define CLI_APPLY_LOG_H

#include "cli/change/apply_ask.h"
#include "cli/common/changed.h"

struct apply_log {
	struct audit *audit;
	const struct changed *run;
	const struct apply_opts *o;
	const struct apply_ask *ask;
};

int cli_apply_log_plan(const struct apply_log *l, const struct apply_plan *plan, struct err *e) MUST_CHECK;
int cli_apply_log_result(const struct apply_log *l, const struct apply_result *res, struct err *e) MUST_CHECK;

#endif
