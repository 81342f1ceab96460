/* SPDX-License-Identifier: Apache-2.0 */
/* cofferd's database: rows and history, every older schema, a newer one, damage, a disk that is full, a death in between. */
#include "daemon/db/db.h"
#include "statedir.h"

#include <sqlite3.h>

/* The first schema as it was released: never changed. */
static const char schema_1[] =
	"CREATE TABLE sandbox ("
	" id TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 12), name TEXT NOT NULL, policy TEXT NOT NULL,"
	" state TEXT NOT NULL CHECK (state IN ('up', 'wait', 'starting', 'over')), tries INTEGER NOT NULL DEFAULT 0,"
	" restarts INTEGER NOT NULL DEFAULT 0, since INTEGER NOT NULL, next_at INTEGER NOT NULL DEFAULT 0,"
	" boot TEXT NOT NULL, exit_code INTEGER NOT NULL DEFAULT 0, cause TEXT NOT NULL DEFAULT '',"
	" why TEXT NOT NULL DEFAULT '', start BLOB) STRICT;"
	"CREATE TABLE history ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,"
	" at INTEGER NOT NULL, kind TEXT NOT NULL, exit_code INTEGER NOT NULL DEFAULT 0, cause TEXT,"
	" wait INTEGER NOT NULL DEFAULT 0) STRICT;"
	"CREATE INDEX history_of ON history (sandbox, seq);"
	"INSERT INTO sandbox (id, name, policy, state, restarts, since, boot)"
	" VALUES ('0123456789ab', 'old', 'always', 'up', 7, 5, 'b');"
	"INSERT INTO history (sandbox, at, kind) VALUES ('0123456789ab', 6, 'start');"
	"PRAGMA user_version = 1;";

static void raw_sql(const struct state *st, const char *sql)
{
	char path[256];
	sqlite3 *c = NULL;

	snprintf(path, sizeof(path), "%s/" DB_FILE, st->path);
	CHECK(sqlite3_open(path, &c) == SQLITE_OK && sqlite3_exec(c, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(c);
	CHECK(fchmodat(st->fd, DB_FILE, 0600, 0) == 0);
}

static struct db *must_open(const struct state *st, struct db_opened *how)
{
	struct err e = ERR_INIT;
	struct db *d = NULL;

	CHECKF(db_open(&d, st, how, &e) == 0, "the database opens for a test %s", e.msg);
	return d;
}

static const struct db_sandbox sample = { .id = "00ff00ff00ff",
					  .name = "web",
					  .policy = "on-failure:3",
					  .state = DB_WAIT,
					  .tries = 2,
					  .restarts = 5,
					  .since = 1700000000123456789ULL,
					  .next_at = 1700000001123456789ULL,
					  .boot = "11111111-2222-3333-4444-555555555555",
					  .exit_code = 137,
					  .cause = "oom",
					  .why = "'; DROP TABLE sandbox; --" };

static bool is_sample(const struct db_sandbox *x)
{
	const struct db_sandbox *y = &sample;

	return !strcmp(x->id, y->id) && !strcmp(x->name, y->name) && !strcmp(x->policy, y->policy) &&
	       x->state == y->state && x->tries == y->tries && x->restarts == y->restarts &&
	       x->since == y->since && x->next_at == y->next_at && !strcmp(x->boot, y->boot) &&
	       x->exit_code == y->exit_code && !strcmp(x->cause, y->cause) && !strcmp(x->why, y->why);
}

static int count_row(void *ctx, const struct db_sandbox *s)
{
	struct db_sandbox *last = ctx;

	*last = *s;
	return 0;
}

struct notes {
	unsigned n;
	uint64_t first, last;
};

static int count_note(void *ctx, const struct db_note *n)
{
	struct notes *c = ctx;

	if (c->n++ == 0)
		c->first = n->at;
	c->last = n->at;
	return 0;
}

static void test_rows(void)
{
	struct db_opened how;
	struct db_sandbox got = { 0 };
	struct buf start = BUF_INIT, back = BUF_INIT;
	struct notes notes = { 0 };
	struct stat s;
	struct state st;
	struct db *d;

	begin(&st);
	CHECK(!db_exists(&st));
	d = must_open(&st, &how);
	CHECK(how.fresh && !*how.aside && db_exists(&st));
	CHECK(fstatat(st.fd, DB_FILE, &s, 0) == 0 && (s.st_mode & 07777) == 0600);
	buf_add(&start, "a\0b", 4);
	CHECK(db_put(d, &sample, &start, NULL, NULL) == 0);
	CHECK(db_each(d, count_row, &got, NULL) == 0 && is_sample(&got));
	for (uint64_t i = 0; i < 200; i++) {
		if (db_put(d, &sample, NULL, &(struct db_note){ .kind = "start", .at = i }, NULL) < 0)
			CHECKF(false, "line %llu of the history is in order", (unsigned long long)i);
	}
	CHECK(db_history(d, sample.id, count_note, &notes, NULL) == 0);
	CHECKF(notes.n == DB_HISTORY_MAX && notes.last == 199, "the history has a bound: %u lines", notes.n);
	CHECK(db_read_start(d, sample.id, &back, NULL) == 0 && back.len == 4 &&
	      memcmp(back.data, "a\0b", 4) == 0);
	CHECK(db_read_start(d, "ffffffffffff", &back, NULL) == -ENOENT);
	db_close(d);

	d = must_open(&st, &how);
	got = (struct db_sandbox){ 0 };
	CHECKF(!how.fresh && how.from == DB_SCHEMA && db_each(d, count_row, &got, NULL) == 0 &&
		       is_sample(&got),
	       "all rows are there after a second open");
	CHECK(db_forget(d, sample.id, NULL) == 0);
	notes.n = 0;
	CHECKF(db_history(d, sample.id, count_note, &notes, NULL) == 0 && notes.n == 0,
	       "the history of a sandbox is removed with it");
	CHECK(db_check(d, NULL) == 0);
	db_close(d);
	buf_release(&start);
	buf_release(&back);
	end(&st);
}

static void test_starts(void)
{
	uint64_t starts = 0, crashes = 0;
	struct db_opened how;
	struct state st;
	struct db *d;

	begin(&st);
	d = must_open(&st, &how);
	CHECK(db_begin(d, "1", "b", 1, NULL) == 0 && db_end(d, 2, NULL) == 0);
	CHECK(db_begin(d, "1", "b", 3, NULL) == 0);
	db_close(d);
	d = must_open(&st, &how);
	CHECK(db_begin(d, "1", "b", 4, NULL) == 0 && db_starts(d, &starts, &crashes, NULL) == 0);
	CHECKF(starts == 3 && crashes == 1, "three starts are kept, one of them without an end");
	db_close(d);
	end(&st);
}

static int64_t raw_int(const struct state *st, const char *file, const char *sql)
{
	char path[256];
	sqlite3_stmt *s = NULL;
	sqlite3 *c = NULL;
	int64_t v = -1;

	snprintf(path, sizeof(path), "%s/%s", st->path, file);
	if (sqlite3_open_v2(path, &c, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
	    sqlite3_prepare_v2(c, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		v = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(c);
	return v;
}

static void check_copy(const struct state *st, const struct db_opened *how)
{
	struct stat s;

	CHECK(same(how->kept, DB_FILE ".v1"));
	CHECKF(fstatat(st->fd, how->kept, &s, AT_SYMLINK_NOFOLLOW) == 0 && (s.st_mode & 07777) == 0600,
	       "the copy of the older database is its owner's alone");
	CHECKF(raw_int(st, how->kept, "PRAGMA user_version") == 1 &&
		       raw_int(st, how->kept, "SELECT restarts FROM sandbox") == 7 &&
		       raw_int(st, how->kept, "SELECT count(*) FROM sqlite_master WHERE name = 'gateway'") ==
			       0,
	       "the copy of the older database is unchanged");
	CHECK(faccessat(st->fd, DB_FILE ".copy", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

static void test_old(void)
{
	uint64_t starts = 1, crashes;
	struct db_sandbox got = { 0 };
	struct notes notes = { 0 };
	struct db_opened how;
	struct state st;
	struct db *d;

	begin(&st);
	raw_sql(&st, schema_1);
	d = must_open(&st, &how);
	CHECK(how.from == 1 && !how.fresh && !*how.aside);
	check_copy(&st, &how);
	CHECKF(db_each(d, count_row, &got, NULL) == 0 && got.restarts == 7 && strcmp(got.name, "old") == 0,
	       "rows of schema 1 survive the migration");
	CHECK(db_history(d, got.id, count_note, &notes, NULL) == 0 && notes.n == 1);
	CHECKF(db_starts(d, &starts, &crashes, NULL) == 0 && starts == 0,
	       "the migration adds a table that schema 1 lacked");
	CHECK(db_check(d, NULL) == 0);
	db_close(d);
	d = must_open(&st, &how);
	CHECKF(how.from == DB_SCHEMA && !*how.kept, "a database of the present schema is not copied");
	db_close(d);
	end(&st);
}

/* A step that fails takes the steps before it back. */
static void test_old_fails(void)
{
	struct err e = ERR_INIT;
	struct db_opened how;
	struct state st;
	struct db *d = NULL;

	begin(&st);
	raw_sql(&st, schema_1);
	raw_sql(&st, "CREATE TABLE credential (x);"); /* what the last step makes */
	CHECKF(db_open(&d, &st, &how, &e) < 0 && !d && strstr(e.msg, "from schema 1"),
	       "a migration that fails is an error: %s", e.msg);
	CHECKF(raw_int(&st, DB_FILE, "PRAGMA user_version") == 1 &&
		       raw_int(&st, DB_FILE, "SELECT count(*) FROM sqlite_master WHERE name = 'gateway'") ==
			       0,
	       "no step of a migration that failed is left");
	raw_sql(&st, "DROP TABLE credential;");
	d = must_open(&st, &how);
	CHECKF(how.from == 1 && db_check(d, NULL) == 0,
	       "a migration succeeds once the cause of its failure is gone");
	db_close(d);
	end(&st);
}

static void test_empty(void)
{
	struct db_opened how;
	struct state st;
	struct db *d;

	begin(&st);
	CHECK(close(openat(st.fd, DB_FILE, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
	d = must_open(&st, &how);
	CHECKF(how.from == 0 && !*how.aside && db_put(d, &sample, NULL, NULL, NULL) == 0,
	       "an empty file becomes a new database");
	db_close(d);
	end(&st);
}

static void test_newer(void)
{
	struct err e = ERR_INIT;
	struct db_opened how;
	struct buf before = BUF_INIT, after = BUF_INIT;
	struct state st;
	struct db *d = NULL;

	begin(&st);
	d = must_open(&st, &how);
	db_close(d);
	d = NULL;
	raw_sql(&st, "PRAGMA journal_mode = DELETE; CREATE TABLE later (x); PRAGMA user_version = 99;");
	CHECK(fd_read_file(st.fd, DB_FILE, 1 << 20, &before) == 0);
	CHECKF(db_open(&d, &st, &how, &e) == -EPROTONOSUPPORT && !d,
	       "a database of a newer schema is refused");
	CHECKF(strstr(e.msg, "schema 99") && strstr(e.msg, "newer") && *e.hint,
	       "the refusal names the newer schema: %s", e.msg);
	CHECK(fd_read_file(st.fd, DB_FILE, 1 << 20, &after) == 0);
	CHECKF(!*how.aside && after.len == before.len && memcmp(after.data, before.data, after.len) == 0,
	       "a newer database is left unchanged");
	buf_release(&before);
	buf_release(&after);
	end(&st);
}

/* Writes over a part of the file. */
static void damage(const struct state *st, off_t at, size_t len)
{
	int fd = openat(st->fd, DB_FILE, O_WRONLY | O_CLOEXEC);
	char junk[4096];

	memset(junk, 0xa5, sizeof(junk));
	CHECK(fd >= 0 && pwrite(fd, junk, len, at) == (ssize_t)len);
	fd_close(fd);
}

static void test_broken(off_t at, size_t len, const char *what)
{
	struct db_sandbox got = { 0 };
	struct db_opened how;
	struct stat s;
	struct state st;
	struct db *d;

	begin(&st);
	d = must_open(&st, &how);
	for (int i = 0; i < 100; i++) {
		struct db_sandbox x = sample;

		snprintf(x.id, sizeof(x.id), "%012x", (unsigned)i);
		if (db_put(d, &x, NULL, &(struct db_note){ .kind = "keep" }, NULL) < 0)
			CHECKF(false, "row %d is written before the damage", i);
	}
	db_close(d);
	damage(&st, at, len);
	d = must_open(&st, &how);
	CHECKF(how.fresh && *how.aside && *how.broken,
	       "a damaged database is moved aside and reported: %s: %s", what, how.broken);
	CHECKF(fstatat(st.fd, how.aside, &s, AT_SYMLINK_NOFOLLOW) == 0 && s.st_size > 0,
	       "the database that was moved aside exists: %s", what);
	CHECKF(db_each(d, count_row, &got, NULL) == 0 && !*got.id &&
		       db_put(d, &sample, NULL, NULL, NULL) == 0,
	       "a new database replaces the damaged one: %s", what);
	db_close(d);
	end(&st);
}

static void test_hostile_file(void)
{
	struct err e = ERR_INIT;
	struct db_opened how;
	struct state st;
	struct db *d = NULL;

	begin(&st);
	CHECK(symlinkat("/etc/passwd", st.fd, DB_FILE) == 0);
	CHECKF(db_open(&d, &st, &how, &e) < 0 && !d, "a database that is a symlink is refused: %s", e.msg);
	CHECK(unlinkat(st.fd, DB_FILE, 0) == 0 && mkdirat(st.fd, DB_FILE, 0700) == 0);
	CHECK(db_open(&d, &st, &how, &e) < 0 && !d);
	CHECK(unlinkat(st.fd, DB_FILE, AT_REMOVEDIR) == 0);
	CHECK(close(openat(st.fd, DB_FILE, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0 &&
	      fchmodat(st.fd, DB_FILE, 0622, 0) == 0);
	CHECKF(db_open(&d, &st, &how, &e) == -EPERM && !d, "a database that others may write is refused: %s",
	       e.msg);
	end(&st);
}

static void test_full(void)
{
	struct db_sandbox got = { 0 };
	struct err e = ERR_INIT;
	struct db_opened how;
	struct state st;
	struct db *d;
	int r = 0, n = 0;

	begin(&st);
	d = must_open(&st, &how);
	CHECK(db_put(d, &sample, NULL, NULL, NULL) == 0 && db_limit(d, 12, NULL) == 0);
	for (; n < 5000 && r == 0; n++) {
		struct db_sandbox x = sample;

		snprintf(x.id, sizeof(x.id), "%012x", (unsigned)n);
		r = db_put(d, &x, NULL, &(struct db_note){ .kind = "keep" }, &e);
	}
	CHECKF(r == -ENOSPC && strstr(e.msg, "full"), "a full disk is reported as such: %s", e.msg);
	CHECKF(db_check(d, NULL) == 0 && db_each(d, count_row, &got, NULL) == 0,
	       "a full database stays whole");
	CHECK(db_limit(d, 1000, NULL) == 0 &&
	      db_put(d, &sample, NULL, &(struct db_note){ .kind = "end" }, NULL) == 0);
	db_close(d);
	end(&st);
}

/* Killed at any moment of many commits: what was said to be written is there, and the whole is whole. */
static void test_killed(void)
{
	struct db_opened how;
	struct state st;

	begin(&st);
	for (unsigned round = 0; round < 20; round++) {
		struct db_sandbox got = { 0 };
		uint64_t told = 0, seen;
		int p[2];
		pid_t pid;
		struct db *d;

		CHECK(pipe2(p, O_CLOEXEC) == 0);
		pid = fork_child();
		if (pid == 0) {
			struct db_sandbox x = sample;

			d = NULL;
			if (db_open(&d, &st, &how, NULL) < 0)
				_exit(1);
			for (x.restarts = 1;; x.restarts++) {
				if (db_put(d, &x, NULL,
					   &(struct db_note){ .kind = "start", .at = x.restarts },
					   NULL) < 0 ||
				    write(p[1], &x.restarts, sizeof(x.restarts)) != sizeof(x.restarts))
					_exit(1);
			}
		}
		fd_close(p[1]);
		for (unsigned i = 0; i <= round * 3; i++) {
			if (fd_read_exact(p[0], &told, sizeof(told)) < 0)
				break;
		}
		kill(pid, SIGKILL);
		(void)reap(pid);
		while (fd_read_exact(p[0], &seen, sizeof(seen)) == 0)
			told = seen;
		fd_close(p[0]);
		d = must_open(&st, &how);
		CHECK(!*how.aside && db_check(d, NULL) == 0 && db_each(d, count_row, &got, NULL) == 0);
		CHECKF(got.restarts == told || got.restarts == told + 1,
		       "a killed writer loses at most one write: %llu were told, %llu are there",
		       (unsigned long long)told, (unsigned long long)got.restarts);
		db_close(d);
	}
	end(&st);
}

int main(void)
{
	test_rows();
	test_starts();
	test_old();
	test_old_fails();
	test_empty();
	test_newer();
	test_broken(0, 64, "the head is gone");
	test_broken(4096, 4096, "a page is gone");
	test_broken(100, 40, "a torn first page");
	test_hostile_file();
	test_full();
	test_killed();
	return tap_done();
}
