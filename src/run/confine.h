/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher gives up all that supervising and finishing do not need, before it reads a byte that came from inside
 * (run.U4): capabilities (host root keeps those with which it kills and cleans up files of other owners), new privileges,
 * core dumps and tracers, and by Landlock every path but the state directory, the control groups, and reading the
 * workspace. There is no way back.
 */
#ifndef RUN_CONFINE_H
#define RUN_CONFINE_H

#include "run/run.h"

int confine_launcher(const struct run *r, struct err *e) MUST_CHECK;

#endif
