/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API broker: cofferd's side of the API. It owns the sockets, starts coffer-web, judges credentials and
 * roles, and executes the work.
 *
 * Invariants (cited elsewhere as webd.W1 …)
 * W1  Nothing is done for a request before its credential was found, has not expired, and has the role that
 *     the route table requires.
 * W2  A request that changes something is in the audit log, with its caller, before it is begun; if it cannot
 *     be logged, it is refused.
 * W3  cofferd does none of the work itself: it executes `coffer`, which reads, changes and prints as it does
 *     for a person. At most WEBD_WORKERS run at a time and WEBD_WAITING wait; each is killed when nobody
 *     waits for it. Slow work gets only some of the workers (webd_jobs.c), so that reading the log does not
 *     delay answers to asks. One credential gets WEBD_WORKERS_EACH at a time and WEBD_WAITING_EACH waiting;
 *     the owner, who could start them by hand, gets all. Identical reads that are requested at once are
 *     executed once (webd_share.c).
 * W4  Revoking a credential, or its expiry, ends its streams at once, and its next request is refused.
 * W5  An address that others on the network can reach is listened on only if the operator said "public".
 * W6  A coffer-web that does not read gets at most WEBD_QUEUE_FDS queued descriptors and is not read from;
 *     then it is killed. It cannot make cofferd run out of descriptors.
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
#define WEBD_FILE "listen" /* one address per line, for the next cofferd */
#define WEBD_WORKERS 8
#define WEBD_WAITING 512
#define WEBD_WORKERS_EACH 2
#define WEBD_WAITING_EACH 32
#define WEBD_REST 3
#define WEBD_REST_MOST (30 * NSEC_PER_SEC)
#define WEBD_CREDS 1024
#define WEBD_QUEUE_FDS 64 /* queued for sending */
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
	int (*metrics)(void *ctx, struct buf *out); /* text for Prometheus */
	void *metrics_ctx;
	uint64_t started; /* CLOCK_REALTIME ns */
};

int webd_open(struct webd **ret, const struct webd_with *w, struct err *e) MUST_CHECK;
void webd_close(struct webd *d);
/* Counters since cofferd was started, and the number of deaths of coffer-web. */
void webd_count(const struct webd *d, struct web_stats *ret, uint64_t *ret_deaths);
bool webd_is_busy(const struct webd *d);
bool webd_reaped(struct webd *d, pid_t pid, int status);

/* Tokens and sessions in the database as one JSON object, without a running cofferd; see db_open_read_only(). */
int webd_read_creds(const struct state *st, struct buf *ret, bool *ret_old, struct err *e) MUST_CHECK;
/* Handles a request of `coffer token`, `coffer ui` or `coffer gateway`. *ret_fd: a memory file with one JSON
 * object. */
int webd_control(struct webd *d, const struct webctl *c, int *ret_fd, struct err *e) MUST_CHECK;

#endif
