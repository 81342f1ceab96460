/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer-vault locks itself in: it can open, make and execute nothing, and no other process can look into it. What it
 * has are the control channel and what comes over it.
 */
#ifndef VAULT_FENCE_H
#define VAULT_FENCE_H

#include "base/err.h"
#include "sys/seccomp_list.h"

/* Not dumpable, no core, no new privileges, no capability, Landlock without a rule, a filter by calls and arguments. */
int vault_fence(struct err *e) MUST_CHECK;

/* The calls of that filter, for its test. */
struct seccomp_list vault_fence_list(void);

#endif
