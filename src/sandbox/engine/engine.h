/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine isolates. It is given a spec and a control group, and gives back a running coffer-init: its pidfd and
 * its stream. All that comes after (starting the command, stdio, time limit, kill, cleaning up) is the same for
 * every engine and lives elsewhere.
 */
#ifndef SANDBOX_ENGINE_H
#define SANDBOX_ENGINE_H

#include "base/err.h"
#include "sandbox/spec/spec.h"
#include "sandbox/wall/wall.h"
#include "sys/cgroup/cgroup.h"

/* What is in force, for the report and the log. */
struct layers {
	const char *engine;
	bool userns, pidns, mountns, netns, ipcns, utsns, cgroupns, timens;
	bool seccomp, no_new_privs, caps_dropped;
	int landlock_abi;	  /* 0: not in force */
	const char *landlock_off; /* why not, NULL when in force */
	const char *cgroupns_off, *timens_off;
	uint32_t outside_uid;	 /* what the command's uid is on the host */
	uint32_t mapped_ids;	 /* how many ids are mapped */
	bool idmapped;		 /* workspace and home keep their owners through an idmapped mount */
	const char *rlimit_pids; /* how the pids limit is kept besides the control group, NULL when not */
};

struct engine_run {
	pid_t pid; /* coffer-init, as seen from here */
	int pidfd;
	int stream; /* protocol of sandbox/init/proto.h, non-blocking */
	int log;    /* what the engine's own programs have to say, non-blocking; -1: nothing */
	struct wall
		wall; /* the sandbox's network, unless the spec says none; whoever takes it over closes it */
	/* Where spec->ca_later: ca.pem and ca-bundle.pem inside, to append a certificate to; as the wall, to be taken over */
	int ca_later[2];
	struct layers layers;
};

#define ENGINE_RUN_INIT                          \
	((struct engine_run){ .pid = -1,         \
			      .pidfd = -1,       \
			      .stream = -1,      \
			      .log = -1,         \
			      .wall = WALL_INIT, \
			      .ca_later = { -1, -1 } })

/* What the launcher does while the sandbox is being built, which takes another CPU a while. A failure ends it. */
struct engine_meanwhile {
	/* First: when it returns, the layers and the control group are there. */
	int (*prepare)(void *ctx, pid_t pid, int pidfd, struct err *e);
	/* Then, once the sandbox was handed all it needs: no privilege is needed any more. What is written to
	 * `stream` is read by init. */
	int (*rest)(void *ctx, int stream, struct err *e);
	/* Where spec->ca, once the wall stands: takes it over, and gives a file with the certificate that programs inside are
	 * to trust. Elsewhere the wall is in engine_run. */
	int (*ca)(void *ctx, struct wall *w, struct err *e);
	void *ctx;
};

struct engine {
	const char *name;
	/* Builds the sandbox and starts coffer-init in it. When it fails nothing is left of it but the control
	 * group, which is the caller's. The caller is the parent of init and must reap it. Of the control group
	 * there is what a process must be born in (cgroup_create_born()). */
	int (*start)(const struct spec *s, struct cgroup *cg, const struct engine_meanwhile *m,
		     struct engine_run *ret, struct err *e);
};

extern const struct engine engine_ns;
extern const struct engine engine_gvisor;

#endif
