/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's own root file system, built in its mount namespace by a process that has capabilities only in the sandbox's
 * outer user namespace.
 *
 * Invariants
 *  R1  Of the host only the entries of a table and of the spec are reachable, each through a bind mount that is read-only,
 *      nosuid and nodev unless the spec has it writable; device nodes are the six of the table.
 *  R2  Mount targets in a directory that a sandbox could have written to before (workspace, home) are opened without
 *      following any symlink; all others are made on a fresh tmpfs.
 *  R3  The host's root is gone from the namespace once the root is built. A root that shows the host is read-only;
 *      one of an image or a directory is an overlay, whose lower layers no process inside can write to.
 *  R4  The content of an image or a directory is hostile: until the process has pivoted into it, every path in it is
 *      resolved beneath its own root, and a mount goes on a descriptor, or on a name whose directory a descriptor has been
 *      holding since it was checked.
 */
#ifndef SANDBOX_ROOTFS_H
#define SANDBOX_ROOTFS_H

#include "base/err.h"
#include "sandbox/spec/spec.h"

/* Where a sandbox with a certificate authority of its own (spec->ca) has the certificate: alone, and added to the system's. */
#define ROOTFS_CA_DIR "/run/coffer"
#define ROOTFS_CA ROOTFS_CA_DIR "/ca.pem"
#define ROOTFS_CA_BUNDLE ROOTFS_CA_DIR "/ca-bundle.pem"
#define ROOTFS_CA_FILES 2 /* those two: a later certificate is appended to each, once */
#define ROOTFS_CA_JAVA ROOTFS_CA_DIR "/ca-bundle.p12"
#define ROOTFS_CA_APT ROOTFS_CA_DIR "/apt.conf"
#define ROOTFS_CA_MAX (16u << 10)   /* bytes of its certificate */
#define ROOTFS_STORE_MAX (2u << 20) /* bytes of the root's own bundle; a larger one is left alone */

#define ROOTFS_WORKSPACE "/workspace"

/* Detached mount trees of all that the spec shows; -1: none. */
struct trees {
	int ws;	 /* the workspace's directory; overlay: its lower layer */
	int run; /* the directory of upper/, work/, root-upper/ and root-work/, when any is needed */
	int home;
	int from;    /* the layer between the workspace's two, spec.over */
	int *binds;  /* as many as the spec has */
	int *lowers; /* the same; topmost first */
	int ca;	     /* a file with the certificate of the sandbox's own authority, when spec->ca */
	int ca_later
		[ROOTFS_CA_FILES]; /* returned when spec->ca_later: the files that a later certificate is appended to */
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
 * Builds all that is the same for every sandbox. Afterwards the new root is the current directory; a sandbox that brings its
 * own root has only the stage for it by then. `guest`: for runsc.
 */
int rootfs_begin(const struct spec *s, bool guest, struct err *e) MUST_CHECK;

/* Adds all that the spec shows, and pivots into the new root. Consumes the trees. */
int rootfs_finish(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

/*
 * Builds the same root for runsc, at the paths of gv_config.h, in a small root of runsc's own with a /proc and nothing else
 * of the host, and pivots into that. Directories that gVisor fills itself (/proc, /dev, /tmp, …) are left empty.
 */
int rootfs_finish_guest(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

#endif
