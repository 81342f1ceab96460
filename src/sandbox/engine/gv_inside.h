/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a gvisor sandbox, from the moment its root is built to the exec of runsc.
 *
 * runsc with all its processes lives in the same namespaces as an ns sandbox. pid 1 is `runsc run` itself, so its death is
 * the death of the sandbox. Code that breaks out of gVisor's kernel finds itself in a user namespace without rights, a network
 * namespace without a way out, and a root with nothing in it.
 *
 * Invariants
 *  G1  Before exec: no_new_privs, the pid 1 of a pid namespace that dies with the launcher, root of a user namespace
 *      that owns nothing but these namespaces, no descriptor but those that runsc is told of, an empty environment.
 *  G2  runsc sees no file of the host but its own program, what the sandbox is shown, and three devices.
 *  G3  The stream of coffer-init is the only descriptor that reaches the guest.
 */
#ifndef SANDBOX_GV_INSIDE_H
#define SANDBOX_GV_INSIDE_H

#include "sandbox/engine/ns_inside.h"

struct gv_start {
	int runsc_fd; /* the program, O_PATH */
	int log_fd;   /* a pipe for runsc's log, stdout and stderr */
};

/* Executes runsc. Returns only on failure, with a message in *e and the descriptor to send it over: in->sync may have been
 * replaced by then. */
int gv_exec(const struct ns_inside *in, int init_fd, struct err *e);

#endif
