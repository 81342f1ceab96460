/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE/gateway.db: cofferd's persistent state (doc/adr/0012). SQLite in WAL mode, every commit synced,
 * foreign keys on. Linked into cofferd only.
 *
 * Invariants (cited elsewhere as db.B1 …)
 * B1  The schema has a number (user_version). An older database is migrated by all steps in one transaction;
 *     before that a copy of it is kept as gateway.db.vN, complete or not at all. A newer one is refused and
 *     not written to.
 * B2  A database that fails SQLite's own check is moved aside with its WAL, never deleted; a new one takes
 *     its place.
 * B3  A sandbox's row and the line of history that explains it are written in one transaction.
 * B4  Statements are prepared; no outside text becomes SQL.
 */
#ifndef DAEMON_DB_H
#define DAEMON_DB_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <stdint.h>

#define DB_FILE "gateway.db"
#define DB_SCHEMA 3
#define DB_BOOT_LEN 36
#define DB_CAUSE_LEN 32
#define DB_WHY_LEN 256
#define DB_HISTORY_MAX 64 /* lines kept for each sandbox */

enum db_state {
	DB_UP,	     /* runs, as far as is known */
	DB_WAIT,     /* is restarted at next_at */
	DB_STARTING, /* is being started */
	DB_OVER,     /* ended for good: `why` has the reason */
	DB_STATE_COUNT
};
const char *db_state_name(enum db_state s);

struct db_sandbox {
	char id[RUN_ID_LEN + 1];
	char name[72];
	char policy[24];
	enum db_state state;
	uint32_t tries;		    /* starts in a row that did not last */
	uint64_t restarts;	    /* in all */
	uint64_t since;		    /* CLOCK_REALTIME ns: started last */
	uint64_t next_at;	    /* CLOCK_REALTIME ns of the next start; 0: none */
	char boot[DB_BOOT_LEN + 1]; /* boot id of its last start */
	int exit_code;		    /* of its last end */
	char cause[DB_CAUSE_LEN];
	char why[DB_WHY_LEN];
};

/* A line of history. */
struct db_note {
	const char *kind; /* "keep", "found", "start", "end", "fail", "over" */
	uint64_t at;	  /* CLOCK_REALTIME ns */
	int exit_code;
	const char *cause; /* may be NULL */
	uint64_t wait;	   /* ns until the next start */
};

struct db;

struct db_opened {
	bool fresh;	  /* a new database was made */
	int from;	  /* the schema that it had; DB_SCHEMA if it was made or is current */
	char kept[32];	  /* name of the copy of the older database; empty: none */
	char aside[96];	  /* name that a broken database was moved to; empty: none */
	char broken[256]; /* what was wrong with it */
};

/* -EPROTONOSUPPORT, with a hint, if a newer database is there. */
int db_open(struct db **ret, const struct state *st, struct db_opened *how, struct err *e) MUST_CHECK;
/*
 * Opens it read-only, also where nothing can be written: makes, locks and changes nothing. Changes that a
 * killed cofferd left in the journal are missing, and *ret_old says so. -ENOENT if there is none.
 */
int db_open_read_only(struct db **ret, const struct state *st, bool *ret_old, struct err *e) MUST_CHECK;
void db_close(struct db *d);

/* Is there a database? */
bool db_exists(const struct state *st);

/* Adds or replaces a sandbox's row, with a line of history unless n is NULL. `start` has its start arguments,
 * kept in case its directory is damaged; NULL: unchanged. */
int db_put(struct db *d, const struct db_sandbox *s, const struct buf *start, const struct db_note *n,
	   struct err *e) MUST_CHECK;
int db_forget(struct db *d, const char *id, struct err *e) MUST_CHECK;
int db_each(struct db *d, int (*fn)(void *ctx, const struct db_sandbox *s), void *ctx,
	    struct err *e) MUST_CHECK;
/* -ENOENT if unknown. */
int db_read_start(struct db *d, const char *id, struct buf *ret, struct err *e) MUST_CHECK;
int db_history(struct db *d, const char *id, int (*fn)(void *ctx, const struct db_note *n), void *ctx,
	       struct err *e) MUST_CHECK;

/* Records cofferd's own start and end. */
int db_begin(struct db *d, const char *version, const char *boot, uint64_t at, struct err *e) MUST_CHECK;
int db_end(struct db *d, uint64_t at, struct err *e) MUST_CHECK;
/* The number of starts, and of those that ended without db_end(). */
int db_starts(struct db *d, uint64_t *ret_starts, uint64_t *ret_crashes, struct err *e) MUST_CHECK;

/* A credential of the API, by the SHA-256 of its secret. */
struct db_cred {
	char hash[65]; /* hex */
	char kind[12]; /* "token", "session", "login" */
	char role[12];
	char name[72];
	uint64_t made, expires; /* CLOCK_REALTIME ns; expires 0: never */
};
int db_cred_put(struct db *d, const struct db_cred *c, struct err *e) MUST_CHECK;
int db_cred_forget(struct db *d, const char *hash, struct err *e) MUST_CHECK;
int db_cred_each(struct db *d, int (*fn)(void *ctx, const struct db_cred *c), void *ctx,
		 struct err *e) MUST_CHECK;

/* SQLite's own check of the whole file and of the foreign keys. */
int db_check(struct db *d, struct err *e) MUST_CHECK;
/* Limits its size, in pages: for tests of a full disk. */
int db_limit(struct db *d, unsigned pages, struct err *e) MUST_CHECK;

#endif
