/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying things out without harm: in a child, in namespaces of its own, for at most PROBE_MSEC. Whatever happens
 * to the child (killed, hung, crashed) is an ordinary negative result here.
 */
#ifndef POSTURE_PROBE_H
#define POSTURE_PROBE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define PROBE_MSEC 10000

/* Runs fn(arg) in a child. `ns` are CLONE_NEW* flags; with CLONE_NEWUSER the caller's own id is uid 0 inside.
 * Returns what fn returned, with its message; -ETIMEDOUT when it took too long. */
int probe_run(uint64_t ns, int (*fn)(void *arg, struct err *e), void *arg, struct err *e) MUST_CHECK;

#endif
