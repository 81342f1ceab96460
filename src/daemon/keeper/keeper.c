/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's list, database and decisions (keeper.h). Restarts are decided here and carried out in
 * keeper_run.c. A sandbox must not be watched before it is in the database (adr/0012 G5, G6).
 */
#include "daemon/keeper/keeper.h"

#include "base/fd.h"
#include "base/str.h"
#include "daemon/keeper/keeper_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT_MAX 4096
#define START_FILE_MAX (8u << 20)

/* --- logging and saving --------------------------------------------------------------------------------- */

static void add_kept_fields(struct json *j, const struct kept *x)
{
	const struct db_sandbox *r = &x->row;

	json_str(j, "name", r->name);
	json_str(j, "restart", r->policy);
	json_u64(j, "restarts", r->restarts);
	if (*r->cause) {
		json_str(j, "cause", r->cause);
		json_i64(j, "exit", r->exit_code);
	}
}

static int append_keeper_event(struct keeper *k, const char *type, const struct kept *x, const char *why,
			       struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (x)
		add_kept_fields(&j, x);
	if (why)
		json_str(&j, "why", why);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	return audit_append(k->w.audit, type, x ? x->row.id : NULL, &b, e);
}

void keeper_say(struct keeper *k, const char *type, const struct kept *x, const char *why)
{
	/* A failure is ignored: the event has already happened. Only a start depends on its log entry. */
	(void)!append_keeper_event(k, type, x, why, NULL);
}

/* adr/0012 G8: state that cannot be saved now is saved later. */
void kept_save(struct kept *x, const struct db_note *n)
{
	struct keeper *k = x->k;
	struct err e = ERR_INIT;

	x->unsaved = db_put(k->db, &x->row, NULL, n, &e) < 0;
	if (!x->unsaved)
		return;
	if (!*k->trouble)
		keeper_say(k, "gateway.database", NULL, e.msg);
	snprintf(k->trouble, sizeof(k->trouble), "%.255s", e.msg);
	loop_timer(k->w.loop, &k->again, clock_nsec(CLOCK_MONOTONIC) + SAVE_AGAIN);
}

static void on_save_again(struct timer *t)
{
	struct keeper *k = t->ctx;

	k->trouble[0] = '\0';
	for (struct kept *x = k->list; x && !*k->trouble; x = x->next) {
		if (x->unsaved)
			kept_save(x, NULL);
	}
}

static void save_with_note(struct kept *x, const char *kind, uint64_t wait)
{
	kept_save(x, &(struct db_note){ .kind = kind,
					.at = clock_nsec(CLOCK_REALTIME),
					.exit_code = x->row.exit_code,
					.cause = *x->row.cause ? x->row.cause : NULL,
					.wait = wait });
}

/* --- the list ------------------------------------------------------------------------------------------- */

static void unlink_kept(struct kept *x)
{
	struct kept **p = &x->k->list;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	kept_unwatch(x);
	loop_timer_off(x->k->w.loop, &x->t);
	fd_close(x->said);
	free(x);
}

/* A row that cannot be deleted from the database is found and dropped again by the next cofferd. */
static void forget_kept(struct kept *x)
{
	struct keeper *k = x->k;
	struct err e = ERR_INIT;

	if (db_forget(k->db, x->row.id, &e) < 0)
		snprintf(k->trouble, sizeof(k->trouble), "%.255s", e.msg);
	unlink_kept(x);
}

void kept_drop(struct kept *x, const char *why)
{
	keeper_say(x->k, "run.restart.over", x, why);
	forget_kept(x);
}

void kept_over(struct kept *x, const char *why)
{
	kept_unwatch(x);
	loop_timer_off(x->k->w.loop, &x->t);
	x->waits = false;
	x->row.state = DB_OVER;
	x->row.next_at = 0;
	snprintf(x->row.why, sizeof(x->row.why), "%s", why);
	save_with_note(x, "over", 0);
	keeper_say(x->k, "run.restart.over", x, why);
}

void kept_ended(struct kept *x, const struct restart_end *end, const char *cause)
{
	struct backoff b = { x->rebooted ? 0 : x->row.tries }; /* a reboot is not the sandbox's failure */
	uint64_t wait = 0;
	enum restart_verdict v;

	x->row.exit_code = end->exit_code;
	snprintf(x->row.cause, sizeof(x->row.cause), "%s", cause);
	v = restart_decide(&x->policy, &b, end, &wait);
	x->row.tries = b.tries;
	if (v == RESTART_DONE) {
		kept_over(x, "it has done its work");
		return;
	}
	if (v == RESTART_GIVE_UP) {
		kept_over(x, "it failed too often in a row");
		return;
	}
	if (x->rebooted) {
		x->row.tries = 0;
		wait = 0;
	}
	x->rebooted = false;
	x->row.state = DB_WAIT;
	x->row.next_at = clock_nsec(CLOCK_REALTIME) + wait;
	save_with_note(x, "end", wait);
	kept_start_at(x, wait);
}

static struct kept *find_kept(struct keeper *k, const char *id)
{
	struct kept *x = k->list;

	while (x && !str_eq(x->row.id, id))
		x = x->next;
	return x;
}

static struct kept *add_kept(struct keeper *k, const struct db_sandbox *row, struct err *e)
{
	struct kept *x, **p = &k->list;
	struct restart policy;
	unsigned n = 0;

	if (restart_parse(row->policy, &policy, e) < 0)
		return NULL;
	for (; *p; p = &(*p)->next)
		n++;
	x = n < KEPT_MAX ? calloc(1, sizeof(*x)) : NULL;
	if (!x) {
		err_set(e, n < KEPT_MAX ? -ENOMEM : -EMFILE, "cannot keep more sandboxes than %u", n);
		return NULL;
	}
	*x = (struct kept){ .k = k, .row = *row, .policy = policy, .w = WATCH_INIT, .said = -1 };
	x->rebooted = !str_eq(row->boot, k->boot);
	*p = x;
	return x;
}

/* --- finding runs --------------------------------------------------------------------------------------- */

static int on_sandbox_row(void *ctx, const struct db_sandbox *row)
{
	struct keeper *k = ctx;
	struct err e = ERR_INIT;

	if (!add_kept(k, row, &e))
		snprintf(k->trouble, sizeof(k->trouble), "a sandbox in " DB_FILE " cannot be kept: %.180s",
			 e.msg);
	return 0;
}

/* Reads the row of a run from its own directory; -ENOENT if it has no restart policy. */
static int read_restart_run(struct keeper *k, const char *id, struct db_sandbox *row, struct buf *start,
			    struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	bool alive = false;
	autoclose int fd = state_run_open(k->w.st, id, &alive, e);
	int r = fd < 0 ? fd : state_meta_read(fd, &m, e);

	if (r < 0)
		return r;
	if (!m.restart || str_eq(m.restart, "no"))
		return err_set(e, -ENOENT, "sandbox %s has no restart policy", id);
	r = fd_read_file(fd, "start", START_FILE_MAX, start);
	if (r < 0)
		return err_sys(e, r, "cannot read how sandbox %s was started", id);
	*row = (struct db_sandbox){ .state = DB_UP, .restarts = m.restarts, .since = m.started };
	snprintf(row->id, sizeof(row->id), "%s", id);
	snprintf(row->name, sizeof(row->name), "%s", m.name ? m.name : "");
	snprintf(row->policy, sizeof(row->policy), "%s", m.restart);
	return 0;
}

/* adr/0012 G5, G6: it is in the database before it is watched. */
static int register_run(struct keeper *k, const char *id, const char *kind, struct err *e)
{
	autobuf struct buf start = BUF_INIT;
	struct db_sandbox row;
	const struct db_note n = { .kind = kind, .at = clock_nsec(CLOCK_REALTIME) };
	struct kept *x = find_kept(k, id);
	int r = read_restart_run(k, id, &row, &start, e);

	if (r < 0)
		return r;
	memcpy(row.boot, k->boot, sizeof(row.boot));
	if (x)
		row = x->row;
	r = db_put(k->db, &row, &start, &n, e);
	if (r < 0)
		return r;
	if (!x)
		x = add_kept(k, &row, e);
	if (!x)
		return e->code;
	kept_look(x);
	return 0;
}

int keeper_keep(struct keeper *k, const char *id, struct err *e)
{
	return register_run(k, id, "keep", e);
}

/* Finds runs with a restart policy that are not registered: their starter died before it could register them,
 * or the database was lost. A run that a person stopped is not kept. */
static int find_unregistered_runs(struct keeper *k, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	int r = state_run_list(k->w.st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		CLEANUP(state_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd =
			find_kept(k, ids.v[i]) ? -1 : state_run_open(k->w.st, ids.v[i], &alive, NULL);
		struct err why = ERR_INIT;

		if (fd < 0 || state_meta_read(fd, &m, NULL) < 0 || !m.restart || state_run_is_over(fd))
			continue;
		if (register_run(k, ids.v[i], "found", &why) < 0 && why.code != -ENOENT)
			snprintf(k->trouble, sizeof(k->trouble), "%.255s", why.msg);
	}
	return r;
}

int keeper_look_at_all(struct keeper *k, struct err *e)
{
	struct kept *next;

	for (struct kept *x = k->list; x; x = next) {
		next = x->next;
		kept_look(x);
	}
	return find_unregistered_runs(k, e);
}

/* --- opening -------------------------------------------------------------------------------------------- */

static int read_boot_id(char ret[DB_BOOT_LEN + 1], struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, &b);

	if (r < 0 || b.len < DB_BOOT_LEN)
		return err_sys(e, r < 0 ? r : -EIO, "cannot determine the id of this boot");
	memcpy(ret, b.data, DB_BOOT_LEN);
	ret[DB_BOOT_LEN] = '\0';
	return 0;
}

static void log_moved_aside(struct keeper *k)
{
	char text[400];

	if (!*k->opened.aside)
		return;
	snprintf(
		text, sizeof(text),
		"%.180s. It is now %.90s; the history and the pauses between restarts are lost, the sandboxes are "
		"found by the state directory",
		k->opened.broken, k->opened.aside);
	keeper_say(k, "gateway.database", NULL, text);
}

static void log_migrated(struct keeper *k)
{
	char text[160];

	if (!*k->opened.kept)
		return;
	snprintf(text, sizeof(text),
		 DB_FILE " was brought from schema %d to %d. %s is a copy of it as it was", k->opened.from,
		 DB_SCHEMA, k->opened.kept);
	keeper_say(k, "gateway.database", NULL, text);
}

static int open_and_examine(struct keeper *k, struct err *e)
{
	int r = read_boot_id(k->boot, e);

	if (r == 0)
		r = db_open(&k->db, k->w.st, &k->opened, e);
	if (r == 0)
		r = db_begin(k->db, COFFER_VERSION, k->boot, clock_nsec(CLOCK_REALTIME), e);
	/* With a full disk the known sandboxes can still be kept running. */
	if (r == -ENOSPC && k->db) {
		snprintf(k->trouble, sizeof(k->trouble), "%.255s", e->msg);
		*e = ERR_INIT;
		r = 0;
	}
	if (r == 0) {
		log_moved_aside(k);
		log_migrated(k);
	}
	if (r == 0)
		r = db_each(k->db, on_sandbox_row, k, e);
	return r < 0 ? r : keeper_look_at_all(k, e);
}

/* Each start occupies a processor, and after a reboot all sandboxes are due at once. */
static unsigned max_starters(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > (long)STARTERS_MIN ? (unsigned)n : STARTERS_MIN;
}

int keeper_open(struct keeper **ret, const struct keeper_with *w, struct err *e)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(e, -ENOMEM, "out of memory");
	k->w = *w;
	k->starters_max = max_starters();
	k->again = (struct timer){ .fn = on_save_again, .ctx = k };
	r = open_and_examine(k, e);
	if (r < 0) {
		keeper_close(k);
		return r;
	}
	*ret = k;
	return 0;
}

void keeper_close(struct keeper *k)
{
	if (!k)
		return;
	while (k->list)
		unlink_kept(k->list);
	loop_timer_off(k->w.loop, &k->again);
	/* On failure this start counts as a crash, which is harmless. */
	if (k->db)
		(void)!db_end(k->db, clock_nsec(CLOCK_REALTIME), NULL);
	db_close(k->db);
	free(k);
}

bool keeper_is_busy(const struct keeper *k)
{
	for (const struct kept *x = k->list; x; x = x->next) {
		if (x->row.state != DB_OVER)
			return true;
	}
	return false;
}

bool keeper_reaped(struct keeper *k, pid_t pid, int status)
{
	for (struct kept *x = k->list; x; x = x->next) {
		if (x->starter == pid) {
			kept_reaped(x, status);
			return true;
		}
	}
	return false;
}

/* --- status --------------------------------------------------------------------------------------------- */

/* A finished sandbox is not watched, so its removal is noticed here. The log has it already (run.rm). */
static void forget_removed(struct keeper *k)
{
	struct kept *next;

	for (struct kept *x = k->list; x; x = next) {
		autoclose int fd = -1;
		bool alive;

		next = x->next;
		if (x->row.state != DB_OVER)
			continue;
		fd = state_run_open(k->w.st, x->row.id, &alive, NULL);
		if (fd == -ENOENT)
			forget_kept(x);
	}
}

static void kept_json(const struct kept *x, struct json *j)
{
	const struct db_sandbox *r = &x->row;
	char text[CLOCK_TEXT_LEN];

	json_obj(j, NULL);
	json_str(j, "id", r->id);
	json_str(j, "name", r->name);
	json_str(j, "restart", r->policy);
	json_str(j, "state", db_state_name(r->state));
	json_bool(j, "watched", x->w.fd >= 0);
	json_u64(j, "restarts", r->restarts);
	json_u64(j, "tries", r->tries);
	json_str(j, "since", clock_format(r->since, text));
	if (r->next_at)
		json_str(j, "next", clock_format(r->next_at, text));
	if (*r->cause) {
		json_str(j, "cause", r->cause);
		json_i64(j, "exit", r->exit_code);
	}
	if (*r->why)
		json_str(j, "why", r->why);
	json_end_obj(j);
}

void keeper_json(struct keeper *k, struct json *j)
{
	uint64_t starts = 0, crashes = 0;

	forget_removed(k);
	json_obj(j, "database");
	json_u64(j, "schema", DB_SCHEMA);
	if (db_starts(k->db, &starts, &crashes, NULL) == 0) {
		json_u64(j, "starts", starts);
		json_u64(j, "crashes", crashes);
	}
	if (*k->opened.kept) {
		json_i64(j, "from_schema", k->opened.from);
		json_str(j, "kept_copy", k->opened.kept);
	}
	if (*k->opened.aside) {
		json_str(j, "moved_aside", k->opened.aside);
		json_str(j, "was_broken", k->opened.broken);
	}
	if (*k->trouble)
		json_str(j, "trouble", k->trouble);
	json_end_obj(j);
	json_arr(j, "sandboxes");
	for (const struct kept *x = k->list; x; x = x->next)
		kept_json(x, j);
	json_end_arr(j);
}
