/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher once the sandbox runs: starts the main command by a message, carries its stdio, serves the
 * control socket, keeps the limits that the kernel does not keep (time, output, disk), and sees the end.
 *
 * It trusts nothing that comes over init's stream: a frame out of order or past its credit ends the sandbox.
 */
#ifndef RUN_SUPERVISE_H
#define RUN_SUPERVISE_H

#include "approval/wire/askproto.h"
#include "base/err.h"
#include "netd/wire/net_msg.h"
#include "run/supervise/ports.h"
#include "sandbox/engine/engine.h"
#include "sandbox/init/proto.h"
#include "sandbox/spec/spec.h"

#include <stdint.h>

enum run_cause {
	CAUSE_EXIT,   /* the command exited by itself; code is its status (as the sandbox claims) */
	CAUSE_SIGNAL, /* the command died of a signal */
	CAUSE_OOM,    /* it failed after the kernel killed for the memory limit */
	CAUSE_PIDS,   /* it failed after the pids limit refused forks */
	CAUSE_TIMEOUT,
	CAUSE_OUTPUT, /* not an end by itself: only when we killed it for it */
	CAUSE_DISK,
	CAUSE_STOPPED, /* coffer stop, or SIGTERM/SIGHUP/SIGINT to coffer */
	CAUSE_CALLER,  /* the coffer process that started it is gone */
	CAUSE_NOT_STARTED, /* the command could not be started; code 125, 126 or 127: see claim, proto_exit_text() */
	CAUSE_BROKEN,  /* init broke the protocol or died */
	CAUSE_ROLLED,  /* ended to be rolled back */
	CAUSE_NETWORK, /* what carries its network could not be started or kept */
	CAUSE_COUNT
};
const char *run_cause_name(enum run_cause c); /* "exit", "signal", "oom", … */

struct run_end {
	enum run_cause cause;
	int exit_code;	 /* what coffer exits with: 0-255 */
	int start_errno; /* for CAUSE_NOT_STARTED */
	int signal;	 /* for CAUSE_SIGNAL */
	uint64_t wall_ns;
	uint64_t output_bytes;
	bool saw_erofs;	  /* its output speaks of a read-only file system; only ever a reason for a hint */
	bool output_cut;  /* the output limit was reached: the rest was thrown away */
	int output_error; /* negative errno: the caller's stdout or stderr failed, the rest was thrown away */
	bool pids_hit;	  /* forks were refused at least once; looked at only when the command failed */
	bool pids_claimed;	 /* that is what the sandbox says: no control group counts them */
	struct proto_exit claim; /* what init said about the main command; kind PROTO_EXIT_KINDS: nothing */
	char broken[160];	 /* for CAUSE_BROKEN: what it did; for CAUSE_NETWORK: what is missing */
};

#define SUPERVISE_LASTING_MS 50

/* Who can be asked on the caller's terminal while the command runs (supervise_prompt.c). */
struct prompt_text;

struct prompt_opts {
	int in, out; /* the terminal */
	struct ask_who who;
	/* What is known of a question, as harmless rows for so many columns; `all`: also what is long. */
	void (*show)(void *ctx, json_t *ask, unsigned cols, bool all, struct prompt_text *ret);
	void *ctx;
};

/* The message that starts the main command. */
struct supervise_start {
	unsigned flags; /* PROTO_F_* */
	struct buf out; /* what init's stream did not take yet */
	size_t out_off;
};

struct supervise_io {
	int in, out, err;	/* the caller's stdio; -1: none (detached) */
	int tty;		/* the caller's terminal when the command has one, else -1 */
	int log_fd;		/* detached: output goes here, capped; -1 otherwise */
	struct logtimes *times; /* of that log; may be NULL */
	int alive_fd; /* end of file here: the process that started us is gone; a byte: a signal to pass on; -1 */
	int listen_fd;	/* control socket, or -1 */
	int engine_log; /* what the engine's programs say goes here, capped; -1: nowhere */
	int usage_fd; /* an upper layer, the workspace's or the root's, for the disk limit; -1: not watched */
	int usage2_fd; /* the other one; -1: none */
	/*
	 * Something for the audit log: exec.start, exec.end, stop.request. `fields` are JSON members. A failure
	 * means that it was not written: an exec is then refused, and anything else ends the sandbox. May be NULL.
	 */
	int (*event)(void *ctx, const char *type, const struct buf *fields);
	void *ctx;
	struct supervise_start
		*start; /* what supervise_start() gave, or NULL: supervise() starts the command */
	/*
	 * Called once the command has lasted SUPERVISE_LASTING_MS: one that is over at once need not be found by
	 * others, and making it so costs several files. Returns the control socket; an error ends the sandbox. May
	 * be NULL: then listen_fd is all there is.
	 */
	int (*lasting)(void *ctx, struct err *e);
	/*
	 * Called when the main command has ended by itself, all that it printed was written, and pid 1 was sent SIGKILL;
	 * *ret of supervise() is filled in by then and does not change any more. That pid 1 is gone takes the kernel a
	 * while longer, for which nobody has to wait. The caller's stdio is not touched from then on. Not called for
	 * other ends. May be NULL.
	 */
	void (*ended)(void *ctx);
	const struct ports *ports; /* of this machine that lead inside; NULL: none */
	bool agent;		   /* there is an ssh-agent for it; then */
	int agent_fd;		   /* the vault's channel, taken over; -1: there is none now */
	int guard_fd;		   /* the guard of a run with a network speaks here (net.h); -1: none */
	const struct prompt_opts *prompt; /* a person is asked on the caller's terminal; NULL: not */
	int run_fd;			  /* the run's directory, where the questions are served */
	/* A line of the guard's, as it is to be written to the caller's stderr; NULL: not. */
	void (*say)(enum net_level level, const char *text, struct buf *out);
};

/*
 * Writes the message that starts the main command to init's stream, before there is an init: it is read when all of
 * the wall stands. Nothing is read here. Of `io` only in and tty are looked at.
 */
int supervise_start(struct supervise_start *ret, const struct spec *s, const struct supervise_io *io,
		    int stream, struct err *e) MUST_CHECK;

/* Runs until the sandbox's main command has ended and pid 1 is reaped. Only internal failures are errors. */
int supervise(const struct spec *s, struct cgroup *cg, struct engine_run *run, const struct supervise_io *io,
	      struct run_end *ret, struct err *e) MUST_CHECK;

#endif
