/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of a run without a network, until its launcher is gone: it is the run's ask server (askserve.h), so that grants
 * and denials last as long as the sandbox, and it sweeps up after runs whose launcher and guard are dead.
 */
#ifndef RUN_GUARD_WAIT_H
#define RUN_GUARD_WAIT_H

#include "run/run.h"

/* The counterpart of net_guard() for a run without a network. -ENOMEM: there is no memory for an event loop. */
int guard_wait(struct run *r, int launcher, const struct net_calls *calls) MUST_CHECK;

#endif
