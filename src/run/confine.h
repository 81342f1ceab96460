/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher gives up all that supervising and finishing do not need, before it reads a byte that came from inside
 * (run.U4). There is no way back. In two phases, because a list of system calls and no_new_privs are inherited by every child
 * and by every program that is executed:
 *
 *   1  confine_beforehand()  once the sandbox's first process exists and has its ids. Forbids what no launcher does
 *                            (launcher_never). Only now: the guard, cofferd, the process of --rm, newuidmap (which is
 *                            set-user-ID) and the sandbox (whose runsc needs ptrace) were started without it.
 *   2  confine_launcher()    once the sandbox was told to go on. Capabilities (host root keeps those with which it kills and
 *                            cleans up files of other owners), core dumps and tracers; by Landlock every path but the state
 *                            directory, the control groups, and reading the workspace; and every system call that is not on
 *                            a list (launcher_calls).
 *
 * Invariants
 *  C1  No process that is made before phase 1 has a list of the launcher's: the guard, the sandbox, and all that they make.
 *  C2  Between the phases one program may be executed, mke2fs, which needs nothing that phase 1 forbids. After phase 2 none can
 *      be, by the launcher or by a child of it.
 *  C3  After phase 2 the launcher makes no socket but UNIX sockets, and connects one only where it asks on a terminal.
 *  C4  A refused call ends the process at once, in both phases; the guard then kills the sandbox and finishes the run. A call
 *      that only failed could be tried again by whoever has taken the launcher over.
 *  C5  A phase that cannot be made complete ends the start: there is no launcher with half of it.
 */
#ifndef RUN_CONFINE_H
#define RUN_CONFINE_H

#include "run/run.h"

int confine_beforehand(struct err *e) MUST_CHECK;
/* `asks`: it may have to connect to the run's ask server. */
int confine_launcher(const struct run *r, bool asks, struct err *e) MUST_CHECK;

#endif
