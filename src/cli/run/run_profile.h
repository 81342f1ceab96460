/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: adds what a known agent needs to the options that were typed. Typed options prevail. */
#ifndef CLI_RUN_PROFILE_H
#define CLI_RUN_PROFILE_H

#include "cli/run/run_args.h"

/* Call this after all options are parsed. Memory that is added belongs to `ret`. */
int cli_run_profile_apply(struct run_args *a, const char *name, struct run_profile *ret,
			  struct err *e) MUST_CHECK;
void cli_run_profile_release(struct run_profile *p);

#endif
