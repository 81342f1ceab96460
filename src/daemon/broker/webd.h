/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cofferd's side of the API: its sockets, coffer-web, who may what, and the work itself.
 *
 * Invariants
 *  W1  Nothing is done for a request before its credential was found, is not over, and has the role that the table asks for.
 *  W2  What changes something is in the audit log, with who asked for it, before it is begun; where it cannot be, it is not done.
 *  W3  cofferd does none of it itself: it executes `coffer`, which reads, changes and prints as it does for a person. At most
 *      WEBD_WORKERS at a time, WEBD_WAITING wait; each is ended when nobody waits for it any more. What takes long has a part of
 *      them only (webd_jobs.c): who reads the log again and again does not hold up an answer to a question. One credential has
 *      WEBD_WORKERS_EACH at a time, and WEBD_WAITING_EACH wait; the owner, who could start them himself, has all.
 *      What several want to read at once is done once for all of them (webd_share.c).
 *  W4  A revoked credential, and one whose time is over, ends its streams at once, and its next request is refused.
 *  W5  An address that others on the network can reach is listened on only when somebody has said "public".
 *  W6  A coffer-web that does not read is given WEBD_QUEUE_FDS descriptors and asks nothing more; then it is ended. It cannot have
 *      cofferd run out of them.
 */
#ifndef DAEMON_WEBD_H
#define DAEMON_WEBD_H

#include "cofferdc/webctl.h"
#include "daemon/child/helpers.h"
#include "ipc/loop.h"
#include "sandbox/state/state.h"
#include "web/wire/webproto.h"

#include <sys/types.h>

#define WEBD_SOCKET "api.sock"
#define WEBD_FILE "listen" /* one address a line, for the next cofferd */
#define WEBD_WORKERS 8
#define WEBD_WAITING 512
#define WEBD_WORKERS_EACH 2
#define WEBD_WAITING_EACH 32
#define WEBD_REST 3
#define WEBD_REST_MOST (30 * NSEC_PER_SEC)
#define WEBD_CREDS 1024
#define WEBD_QUEUE_FDS 64 /* that wait to be sent */
#define WEBD_LISTENERS 8
#define WEBD_LOGIN_FOR 120		/* s */
#define WEBD_SESSION_FOR (12 * 3600ull) /* s */

struct metrics;
struct webd;

struct webd_with {
	struct state *st;
	struct loop *loop;
	struct audit *audit;
	struct helpers *helpers;
	int coffer_fd;
	int (*metrics)(void *ctx, struct buf *out); /* Prometheus' text */
	void *metrics_ctx;
	uint64_t started; /* CLOCK_REALTIME ns */
};

int webd_open(struct webd **ret, const struct webd_with *w, struct err *e) MUST_CHECK;
void webd_close(struct webd *d);
/* What was counted since cofferd was started, and how often coffer-web died. */
void webd_count(const struct webd *d, struct web_stats *ret, uint64_t *ret_deaths);
bool webd_is_busy(const struct webd *d);
bool webd_reaped(struct webd *d, pid_t pid, int status);

/* What the database has of tokens and sessions, as one JSON object, without a cofferd; see db_open_read_only(). */
int webd_look_creds(const struct state *st, struct buf *ret, bool *ret_old, struct err *e) MUST_CHECK;
/* *ret_fd: a memory file with one JSON object. */
int webd_control(struct webd *d, const struct webctl *c, int *ret_fd, struct err *e) MUST_CHECK;

#endif
