/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from beginning to end: directory, ids, control group, engine, supervision, cleanup. run_execute() has all of its
 * steps in their order, with the reasons for the order.
 *
 * Two processes know of a run: the launcher (the caller of run_execute()), which builds, supervises and finishes; and the
 * guard (guard.h), forked before anything exists on the host, which finishes when the launcher died before it could.
 *
 * Invariants
 *  U1  Nothing of the run is made on the host before the guard knows the run's id, by which all of it can be found.
 *  U2  The command is started only after run.start is in the audit log.
 *  U3  Finishing is idempotent: each step may have been done by a process that died before the next.
 *  U4  The launcher is confined (confine.h) before it reads a byte that came from inside.
 *  U5  The command reaches init's stream only after the launcher is confined, and is read there only after all of the
 *      wall stands (ns_inside.N1).
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

struct run;

/* Where the content of a run comes from. The table in run_layers.h has the steps that differ. */
enum run_origin_kind {
	RUN_NEW,    /* its layers begin empty */
	RUN_GIVEN,  /* a call that is given files: fill() copies them into the empty layer of the workspace */
	RUN_COPIED, /* a fork, or a call over the workspace of another run: fill() also changes the spec */
	RUN_RESUMED, /* started again: its directory and its layers are there */
};

/* Chosen once, by the caller of run_execute(). */
struct run_origin {
	enum run_origin_kind kind;
	int dir_fd;	  /* RUN_RESUMED: its directory, with the lock; stays the caller's */
	uint64_t started; /* RUN_RESUMED: when it was started first */
	/* RUN_GIVEN and RUN_COPIED: called once the layers are made and empty. */
	int (*fill)(void *ctx, struct run *r, struct err *e);
	/* RUN_COPIED: closes the descriptors that fill() needs. Called in each process that does not need them, or no longer. */
	void (*forget)(void *ctx);
	void *ctx;
};

/* Closes the descriptors of an origin in a process that has no use for them. */
void run_origin_close(struct run_origin *o);

/* All that the launcher and the guard know of a run. */
struct run {
	/* Set by the caller. */
	struct state *st;
	struct audit *audit;
	struct spec *spec;
	const struct engine *engine;
	const struct choice *choice; /* how the engine was chosen; NULL where that is not known any more */
	struct run_origin origin;
	struct net_plan *net; /* NULL: no network */
	const struct acts
		*acts; /* rules of its policy for tools and apply; NULL: those of the network's policy */
	const char *acts_file;	   /* the real path of their file; NULL: that of the network's policy */
	const struct obeys *obeys; /* the files that it obeys and the directories it writes to; NULL: none */
	const struct ports *ports; /* ports that lead inside; NULL: none */
	bool map_ids;		   /* map a range of ids for an ordinary user too */
	const struct buf
		*start; /* how to start it again, stored in the run's directory; NULL: it cannot be */

	/* While it runs. */
	struct cgroup_host cgroup_host;
	struct cgroup cg;
	struct engine_run er;
	bool start_not_logged; /* run.start is not in the log, so run.end is not written either */
	int userns;	       /* the sandbox's user namespace, for wiping files of its ids; -1: not needed */
	pid_t launcher, guard;
	int tty;	  /* the caller's terminal, whose settings the guard restores; -1: none */
	uint64_t started; /* CLOCK_REALTIME ns, of its first start */
	uint64_t since;	  /* the same, of its last start; 0: there was one only */

	/* Once it has ended. */
	struct run_end end;
	bool net_over;	       /* the guard has ended the network and logged all of it */
	struct buf net_report; /* members of the report's "network" object */
	struct cgroup_stat stat;
	uint64_t ended;	  /* 0 until it was finished */
	uint64_t changes; /* files changed in the workspace */
	uint64_t wiped;	  /* removed entries of an ephemeral workspace */
	bool kept;	  /* the run's directory is still there for diff, apply, logs */
	char disk_watched
		[256]; /* why a named --disk of root's is only watched; empty: it is not, or is the default */
	char limits_off[256]; /* default limits that are not in force, and why; empty: all are */
};

/* The caller's side of a run. */
struct run_io {
	int in, out, err; /* the caller's stdio; -1 when detached */
	int tty;	  /* the caller's terminal, -1: none */
	int ready_fd;	  /* detached: gets the run's id once the command was started; -1: not detached */
	/*
	 * For a sandbox of the warm pool, made ahead of its command (standby.h); NULL otherwise. wait() is called once
	 * the sandbox is ready. It returns 0 when the command has come and is in the spec, with the stdio in *io;
	 * -ECANCELED when none will come. ended() is called when the command has ended and its stdio is closed, before
	 * any cleanup: pid 1 was sent SIGKILL, but may not be gone yet.
	 */
	int (*wait)(void *ctx, struct run *r, struct run_io *io, struct err *e);
	void (*ended)(void *ctx, struct run *r);
	void *ctx;
	int alive_fd; /* end of file there ends the command, a byte is a signal for it; -1: none */
	/* Formats a message of the guard as a line for `err`; *out stays empty when it is not to be shown. NULL: none are. */
	void (*say)(enum net_level level, const char *text, struct buf *out);
	const struct prompt_opts *prompt; /* the terminal where approvals are asked for; NULL: nowhere */
};

#define RUN_IO_INIT ((struct run_io){ -1, -1, -1, -1, -1, .alive_fd = -1 })

/* Runs the spec to its end. *r must stay in place until then; on return its fields tell what happened. An error means that
 * the command never ran. */
int run_execute(struct run *r, struct run_io *io, struct err *e) MUST_CHECK;

/* Finishes the runs whose launcher and guard are both dead. Returns how many there were. */
int run_sweep(struct state *st, struct audit *a, struct err *e) MUST_CHECK;

/* For run.c and guard.c: kills all of the sandbox, counts changes, wipes, logs run.end, removes. spec->run_fd is the locked
 * directory. */
int run_finish(struct run *r, struct err *e) MUST_CHECK;

/* The part of it that the guard's network supervision needs. */
struct net_config run_net_config(const struct run *r);

/* Writes meta.json in the run's directory, for `coffer ps` and others, as the run is now. */
int run_write_meta(const struct run *r, struct err *e) MUST_CHECK;

/* Members for the log and the report: which engine, how it was chosen and why, and its program. */
void run_engine_json(const struct run *r, struct json *j);

/* Members "root", "image" and "image_digest": the origin of the root file system. */
void run_root_json(const struct spec *s, struct json *j);

/* The --report object, one line of JSON. */
void run_report(const struct run *r, struct buf *out);

#endif
