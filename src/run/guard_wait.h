/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of a run without a network, until its launcher is gone: it is the run's ask server (askserve.h), so that grants
 * and denials last as long as the sandbox, and it sweeps up after runs whose launcher and guard are dead. It decides once,
 * half a second after the start, whether it serves: not for a sandbox of the warm pool that waits for its command. That guard
 * does not serve later either, and askers about the call that comes serve themselves (askhold.H2).
 */
#ifndef RUN_GUARD_WAIT_H
#define RUN_GUARD_WAIT_H

#include "run/run.h"

/* The counterpart of net_guard() for a run without a network. -ENOMEM: there is no memory for an event loop. */
int guard_wait(struct run *r, int launcher, const struct net_calls *calls) MUST_CHECK;

#endif
