/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a run's control socket: starts commands in a running sandbox and joins them to the caller's
 * stdio or to functions, requests its stop, its state, a freeze or a rollback. One command at a time on a link.
 *
 * A link that is closed while its command runs hangs up on it: SIGHUP, and SIGKILL five seconds later.
 */
#ifndef RUN_LINK_H
#define RUN_LINK_H

#include "base/buf.h"
#include "base/err.h"
#include "ipc/conn.h"
#include "sandbox/init/proto.h"

#include <stdbool.h>
#include <stdint.h>

struct link {
	int fd;
	struct conn conn;
	uint32_t chan; /* of the last command */
	int protocol; /* of the launcher (sandbox/state/compat.h); requests that it does not serve are refused here */
};

#define LINK_INIT ((struct link){ .fd = -1 })

/* run_fd: the run's directory. -ENOENT and -ECONNREFUSED: no launcher listens there. */
int link_open(struct link *l, int run_fd, struct err *e) MUST_CHECK;
/* The same with a timeout: -ETIMEDOUT when the launcher's backlog stays full for that long. */
int link_open_within(struct link *l, int run_fd, int timeout_ms, struct err *e) MUST_CHECK;
void link_close(struct link *l);

#define autolink CLEANUP(link_close)

struct link_cmd {
	char *const *argv;
	char *const *env; /* "NAME=VALUE" over the sandbox's own; may be NULL */
	const char *cwd;  /* "": the sandbox's own */
	unsigned flags;	  /* PROTO_F_TTY, PROTO_F_STDIN, PROTO_F_BUILTIN, PROTO_F_CAP */
};

struct link_io {
	int in, out, err; /* -1: none */
	int tty;	  /* the caller's terminal, with PROTO_F_TTY */
};

/* Runs a command to its end, joined to the caller's stdio; signals to us are passed on. *ret says how it ended. */
int link_run(struct link *l, const struct link_cmd *c, const struct link_io *io, struct proto_exit *ret,
	     struct err *e) MUST_CHECK;

/* The same, joined to functions. Each may be NULL. A negative errno of theirs ends it and hangs up. */
struct link_xfer {
	int (*produce)(void *ctx, struct buf *out); /* more stdin; 0: that was the last, 1: there is more */
	int (*consume)(void *ctx, const void *data, size_t len); /* stdout */
	void *ctx;
	struct buf *messages; /* stderr, up to 4 KiB of it */
};
int link_transfer(struct link *l, const struct link_cmd *c, const struct link_xfer *x, struct proto_exit *ret,
		  struct err *e) MUST_CHECK;

/*
 * Starts a detached command. Returns 0 when it runs (*ret_started) or has failed to start (*ret). The command survives
 * the link and runs until it or the sandbox ends; its output is dropped.
 */
int link_detach(struct link *l, const struct link_cmd *c, bool *ret_started, struct proto_exit *ret,
		struct err *e) MUST_CHECK;

/* Requests SIGTERM now and SIGKILL after the grace, and waits until the launcher has closed the link. */
int link_stop(struct link *l, uint32_t grace_ms, struct err *e) MUST_CHECK;

/* One JSON object about the sandbox. -ETIMEDOUT when it does not come within the time; -1: wait for it. */
int link_stat(struct link *l, int timeout_ms, struct buf *ret, struct err *e) MUST_CHECK;

/* 0 when coffer-init answers within the time, else -ETIMEDOUT. */
int link_ping(struct link *l, int timeout_ms, struct err *e) MUST_CHECK;

/*
 * Freezes the sandbox until the link is closed, for at most `ms`. *ret_how is an enum proto_frozen; *ret_layers the
 * directory that holds the run's upper/ and work/, -1 when it has no layers.
 */
int link_freeze(struct link *l, uint32_t ms, unsigned *ret_how, int *ret_layers, struct err *e) MUST_CHECK;

/* Has the freeze lasted until now? */
bool link_is_frozen(struct link *l);

/* Ends the sandbox for a rollback, and waits until the launcher has closed the link. */
int link_rollback(struct link *l, struct err *e) MUST_CHECK;

#endif
