/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries something without harm: in a child, in namespaces of its own, for at most PROBE_MSEC. A child
 * that is killed, hangs or crashes is an ordinary negative result.
 */
#ifndef POSTURE_PROBE_H
#define POSTURE_PROBE_H

#include "base/err.h"

#include <stdint.h>

#define PROBE_MSEC 10000

/*
 * Runs fn(arg) in a child; fn may be NULL, where the namespaces are all that is tried. `ns` are CLONE_NEW*
 * flags; with CLONE_NEWUSER the caller's own id is uid 0 inside. Returns the result of fn, with its message;
 * -ETIMEDOUT if it took too long.
 */
int probe_run(uint64_t ns, int (*fn)(void *arg, struct err *e), void *arg, struct err *e) MUST_CHECK;

/*
 * A user namespace exists as long as a process in it. Starts a child in a new one, without id maps, that only
 * waits to be killed; returns its pid.
 */
int probe_hold_userns(int *ret_pidfd, struct err *e) MUST_CHECK;
void probe_end_userns(int pidfd);

#endif
