/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine isolates a command, and starts it in three calls, so that the order of a start can be read in one place, in
 * run_execute():
 *
 *   spawn       forks the sandbox's first process into its namespaces. It begins to build at once, on another CPU, and
 *               waits when it can do no more by itself.
 *   release     hands the process all that it waits for ("go"): the control group to join, the trees to mount.
 *   wait_ready  waits until coffer-init runs inside, or reports why it does not.
 *
 * Between the calls the launcher does its own part. Where spec->ca, two more calls come between release and wait_ready:
 * engine_wait_wall() and engine_give_ca(). When one of these calls fails, or another step of the launcher
 * before supervise(), engine_drop() ends what was spawned.
 *
 * An engine calls nothing back. Starting the command, stdio, the time limit, kill and cleanup are the same for every
 * engine and are no part of it.
 */
#ifndef SANDBOX_ENGINE_H
#define SANDBOX_ENGINE_H

#include "base/err.h"
#include "sandbox/spec/spec.h"
#include "sandbox/wall/wall.h"
#include "sys/cgroup/cgroup.h"

/* The protections in force, for the report and the log. */
struct layers {
	const char *engine;
	bool userns, pidns, mountns, netns, ipcns, utsns, cgroupns, timens;
	bool seccomp, no_new_privs, caps_dropped;
	int landlock_abi;	  /* 0: not in force */
	const char *landlock_off; /* why not, NULL when in force */
	const char *cgroupns_off, *timens_off;
	uint32_t outside_uid;	 /* the command's uid on the host */
	uint32_t mapped_ids;	 /* how many ids are mapped */
	bool idmapped;		 /* workspace and home keep their owners through an idmapped mount */
	const char *rlimit_pids; /* how the pids limit is kept besides the control group, NULL when not */
};

struct engine_run {
	pid_t pid; /* of coffer-init or runsc, as seen from here; a child of the launcher, which must reap it */
	int pidfd;
	int sync; /* to the process until it executes coffer-init or runsc (ns_inside.h); -1 from then on */
	int stream; /* the protocol of sandbox/init/proto.h, non-blocking; the engine itself writes nothing to it */
	int log;	  /* output of the engine's own programs, non-blocking; -1: none */
	struct wall wall; /* the sandbox's network, unless the spec has none; the next owner closes it */
	/* Where spec->ca_later: ca.pem and ca-bundle.pem inside, to append a certificate to; the next owner closes them */
	int ca_later[2];
	struct layers layers;
};

#define ENGINE_RUN_INIT                          \
	((struct engine_run){ .pid = -1,         \
			      .pidfd = -1,       \
			      .sync = -1,        \
			      .stream = -1,      \
			      .log = -1,         \
			      .wall = WALL_INIT, \
			      .ca_later = { -1, -1 } })

struct engine {
	const char *name;
	/* *run is ENGINE_RUN_INIT. Of the control group there must be the part that a process is born in
	 * (cgroup_create_born()). The process has a copy of *s: later changes to the spec do not reach it. */
	int (*spawn)(const struct spec *s, struct cgroup *cg, struct engine_run *run, struct err *e);
	/* The layers and the rest of the control group must be there. No call needs a privilege after this one. */
	int (*release)(const struct spec *s, const struct cgroup *cg, struct engine_run *run, struct err *e);
	/* On success pid 1 has executed coffer-init, all fences are up, and run->layers tells what is in force. */
	int (*wait_ready)(const struct spec *s, struct engine_run *run, struct err *e);
};

/* Where spec->ca, after release: waits until the wall is built, which is then in run->wall. */
int engine_wait_wall(struct engine_run *run, struct err *e) MUST_CHECK;

/* After engine_wait_wall(): hands the process a file with the certificate that programs inside are to trust. */
int engine_give_ca(struct engine_run *run, int ca_fd, struct err *e) MUST_CHECK;

/* Kills and reaps the process, as far as there is one, and closes all of *run. For a start that failed, and for a sandbox
 * that was only a probe. */
void engine_drop(struct engine_run *run);

extern const struct engine engine_ns;
extern const struct engine engine_gvisor;

#endif
