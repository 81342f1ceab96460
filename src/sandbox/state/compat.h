/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that run on while another release is installed (doc/adr/0034).
 *
 * Launcher and guard of a sandbox are the programs that started it; a client of their sockets (ctl.sock, asks.sock) may be of
 * another release. meta.json has the number of the protocol that they speak. A client looks up here, and nowhere else, whether
 * it may use a request: compat_check() compares that number with the oldest protocol that serves the request.
 *
 * Invariants
 *  C1  A frame or a field whose meaning changes raises COMPAT_PROTOCOL, and the table's number of each request that needs the
 *      new meaning. A number in the table never falls.
 *  C2  RUN_STOP is the same in every protocol: whatever release started a sandbox, this one can end it. Listing, inspect, logs
 *      and diff of a workspace read files and need no request.
 *  C3  Of a sandbox that a newer release started, no request but RUN_STOP is sent: its meaning there is not known.
 */
#ifndef SANDBOX_COMPAT_H
#define SANDBOX_COMPAT_H

#include "base/err.h"

#define COMPAT_PROTOCOL 2 /* of this release */
#define COMPAT_FIRST 1	  /* of the release before the number: its meta.json has none */

enum run_request {
	RUN_STOP,     /* end it */
	RUN_STAT,     /* what it uses */
	RUN_PING,     /* does its init answer? */
	RUN_COMMAND,  /* a command in it: exec, shell, cp, the tools of mcp */
	RUN_FREEZE,   /* stand still: checkpoint, a call from it, diff of an image's layer */
	RUN_ROLLBACK, /* end it, to be rolled back */
	RUN_ASKS,     /* list, answer and follow its pending asks; ask in its name */
	RUN_REQUEST_COUNT
};

/*
 * The protocol of the run in this directory, as a number for compat_check(); negative when its meta.json does not say. A run that
 * has ended has no launcher any more: a program that serves its pending asks is one of today, so the number is today's.
 */
int compat_read(int run_fd) MUST_CHECK;

/* May the request be sent to a sandbox of that protocol? -EPROTONOSUPPORT with what to do when not, -EBADMSG for a negative one. */
int compat_check(int protocol, enum run_request q, struct err *e) MUST_CHECK;

#endif
