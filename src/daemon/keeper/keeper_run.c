/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a kept sandbox, watches it, and starts it again (keeper.h). It must not start a sandbox before the
 * database and the log say so (adr/0012 G6).
 */
#include "base/fd.h"
#include "base/str.h"
#include "daemon/child/child_coffer.h"
#include "daemon/child/helpers.h"
#include "daemon/keeper/keeper_int.h"
#include "run/supervise/supervise.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static uint64_t mono_now(void)
{
	return clock_nsec(CLOCK_MONOTONIC);
}

void kept_unwatch(struct kept *x)
{
	if (x->w.fd < 0)
		return;
	loop_unwatch(x->k->w.loop, &x->w);
	x->w.fd = fd_close(x->w.fd);
}

static void on_check_timer(struct timer *t)
{
	kept_look(t->ctx);
}

/* Checks again after a pause that grows until something changes. */
static void check_later(struct kept *x)
{
	x->pause = x->pause ? x->pause * 2 : PAUSE_FIRST;
	if (x->pause > PAUSE_MAX)
		x->pause = PAUSE_MAX;
	x->t.fn = on_check_timer;
	x->t.ctx = x;
	loop_timer(x->k->w.loop, &x->t, mono_now() + x->pause);
}

void kept_look_soon(struct kept *x)
{
	x->pause = 0;
	check_later(x);
}

/* --- watching ------------------------------------------------------------------------------------------- */

/* The launcher sends nothing without a request; only the end of the connection matters. */
static void on_control_link(struct watch *w, uint32_t events)
{
	struct kept *x = w->ctx;
	char data[512];
	ssize_t n = recv(w->fd, data, sizeof(data), MSG_DONTWAIT);

	(void)events;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	kept_unwatch(x);
	kept_look_soon(x);
}

static bool launcher_is_own(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

/* adr/0012 G2. Without a listener the launcher has not begun or has already ended. */
static int watch_control_socket(struct kept *x, int run_fd)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", run_fd);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	if (!launcher_is_own(fd))
		return -EPERM;
	x->w = (struct watch){ .fd = fd, .fn = on_control_link, .ctx = x };
	r = loop_watch(x->k->w.loop, &x->w, EPOLLIN | EPOLLRDHUP);
	if (r < 0) {
		x->w = WATCH_INIT;
		return r;
	}
	fd = -1;
	return 0;
}

/* It runs: watch for its end. */
static void kept_is_alive(struct kept *x, int run_fd)
{
	if (x->w.fd >= 0)
		return;
	loop_timer_off(x->k->w.loop, &x->t);
	if (watch_control_socket(x, run_fd) < 0) {
		check_later(x);
		return;
	}
	x->pause = 0;
	x->waits = false;
	x->rolled_at = 0;
	x->rebooted = false;
	if (x->row.state == DB_UP && str_eq(x->row.boot, x->k->boot))
		return;
	x->row.state = DB_UP;
	x->row.next_at = 0;
	x->row.why[0] = '\0';
	memcpy(x->row.boot, x->k->boot, sizeof(x->row.boot));
	kept_save(x, NULL);
}

/* --- the end -------------------------------------------------------------------------------------------- */

static void kept_has_ended(struct kept *x, int run_fd)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct restart_end end = { .exit_code = 137 };
	uint64_t ended = clock_nsec(CLOCK_REALTIME);
	bool told = state_meta_read(run_fd, &m, NULL) == 0 && m.ended;

	if (told) {
		x->row.exit_code = m.exit_code;
		snprintf(x->row.cause, sizeof(x->row.cause), "%s", m.cause ? m.cause : "exit");
	}
	if (state_run_is_over(run_fd)) {
		kept_over(x, "it was stopped");
		return;
	}
	if (told && m.cause && str_eq(m.cause, run_cause_name(CAUSE_ROLLED))) {
		if (!x->rolled_at)
			x->rolled_at = mono_now();
		if (mono_now() - x->rolled_at < ROLLBACK_TIME) {
			check_later(x);
			return;
		}
	}
	/* meta.json may still have the end of the previous start. */
	if (told && m.ended >= x->row.since) {
		ended = m.ended;
		end.exit_code = m.exit_code;
		end.by_itself = !m.cause || str_eq(m.cause, "exit");
	}
	end.lasted = ended > x->row.since ? ended - x->row.since : 0;
	x->rolled_at = 0;
	kept_ended(x, &end, end.exit_code == 137 && !told ? "broken off" : m.cause ? m.cause : "exit");
}

void kept_look(struct kept *x)
{
	bool alive = false;
	autoclose int fd = -1;
	struct err e = ERR_INIT;

	if (x->starter)
		return;
	fd = state_run_open(x->k->w.st, x->row.id, &alive, &e);
	if (fd == -ENOENT) {
		kept_drop(x, "it was removed");
		return;
	}
	if (fd < 0) {
		check_later(x);
		return;
	}
	if (alive) {
		kept_is_alive(x, fd);
		return;
	}
	kept_unwatch(x);
	if (x->row.state == DB_OVER)
		return;
	if (x->row.state == DB_WAIT && !x->rebooted && !state_run_is_over(fd)) {
		uint64_t at = clock_nsec(CLOCK_REALTIME),
			 wait = x->row.next_at > at ? x->row.next_at - at : 0;

		kept_start_at(x, wait < BACKOFF_MAX ? wait : BACKOFF_MAX);
		return;
	}
	kept_has_ended(x, fd);
}

/* --- starting ------------------------------------------------------------------------------------------- */

/* Starts `coffer run --again` with nothing of ours but a file for its error output. It continues if cofferd
 * dies: the next cofferd finds the sandbox. */
static int start_starter(struct kept *x, struct err *e)
{
	static const char *const vars[] = { "PATH", "HOME", "XDG_CONFIG_HOME", "CREDENTIALS_DIRECTORY" };
	const struct keeper_with *w = &x->k->w;
	char again[sizeof("--again=") + RUN_ID_LEN],
		*argv[] = { (char *)"coffer", (char *)"run", again, NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, x->said >= 0 ? x->said : SPAWN_NULL };
	autostrv struct strv env = STRV_INIT;
	const struct child_coffer c = { .exe = w->coffer_fd,
					.state = w->st->path,
					.argv = argv,
					.fds = fds,
					.n_fds = ARRAY_SIZE(fds),
					.outlives = true };

	snprintf(again, sizeof(again), "--again=%s", x->row.id);
	if (spawn_env_copy(&env, vars, ARRAY_SIZE(vars)) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	return child_start_coffer(&c, &env, &x->starter, e);
}

static void start_failed(struct kept *x, const char *why)
{
	const struct restart_end end = { .exit_code = 125 };

	snprintf(x->row.why, sizeof(x->row.why), "%.255s", why);
	keeper_say(x->k, "run.restart.failed", x, why);
	kept_ended(x, &end, "not started");
}

/* The fault is ours, so it is not counted as an attempt of the sandbox. Logged once, and retried until it
 * works. */
static void retry_own_fault(struct kept *x, const char *why)
{
	if (!x->own_pause)
		keeper_say(x->k, "run.restart.failed", x, why);
	x->own_pause = x->own_pause ? x->own_pause * 2 : OWN_PAUSE_FIRST;
	if (x->own_pause > OWN_PAUSE_MAX)
		x->own_pause = OWN_PAUSE_MAX;
	snprintf(x->row.why, sizeof(x->row.why), "%.255s", why);
	x->row.state = DB_WAIT;
	x->row.next_at = clock_nsec(CLOCK_REALTIME) + x->own_pause;
	kept_save(x, NULL);
	kept_start_at(x, x->own_pause);
}

/* The database has a copy of the start file, in case the run's directory lost it. */
static void restore_start_file(struct kept *x)
{
	autobuf struct buf b = BUF_INIT;
	bool alive = false;
	autoclose int fd = state_run_open(x->k->w.st, x->row.id, &alive, NULL);

	if (fd < 0 || alive || faccessat(fd, "start", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    db_read_start(x->k->db, x->row.id, &b, NULL) < 0)
		return;
	/* On failure the start fails and reports why. */
	(void)!fd_replace_file(fd, "start", b.data, b.len, 0600);
}

/* adr/0012 G6: the start is in the database and in the log first. */
static int log_restart(struct kept *x, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "name", x->row.name);
	json_str(&j, "restart", x->row.policy);
	json_u64(&j, "restarts", x->row.restarts + 1);
	json_str(&j, "cause", x->row.cause);
	json_i64(&j, "exit", x->row.exit_code);
	json_u64(&j, "tries", x->row.tries);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(x->k->w.audit, "run.restart", x->row.id, &b, e);
}

static void start_kept(struct kept *x)
{
	struct err e = ERR_INIT;

	if (log_restart(x, &e) < 0) {
		retry_own_fault(x, e.msg);
		return;
	}
	restore_start_file(x);
	x->row.state = DB_STARTING;
	x->row.next_at = 0;
	x->row.since = clock_nsec(CLOCK_REALTIME);
	x->row.restarts++;
	memcpy(x->row.boot, x->k->boot, sizeof(x->row.boot));
	kept_save(x, &(struct db_note){ .kind = "start", .at = x->row.since });
	fd_close(x->said);
	x->said = memfd_create("said", MFD_CLOEXEC);
	if (start_starter(x, &e) < 0) {
		x->row.restarts--;
		retry_own_fault(x, e.msg);
		return;
	}
	x->own_pause = 0;
}

static bool may_start_another(const struct keeper *k)
{
	unsigned n = 0;

	for (const struct kept *x = k->list; x; x = x->next)
		n += x->starter != 0;
	return n < k->starters_max;
}

/* Starts the oldest one that waits. Each also retries by itself, so none is forgotten. */
static void start_next_waiting(struct keeper *k)
{
	struct kept *x = k->list;

	while (x && !x->waits)
		x = x->next;
	if (x) {
		x->waits = false;
		kept_start_at(x, 0);
	}
}

/* The start is due; but the sandbox may run by now, be gone, or be stopped (adr/0012 G3, G4). */
static void on_start_timer(struct timer *t)
{
	struct kept *x = t->ctx;
	bool alive = false;
	autoclose int fd = -1;

	/* keeper_unlocked() starts it earlier; until then it does not occupy a starter. */
	if (x->locked && x->k->w.is_locked(x->k->w.ctx)) {
		kept_start_at(x, OWN_PAUSE_MAX);
		return;
	}
	x->waits = !may_start_another(x->k);
	if (x->waits) {
		kept_start_at(x, PAUSE_MAX);
		return;
	}
	fd = state_run_open(x->k->w.st, x->row.id, &alive, NULL);
	if (fd < 0 || alive || state_run_is_over(fd)) {
		kept_look(x);
		return;
	}
	start_kept(x);
}

void kept_start_at(struct kept *x, uint64_t wait)
{
	x->t.fn = on_start_timer;
	x->t.ctx = x;
	loop_timer(x->k->w.loop, &x->t, mono_now() + wait);
}

/* Not the sandbox's fault: no attempt is counted, and it did not run. */
static void wait_for_unlocked_vault(struct kept *x)
{
	static const char why[] = "it needs secrets, and the vault is locked: coffer secret unlock";

	if (!x->locked)
		keeper_say(x->k, "run.restart.failed", x, why);
	x->locked = true;
	x->row.restarts--;
	x->row.state = DB_WAIT;
	x->row.next_at = clock_nsec(CLOCK_REALTIME);
	snprintf(x->row.why, sizeof(x->row.why), "%s", why);
	kept_save(x, NULL);
	/* The vault may have been unlocked meanwhile. */
	kept_start_at(x, x->k->w.is_locked(x->k->w.ctx) ? OWN_PAUSE_MAX : OWN_PAUSE_FIRST);
}

void keeper_unlocked(struct keeper *k)
{
	for (struct kept *x = k->list; x; x = x->next) {
		if (x->locked && !x->starter && x->row.state == DB_WAIT)
			kept_start_at(x, 0);
	}
}

void kept_reaped(struct kept *x, int status)
{
	char said[200];

	x->starter = 0;
	start_next_waiting(x->k);
	child_first_line(x->said, said, sizeof(said));
	x->said = fd_close(x->said);
	if (WIFEXITED(status) && WEXITSTATUS(status) == KEEPER_EXIT_LOCKED) {
		wait_for_unlocked_vault(x);
		return;
	}
	x->locked = false;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		kept_look(x);
		return;
	}
	start_failed(x, *said ? said : "coffer could not start it");
}
