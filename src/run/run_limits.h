/* SPDX-License-Identifier: Apache-2.0 */
/* Enforcing a run's limits, and reporting which are in force and how. */
#ifndef RUN_RUN_LIMITS_H
#define RUN_RUN_LIMITS_H

#include "base/json.h"
#include "run/run.h"

/* Refuses a named disk limit that nothing can enforce, finds out which control groups this host has, and makes the one that
 * the sandbox's first process must be born in. */
int run_limits_begin(struct run *r, struct err *e) MUST_CHECK;

/* Makes the rest of the control group and marks each limit as enforced or not. A named limit that cannot be enforced is an
 * error with two ways out, unless --limits best-effort; a default one of the control group is noted in r->limits_off. */
int run_limits_enforce(struct run *r, struct err *e) MUST_CHECK;

/* "limits":{"memory":{"value":…,"named":…,"enforced":…,"how":…},…} */
void run_limits_json(const struct limits *l, struct json *j);

#endif
