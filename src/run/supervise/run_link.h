/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a run's control socket: starts commands in a running sandbox and joins them to the caller's
 * stdio or to functions, requests its stop, its state, a freeze or a rollback. One command at a time on a link.
 *
 * A link that is closed while its command runs hangs up on it: SIGHUP, and SIGKILL five seconds later.
 */
#ifndef RUN_RUN_LINK_H
#define RUN_RUN_LINK_H

#include "base/buf.h"
#include "base/err.h"
#include "ipc/conn.h"
#include "sandbox/init/proto.h"

#include <stdbool.h>
#include <stdint.h>

struct run_link {
	int fd;
	struct conn conn;
	uint32_t chan; /* of the last command */
	int protocol; /* of the launcher (sandbox/state/compat.h); requests that it does not serve are refused here */
};

#define RUN_LINK_INIT ((struct run_link){ .fd = -1 })

/* run_fd: the run's directory. -ENOENT and -ECONNREFUSED: no launcher listens there. */
int run_link_open(struct run_link *l, int run_fd, struct err *e) MUST_CHECK;
/* The same with a timeout: -ETIMEDOUT when the launcher's backlog stays full for that long. */
int run_link_open_within(struct run_link *l, int run_fd, int timeout_ms, struct err *e) MUST_CHECK;
void run_link_close(struct run_link *l);

#define autolink CLEANUP(run_link_close)

struct run_link_cmd {
	char *const *argv;
	char *const *env; /* "NAME=VALUE" over the sandbox's own; may be NULL */
	const char *cwd;  /* "": the sandbox's own */
	unsigned flags;	  /* PROTO_F_TTY, PROTO_F_STDIN, PROTO_F_BUILTIN, PROTO_F_CAP */
};

struct run_link_io {
	int in, out, err; /* -1: none */
	int tty;	  /* the caller's terminal, with PROTO_F_TTY */
};

/* Runs a command to its end, joined to the caller's stdio; signals to us are passed on. *ret says how it ended. */
int run_link_exec(struct run_link *l, const struct run_link_cmd *c, const struct run_link_io *io,
		  struct proto_exit *ret, struct err *e) MUST_CHECK;

/* The same, joined to functions. Each may be NULL. A negative errno of theirs ends it and hangs up. */
struct run_link_xfer {
	int (*produce)(void *ctx, struct buf *out); /* more stdin; 0: that was the last, 1: there is more */
	int (*consume)(void *ctx, const void *data, size_t len); /* stdout */
	void *ctx;
	struct buf *messages; /* stderr, up to 4 KiB of it */
};
int run_link_transfer(struct run_link *l, const struct run_link_cmd *c, const struct run_link_xfer *x,
		      struct proto_exit *ret, struct err *e) MUST_CHECK;

/*
 * Starts a detached command. Returns 0 when it runs (*ret_started) or has failed to start (*ret). The command survives
 * the link and runs until it or the sandbox ends; its output is dropped.
 */
int run_link_detach(struct run_link *l, const struct run_link_cmd *c, bool *ret_started,
		    struct proto_exit *ret, struct err *e) MUST_CHECK;

/* Requests SIGTERM now and SIGKILL after the grace, and waits until the launcher has closed the link. */
int run_link_stop(struct run_link *l, uint32_t grace_ms, struct err *e) MUST_CHECK;

/* One JSON object about the sandbox. -ETIMEDOUT when it does not come within the time; -1: wait for it. */
int run_link_stat(struct run_link *l, int timeout_ms, struct buf *ret, struct err *e) MUST_CHECK;

/* 0 when coffer-init answers within the time, else -ETIMEDOUT. */
int run_link_ping(struct run_link *l, int timeout_ms, struct err *e) MUST_CHECK;

/*
 * Freezes the sandbox until the link is closed, for at most `ms`. *ret_how is an enum proto_frozen; *ret_layers the
 * directory that holds the run's upper/ and work/, -1 when it has no layers.
 */
int run_link_freeze(struct run_link *l, uint32_t ms, unsigned *ret_how, int *ret_layers,
		    struct err *e) MUST_CHECK;

/* Has the freeze lasted until now? */
bool run_link_is_frozen(struct run_link *l);

/* Ends the sandbox for a rollback, and waits until the launcher has closed the link. */
int run_link_rollback(struct run_link *l, struct err *e) MUST_CHECK;

#endif
