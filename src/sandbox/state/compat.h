/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that keep running while another release is installed (doc/adr/0034).
 *
 * Launcher and guard of a sandbox are of the release that started it; a client of their sockets (ctl.sock, asks.sock) may
 * be of another. meta.json has the number of their protocol. A client decides here, and nowhere else, whether it may send
 * a request: compat_check() compares that number with the oldest protocol that serves the request.
 *
 * Invariants
 *  C1  A frame or a field whose meaning changes raises COMPAT_PROTOCOL, and the table's number of each request that needs
 *      the new meaning. A number in the table never falls.
 *  C2  RUN_STOP is the same in every protocol: this release can end a sandbox of any release. Listing, inspect, logs and
 *      diff of a workspace read files and need no request.
 *  C3  To a sandbox of a newer release no request but RUN_STOP is sent: the meaning of the others there is not known.
 */
#ifndef SANDBOX_COMPAT_H
#define SANDBOX_COMPAT_H

#include "base/err.h"

#define COMPAT_PROTOCOL 2 /* of this release */
#define COMPAT_FIRST 1	  /* of the release before the number: its meta.json has none */

enum run_request {
	RUN_STOP,     /* end it */
	RUN_STAT,     /* its resource usage */
	RUN_PING,     /* does its init answer? */
	RUN_COMMAND,  /* a command in it: exec, shell, cp, the tools of mcp */
	RUN_FREEZE,   /* freeze it: checkpoint, a call from it, diff of an image's layer */
	RUN_ROLLBACK, /* end it for a rollback */
	RUN_ASKS,     /* list, answer and follow its pending asks; ask in its name */
	RUN_REQUEST_COUNT
};

/*
 * The protocol of the run in this directory, for compat_check(); negative when its meta.json cannot be read. A run that has
 * ended has no launcher any more: its pending asks are served by a program of this release, so the number is this one's.
 */
int compat_read(int run_fd) MUST_CHECK;

/* May the request be sent to a sandbox of that protocol? If not, -EPROTONOSUPPORT with a hint; -EBADMSG for a negative
 * number. */
int compat_check(int protocol, enum run_request q, struct err *e) MUST_CHECK;

#endif
