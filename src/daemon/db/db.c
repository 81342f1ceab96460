/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cofferd's database (db.h): opening, checking and migrating the file, and the rows of sandboxes, history and
 * cofferd's own starts. It must not change a database of a newer schema (db.B1), nor may a released step of
 * the migration be edited.
 */
#include "daemon/db/db_int.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <assert.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

#define BUSY_MSEC 5000

/* The SQL that migrates schema i to i + 1. A released step never changes: add another one. */
static const char *const migrations[] = {
	"CREATE TABLE sandbox ("
	" id TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 12),"
	" name TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" state TEXT NOT NULL CHECK (state IN ('up', 'wait', 'starting', 'over')),"
	" tries INTEGER NOT NULL DEFAULT 0,"
	" restarts INTEGER NOT NULL DEFAULT 0,"
	" since INTEGER NOT NULL,"
	" next_at INTEGER NOT NULL DEFAULT 0,"
	" boot TEXT NOT NULL,"
	" exit_code INTEGER NOT NULL DEFAULT 0,"
	" cause TEXT NOT NULL DEFAULT '',"
	" why TEXT NOT NULL DEFAULT '',"
	" start BLOB) STRICT;"
	"CREATE TABLE history ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,"
	" at INTEGER NOT NULL,"
	" kind TEXT NOT NULL,"
	" exit_code INTEGER NOT NULL DEFAULT 0,"
	" cause TEXT,"
	" wait INTEGER NOT NULL DEFAULT 0) STRICT;"
	"CREATE INDEX history_of ON history (sandbox, seq);",

	"CREATE TABLE gateway ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" at INTEGER NOT NULL,"
	" ended INTEGER," /* NULL: it runs, or died */
	" boot TEXT NOT NULL,"
	" version TEXT NOT NULL) STRICT;",

	"CREATE TABLE credential ("
	" hash TEXT PRIMARY KEY NOT NULL CHECK (length(hash) = 64),"
	" kind TEXT NOT NULL CHECK (kind IN ('token', 'session', 'login')),"
	" role TEXT NOT NULL CHECK (role IN ('observer', 'approver', 'operator')),"
	" name TEXT NOT NULL,"
	" made INTEGER NOT NULL,"
	" expires INTEGER NOT NULL DEFAULT 0) STRICT;",
};
static_assert(ARRAY_SIZE(migrations) == DB_SCHEMA, "a step to each schema");

static const char *const state_names[] = { "up", "wait", "starting", "over" };
static_assert(ARRAY_SIZE(state_names) == DB_STATE_COUNT, "a name for each");

const char *db_state_name(enum db_state s)
{
	return state_names[s];
}

/* Callers distinguish -ENOSPC and -EBADMSG. */
static int sqlite_errno(int code)
{
	switch (code & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return -EROFS;
	default:
		return -EIO;
	}
}

static int db_fail(struct db *d, const char *what, struct err *e)
{
	int r = sqlite_errno(sqlite3_extended_errcode(d->c));

	err_set(e, r, "%s " DB_FILE ": %s", what, sqlite3_errmsg(d->c));
	return r == -ENOSPC ? err_hint(e, r, "make room where the state directory is (coffer prune)") : r;
}

/* Runs SQL of our own without parameters: pragmas, migrations, transactions. */
static int run_sql(struct db *d, const char *sql, struct err *e)
{
	return sqlite3_exec(d->c, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(d, "cannot write", e);
}

static void finalizep(sqlite3_stmt **s)
{
	sqlite3_finalize(*s);
}

#define autostmt CLEANUP(finalizep)

static int db_prepare(struct db *d, sqlite3_stmt **ret, const char *sql, struct err *e)
{
	return sqlite3_prepare_v2(d->c, sql, -1, ret, NULL) == SQLITE_OK ? 0 : db_fail(d, "cannot use", e);
}

/* Binding fails only for lack of memory; the step then fails by a constraint. */
static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
	(void)!sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void bind_int(sqlite3_stmt *s, int at, uint64_t v)
{
	(void)!sqlite3_bind_int64(s, at, (int64_t)v);
}

static int step_done(struct db *d, sqlite3_stmt *s, struct err *e)
{
	return sqlite3_step(s) == SQLITE_DONE ? 0 : db_fail(d, "cannot write", e);
}

static int query_int(struct db *d, const char *sql, int64_t *ret, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(d, &s, sql, e);

	if (r < 0)
		return r;
	if (sqlite3_step(s) != SQLITE_ROW)
		return db_fail(d, "cannot read", e);
	*ret = sqlite3_column_int64(s, 0);
	return 0;
}

/* --- opening -------------------------------------------------------------------------------------------- */

bool db_exists(const struct state *st)
{
	return faccessat(st->fd, DB_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void db_close(struct db *d)
{
	if (!d)
		return;
	sqlite3_close_v2(d->c);
	free(d);
}

static void db_closep(struct db **d)
{
	db_close(*d);
}

/* The directory has mode 0700; a file in it that is not the owner's alone is a mistake, and is not written
 * to. */
static int check_db_file(const struct state *st, struct err *e)
{
	autoclose int fd =
		openat(st->fd, DB_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	struct stat s;

	if (fd < 0 || fstat(fd, &s) < 0)
		return err_sys(e, -errno, "cannot open %s/" DB_FILE, st->path);
	if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022))
		return err_set(e, -EPERM,
			       "%s/" DB_FILE " is not a file of your own, or others may write to it",
			       st->path);
	return 0;
}

static int connect_db(struct db **ret, const struct state *st, struct err *e)
{
	CLEANUP(db_closep) struct db *d = calloc(1, sizeof(*d));
	autofree char *path = NULL;
	int r;

	if (!d || asprintf(&path, "%s/" DB_FILE, st->path) < 0) {
		path = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	if (sqlite3_open_v2(path, &d->c, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return d->c ? db_fail(d, "cannot open", e) : err_set(e, -ENOMEM, "out of memory");
	sqlite3_extended_result_codes(d->c, 1);
	sqlite3_busy_timeout(d->c, BUSY_MSEC);
	r = run_sql(d,
		    "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON;"
		    "PRAGMA secure_delete = ON;",
		    e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(d);
	return 0;
}

/* Fails if a row reports a fault; the single row "ok" reports none. */
static int run_check(struct db *d, const char *sql, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(d, &s, sql, e), n;

	if (r < 0)
		return r;
	while ((n = sqlite3_step(s)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(s, 0);

		if (!text || !str_eq(text, "ok"))
			return err_set(e, -EBADMSG, DB_FILE " is damaged: %.200s",
				       text ? text : "it has no text");
	}
	return n == SQLITE_DONE ? 0 : db_fail(d, "cannot check", e);
}

int db_check(struct db *d, struct err *e)
{
	int r = run_check(d, "PRAGMA integrity_check(1)", e);

	return r < 0 ? r : run_check(d, "PRAGMA foreign_key_check", e);
}

int db_limit(struct db *d, unsigned pages, struct err *e)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %u", pages);
	return run_sql(d, sql, e);
}

#define COPY_TMP DB_FILE ".copy"

/* VACUUM INTO accepts an empty file and keeps its mode; a file made by SQLite would have 0644. */
static int make_empty_copy(const struct state *st, const char *name)
{
	int fd;

	if (unlinkat(st->fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(st->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

/* db.B1: under its final name the copy is complete and synced. An existing copy of the same schema is older
 * and is replaced. */
static int keep_old_copy(struct db *d, const struct state *st, int64_t version, struct db_opened *how,
			 struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	autofree char *path = NULL;
	autoclose int fd = make_empty_copy(st, COPY_TMP);
	int r = fd < 0 ? fd : 0;

	snprintf(how->kept, sizeof(how->kept), DB_FILE ".v%lld", (long long)version);
	if (r == 0 && asprintf(&path, "%s/" COPY_TMP, st->path) < 0) {
		path = NULL;
		r = -ENOMEM;
	}
	if (r < 0)
		return err_sys(e, r, "cannot keep a copy of %s/" DB_FILE " as it was", st->path);
	r = db_prepare(d, &s, "VACUUM INTO ?1", e);
	if (r == 0) {
		bind_text(s, 1, path);
		r = step_done(d, s, e);
	}
	if (r == 0 &&
	    (fsync(fd) < 0 || renameat(st->fd, COPY_TMP, st->fd, how->kept) < 0 || fsync(st->fd) < 0))
		r = err_sys(e, -errno, "cannot keep a copy as %s/%s", st->path, how->kept);
	if (r < 0)
		unlinkat(st->fd, COPY_TMP, 0);
	return r;
}

static int migrate_schema(struct db *d, int64_t from, struct err *e)
{
	char version[48];
	int r;

	if (from == DB_SCHEMA)
		return 0;
	r = run_sql(d, "BEGIN IMMEDIATE", e);
	for (int64_t i = from; r == 0 && i < DB_SCHEMA; i++)
		r = run_sql(d, migrations[i], e);
	snprintf(version, sizeof(version), "PRAGMA user_version = %d", DB_SCHEMA);
	if (r == 0)
		r = run_sql(d, version, e);
	if (r == 0)
		r = run_sql(d, "COMMIT", e);
	if (r < 0) {
		(void)!run_sql(d, "ROLLBACK", NULL);
		return err_wrap(e, r, "bringing it from schema %lld to %d", (long long)from, DB_SCHEMA);
	}
	return 0;
}

/* db.B1: nothing is written before the schema number is known. */
static int check_and_migrate(struct db *d, const struct state *st, struct db_opened *how, struct err *e)
{
	int64_t version = 0;
	int r = query_int(d, "PRAGMA user_version", &version, e);

	if (r < 0)
		return r;
	if (version > DB_SCHEMA) {
		err_set(e, -EPROTONOSUPPORT,
			"%s/" DB_FILE
			" has schema %lld, and this cofferd knows those up to %d: a newer one wrote it",
			st->path, (long long)version, DB_SCHEMA);
		return err_hint(e, -EPROTONOSUPPORT,
				"install the newer Cofferdam, or move the file away "
				"(sandboxes stay; their history is in it)");
	}
	if (version < 0)
		return err_set(e, -EBADMSG, DB_FILE " has no schema of ours");
	how->from = (int)version;
	r = db_check(d, e);
	if (r == 0 && version > 0 && version < DB_SCHEMA)
		r = keep_old_copy(d, st, version, how, e);
	if (r == 0)
		r = run_sql(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;", e);
	return r < 0 ? r : migrate_schema(d, version, e);
}

/* db.B2: a broken database is moved, never deleted. */
static int move_broken_aside(const struct state *st, struct db_opened *how, struct err *e)
{
	/* The main file last: while it is there, an interrupted move can be repeated. */
	static const char *const parts[] = { "-wal", "-shm", "" };
	char text[CLOCK_TEXT_LEN];

	clock_format(clock_nsec(CLOCK_REALTIME), text);
	snprintf(how->aside, sizeof(how->aside), DB_FILE ".broken-%s", text);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char from[32], to[128];

		snprintf(from, sizeof(from), DB_FILE "%s", parts[i]);
		snprintf(to, sizeof(to), "%s%s", how->aside, parts[i]);
		if (renameat2(st->fd, from, st->fd, to, RENAME_NOREPLACE) < 0 && errno != ENOENT)
			return err_sys(e, -errno, "cannot move the damaged %s/" DB_FILE " aside", st->path);
	}
	return 0;
}

static int open_database(struct db **ret, const struct state *st, struct db_opened *how, struct err *e)
{
	CLEANUP(db_closep) struct db *d = NULL;
	int r = check_db_file(st, e);

	if (r == 0)
		r = connect_db(&d, st, e);
	if (r == 0 && d)
		r = check_and_migrate(d, st, how, e);
	if (r == 0)
		*ret = TAKE_PTR(d);
	return r;
}

int db_open(struct db **ret, const struct state *st, struct db_opened *how, struct err *e)
{
	int r;

	*how = (struct db_opened){ .fresh = !db_exists(st) };
	r = open_database(ret, st, how, e);
	if (r == -EBADMSG) {
		snprintf(how->broken, sizeof(how->broken), "%.255s", e ? e->msg : "damaged");
		r = move_broken_aside(st, how, e);
		if (r == 0)
			r = open_database(ret, st, how, e);
		how->fresh = true;
	}
	return r;
}

/* Quotes a path for an SQLite URI. */
static void add_uri_path(struct buf *b, const char *path)
{
	for (; *path; path++) {
		if (strchr("%?#", *path))
			buf_addf(b, "%%%02x", (unsigned)(unsigned char)*path);
		else
			buf_addc(b, *path);
	}
}

int db_open_read_only(struct db **ret, const struct state *st, bool *ret_old, struct err *e)
{
	CLEANUP(db_closep) struct db *d = calloc(1, sizeof(*d));
	autobuf struct buf uri = BUF_INIT;
	int64_t version = 0;
	struct stat wal;
	int r;

	if (!db_exists(st))
		return err_set(e, -ENOENT, "there is no %s/" DB_FILE, st->path);
	buf_adds(&uri, "file:");
	add_uri_path(&uri, st->path);
	/* `immutable` keeps SQLite from making files beside it. */
	buf_adds(&uri, "/" DB_FILE "?immutable=1");
	if (!d || buf_error(&uri))
		return err_set(e, -ENOMEM, "out of memory");
	if (sqlite3_open_v2(buf_cstr(&uri), &d->c,
			    SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return d->c ? db_fail(d, "cannot open", e) : err_set(e, -ENOMEM, "out of memory");
	r = run_sql(d, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;", e);
	if (r == 0)
		r = query_int(d, "PRAGMA user_version", &version, e);
	if (r == 0 && version > DB_SCHEMA)
		r = err_set(e, -EPROTONOSUPPORT, "%s/" DB_FILE " was written by a newer cofferd", st->path);
	if (r < 0)
		return r;
	*ret_old = fstatat(st->fd, DB_FILE "-wal", &wal, AT_SYMLINK_NOFOLLOW) == 0 && wal.st_size > 0;
	*ret = TAKE_PTR(d);
	return 0;
}

/* --- sandboxes ------------------------------------------------------------------------------------------ */

static int write_sandbox_row(struct db *d, const struct db_sandbox *x, const struct buf *start, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		d, &s,
		"INSERT INTO sandbox (id, name, policy, state, tries, restarts, since, next_at, boot, exit_code, cause,"
		" why, start) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
		" ON CONFLICT (id) DO UPDATE SET name = ?2, policy = ?3, state = ?4, tries = ?5, restarts = ?6,"
		" since = ?7, next_at = ?8, boot = ?9, exit_code = ?10, cause = ?11, why = ?12,"
		" start = coalesce(?13, start)",
		e);

	if (r < 0)
		return r;
	bind_text(s, 1, x->id);
	bind_text(s, 2, x->name);
	bind_text(s, 3, x->policy);
	bind_text(s, 4, state_names[x->state]);
	bind_int(s, 5, x->tries);
	bind_int(s, 6, x->restarts);
	bind_int(s, 7, x->since);
	bind_int(s, 8, x->next_at);
	bind_text(s, 9, x->boot);
	(void)!sqlite3_bind_int(s, 10, x->exit_code);
	bind_text(s, 11, x->cause);
	bind_text(s, 12, x->why);
	if (start && start->len)
		(void)!sqlite3_bind_blob64(s, 13, start->data, start->len, SQLITE_STATIC);
	return step_done(d, s, e);
}

static int add_history(struct db *d, const char *id, const struct db_note *n, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL, *old = NULL;
	int r = db_prepare(d, &s,
			   "INSERT INTO history (sandbox, at, kind, exit_code, cause, wait)"
			   " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
			   e);

	if (r < 0)
		return r;
	bind_text(s, 1, id);
	bind_int(s, 2, n->at);
	bind_text(s, 3, n->kind);
	(void)!sqlite3_bind_int(s, 4, n->exit_code);
	bind_text(s, 5, n->cause);
	bind_int(s, 6, n->wait);
	r = step_done(d, s, e);
	if (r == 0)
		r = db_prepare(d, &old,
			       "DELETE FROM history WHERE sandbox = ?1 AND seq <= (SELECT seq FROM history"
			       " WHERE sandbox = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
			       e);
	if (r < 0)
		return r;
	bind_text(old, 1, id);
	bind_int(old, 2, DB_HISTORY_MAX);
	return step_done(d, old, e);
}

int db_put(struct db *d, const struct db_sandbox *x, const struct buf *start, const struct db_note *n,
	   struct err *e)
{
	int r = run_sql(d, "BEGIN IMMEDIATE", e);

	if (r < 0)
		return r;
	r = write_sandbox_row(d, x, start, e);
	if (r == 0 && n)
		r = add_history(d, x->id, n, e);
	if (r == 0)
		r = run_sql(d, "COMMIT", e);
	/* SQLite may have rolled it back already. */
	if (r < 0 && !sqlite3_get_autocommit(d->c))
		(void)!run_sql(d, "ROLLBACK", NULL);
	return r;
}

int db_forget(struct db *d, const char *id, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(d, &s, "DELETE FROM sandbox WHERE id = ?1", e);

	if (r < 0)
		return r;
	bind_text(s, 1, id);
	return step_done(d, s, e);
}

static void column_text(sqlite3_stmt *s, int column, char *out, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	snprintf(out, size, "%s", text ? text : "");
}

static void read_sandbox_row(sqlite3_stmt *s, struct db_sandbox *x)
{
	char state[16];

	column_text(s, 0, x->id, sizeof(x->id));
	column_text(s, 1, x->name, sizeof(x->name));
	column_text(s, 2, x->policy, sizeof(x->policy));
	column_text(s, 3, state, sizeof(state));
	for (size_t i = 0; i < ARRAY_SIZE(state_names); i++) {
		if (str_eq(state, state_names[i]))
			x->state = (enum db_state)i;
	}
	x->tries = (uint32_t)sqlite3_column_int64(s, 4);
	x->restarts = (uint64_t)sqlite3_column_int64(s, 5);
	x->since = (uint64_t)sqlite3_column_int64(s, 6);
	x->next_at = (uint64_t)sqlite3_column_int64(s, 7);
	column_text(s, 8, x->boot, sizeof(x->boot));
	x->exit_code = sqlite3_column_int(s, 9);
	column_text(s, 10, x->cause, sizeof(x->cause));
	column_text(s, 11, x->why, sizeof(x->why));
}

int db_each(struct db *d, int (*fn)(void *ctx, const struct db_sandbox *s), void *ctx, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		    d, &s,
		    "SELECT id, name, policy, state, tries, restarts, since, next_at, boot, exit_code, cause,"
		    " why FROM sandbox ORDER BY rowid",
		    e),
	    n = SQLITE_DONE;

	while (r == 0 && (n = sqlite3_step(s)) == SQLITE_ROW) {
		struct db_sandbox x = { 0 };

		read_sandbox_row(s, &x);
		r = fn(ctx, &x);
	}
	return r == 0 && n != SQLITE_DONE ? db_fail(d, "cannot read", e) : r;
}

int db_read_start(struct db *d, const char *id, struct buf *ret, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(d, &s, "SELECT start FROM sandbox WHERE id = ?1 AND start IS NOT NULL", e), n;

	if (r < 0)
		return r;
	bind_text(s, 1, id);
	n = sqlite3_step(s);
	if (n == SQLITE_DONE)
		return err_set(e, -ENOENT, "how %s was started is not known", id);
	if (n != SQLITE_ROW)
		return db_fail(d, "cannot read", e);
	buf_add(ret, sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0));
	return buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int db_history(struct db *d, const char *id, int (*fn)(void *ctx, const struct db_note *n), void *ctx,
	       struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(
		    d, &s,
		    "SELECT kind, at, exit_code, cause, wait FROM history WHERE sandbox = ?1 ORDER BY seq",
		    e),
	    n = SQLITE_DONE;

	if (r == 0)
		bind_text(s, 1, id);
	while (r == 0 && (n = sqlite3_step(s)) == SQLITE_ROW) {
		const struct db_note note = {
			.kind = (const char *)sqlite3_column_text(s, 0),
			.at = (uint64_t)sqlite3_column_int64(s, 1),
			.exit_code = sqlite3_column_int(s, 2),
			.cause = (const char *)sqlite3_column_text(s, 3),
			.wait = (uint64_t)sqlite3_column_int64(s, 4),
		};

		r = fn(ctx, &note);
	}
	return r == 0 && n != SQLITE_DONE ? db_fail(d, "cannot read", e) : r;
}

/* --- starts of cofferd ---------------------------------------------------------------------------------- */

#define STARTS_MAX 1000 /* number of starts kept */

int db_begin(struct db *d, const char *version, const char *boot, uint64_t at, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL, *old = NULL;
	int r = db_prepare(d, &s, "INSERT INTO gateway (at, boot, version) VALUES (?1, ?2, ?3)", e);

	if (r < 0)
		return r;
	bind_int(s, 1, at);
	bind_text(s, 2, boot);
	bind_text(s, 3, version);
	r = step_done(d, s, e);
	if (r < 0)
		return r;
	d->run = sqlite3_last_insert_rowid(d->c);
	r = db_prepare(d, &old, "DELETE FROM gateway WHERE seq <= ?1", e);
	if (r < 0)
		return r;
	(void)!sqlite3_bind_int64(old, 1, d->run - STARTS_MAX);
	return step_done(d, old, e);
}

int db_end(struct db *d, uint64_t at, struct err *e)
{
	autostmt sqlite3_stmt *s = NULL;
	int r = db_prepare(d, &s, "UPDATE gateway SET ended = ?1 WHERE seq = ?2", e);

	if (r < 0)
		return r;
	bind_int(s, 1, at);
	(void)!sqlite3_bind_int64(s, 2, d->run);
	return step_done(d, s, e);
}

int db_starts(struct db *d, uint64_t *ret_starts, uint64_t *ret_crashes, struct err *e)
{
	int64_t all = 0, open = 0;
	int r = query_int(d, "SELECT count(*) FROM gateway", &all, e);

	if (r == 0)
		r = query_int(d, "SELECT count(*) FROM gateway WHERE ended IS NULL", &open, e);
	if (r < 0)
		return r;
	*ret_starts = (uint64_t)all;
	/* Our own row has not ended either. */
	*ret_crashes = (uint64_t)(open > 0 && d->run ? open - 1 : open);
	return 0;
}
