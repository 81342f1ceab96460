/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own root file system, built inside its mount namespace by a process that has capabilities only
 * in the sandbox's outer user namespace.
 *
 * Invariants
 *  R1  Nothing of the host is reachable but what a table or the spec names, each through a bind mount that is
 *      read-only, nosuid and nodev unless the spec says writable; device nodes are the six of the table.
 *  R2  Targets below what a sandbox could have written before (workspace, home) are opened without following
 *      any symlink; everything else is made by us on a fresh tmpfs.
 *  R3  The root itself is read-only once it is built, and the host's root is gone from the namespace.
 */
#ifndef SANDBOX_ROOTFS_H
#define SANDBOX_ROOTFS_H

#include "base/err.h"
#include "sandbox/spec.h"

#define ROOTFS_WORKSPACE "/workspace"

/* Detached mount trees of what the spec shows; -1 where there is none. */
struct trees {
	int ws;	 /* the workspace's directory; overlay: its lower layer */
	int run; /* the run's directory, when upper/ and work/ are needed */
	int home;
	int *binds; /* as many as the spec has */
};

/* The home directory inside for a uid: "/root" or "/home/agent". */
const char *rootfs_home(uid_t uid);
const char *rootfs_user(uid_t uid);

/* All that needs nothing of the host but what every sandbox sees. The process stands in the new root afterwards. */
int rootfs_begin(const struct spec *s, struct err *e) MUST_CHECK;

/* What the spec shows, and the change into the new root. The trees are used up. */
int rootfs_finish(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

#endif
