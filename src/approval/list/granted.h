/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person granted to a session of `coffer mcp`: rules (request_access) and tools, for more than one
 * use. Its run is started anew for each call, and between calls nothing of it runs (doc/adr/0016), so that
 * this stands in two files of the run's directory, outside every sandbox (doc/adr/0023):
 *
 *   session   locked by the session's server while it lives. A lock of fcntl(): it is of one process, no
 *             child has it, and the kernel takes it away when that process dies, of whatever.
 *   granted   a digest over the run's id and the rest, then what asks_kept_store() says. Who serves the run's
 *             questions (askserve.h) reads it when it begins, under asks.lock, and is the only one who writes
 *             it until it leaves.
 *
 * Invariants
 *  G1  What is in the file holds only while the session's server lives. Whoever finds that it does not has it
 *      lapse, in the log.
 *  G2  A file that is damaged, of another run, or says more than its own answers do, grants nothing.
 *  G3  The file is never ahead of a person, nor behind a use (A8 of asks.h): killed at any moment, whoever
 *      serves leaves at most what was granted and not used.
 *  G4  Who has a rule of the session in force serves the run's questions: so it is told when the rule is
 *      taken back. Where nobody serves, nobody has one in force, and `coffer deny` serves for that moment
 *      (askback.h).
 */
#ifndef APPROVAL_GRANTED_H
#define APPROVAL_GRANTED_H

#include "approval/list/asks.h"
#include "base/str.h"

#define GRANTED_FILE "granted"
#define GRANTED_SESSION "session"

/* The session begins; it lasts until the descriptor that is returned is closed, or the process ends. No other
 * descriptor of that file may be closed in this process meanwhile: the functions below are for others. */
int granted_session_begin(int run_fd, struct err *e) MUST_CHECK;
bool granted_session_lives(int run_fd);
/* Until it does not. */
void granted_session_wait(int run_fd);

/* -EBADMSG: G2. No file: nothing. */
int granted_load(int run_fd, struct asks *l, struct asks_now t, struct err *e) MUST_CHECK;
/* As asks_out.kept() wants it. Nothing is written that could not be read again. */
int granted_write(int run_fd, const struct asks *l, bool less, struct err *e) MUST_CHECK;

/* For who looks: a list with nothing but what the file has, and whose time is not over; empty where G1 says
 * so. NULL: out of memory, or it cannot be read. */
struct asks *granted_look(int run_fd, const char *run, struct err *e);
bool granted_exists(int run_fd);
/* The rules in it, and by which question each. */
int granted_rules(int run_fd, const char *run, struct strv *rules, struct strv *ids,
		  struct err *e) MUST_CHECK;

#endif
