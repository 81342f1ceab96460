/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c: what is remembered and decided. keeper_run.c: looking, watching, starting. */
#ifndef DAEMON_KEEPER_INT_H
#define DAEMON_KEEPER_INT_H

#include "daemon/child/restart.h"
#include "daemon/db/db.h"
#include "daemon/keeper/keeper.h"

#define PAUSE_FIRST (5 * NSEC_PER_MSEC)
#define PAUSE_MAX (1 * NSEC_PER_SEC)
#define SAVE_AGAIN (5 * NSEC_PER_SEC)
/* Before a start is tried again that failed for a reason of our own. */
#define OWN_PAUSE_FIRST (1 * NSEC_PER_SEC)
#define OWN_PAUSE_MAX (30 * NSEC_PER_SEC)
#define STARTERS_MIN 2u
/* A rollback ends a sandbox and starts it again itself; so long it may take, or it has died. */
#define ROLLBACK_TIME (60 * NSEC_PER_SEC)

struct kept {
	struct kept *next;
	struct keeper *k;
	struct db_sandbox row;
	struct restart policy;
	struct watch w;	    /* its control socket; fd -1: not connected */
	struct timer t;	    /* the next look, or the next start */
	uint64_t pause;	    /* between two looks */
	uint64_t own_pause; /* since a start failed for a reason of our own; 0: none did */
	uint64_t rolled_at; /* CLOCK_MONOTONIC ns: first seen ended for a rollback; 0: not */
	bool rebooted;	    /* it was started before this boot */
	bool unsaved;	    /* the database does not have it as it is */
	bool waits;	    /* its time has come, but enough others are being started */
	bool locked;	    /* it wants secrets, and the vault was locked when it was tried last */
	pid_t starter;	    /* 0: none */
	int said;	    /* what the starter says on stderr; -1: none */
};

struct keeper {
	struct keeper_with w;
	struct db *db;
	struct db_opened opened;
	struct kept *list;
	unsigned starters_max;
	struct timer again; /* saving what could not be */
	char trouble[256];  /* why something could not be saved; empty: all is */
	char boot[DB_BOOT_LEN + 1];
};

/* keeper.c */
void kept_save(struct kept *x, const struct db_note *n);
void kept_drop(struct kept *x, const char *why); /* its run is gone */
void kept_over(struct kept *x, const char *why);
/* It has ended: what is to be done by its policy. */
void kept_ended(struct kept *x, const struct restart_end *end, const char *cause);
void keeper_say(struct keeper *k, const char *type, const struct kept *x, const char *why);

/* keeper_run.c */
void kept_look(struct kept *x);
void kept_look_soon(struct kept *x);
void kept_start_at(struct kept *x, uint64_t wait);
void kept_unwatch(struct kept *x);
void kept_reaped(struct kept *x, int status);

#endif
