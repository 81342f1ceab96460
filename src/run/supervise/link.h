/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a run's control socket: starts commands in a running sandbox and joins them to the caller's
 * stdio or to functions, asks it to stop, asks how it is. One command at a time on a link; many may follow.
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
	int protocol; /* of the launcher (sandbox/state/compat.h); each request is refused that it does not serve */
};

#define LINK_INIT ((struct link){ .fd = -1 })

/* run_fd: the run's directory. -ENOENT and -ECONNREFUSED: nobody listens there. */
int link_open(struct link *l, int run_fd, struct err *e) MUST_CHECK;
/* The same for who cannot wait: -ETIMEDOUT when a launcher has left so many others waiting that there is no room. */
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
	int (*produce)(void *ctx, struct buf *out); /* more stdin; 0: that was all, 1: there is more */
	int (*consume)(void *ctx, const void *data, size_t len); /* stdout */
	void *ctx;
	struct buf *messages; /* stderr, up to 4 KiB of it */
};
int link_transfer(struct link *l, const struct link_cmd *c, const struct link_xfer *x, struct proto_exit *ret,
		  struct err *e) MUST_CHECK;

/*
 * Starts a command that nobody waits for: returns 0 once it runs, with *ret_started, or with *ret how it failed to start. It goes
 * on when the link is closed, until it ends by itself or the sandbox does; its output is dropped.
 */
int link_detach(struct link *l, const struct link_cmd *c, bool *ret_started, struct proto_exit *ret,
		struct err *e) MUST_CHECK;

/* Asks for SIGTERM now and SIGKILL after the grace, and waits until the launcher has closed the link. */
int link_stop(struct link *l, uint32_t grace_ms, struct err *e) MUST_CHECK;

/* One JSON object about the sandbox. -ETIMEDOUT when it does not come within the time; -1: wait for it. */
int link_stat(struct link *l, int timeout_ms, struct buf *ret, struct err *e) MUST_CHECK;

/* Does coffer-init answer within the time? -ETIMEDOUT when not. */
int link_ping(struct link *l, int timeout_ms, struct err *e) MUST_CHECK;

/*
 * Has the sandbox stand still until the link is closed, at most so long. *ret_how is an enum proto_frozen;
 * *ret_layers what holds the run's layers, -1 when it has none.
 */
int link_freeze(struct link *l, uint32_t ms, unsigned *ret_how, int *ret_layers, struct err *e) MUST_CHECK;

/* Did it stand still until now? */
bool link_is_frozen(struct link *l);

/* Ends the sandbox, to be rolled back, and waits until the launcher has closed the link. */
int link_rollback(struct link *l, struct err *e) MUST_CHECK;

#endif
