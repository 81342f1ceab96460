/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of coffer-init: one stream, frames of codec/frame.h, little-endian integers.
 *
 * The same frames run between the launcher and coffer-init (every engine, every host) and between a client
 * (`coffer exec`) and the launcher's control socket; the launcher rewrites channel numbers between the two and
 * lets through only what a client may send. A channel is one command. Channel 0 is the launcher itself.
 *
 * Invariants
 *  P1  Whoever reads a frame caps it first: FRAME_MAX_PAYLOAD a frame, PROTO_START_MAX a start request.
 *  P2  A frame that is not legal in the channel's state ends the connection (host side: ends the sandbox).
 *  P3  Nobody sends output or input beyond the credit it was granted, so one slow reader never blocks another
 *      channel, and neither side ever queues more than PROTO_WINDOW bytes a channel and direction.
 *  P4  F_EXIT is the last frame of a channel, behind all of its output.
 *  P5  What init says is a claim of the sandbox. Limits, kill, time, memory and output caps are the launcher's.
 */
#ifndef SANDBOX_PROTO_H
#define SANDBOX_PROTO_H

#define PROTO_VERSION 1
#define PROTO_START_MAX (8u << 20) /* bytes of working directory, arguments and environment together */
#define PROTO_WINDOW (256u << 10)  /* first credit, a channel and direction */
#define PROTO_CHANNELS 256	   /* commands alive at once in one sandbox */

enum proto_type {
	/* towards init */
	PROTO_START_DATA = 1, /* a piece of the start body: NUL-terminated strings: cwd, argv…, env… */
	PROTO_START,	      /* struct proto_start: the body is complete, start it */
	PROTO_STDIN,	      /* data; an empty one is end of file */
	PROTO_SIGNAL,	      /* u32 signal, to the command's process group */
	PROTO_RESIZE,	      /* u16 rows, u16 columns */
	PROTO_CREDIT,	      /* u32: so many more bytes of stdout and stderr together */
	PROTO_PING,	      /* channel 0, up to 64 bytes, comes back as PROTO_PONG */

	/* from init */
	PROTO_HELLO = 32,    /* channel 0, u32 version: the first frame */
	PROTO_STARTED,	     /* u32 pid inside */
	PROTO_STDOUT,	     /* data */
	PROTO_STDERR,	     /* data */
	PROTO_STDIN_CREDIT,  /* u32: so many more bytes of stdin */
	PROTO_STDIN_CLOSED,  /* the command closed its stdin; nothing more is read */
	PROTO_EXIT,	     /* struct proto_exit */
	PROTO_PONG,

	/* between a client and the launcher only, channel 0 */
	PROTO_STOP = 64, /* u32 milliseconds of grace before SIGKILL */
	PROTO_STAT,	 /* asks for PROTO_STAT_REPLY: one JSON object */
	PROTO_STAT_REPLY,
	PROTO_ERROR, /* text for a person: why the request was refused; the connection ends */
};

enum proto_start_flag {
	PROTO_F_TTY = 1,    /* give it a terminal of its own */
	PROTO_F_STDIN = 2,  /* stdin will be sent; otherwise it is /dev/null */
	PROTO_F_MAIN = 4,   /* the sandbox's own command; only the launcher may say so */
	PROTO_F_BUILTIN = 8 /* argv[0] names a function of coffer-init (cp-in, cp-out), not a program */
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
	PROTO_EXITED,	/* value: exit status */
	PROTO_SIGNALED, /* value: signal */
	PROTO_NOT_STARTED, /* value: errno; ENOENT and EACCES become 127 and 126 */
};

/* On the wire: two u32. */
struct proto_exit {
	unsigned kind;
	unsigned value;
};

#endif
