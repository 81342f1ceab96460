/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of one `coffer secret` command: state directory, audit log, vault files with their lock, and
 * the coffer-vault process. Every change is logged before it is saved; a change that was logged and could
 * not be saved gets a second event that says so. Only metadata of secrets comes here, never a value.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/common/look.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"
#include "sandbox/engine/helper.h"
#include "vault/client/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHY_LEN 240
#define WAIT_SILENT_MS 1000
#define WAIT_STEP_MS 50

/*
 * Detects a rolled-back vault file by its save counter: in an older copy, rotated values and removed
 * secrets are back.
 */
static int check_rollback(struct secret_session *s, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (s->files.saved <= s->proc.counter)
		return 0;
	say_warn("the vault file is an older one: it was saved %llu times, the latest one %llu "
		 "times; secrets that were rotated or removed since then have their old state",
		 (unsigned long long)s->proc.counter, (unsigned long long)s->files.saved);
	json_u64(&j, "counter", s->proc.counter);
	json_u64(&j, "expected", s->files.saved);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	/*
	 * Without a log this command only reads, and the warning above suffices; a command that changes or
	 * uses a secret has a log.
	 */
	return s->audit ? audit_append(s->audit, "secret.rollback", NULL, &b, e) : 0;
}

static void say_waiting(void)
{
	say_warn("waiting for another coffer secret, which is changing the vault");
}

static void sleep_wait_step(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = WAIT_STEP_MS * (long)NSEC_PER_MSEC }, NULL);
}

/* Opens the vault files; after WAIT_SILENT_MS of waiting for the lock, prints what the wait is for. */
static int open_vault_files(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			    struct err *e)
{
	int r = -EAGAIN;

	for (int ms = 0; ms < WAIT_SILENT_MS && r == -EAGAIN; ms += WAIT_STEP_MS) {
		if (ms)
			sleep_wait_step();
		r = vault_files_open(&s->files, s->st.fd, key, flags | VAULT_FILES_TRY, e);
	}
	if (r != -EAGAIN)
		return r;
	say_waiting();
	return vault_files_open(&s->files, s->st.fd, key, flags, e);
}

void cli_secret_session_unlock_files(struct secret_session *s)
{
	BUG_ON(s->unsaved);
	vault_files_unlock(&s->files);
}

static int wait_for_lock(struct vault_files *f, int (*lock)(struct vault_files *f, bool wait, struct err *e),
			 struct err *e)
{
	int r = -EAGAIN;

	for (int ms = 0; ms < WAIT_SILENT_MS && r == -EAGAIN; ms += WAIT_STEP_MS) {
		if (ms)
			sleep_wait_step();
		r = lock(f, false, e);
	}
	if (r != -EAGAIN)
		return r;
	say_waiting();
	return lock(f, true, e);
}

int cli_secret_session_relock_files(struct secret_session *s, struct err *e)
{
	int r = wait_for_lock(&s->files, vault_files_lock, e);

	return r < 0 || !vault_files_changed(&s->files) ? r : vault_revert(&s->proc, &s->files, e);
}

/*
 * The running rotation needs the vault's lock to save, so this command releases it while it waits for the
 * rotation lock.
 */
int cli_secret_session_rotates(struct secret_session *s, struct err *e)
{
	struct err later = ERR_INIT;
	int r, locked;

	cli_secret_session_unlock_files(s);
	r = wait_for_lock(&s->files, vault_files_lock_rotation, e);
	locked = cli_secret_session_relock_files(s, &later);
	if (r == 0 && locked < 0)
		*e = later;
	return r < 0 ? r : locked;
}

int cli_secret_session_unlock(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			      struct err *e)
{
	autoclose int exe = -1;
	int r = open_vault_files(s, key, flags, e);

	if (r < 0)
		return r;
	exe = helper_open("coffer-vault", e);
	if (exe < 0)
		return exe;
	r = vault_start(&s->proc, exe, e);
	if (r == 0)
		r = vault_open(&s->proc, &s->files, flags & VAULT_FILES_WRITE ? 0 : VAULT_OPEN_READ_ONLY, e);
	return r < 0 ? r : check_rollback(s, e);
}

int cli_secret_session_open(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			    struct err *e)
{
	int r = state_open(&s->st, e);

	/*
	 * Reading also works on a state directory that is full or read-only; the log is only needed for
	 * changes.
	 */
	if (r == 0 && (flags & VAULT_FILES_WRITE || cli_look_has_room(&s->st)))
		r = audit_open(&s->audit, s->st.fd, e);
	return r < 0 ? r : cli_secret_session_unlock(s, key, flags, e);
}

/* The log announced changes that were not saved: a second event corrects that. */
static void log_unsaved(struct secret_session *s, const char *why)
{
	struct err e = ERR_INIT;

	if (!s->unsaved)
		return;
	if (cli_secret_log(s, "secret.failed", NULL, why, &e) < 0)
		say_warn("%s", e.msg);
	s->unsaved = 0;
}

void cli_secret_session_close(struct secret_session *s)
{
	if (s->audit)
		log_unsaved(s, "the command ended before it was saved");
	vault_end(&s->proc);
	vault_files_close(&s->files);
	audit_free(s->audit);
	state_release(&s->st);
	s->audit = NULL;
}

int cli_secret_log(struct secret_session *s, const char *type, const char *name, const char *what,
		   struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (name)
		json_str(&j, "secret", name);
	if (what)
		json_str(&j, "what", what);
	json_u64(&j, "counter", s->proc.counter + 1);
	s->unsaved++;
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(s->audit, type, NULL, &b, e);
}

int cli_secret_save(struct secret_session *s, struct err *e)
{
	int r = vault_save(&s->proc, &s->files, e);

	if (r < 0)
		log_unsaved(s, e->msg);
	s->unsaved = 0;
	return r < 0 ? r : cli_secret_write_schedule(s, e);
}

int cli_secret_log_failure(struct secret_session *s, const char *type, const char *name,
			   const struct err *why, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char text[WHY_LEN];

	json_str(&j, "secret", name);
	json_str(&j, "why", str_safe(why->msg, text, sizeof(text)));
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(s->audit, type, NULL, &b, e);
}

int cli_secret_revert(struct secret_session *s, struct err *e)
{
	log_unsaved(s, "undone");
	return vault_revert(&s->proc, &s->files, e);
}

/* --- the list of secrets ------------------------------------------------------------------------- */

void cli_secret_items_release(struct secret_items *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].command);
	free(l->v);
	*l = (struct secret_items){ 0 };
}

static int take_item(const struct vault_msg *m, void *ctx)
{
	struct secret_items *l = ctx;
	struct secret_item *i;

	if (VEC_MORE(l->v, l->n, VEC_NO_MAX) < 0)
		return -ENOMEM;
	i = &l->v[l->n];
	*i = (struct secret_item){ .len = m->num[0],
				   .created = m->num[1],
				   .changed = m->num[2],
				   .expires = m->num[3],
				   .every = m->num[4],
				   .flags = m->num[5] };
	if (m->type != VAULT_ITEM ||
	    bindings_unpack(i->bindings, &i->n_bindings, m->text[1].p, m->text[1].len) < 0)
		return -EPROTO;
	memcpy(i->name, m->text[0].p, m->text[0].len);
	i->command = m->text[2].len ? strndup(m->text[2].p, m->text[2].len) : NULL;
	if (m->text[2].len && !i->command)
		return -ENOMEM;
	l->n++;
	return 0;
}

int cli_secret_items_get(struct secret_session *s, struct secret_items *ret, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_LIST };

	return vault_call(&s->proc, &ask, NULL, 0, take_item, ret, NULL, NULL, e);
}

int cli_secret_write_schedule(struct secret_session *s, struct err *e)
{
	CLEANUP(cli_secret_items_release) struct secret_items l = { 0 };
	CLEANUP(schedule_release) struct schedule all = SCHEDULE_INIT;
	int r = cli_secret_items_get(s, &l, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < l.n && r == 0; i++) {
		const struct secret_item *x = &l.v[i];
		struct schedule_entry n = { .due = x->every && x->command ? x->changed + x->every : 0,
					    .expires = x->expires };

		memcpy(n.name, x->name, sizeof(n.name));
		r = schedule_add(&all, &n);
	}
	if (r == 0)
		r = schedule_write(s->files.dir, &all);
	return r < 0 ? err_sys(e, r, "the vault is saved, but the schedule of its rotations is not") : 0;
}

bool cli_secret_item_has_expired(const struct secret_item *i, uint64_t now)
{
	return i->expires && i->expires <= now;
}

bool cli_secret_item_expires_soon(const struct secret_item *i, uint64_t now)
{
	return schedule_is_soon(i->expires, now);
}

bool cli_secret_item_is_due(const struct secret_item *i, uint64_t now)
{
	return i->every && i->command && now >= i->changed && now - i->changed >= i->every;
}

const char *cli_secret_length_class(uint64_t len)
{
	static const struct {
		uint64_t below;
		const char *text;
	} classes[] = { { 16, "under 16" }, { 32, "16-31" },	{ 64, "32-63" },
			{ 128, "64-127" },  { 512, "128-511" }, { 4096, "512-4095" } };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		if (len < classes[i].below)
			return classes[i].text;
	}
	return "4096 or more";
}
