/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by keeper.c, which owns the list, the database and the decisions, and keeper_run.c, which checks,
 * watches and starts sandboxes.
 */
#ifndef DAEMON_KEEPER_INT_H
#define DAEMON_KEEPER_INT_H

#include "daemon/child/restart.h"
#include "daemon/db/db.h"
#include "daemon/keeper/keeper.h"

#define PAUSE_FIRST (5 * NSEC_PER_MSEC)
#define PAUSE_MAX (1 * NSEC_PER_SEC)
#define SAVE_AGAIN (5 * NSEC_PER_SEC)
/* Pauses after a start that failed by our own fault. */
#define OWN_PAUSE_FIRST (1 * NSEC_PER_SEC)
#define OWN_PAUSE_MAX (30 * NSEC_PER_SEC)
#define STARTERS_MIN 2u
/* A rollback ends a sandbox and restarts it itself; after this long the rollback is assumed dead. */
#define ROLLBACK_TIME (60 * NSEC_PER_SEC)

struct kept {
	struct kept *next;
	struct keeper *k;
	struct db_sandbox row;
	struct restart policy;
	struct watch w;	    /* connection to its control socket; fd -1: not connected */
	struct timer t;	    /* the next check, or the next start */
	uint64_t pause;	    /* ns between checks */
	uint64_t own_pause; /* ns, after starts that failed by our own fault; 0: none did */
	uint64_t rolled_at; /* CLOCK_MONOTONIC ns: when it was first seen ended for a rollback; 0: not */
	bool rebooted;	    /* its last start was before this boot */
	bool unsaved;	    /* the database does not have its current state */
	bool waits;	    /* due, but starters_max others are being started */
	bool locked;	    /* it needs secrets, and the vault was locked at the last attempt */
	pid_t starter;	    /* pid of the process that starts it; 0: none */
	int said;	    /* standard error of the starter; -1: none */
};

struct keeper {
	struct keeper_with w;
	struct db *db;
	struct db_opened opened;
	struct kept *list;
	unsigned starters_max;
	struct timer again; /* retries saving */
	char trouble[256];  /* why something could not be saved; empty: all is saved */
	char boot[DB_BOOT_LEN + 1];
};

/* keeper.c */
void kept_save(struct kept *x, const struct db_note *n);
void kept_drop(struct kept *x, const char *why); /* its run is gone */
void kept_over(struct kept *x, const char *why);
/* It has ended: decides by its restart policy. */
void kept_ended(struct kept *x, const struct restart_end *end, const char *cause);
void keeper_say(struct keeper *k, const char *type, const struct kept *x, const char *why);

/* keeper_run.c */
void kept_look(struct kept *x);
void kept_look_soon(struct kept *x);
void kept_start_at(struct kept *x, uint64_t wait);
void kept_unwatch(struct kept *x);
void kept_reaped(struct kept *x, int status);

#endif
