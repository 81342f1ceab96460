/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer-egress locks itself in: no file, program, process or socket of its own making; what it has are the descriptors
 * that it was started with and those that the guard and coffer-dial send.
 */
#ifndef EGRESS_FENCE_H
#define EGRESS_FENCE_H

#include "sys/seccomp_list.h"

/* First: as many descriptors as the hard limit gives (65536 at most), no core. */
int fence_limits(struct err *e) MUST_CHECK;

/* Last: not dumpable, no capability, Landlock without a rule, the filter. What it needs later must be open and mapped. */
int fence_close(struct err *e) MUST_CHECK;

/* The filter's list, for this process. */
struct seccomp_list fence_list(void);

#endif
