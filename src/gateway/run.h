/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from beginning to end: directory, ids, control group, engine, supervision, and what is left of it.
 *
 * Two processes know of it: the launcher (this one), which builds, supervises and finishes; and the guard (guard.h),
 * forked before anything exists on the host, which finishes when the launcher dies without having done so.
 *
 * Invariants
 *  U1  Nothing is made on the host before the guard knows the run's id, from which all of it can be found.
 *  U2  The command is started only once run.start is in the audit log.
 *  U3  Finishing is idempotent: each step may have been done by somebody who died before the next.
 */
#ifndef GATEWAY_RUN_H
#define GATEWAY_RUN_H

#include "audit/audit.h"
#include "gateway/supervise.h"
#include "sandbox/engine.h"
#include "sandbox/spec.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of a run, by either process. */
struct run {
	struct state *st;
	struct audit *audit;
	struct spec *spec;
	const struct engine *engine;
	bool map_ids; /* map a range of ids also for an ordinary user */
	struct cgroup_host cgroup_host;
	struct cgroup cg;
	struct engine_run er;
	pid_t launcher, guard;
	int tty;	  /* the caller's terminal, to be put back as it was; -1: none */
	uint64_t started; /* CLOCK_REALTIME ns */
	uint64_t ended;	  /* 0 until it was finished */
	uint64_t changes; /* files changed in the workspace, once finished */
	uint64_t wiped;	  /* entries of an ephemeral workspace that were removed */
	bool kept;	  /* the run's directory is still there for diff, apply, logs */
	struct cgroup_stat stat;
	struct run_end end;
	char limits_off[256]; /* default limits that are not in force, and why; empty when all are */

	/* For those that can be started once more: how this one was started, kept in the run's directory. NULL: not. */
	const struct buf *start;
	/* One that is started once more: its directory, with the lock, and when it was started first. -1, 0: a new one. */
	int resume_fd;
	uint64_t resume_started;
	/* Called once the layers of a new run are made and empty, to fill them. May be NULL. */
	int (*populate)(void *ctx, struct run *r, struct err *e);
	/* Called in each process that has no use for what populate() needs, or has no more: closes its descriptors. */
	void (*forget)(void *ctx);
	void *populate_ctx;
};

struct run_io {
	int in, out, err; /* the caller's stdio; -1 when detached */
	int tty;	  /* the caller's terminal, -1: none */
	int ready_fd;	  /* detached: the run's id goes here once the sandbox is there; -1: none */
};

/* Runs spec to its end. *r must live as long; on return its fields tell what happened. An error means that the
 * command never ran. */
int run_execute(struct run *r, const struct run_io *io, struct err *e) MUST_CHECK;

/* Ends whatever is left of runs that nobody holds any more. Returns how many. */
int run_sweep(struct state *st, struct audit *a, struct err *e) MUST_CHECK;

/* Used by run.c and guard.c: kills what is left, counts, wipes, logs, removes. run_fd is the locked directory. */
int run_finish(struct run *r, struct err *e) MUST_CHECK;

/* What `coffer ps` and others find of it in the run's directory, as it is now. */
int run_write_meta(const struct run *r, struct err *e) MUST_CHECK;

/* The --report object, one line of JSON. */
void run_report(const struct run *r, struct buf *out);

#endif
