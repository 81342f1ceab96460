/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher while the sandbox runs: sends the start of the main command to init, carries its stdio, serves the
 * control socket, enforces the limits that the kernel does not (time, output, disk), and reports the end.
 *
 * Nothing that comes over init's stream is trusted: a frame out of order or beyond its credit ends the sandbox.
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
	CAUSE_OUTPUT, /* only when we killed it for its output; reaching the limit alone is not an end */
	CAUSE_DISK,
	CAUSE_STOPPED, /* coffer stop, or SIGTERM/SIGHUP/SIGINT to coffer */
	CAUSE_CALLER,  /* the coffer process that started it is gone */
	CAUSE_NOT_STARTED, /* the command could not be started; code 125, 126 or 127: see claim, proto_exit_text() */
	CAUSE_BROKEN,  /* init broke the protocol or died */
	CAUSE_ROLLED,  /* ended to be rolled back */
	CAUSE_NETWORK, /* a process that carries its network could not be started or kept running */
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
	bool saw_erofs;	   /* the output mentions a read-only file system; used for a hint and nothing else */
	bool output_cut;   /* the output limit was reached: the rest was dropped */
	int output_error;  /* negative errno: the caller's stdout or stderr failed, the rest was dropped */
	bool disk_full;	   /* hardly any space is left in the disk image of its layers */
	bool inodes_full;  /* no more files can be made there */
	bool pids_hit;	   /* forks were refused at least once; determined only when the command failed */
	bool pids_claimed; /* the sandbox claims so: no control group counts its processes */
	struct proto_exit claim; /* init's claim about the main command; kind PROTO_EXIT_KINDS: none */
	char broken[160];	 /* for CAUSE_BROKEN: the violation; for CAUSE_NETWORK: what is missing */
};

#define SUPERVISE_LASTING_MS 50

/* The terminal on which pending asks are shown while the command runs (supervise_prompt.c), and the approver there. */
struct prompt_text;

struct prompt_opts {
	int in, out; /* the terminal */
	struct ask_who who;
	/* Renders an ask as harmless rows of at most `cols` columns; `all`: with its long parts. */
	void (*show)(void *ctx, json_t *ask, unsigned cols, bool all, struct prompt_text *ret);
	void *ctx;
};

/* The message that starts the main command. */
struct supervise_start {
	unsigned flags; /* PROTO_F_* */
	struct buf out; /* bytes that init's stream has not taken yet */
	size_t out_off;
};

struct supervise_io {
	int in, out, err;	/* the caller's stdio; -1: none (detached) */
	int tty;		/* the caller's terminal when the command has one, else -1 */
	int log_fd;		/* detached: output goes here, capped; -1 otherwise */
	struct logtimes *times; /* of that log; may be NULL */
	int alive_fd; /* end of file here: the process that started us is gone; a byte: a signal to pass on; -1 */
	int listen_fd;	/* control socket, or -1 */
	int engine_log; /* output of the engine's programs goes here, capped; -1: nowhere */
	int usage_fd; /* an upper layer, the workspace's or the root's, for the disk limit; -1: not watched */
	int usage2_fd; /* the other one; -1: none */
	/*
	 * Writes an audit event: exec.start, exec.end, stop.request. `fields` are JSON members. A failure means that
	 * it was not written: an exec is then refused, and any other event ends the sandbox. May be NULL.
	 */
	int (*event)(void *ctx, const char *type, const struct buf *fields);
	void *ctx;
	struct supervise_start
		*start; /* result of supervise_start(), or NULL: supervise() starts the command */
	/*
	 * Called when init reports that the main command was started, for a caller that waits for that. An error ends
	 * the sandbox. Not called where the command could not be started. May be NULL.
	 */
	int (*started)(void *ctx, struct err *e);
	/*
	 * Called once the command has run for SUPERVISE_LASTING_MS, to make the run visible to other commands: that
	 * costs several files, which a command that ends at once does not need. Returns the control socket; an error
	 * ends the sandbox. May be NULL: then listen_fd is the only control socket.
	 */
	int (*lasting)(void *ctx, struct err *e);
	/*
	 * Called when the main command has ended by itself, all of its output was written, and pid 1 was sent SIGKILL.
	 * *ret of supervise() is final by then. The kernel needs a while longer to remove pid 1, which the caller need
	 * not wait for. The caller's stdio is not touched after this call. Not called for other ends. May be NULL.
	 */
	void (*ended)(void *ctx);
	const struct ports *ports; /* of this machine that lead inside; NULL: none */
	bool agent;		   /* the sandbox has an ssh-agent; then */
	int agent_fd;		   /* the vault's channel, taken over; -1: there is none now */
	int guard_fd;		   /* messages of the guard of a run with a network (net_msg.h); -1: none */
	const struct prompt_opts *prompt; /* pending asks are shown on the caller's terminal; NULL: not */
	int run_fd;			  /* the run's directory, which has the ask server's socket */
	/* Formats a notice of the guard for the caller's stderr; NULL: notices are dropped. */
	void (*say)(enum net_level level, const char *text, struct buf *out);
};

/*
 * Writes the message that starts the main command to init's stream before init exists: init reads it once the sandbox is
 * completely built. Nothing is read here. Of `io` only in, tty, started and agent are used.
 */
int supervise_start(struct supervise_start *ret, const struct spec *s, const struct supervise_io *io,
		    int stream, struct err *e) MUST_CHECK;

/* Runs until the sandbox's main command has ended and pid 1 is reaped. Only internal failures are errors. */
int supervise(const struct spec *s, struct cgroup *cg, struct engine_run *run, const struct supervise_io *io,
	      struct run_end *ret, struct err *e) MUST_CHECK;

#endif
