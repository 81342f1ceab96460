/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of coffer-init: one stream, frames of codec/frame.h, little-endian integers.
 *
 * The same frames run between the launcher and coffer-init (every engine, every host) and between a client
 * (`coffer exec`) and the launcher's control socket; the launcher rewrites channel numbers between the two and
 * passes on only frames that a client may send. A channel is one command. Channel 0 is the launcher itself.
 *
 * Invariants
 *  P1  The reader caps sizes before it stores anything: FRAME_MAX_PAYLOAD a frame, PROTO_START_MAX a start request,
 *      PROTO_BODIES_MAX all start requests that are not complete.
 *  P2  A frame that is not legal in the channel's state ends the connection (host side: ends the sandbox).
 *      One exception: a frame of the host may cross with the end of its channel, so frames to a channel that
 *      has ended are ignored. Channel numbers only grow, which tells an ended channel from a new one.
 *  P3  Neither side sends output or input beyond the credit it was granted, so one slow reader never blocks
 *      another channel. A data frame costs its payload and FRAME_HEAD, so many small frames cannot make a queue
 *      longer than PROTO_WINDOW bytes a channel and direction. Both directions begin with PROTO_WINDOW of
 *      credit; outstanding credit never exceeds that, and it is granted again in pieces of at least
 *      PROTO_CREDIT_MIN.
 *      A dialled channel (PROTO_DIAL) follows the same rules: PROTO_STARTED means that it is connected, PROTO_EXIT that
 *      the port has closed it or could not be reached; any signal closes it.
 *      So does an accepted one (PROTO_ACCEPT): PROTO_STARTED means that a program has connected.
 *  P4  PROTO_EXIT is the last frame of a channel, after all of its output.
 *  P5  Frames of init are claims of the sandbox. Limits, kill, time, memory and output caps are the launcher's.
 *
 * Once the main command (PROTO_F_MAIN) has ended and its PROTO_EXIT is written, init exits, and the kernel kills
 * every other process of the sandbox. End of file on init's input has the same effect at any time.
 */
#ifndef SANDBOX_PROTO_H
#define SANDBOX_PROTO_H

#include "base/buf.h"
#include "codec/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define PROTO_VERSION 1
#define PROTO_START_MAX (8u << 20)   /* bytes of working directory, arguments and environment together */
#define PROTO_BODIES_MAX (16u << 20) /* bytes of all start bodies that wait for their PROTO_START */
#define PROTO_STRINGS_MAX (1u << 20) /* arguments and variables together */
#define PROTO_WINDOW (256u << 10)    /* first credit, a channel and direction */
#define PROTO_CREDIT_MIN (4u << 10)
#define PROTO_CREDIT_STEP (64u << 10) /* our own side collects this much before it grants credit again */
#define PROTO_CHANNELS 256	      /* commands alive at once in one sandbox */
#define PROTO_PING_MAX 64

enum proto_type {
	/* towards init */
	PROTO_START_DATA = 1, /* a piece of the start body: NUL-terminated strings: cwd, argv…, env… */
	PROTO_START,	      /* struct proto_start: the body is complete, start it */
	PROTO_STDIN,	      /* data; an empty one is end of file and costs nothing */
	PROTO_SIGNAL,	      /* u32 signal, to the command's process group (terminal: the foreground one) */
	PROTO_RESIZE,	      /* u16 rows, u16 columns */
	PROTO_CREDIT,	      /* u32: so many more bytes of stdout and stderr together */
	PROTO_DIAL, /* u32 port: connect to it inside; the channel is that connection. From the launcher only */
	PROTO_PING, /* channel 0, up to PROTO_PING_MAX bytes, comes back as PROTO_PONG */
	PROTO_LISTEN, /* channel 0, once, a path: make a socket there for PROTO_ACCEPT. From the launcher only */
	PROTO_ACCEPT,  /* empty: the channel is the next connection to that socket. From the launcher only */
	PROTO_TTY_ASK, /* empty: does its program read the terminal key by key? From the launcher only */

	/* from init */
	PROTO_HELLO = 32,   /* channel 0, u32 version: the first frame */
	PROTO_STARTED,	    /* u32 pid inside */
	PROTO_STDOUT,	    /* data, never empty */
	PROTO_STDERR,	    /* data, never empty */
	PROTO_STDIN_CREDIT, /* u32: so many more bytes of stdin */
	PROTO_STDIN_CLOSED, /* the command closed its stdin; nothing more is read */
	PROTO_EXIT,	    /* struct proto_exit */
	PROTO_PONG,
	PROTO_TTY_IS, /* u32: 1 when the channel's terminal is raw, 0 when it is not; one for each PROTO_TTY_ASK */

	/* between a client and the launcher only, channel 0 */
	PROTO_STOP = 64, /* u32 milliseconds of grace before SIGKILL */
	PROTO_STAT,	 /* requests PROTO_STAT_REPLY: one JSON object */
	PROTO_STAT_REPLY,
	PROTO_ERROR,  /* text for a person: why the request was refused; the connection ends */
	PROTO_FREEZE, /* u32 milliseconds: freeze until this connection ends, and no longer than that */
	PROTO_FROZEN, /* u32 enum proto_frozen, with the descriptor of the layers' directory if the run has layers */
	PROTO_ROLLBACK, /* kill the sandbox for a rollback; clients with a command are told that reason */
};

enum proto_frozen {
	PROTO_FROZEN_GROUP,   /* by the kernel, all at once */
	PROTO_FROZEN_SIGNALS, /* stopped one by one until none was left */
	PROTO_FROZEN_NOT,     /* freezing failed: it runs */
	PROTO_FROZEN_COUNT
};
#define PROTO_FREEZE_MAX 120000u /* milliseconds */

enum proto_start_flag {
	PROTO_F_TTY = 1,   /* give it a terminal of its own */
	PROTO_F_STDIN = 2, /* stdin will be sent; otherwise it is /dev/null */
	PROTO_F_MAIN = 4,  /* the sandbox's own command; from the launcher only */
	PROTO_F_BUILTIN =
		8, /* argv[0] names a function of coffer-init (cp-in, cp-out, file-…), not a program */
	PROTO_F_CAP = 16, /* client to launcher: count its output against the sandbox's output limit */
	PROTO_F_PIDS =
		32, /* launcher to init: when it fails, report whether the limit of processes is reached */
	PROTO_F_DETACH =
		64 /* client to launcher: it outlives its client once it is started; output is dropped. Launcher to
		    * init, with PROTO_F_MAIN only: a caller waits for PROTO_STARTED, which is sent at once */
};

/* On the wire: five u32 in this order. */
struct proto_start {
	unsigned flags;
	unsigned argc;
	unsigned envc;
	unsigned rows;
	unsigned cols;
};

enum proto_exit_kind {
	PROTO_EXITED,	   /* value: exit status */
	PROTO_SIGNALED,	   /* value: signal */
	PROTO_NOT_STARTED, /* value: errno */
	PROTO_EXIT_KINDS
};

/* The step that failed, for PROTO_NOT_STARTED. PROTO_WHAT_CUT and later values only come with the other two kinds. */
enum proto_what {
	PROTO_WHAT_NONE,
	PROTO_WHAT_EXEC,    /* the program: ENOENT and EACCES are a shell's 127 and 126 */
	PROTO_WHAT_INTERP,  /* the program exists, the interpreter that it names does not */
	PROTO_WHAT_CWD,	    /* the working directory */
	PROTO_WHAT_FORK,    /* a process: EAGAIN is the pids limit */
	PROTO_WHAT_FDS,	    /* pipes: EMFILE is the limit of open files */
	PROTO_WHAT_TTY,	    /* a terminal */
	PROTO_WHAT_REQUEST, /* the request itself: E2BIG, EINVAL, ENOMEM */
	PROTO_WHAT_CUT,	    /* launcher to client: the output limit was reached, the rest was dropped */
	PROTO_WHAT_PIDS,    /* it failed, and the pids limit was reached; only with PROTO_F_PIDS */
	PROTO_WHAT_ROLLED,  /* launcher to client: the sandbox was rolled back */
	PROTO_WHAT_COUNT
};

/* On the wire: three u32. */
struct proto_exit {
	unsigned kind;
	unsigned value;
	unsigned what;
};

/* The exit code as a shell has it: 127 not found, 126 found but not executable, 128+signal; 125 when the program did
 * not start for a reason outside of it. */
int proto_exit_code(const struct proto_exit *x);

/* The error text for PROTO_NOT_STARTED: "cannot start a process: …". Not linked into coffer-init. */
void proto_exit_text(const struct proto_exit *x, const char *command, const char *cwd, struct err *e);

void proto_add_start(struct buf *out, uint32_t chan, const struct proto_start *s);
int proto_get_start(const struct frame *f, struct proto_start *ret) MUST_CHECK;

void proto_add_exit(struct buf *out, uint32_t chan, const struct proto_exit *x);
/* -EPROTO for an impossible kind, status, signal or reason. */
int proto_get_exit(const struct frame *f, struct proto_exit *ret) MUST_CHECK;

void proto_add_u32(struct buf *out, uint8_t type, uint32_t chan, uint32_t v);
int proto_get_u32(const struct frame *f, uint32_t *ret) MUST_CHECK;

void proto_add_resize(struct buf *out, uint32_t chan, unsigned rows, unsigned cols);
int proto_get_resize(const struct frame *f, unsigned *ret_rows, unsigned *ret_cols) MUST_CHECK;

/* Data of any length as frames of at most FRAME_MAX_PAYLOAD. */
void proto_add_data(struct buf *out, uint8_t type, uint32_t chan, const void *data, size_t len);

/* A start body taken apart. The strings stay in the body; `vec` is one allocation for all pointers. */
struct proto_body {
	const char *cwd;
	char **argv; /* NULL-terminated; argv[-1] is a free slot, for the interpreter of a script */
	char **env;  /* NULL-terminated */
	char **vec;
};

/* -EPROTO unless the body holds exactly as many strings as `s` counts, -E2BIG above PROTO_STRINGS_MAX, -ENOMEM. */
int proto_body_split(char *body, size_t len, const struct proto_start *s, struct proto_body *ret) MUST_CHECK;
void proto_body_release(struct proto_body *b);

#endif
