/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher gives up what it no longer needs once the sandbox runs, before it reads a byte that came from
 * inside: capabilities (host root keeps those with which it can clean up other owners' files and kill), new
 * privileges, being dumped, and by Landlock every path but the state directory, the control groups, and reading the
 * workspace.
 */
#ifndef RUN_CONFINE_H
#define RUN_CONFINE_H

#include "run/run.h"

int confine_launcher(const struct run *r, struct err *e) MUST_CHECK;

#endif
