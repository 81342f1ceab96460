/* SPDX-License-Identifier: Apache-2.0 */
/* The table of API credentials. Its content opens nothing: hashes of 256 random bits. */
#include "base/cleanup.h"
#include "daemon/db/db_int.h"

#include <errno.h>
#include <stdio.h>

static void finalizep(sqlite3_stmt **s)
{
	sqlite3_finalize(*s);
}

#define autostmt CLEANUP(finalizep)

static int db_cred_fail(struct db *d, const char *what, struct err *e)
{
	return err_set(e, -EIO, "%s " DB_FILE ": %s", what, sqlite3_errmsg(d->c));
}

int db_cred_put(struct db *d, const struct db_cred *c, struct err *e)
{
	const char *const texts[] = { c->hash, c->kind, c->role, c->name };
	autostmt sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(d->c,
			       "INSERT INTO credential (hash, kind, role, name, made, expires) "
			       "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
			       -1, &s, NULL) != SQLITE_OK)
		return db_cred_fail(d, "cannot use", e);
	for (int i = 0; i < 4; i++)
		(void)!sqlite3_bind_text(s, i + 1, texts[i], -1, SQLITE_STATIC);
	(void)!sqlite3_bind_int64(s, 5, (int64_t)c->made);
	(void)!sqlite3_bind_int64(s, 6, (int64_t)c->expires);
	return sqlite3_step(s) == SQLITE_DONE ? 0 : db_cred_fail(d, "cannot write", e);
}

int db_cred_forget(struct db *d, const char *hash, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(d->c, "DELETE FROM credential WHERE hash = ?1", -1, &s, NULL) != SQLITE_OK)
		return db_cred_fail(d, "cannot use", e);
	(void)!sqlite3_bind_text(s, 1, hash, -1, SQLITE_STATIC);
	return sqlite3_step(s) == SQLITE_DONE ? 0 : db_cred_fail(d, "cannot write", e);
}

static void copy_column(char *to, size_t size, sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	snprintf(to, size, "%s", text ? text : "");
}

int db_cred_each(struct db *d, int (*fn)(void *ctx, const struct db_cred *c), void *ctx, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int n, r = 0;

	if (sqlite3_prepare_v2(d->c,
			       "SELECT hash, kind, role, name, made, expires FROM credential ORDER BY made",
			       -1, &s, NULL) != SQLITE_OK)
		return db_cred_fail(d, "cannot use", e);
	while (r == 0 && (n = sqlite3_step(s)) == SQLITE_ROW) {
		struct db_cred c = { .made = (uint64_t)sqlite3_column_int64(s, 4),
				     .expires = (uint64_t)sqlite3_column_int64(s, 5) };

		copy_column(c.hash, sizeof(c.hash), s, 0);
		copy_column(c.kind, sizeof(c.kind), s, 1);
		copy_column(c.role, sizeof(c.role), s, 2);
		copy_column(c.name, sizeof(c.name), s, 3);
		r = fn(ctx, &c);
	}
	return r < 0 ? r : n == SQLITE_DONE ? 0 : db_cred_fail(d, "cannot read", e);
}
