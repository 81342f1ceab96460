/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of an ns sandbox, from its birth in new namespaces to the exec of coffer-init.
 *
 * There are two user namespaces, one in the other. The outer one owns the network, mount, pid, ipc and uts namespaces; the
 * process builds in it, with capabilities that count nowhere else. The inner one owns nothing, and the command lives in it:
 * even all capabilities there give no mount, no raw socket, no route.
 *
 * Invariants
 *  N1  Before exec: no capability but those granted, no_new_privs, seccomp and Landlock in force, the command's
 *      ids, no descriptor but the stream (3) and /dev/null (0-2), an empty environment, no
 *      scheduling favour, execution domain or timer slack of the caller.
 *  N2  Every failure is reported over the sync socket and ends the process. Exec closes that socket: only struct ns_ready
 *      and then end of file means success.
 *  N3  The process dies with the launcher (parent-death signal), and notices a launcher that died before that was
 *      set (end of file on the sync socket).
 */
#ifndef SANDBOX_NS_INSIDE_H
#define SANDBOX_NS_INSIDE_H

#include "sandbox/engine/engine.h"
#include "sandbox/spec/spec.h"

/*
 * Messages of the launcher over the sync socket, by their first byte. Meanwhile the process builds all that needs none of them.
 *  M  where a range of ids is mapped: the maps are written
 *  G  struct ns_go, once the layers and the control group are there; when its fds is not 0, a second message follows with
 *     that many descriptors: first `tasks` files of control groups to join, then, for the host's root, the idmapped trees
 *  C  where spec->ca, once the process has sent its wall: one descriptor, the certificate of the sandbox's authority
 */
#define NS_SYNC_MAPPED 'M'
#define NS_SYNC_GO 'G'
#define NS_SYNC_CA 'C'

struct ns_go {
	char type;	  /* NS_SYNC_GO */
	uint8_t tasks;	  /* how many of the descriptors are files of control groups */
	uint8_t fds;	  /* how many descriptors there are */
	bool rlimit_pids; /* no control group counts processes: an rlimit must */
};

/* Sent where spec->ca_later, with the ROOTFS_CA_FILES descriptors that a later certificate is appended to. */
struct ns_ca_later {
	char type[2]; /* NS_SYNC_CA, 0 */
};

/* Messages of the process: the sockets of its wall, where it has a network (wall_send()); struct ns_ca_later; this one, once,
 * when it is about to exec; or a struct err, after which it exits. */
struct ns_ready {
	int landlock_abi;
	bool cgroupns;
	bool timens;
};

struct ns_inside {
	const struct spec *spec;
	int sync;    /* SOCK_SEQPACKET to the launcher */
	int stream;  /* becomes fd 3 of coffer-init */
	int init_fd; /* coffer-init on the host, O_PATH */
	const struct gv_start
		*gv; /* NULL: coffer-init under our own fences; else runsc, with coffer-init in it */
};

/* The whole life of the process until exec. */
_Noreturn void ns_inside(const struct ns_inside *in);

/* Trees, in this order: workspace, layers, home, the layer between the workspace's two (spec->over), binds, layers of the
 * root. */
#define NS_TREES_FIXED 4
#define NS_BINDS_MAX 45
#define NS_TREES_MAX (NS_TREES_FIXED + NS_BINDS_MAX + ROOT_LOWERS_MAX)
size_t ns_tree_count(const struct spec *s);

#endif
