/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything of cofferd except the warm pool: the keeper, the vault, rotation of secrets, the API broker, the
 * helpers table, the audit log, and the status report.
 */
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
	struct keeper *keeper; /* NULL: no sandboxes to keep, or it could not be opened (see trouble) */
	struct helpers helpers;
	struct webd *web;			    /* the API broker */
	int (*metrics)(void *ctx, struct buf *out); /* text of the metrics, for the API */
	void *metrics_ctx;
	struct vaultd vault;
	struct due due;
	const struct gate_lease *typing; /* the connection that is unlocking the vault; NULL: none */
	bool stay;			 /* do not exit when idle */
	bool activated;			 /* a service manager owns our socket */
	uint64_t started;		 /* CLOCK_REALTIME ns */
	char trouble[1024];
};

/* Opens the keeper if there is a database, or if we are to stay. With `stay`, failing to open the keeper is
 * an error; otherwise the pool works without it. */
int gate_open(struct gate *g, struct err *e) MUST_CHECK;
void gate_close(struct gate *g);

int gate_keep(struct gate *g, const char *id, struct err *e) MUST_CHECK;
int gate_reload(struct gate *g, struct err *e) MUST_CHECK;
/* Is there a reason not to exit? */
bool gate_is_busy(const struct gate *g);
void gate_tick(struct gate *g); /* call once a second */
void gate_reaped(struct gate *g, pid_t pid, int status);

/* A client connection's share in the vault. */
struct gate_lease {
	bool holds; /* its run uses the vault */
};

struct cofferd_msg;

/* Handles COFFERD_HOLD, UNLOCK, UNLOCKED and LOCK. *ret_fd is set to a descriptor for the response, if it has
 * one. */
int gate_vault(struct gate *g, struct gate_lease *l, const struct cofferd_msg *m, int *ret_fd,
	       struct err *e) MUST_CHECK;
void gate_lease_end(struct gate *g, struct gate_lease *l);

/* A memory file with the status as JSON, or -1. */
int gate_status(struct gate *g, const struct pool_count *pool, bool replaced);

#endif
