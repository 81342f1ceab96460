/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revokes a grant, whichever process is the run's ask server: its guard, an asker in its place, or, between
 * the calls of a session (granted.h), none. In the last case the caller becomes the ask server for that
 * moment, so that there is one way to revoke (asks_revoke) and one process at a time that can.
 */
#ifndef APPROVAL_ASKBACK_H
#define APPROVAL_ASKBACK_H

#include "approval/wire/askproto.h"

/* Revoked and in the log when this returns 0. *ret (may be NULL) is the ask's new state. Errors are those of
 * asks_revoke(); -ENOENT, -ECONNREFUSED: there is no ask server, and nothing is granted. */
int askback_revoke(struct state *st, int run_fd, const char *run, const char *id, const struct ask_who *who,
		   json_t **ret, struct err *e) MUST_CHECK;

/* The session has ended: its grants lapse, and the log records it. If another process is the run's ask server,
 * that server does it, at once. For the process that noticed the end. */
int askback_end_session(struct state *st, int run_fd, const char *run, struct err *e) MUST_CHECK;

#endif
