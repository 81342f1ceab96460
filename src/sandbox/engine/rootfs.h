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
 *  R3  The host's root is gone from the namespace once the root is built. A root that shows the host is read-only;
 *      one of an image or a directory is an overlay, whose lower layers nobody can write to from inside.
 *  R4  What an image or a directory brings is hostile: until the root has been changed into, nothing in it is opened
 *      but beneath its own root, and a mount goes on an fd or on a name that an fd has been holding since it was
 *      seen to be a directory.
 */
#ifndef SANDBOX_ROOTFS_H
#define SANDBOX_ROOTFS_H

#include "base/err.h"
#include "sandbox/spec/spec.h"

/* Where a sandbox with a certificate authority of its own (spec->ca) finds it: alone, and beside the system's. */
#define ROOTFS_CA_DIR "/run/coffer"
#define ROOTFS_CA ROOTFS_CA_DIR "/ca.pem"
#define ROOTFS_CA_BUNDLE ROOTFS_CA_DIR "/ca-bundle.pem"
#define ROOTFS_CA_FILES 2 /* those two: to each the certificate is appended, once */
#define ROOTFS_CA_JAVA ROOTFS_CA_DIR "/ca-bundle.p12"
#define ROOTFS_CA_APT ROOTFS_CA_DIR "/apt.conf"
#define ROOTFS_CA_MAX (16u << 10) /* bytes of its certificate */
#define ROOTFS_STORE_MAX \
	(2u << 20) /* bytes of what the root trusts already; one that is larger is left alone */

#define ROOTFS_WORKSPACE "/workspace"

/* Detached mount trees of what the spec shows; -1 where there is none. */
struct trees {
	int ws;	 /* the workspace's directory; overlay: its lower layer */
	int run; /* what holds upper/, work/, root-upper/ and root-work/, when any is needed */
	int home;
	int from;    /* the layer between the workspace's two, spec.over */
	int *binds;  /* as many as the spec has */
	int *lowers; /* the same; topmost first */
	int ca;	     /* a file with the certificate of the sandbox's own authority, when spec->ca */
	int ca_later
		[ROOTFS_CA_FILES]; /* given back when spec->ca_later: what it is appended to when it comes */
};

/* The home directory inside for a uid: "/root" or "/home/agent". */
const char *rootfs_home(uid_t uid);
const char *rootfs_user(uid_t uid);

/* HOME inside. */
static inline const char *rootfs_home_of(const struct spec *s)
{
	return s->home_dir ? s->home_dir : rootfs_home(s->uid);
}

/*
 * All that needs nothing of the host but what every sandbox sees. The process stands in the new root afterwards; one that
 * brings its own root has only the stage for it by then. `guest`: for runsc.
 */
int rootfs_begin(const struct spec *s, bool guest, struct err *e) MUST_CHECK;

/* What the spec shows, and the change into the new root. The trees are used up. */
int rootfs_finish(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

/*
 * The same root for runsc, at the places that gv_config.h names, in a small root of runsc's own with a /proc and
 * nothing else of the host; and changes into that. What gVisor has itself (/proc, /dev, /tmp, …) is left empty.
 */
int rootfs_finish_guest(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

#endif
