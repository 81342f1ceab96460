/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of an ns sandbox, from its birth in new namespaces to the exec of coffer-init.
 *
 * Two user namespaces, one in the other. The outer owns the network, mount, pid, ipc and uts namespaces; the
 * process builds there, with capabilities that count nowhere else. The inner owns nothing, and the command lives
 * in it: even all capabilities there give no mount, no raw socket, no route.
 *
 * Invariants
 *  N1  Before exec: no capability but those granted, no_new_privs, seccomp and Landlock in force, the command's
 *      ids, no descriptor but the stream (3) and /dev/null (0-2), an empty environment.
 *  N2  Whatever fails is reported over the sync socket and ends the process; exec closes that socket, and only
 *      end of file there means success.
 *  N3  The process dies with the launcher (parent-death signal), and notices a launcher that died before that was
 *      set (end of file on the sync socket).
 */
#ifndef SANDBOX_NS_INSIDE_H
#define SANDBOX_NS_INSIDE_H

#include "sandbox/engine/engine.h"
#include "sandbox/spec/spec.h"

/*
 * What the launcher says over the sync socket, while the process builds what needs nothing of it.
 *  M  where a range of ids is mapped: they are
 *  G  struct ns_go, once the layers and the control group are there; then, when fds is not 0, one message more with
 *     so many descriptors: `tasks` files of control groups to be joined first; host root: the idmapped trees
 *  C  where the spec has an authority (spec->ca), once the wall has been told: its certificate, one descriptor
 */
#define NS_SYNC_MAPPED 'M'
#define NS_SYNC_GO 'G'
#define NS_SYNC_CA 'C'

struct ns_go {
	char type;	  /* NS_SYNC_GO */
	uint8_t tasks;	  /* how many of the descriptors are that */
	uint8_t fds;	  /* how many there are */
	bool rlimit_pids; /* no control group counts processes: an rlimit must */
};

/* Where there is room for an authority that is yet to come (spec->ca_later): with ROOTFS_CA_FILES descriptors. */
struct ns_ca_later {
	char type[2]; /* NS_SYNC_CA, 0 */
};

/* What the process says: the sockets of its wall, where it has a network (wall_send()); the above; this, once, when it is
 * about to exec; or a struct err. */
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
		*gv; /* instead of coffer-init under our own fences: runsc, with coffer-init in it */
};

_Noreturn void ns_inside(const struct ns_inside *in);

/* Trees of the workspace, the run's directory, the home, the layer beneath, the binds and the root's layers, in this
 * order. */
#define NS_TREES_FIXED 4
#define NS_BINDS_MAX 45
#define NS_TREES_MAX (NS_TREES_FIXED + NS_BINDS_MAX + ROOT_LOWERS_MAX)
size_t ns_tree_count(const struct spec *s);

#endif
