/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard of a run without a network does until its launcher is gone: it serves the run's questions (askserve.h), so
 * that grants and denials last as long as the sandbox, and has time for what other runs left. */
#ifndef RUN_GUARD_WAIT_H
#define RUN_GUARD_WAIT_H

#include "run/run.h"

/* As net_guard() for a run without a network. -ENOMEM: it could not wait. */
int guard_wait(struct run *r, int launcher, const struct net_calls *calls) MUST_CHECK;

#endif
