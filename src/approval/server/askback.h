/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes back what a person granted, whoever serves the run's questions: its guard, somebody in its place, or,
 * between the calls of a session (granted.h), nobody. Then whoever wants it serves them itself, for as long
 * as that takes, so that there is one way to do it (asks_revoke) and one at a time who does.
 */
#ifndef APPROVAL_ASKBACK_H
#define APPROVAL_ASKBACK_H

#include "approval/wire/askproto.h"

/* In force and in the log when this returns 0. *ret (may be NULL) is the ask as it is now. Errors are those
 * of asks_revoke(); -ENOENT, -ECONNREFUSED: nobody serves, and nothing is granted. */
int askback(struct state *st, int run_fd, const char *run, const char *id, const struct ask_who *who,
	    json_t **ret, struct err *e) MUST_CHECK;

/* The session has ended: what was granted to it lapses, and the log says so. Where another process serves the run's questions, that
 * server does it, at once. For the process that has seen the session end. */
int askback_session(struct state *st, int run_fd, const char *run, struct err *e) MUST_CHECK;

#endif
