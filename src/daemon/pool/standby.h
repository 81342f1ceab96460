/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox of the warm pool, made before its command is known: messages over a SOCK_SEQPACKET pair between
 * its launcher and its later user. cofferd holds the other end until a client asks, and hands that very
 * descriptor over; from then on cofferd has no part in it. Both ends belong to the same user and are the same
 * program.
 *
 *   launcher   ready: the sandbox is there; or failed, with the reason
 *   client     go: the command, with the body in a memory file and the client's own stdin, stdout and stderr
 *   client     one byte: a signal to pass on
 *   launcher   end: how it ended; with the report as a memory file if the client wanted one
 *
 * Invariants (cited elsewhere as standby.W1 …)
 * W1  One command each. A second go is not read: a sandbox is used once and never again.
 * W2  End of file from the client ends the sandbox at any time: nobody else has the descriptor.
 * W3  A go that was sent is never sent to another sandbox, since the first may have obeyed it. The exception is one that
 *     the kernel reports unread: it resets the connection when the last holder of a socket closes it with a message in it.
 */
#ifndef DAEMON_STANDBY_H
#define DAEMON_STANDBY_H

#include "run/run.h"

#define STANDBY_MAGIC 0x31424353u /* "SCB1" */

enum standby_kind { STANDBY_READY = 1, STANDBY_FAILED, STANDBY_GO, STANDBY_END };

struct standby_ready {
	uint32_t magic, kind;
	char id[RUN_ID_LEN + 1];
	uint64_t memory; /* bytes that it uses while it waits; 0: unknown */
	char why[256];	 /* STANDBY_FAILED */
};

enum standby_flag { STANDBY_F_REPORT = 1 };

struct standby_go {
	uint32_t magic, kind;
	uint32_t argc, envc, flags;
	uint64_t body;		  /* bytes in the memory file: cwd, arguments, variables, each with its NUL */
	uint64_t timeout, output; /* limits that the launcher enforces: per call, not per sandbox */
	bool timeout_named, output_named;
	char from[RUN_ID_LEN + 1]; /* run on whose behalf the call is made, for the log; empty: none */
};

struct standby_end {
	uint32_t magic, kind;
	struct run_end end;
	uint64_t changes, wiped;
	bool report; /* a descriptor is attached */
	char limits_off[256];
};

/* The launcher's side: runs *r to its end when a command comes. 0 also if none came. */
int standby_serve(struct run *r, int sock, struct err *e) MUST_CHECK;

/* The client's side. */
int standby_recv_ready(int sock, struct standby_ready *ret) MUST_CHECK;
/* Sends the command and waits for its end; passes signals on meanwhile. -EPIPE, -ECONNRESET: the launcher has
 * gone without receiving the command. *ret_report is a descriptor or -1. */
int standby_use(int sock, const struct spec *s, const int stdio[3], unsigned flags, struct standby_end *ret,
		int *ret_report, struct err *e) MUST_CHECK;

#endif
