/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's stdin, stdout, stderr and terminal, joined to one channel of a connection: used by the launcher for
 * the main command and by `coffer exec` for its own. Implements the caller's half of proto.P3 (credit).
 *
 * No descriptor of the caller is passed inside. Input is read only as far as the other side has granted. Output is
 * accepted only as far as we granted, and granted again as the caller takes it, so a slow reader slows the command.
 */
#ifndef RUN_PUMP_H
#define RUN_PUMP_H

#include "codec/term/termmodes.h"
#include "ipc/conn.h"
#include "run/supervise/logtimes.h"
#include "run/supervise/supervise_sink.h"
#include "sandbox/init/proto.h"

struct pump_opts {
	int in, out, err;	/* -1: none */
	int tty;		/* the caller's terminal when the command has one too, else -1 */
	int log_fd;		/* both outputs go here instead, -1: no */
	struct logtimes *times; /* of that log; may be NULL */
	uint64_t limit;		/* bytes of output to what is not a terminal; UINT64_MAX: none */
	void (*kick)(
		void *ctx); /* frames were added to the connection, or something failed or became empty */
	void *ctx;
};

struct pump {
	struct loop *loop;
	struct conn *conn;
	uint32_t chan;
	void (*kick)(void *ctx);
	void *ctx;

	struct supervise_sink out, err;
	bool tty;     /* the command has a terminal */
	bool resizes; /* SIGWINCH is wanted without a terminal, too: set before pump_take_signals() */
	int tty_fd;
	bool mark_cut; /* CUT_MARK is written where the output is cut: for a log */
	struct logtimes *times;
	uint64_t limit, printed;
	bool saw_erofs; /* EROFS_TEXT was in what was printed */
	bool cut;
	uint32_t room; /* output that may still come before the next grant */
	uint32_t owed; /* output taken since the last grant */

	struct watch in;
	bool in_is_pipe;
	bool in_on;	    /* stdin is sent at all */
	bool in_done;	    /* the end was sent, or the command reads no more */
	bool in_held;	    /* the prompt has the terminal (pump_hold()) */
	uint32_t in_credit; /* input that may still be sent */

	struct termmodes modes; /* terminal modes that the command has set */
};

/* May fd have input? False for -1, a closed descriptor and /dev/null. */
bool pump_has_input(int fd);

/* Prepares; the terminal becomes raw when there is one. */
int pump_open(struct pump *s, struct loop *l, struct conn *c, uint32_t chan, const struct pump_opts *o,
	      struct err *e) MUST_CHECK;
/* Begins to read stdin. Only for a command started with PROTO_F_STDIN. */
void pump_read_input(struct pump *s);
/* The connection was flushed: reads more input if there is room. */
void pump_continue(struct pump *s);

/* A frame of this channel: output, input credit or the end of input. -EPROTO when it is not legal. */
int pump_frame(struct pump *s, const struct frame *f) MUST_CHECK;

/* Signals that end or stop a command go to fn from now on; with a terminal also SIGWINCH and SIGTSTP. */
int pump_take_signals(struct pump *s, void (*fn)(void *ctx, const struct signalfd_siginfo *si), void *ctx,
		      struct err *e) MUST_CHECK;
void pump_resized(struct pump *s); /* SIGWINCH */
void pump_suspend(struct pump *s); /* SIGTSTP from outside while the terminal is raw */

/*
 * While the prompt has the terminal, stdin is not read and nothing is written to a terminal. The command blocks once its
 * credit is used up.
 */
void pump_hold(struct pump *s, bool held);
/* Makes a command with a terminal redraw its screen, by sending a wrong size and then the right one. */
void pump_redraw(struct pump *s);

/* No more output will come. */
void pump_finish(struct pump *s);
static inline bool pump_is_flushed(const struct pump *s)
{
	return supervise_sink_is_empty(&s->out) && supervise_sink_is_empty(&s->err);
}
/* Restores the terminal. */
void pump_release(struct pump *s);

#endif
