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
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "audit/audit.h"
#include "base/json.h"
#include "netd/serve/net.h"
#include "run/supervise/ports.h"
#include "run/supervise/supervise.h"
#include "sandbox/engine/choose.h"
#include "sandbox/engine/engine.h"
#include "sandbox/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of a run, by either process. */
struct run {
	struct state *st;
	struct audit *audit;
	struct spec *spec;
	const struct engine *engine;
	const struct choice *choice; /* how it was chosen; NULL where that is not known any more */
	/* Called once an empty workspace is there and nothing runs yet, with its directory; NULL: it stays empty. */
	int (*fill)(void *ctx, int upper_fd, struct err *e);
	void *fill_ctx;
	struct net_plan *net; /* NULL: no network */
	const struct acts
		*acts; /* what its policy says of tools and apply; NULL: what that of the network has */
	const char *acts_file;	   /* the real path of the file that said so; NULL: that of the network's */
	const struct obeys *obeys; /* which files it obeys, and where it writes; NULL: none, nowhere */
	const struct ports *ports; /* what leads inside; NULL: nothing */
	bool net_over;		   /* nothing of it is left: its guard has seen to that */
	struct buf net_report;	   /* members of the report's "network" object, once it has ended */
	bool map_ids;		   /* map a range of ids also for an ordinary user */
	struct cgroup_host cgroup_host;
	struct cgroup cg;
	struct engine_run er;
	bool untold; /* the log has no start of it yet, so it gets no end */
	int userns;  /* the sandbox's, where its ids are wanted again to wipe what they own; -1: not kept */
	pid_t launcher, guard;
	int tty;	  /* the caller's terminal, to be put back as it was; -1: none */
	uint64_t started; /* CLOCK_REALTIME ns */
	uint64_t since;	  /* the same, of its last start; 0: there was one only */
	uint64_t ended;	  /* 0 until it was finished */
	uint64_t changes; /* files changed in the workspace, once finished */
	uint64_t wiped;	  /* entries of an ephemeral workspace that were removed */
	bool kept;	  /* the run's directory is still there for diff, apply, logs */
	struct cgroup_stat stat;
	struct run_end end;
	char disk_watched
		[256]; /* why a --disk of root's is only watched; empty when it is not, or by default */
	char limits_off[256]; /* default limits that are not in force, and why; empty when all are */

	/* For those that can be started once more: how this one was started, kept in the run's directory. NULL: not. */
	const struct buf *start;
	/* One that is started once more: its directory, with the lock, and when it was started first. 0: a new one. */
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
	/*
	 * For a sandbox that is made ahead of its command (standby.h); NULL otherwise. wait() is called once it is
	 * there and returns 0 when the command has come and stands in the spec, with the stdio in *io; -ECANCELED
	 * when none will come. ended() is called when the command has ended and its stdio is let go of, before anything is
	 * cleaned up: pid 1 was sent SIGKILL, but may not be gone yet.
	 */
	int (*wait)(void *ctx, struct run *r, struct run_io *io, struct err *e);
	void (*ended)(void *ctx, struct run *r);
	void *ctx;
	int alive_fd; /* end of file there ends the command, a byte is a signal for it; -1: none */
	/* A line for whoever started it, while it runs or just after, as it is to be written to `err`: added to *out, which
	 * stays empty when it is not to be said. NULL: nobody listens. */
	void (*say)(enum net_level level, const char *text, struct buf *out);
	const struct prompt_opts *prompt; /* NULL: nobody is asked here */
};

#define RUN_IO_INIT ((struct run_io){ -1, -1, -1, -1, -1, .alive_fd = -1 })

/* Runs spec to its end. *r must live as long; on return its fields tell what happened. An error means that the
 * command never ran. */
int run_execute(struct run *r, struct run_io *io, struct err *e) MUST_CHECK;

/* Ends whatever is left of runs that nobody holds any more. Returns how many. */
int run_sweep(struct state *st, struct audit *a, struct err *e) MUST_CHECK;

/* Used by run.c and guard.c: kills what is left, counts, wipes, logs, removes. run_fd is the locked directory. */
int run_finish(struct run *r, struct err *e) MUST_CHECK;

/* What of it the network's part of the guard needs. */
struct net_config run_net_config(const struct run *r);

/* What `coffer ps` and others find of it in the run's directory, as it is now. */
int run_write_meta(const struct run *r, struct err *e) MUST_CHECK;

/* Which engine, who chose it and why, and what it runs on: members of the log's and the report's object. */
void run_engine_json(const struct run *r, struct json *j);

/* Members "root", "image" and "image_digest": what the root file system is made of. */
void run_root_json(const struct spec *s, struct json *j);

/* The --report object, one line of JSON. */
void run_report(const struct run *r, struct buf *out);

#endif
