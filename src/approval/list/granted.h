/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grants of a session of `coffer mcp`: rules (request_access) and tools that a person allowed for more
 * than one use. The session's run is started anew for each call, and nothing of it runs between calls
 * (doc/adr/0016). The grants are therefore in two files of the run's directory, outside every sandbox
 * (doc/adr/0023):
 *
 *   session   locked by the session's MCP server while it lives. The lock is one of fcntl(): it belongs to one
 *             process, children do not inherit it, and the kernel drops it when the process dies for any reason.
 *   granted   a digest over the run's id and the rest, then the text of asks_kept_store(). The run's ask server
 *             (askserve.h) reads it at its start, under asks.lock, and alone writes it until it exits.
 *
 * Invariants (cited elsewhere as granted.G1 …)
 * G1  The grants hold only while the session's MCP server lives. A process that finds it dead lets them
 *     lapse, in the log.
 * G2  A file that is damaged, belongs to another run, or grants more than its recorded answers, grants
 *     nothing.
 * G3  The file never has a grant that no person gave, nor a use that was already taken (asks.A8): an ask
 *     server killed at any moment leaves at most what was granted and not yet used.
 * G4  A process that has a rule of the session in force is also the run's ask server, so it learns when the
 *     rule is revoked. Without an ask server no rule is in force, and `coffer deny` becomes the ask server
 *     for that moment (askback.h).
 */
#ifndef APPROVAL_GRANTED_H
#define APPROVAL_GRANTED_H

#include "approval/list/asks.h"
#include "base/str.h"

#define GRANTED_FILE "granted"
#define GRANTED_SESSION "session"

/* Begins the session. It lasts until the returned descriptor is closed or the process ends. This process must
 * not close another descriptor of that file meanwhile, since that would drop the lock: the functions below
 * are for other processes. */
int granted_session_begin(int run_fd, struct err *e) MUST_CHECK;
bool granted_session_is_alive(int run_fd);
/* Blocks until the session's MCP server has ended. */
void granted_session_wait(int run_fd);

/* Loads the grants into the list. No file: nothing to load. -EBADMSG: granted.G2. */
int granted_load(int run_fd, struct asks *l, struct asks_now t, struct err *e) MUST_CHECK;
/* Does what asks_out.kept() requires. Text that could not be loaded again is not written. */
int granted_write(int run_fd, const struct asks *l, bool less, struct err *e) MUST_CHECK;

/* For readers: a list with only the grants of the file that are still in force; empty if the session is dead
 * (granted.G1). NULL: out of memory, or the file cannot be read. */
struct asks *granted_open_list(int run_fd, const char *run, struct err *e);
bool granted_exists(int run_fd);
/* The granted rules, and the id of the ask that granted each. */
int granted_rules(int run_fd, const char *run, struct strv *rules, struct strv *ids,
		  struct err *e) MUST_CHECK;

#endif
