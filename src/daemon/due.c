/* SPDX-License-Identifier: Apache-2.0 */
/* Rotates secrets when they are due and reports those that expire (due.h). Never opens the vault itself. */
#include "daemon/due.h"

#include "base/clock.h"
#include "base/fd.h"
#include "daemon/child/child_coffer.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE (60 * NSEC_PER_SEC)
#define DAY 86400u
#define TOLD_FILE "vault/told"

static uint64_t real_seconds(void)
{
	return clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
}

void due_begin(struct due *d)
{
	helpers_add(d->helpers, &d->helper, "coffer secret rotate");
	d->helper.least = PAUSE;
	d->said = -1;
}

/* due.U1: a rotation under way is not killed. */
void due_end(struct due *d)
{
	if (!d->helpers)
		return;
	schedule_release(&d->schedule);
	d->said = fd_close(d->said);
	helpers_remove(d->helpers, &d->helper);
}

bool due_is_busy(const struct due *d)
{
	return d->pid != 0;
}

void due_retry_now(struct due *d)
{
	d->helper.not_before = 0;
}

/* A schedule that cannot be parsed counts as none: rotation is then up to a person, until it is written
 * again. */
static void read_schedule(struct due *d)
{
	struct stat st;
	uint64_t mtime;

	if (fstatat(d->st->fd, "vault/" SCHEDULE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		schedule_release(&d->schedule);
		d->ino = d->mtime = 0;
		return;
	}
	mtime = (uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
	if (st.st_ino == d->ino && mtime == d->mtime)
		return;
	schedule_release(&d->schedule);
	(void)!schedule_read(d->st->fd, &d->schedule);
	d->ino = st.st_ino;
	d->mtime = mtime;
}

/* --- rotation ------------------------------------------------------------------------------------------- */

static bool has_due_secret(const struct due *d)
{
	uint64_t next = schedule_next(&d->schedule);

	return next && next <= real_seconds();
}

/* due.U3. cofferd's own vault may be open with that passphrase, but it is read-only. */
static bool has_passphrase(const struct due *d)
{
	enum vaultd_state s = vaultd_state(d->vault);

	return s == VAULTD_LOCKED || (s == VAULTD_OPEN && d->vault->files.kind == VAULT_KEY_PASSPHRASE);
}

static void log_rotation_failed(const struct due *d, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "why", why);
	if (!buf_error(&b))
		(void)!audit_append(d->audit, "secret.rotate.failed", NULL, &b, NULL);
}

/* Starts `coffer secret rotate --due` with cofferd's environment, but without the service manager's
 * variables, and a file for its error output. It continues if cofferd dies: there is no safe point to stop
 * between a new value and its storage. */
static int start_rotate(struct due *d, struct err *e)
{
	static const char *const not [] = { "NOTIFY_SOCKET", "LISTEN_FDS", "COFFER_STATE" };
	char *argv[] = { (char *)"coffer", (char *)"secret", (char *)"rotate", (char *)"--due", NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, d->said >= 0 ? d->said : SPAWN_NULL };
	autostrv struct strv env = STRV_INIT;
	const struct child_coffer c = { .exe = d->coffer_fd,
					.state = d->st->path,
					.argv = argv,
					.fds = fds,
					.n_fds = ARRAY_SIZE(fds),
					.outlives = true };

	if (spawn_env_but(&env, not, ARRAY_SIZE(not )) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	return child_start_coffer(&c, &env, &d->pid, e);
}

static void begin_rotation(struct due *d)
{
	struct err e = ERR_INIT;

	fd_close(d->said);
	d->said = memfd_create("said", MFD_CLOEXEC);
	if (start_rotate(d, &e) < 0)
		(void)helper_died(d->helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC), e.msg);
}

bool due_reaped(struct due *d, pid_t pid, int status)
{
	char said[200];
	uint64_t next, was = schedule_next(&d->schedule);

	if (!d->pid || pid != d->pid)
		return false;
	d->pid = 0;
	child_first_line(d->said, said, sizeof(said));
	d->said = fd_close(d->said);
	read_schedule(d);
	next = schedule_next(&d->schedule);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		(void)helper_died(d->helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC),
				  *said ? said : "coffer secret rotate --due failed");
	/* It succeeded, but the same secret is still due: do not try it in a tight loop. */
	else if (next && next == was && next <= real_seconds())
		(void)helper_died(d->helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC),
				  "the secret that was due is still due");
	else
		helper_is_up(d->helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC));
	return true;
}

static void check_due(struct due *d)
{
	bool was_typed = d->is_typed;

	d->is_typed = false;
	if (d->pid || !has_due_secret(d))
		return;
	d->is_typed = has_passphrase(d);
	if (d->is_typed && !was_typed)
		log_rotation_failed(
			d,
			"the vault has a passphrase, and nobody is here to type it: coffer secret rotate --due");
	if (!d->is_typed && helper_may_start(&d->helper, clock_nsec(CLOCK_MONOTONIC)))
		begin_rotation(d);
}

/* --- expiry --------------------------------------------------------------------------------------------- */

static void log_expiring(const struct due *d, const struct schedule_entry *n)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char when[CLOCK_TEXT_LEN];

	json_str(&j, "secret", n->name);
	json_str(&j, "expires", clock_format(n->expires * NSEC_PER_SEC, when));
	if (!buf_error(&b))
		(void)!audit_append(d->audit, "secret.expiring", NULL, &b, NULL);
}

static uint64_t read_last_report(const struct due *d)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(d->st->fd, TOLD_FILE, 32, &b) == 0 ? strtoull(buf_cstr(&b), NULL, 10) : 0;
}

/* due.U4. If the time of the report cannot be stored, each cofferd reports once. */
static void check_expiring(struct due *d)
{
	uint64_t now = real_seconds(), told;
	char text[24];
	size_t n = 0;

	if (now < d->tell_at)
		return;
	for (size_t i = 0; i < d->schedule.n; i++)
		n += schedule_is_soon(d->schedule.v[i].expires, now);
	if (n == 0)
		return;
	told = read_last_report(d);
	/* `told` may be in the future if the clock was set back. */
	if (told <= now && now - told < DAY) {
		d->tell_at = told + DAY;
		return;
	}
	for (size_t i = 0; i < d->schedule.n; i++) {
		if (schedule_is_soon(d->schedule.v[i].expires, now))
			log_expiring(d, &d->schedule.v[i]);
	}
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)now);
	(void)!fd_replace_file(d->st->fd, TOLD_FILE, text, strlen(text), 0600);
	d->tell_at = now + DAY;
}

void due_tick(struct due *d)
{
	read_schedule(d);
	check_due(d);
	check_expiring(d);
}

void due_json(const struct due *d, struct json *j)
{
	uint64_t now = real_seconds(), next = schedule_next(&d->schedule);
	char when[CLOCK_TEXT_LEN];

	json_obj(j, "rotation");
	json_str(j, "next", next ? clock_format(next * NSEC_PER_SEC, when) : NULL);
	json_bool(j, "running", d->pid != 0);
	json_bool(j, "locked", d->is_typed);
	json_end_obj(j);
	json_arr(j, "expiring");
	for (size_t i = 0; i < d->schedule.n; i++) {
		const struct schedule_entry *n = &d->schedule.v[i];

		if (!n->expires || (n->expires > now && !schedule_is_soon(n->expires, now)))
			continue;
		json_obj(j, NULL);
		json_str(j, "secret", n->name);
		json_str(j, "expires", clock_format(n->expires * NSEC_PER_SEC, when));
		json_bool(j, "expired", n->expires <= now);
		json_end_obj(j);
	}
	json_end_arr(j);
}
