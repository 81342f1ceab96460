/* SPDX-License-Identifier: Apache-2.0 */
/* What cofferd is besides the pool: the kept sandboxes, what it starts for itself, the log, and what it tells of it all. */
#ifndef DAEMON_GATE_H
#define DAEMON_GATE_H

#include "daemon/broker/webd.h"
#include "daemon/child/helpers.h"
#include "daemon/due.h"
#include "daemon/keeper/keeper.h"
#include "daemon/metrics/metrics.h"
#include "daemon/vaultd.h"

struct gate {
	struct state *st;
	struct loop *loop;
	int coffer_fd;
	struct audit *audit;
	struct keeper *keeper; /* NULL: nothing to keep, or it could not be opened: trouble says why */
	struct helpers helpers;
	struct webd *web;			    /* the API */
	int (*metrics)(void *ctx, struct buf *out); /* for it */
	void *metrics_ctx;
	struct vaultd vault;
	struct due due;
	const struct gate_lease *typing; /* the connection over which it is being unlocked; NULL: none */
	bool stay;			 /* also without anything to do */
	bool activated;			 /* a service manager holds our socket */
	uint64_t started;		 /* CLOCK_REALTIME ns */
	char trouble[1024];
};

/* The kept sandboxes are looked for where there is a database, or where we are to stay. In one that stays, not being able
 * to keep any is an error; otherwise the pool works without. */
int gate_open(struct gate *g, struct err *e) MUST_CHECK;
void gate_close(struct gate *g);

int gate_keep(struct gate *g, const char *id, struct err *e) MUST_CHECK;
int gate_reload(struct gate *g, struct err *e) MUST_CHECK;
/* Is there a reason not to leave? */
bool gate_is_busy(const struct gate *g);
void gate_tick(struct gate *g); /* once a second */
void gate_reaped(struct gate *g, pid_t pid, int status);

/* What a connection has of the vault. */
struct gate_lease {
	bool holds; /* its run uses it */
};

struct cofferd_msg;

/* COFFERD_HOLD, UNLOCK, UNLOCKED and LOCK; *ret_fd is a descriptor for the answer, or stays as it is. */
int gate_vault(struct gate *g, struct gate_lease *l, const struct cofferd_msg *m, int *ret_fd,
	       struct err *e) MUST_CHECK;
void gate_lease_end(struct gate *g, struct gate_lease *l);

/* A memory file with the status as JSON, or -1. */
int gate_status(struct gate *g, const struct pool_count *pool, bool replaced);

#endif
