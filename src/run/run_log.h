/* SPDX-License-Identifier: Apache-2.0 */
/* The events run.start and run.end of the audit log. Values of environment variables are not logged: they may be secrets. */
#ifndef RUN_RUN_LOG_H
#define RUN_RUN_LOG_H

#include "run/run.h"

/* Logs the request, before any of it happens. Clears r->start_not_logged on success. */
int run_log_start(struct run *r, struct err *e) MUST_CHECK;

/* Logs how it ended. `trouble` is the failure of counting or wiping the workspace; code 0: none. */
int run_log_end(const struct run *r, const struct err *trouble, struct err *e) MUST_CHECK;

#endif
