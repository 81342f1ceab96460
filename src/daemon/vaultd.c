/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, restarts and ends the one coffer-vault of a state directory, and hands out its channels (vaultd.h).
 * Must not read a secret or a passphrase.
 */
#include "daemon/vaultd.h"

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/engine/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

/* All of cofferd blocks for a response of the vault at most this long; then the vault is killed. */
#define PATIENCE_MS 5000

static uint64_t mono_now(void)
{
	return clock_nsec(CLOCK_MONOTONIC);
}

static void log_vault_event(struct vaultd *v, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (why)
		json_str(&j, "why", why);
	if (!buf_error(&b))
		(void)!audit_append(v->audit, type, NULL, &b, NULL);
}

static bool vault_is_open(const struct vaultd *v)
{
	return v->proc.pid >= 0;
}

/* Opens the vault's file without its key; the vault itself reports what is wrong with the content. */
static int open_vault_files(const struct vaultd *v, struct vault_files *ret, struct err *e)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;

	return vault_files_open(ret, v->st->fd, &want, VAULT_FILES_NO_KEY, e);
}

enum vaultd_state vaultd_state(const struct vaultd *v)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	struct err e = ERR_INIT;

	if (vault_is_open(v))
		return VAULTD_OPEN;
	if (open_vault_files(v, &f, &e) == -ENOENT)
		return VAULTD_ABSENT;
	return f.kind == VAULT_KEY_PASSPHRASE ? VAULTD_LOCKED : VAULTD_READY;
}

bool vaultd_is_busy(const struct vaultd *v)
{
	return v->leases > 0 || (vault_is_open(v) && !v->files.may_reopen);
}

/* --- the process ---------------------------------------------------------------------------------------- */

static void stop_vault(struct vaultd *v)
{
	if (v->w.fd >= 0)
		loop_unwatch(v->loop, &v->w);
	v->w = WATCH_INIT;
	if (v->w_dir.fd >= 0) {
		loop_unwatch(v->loop, &v->w_dir);
		v->w_dir.fd = fd_close(v->w_dir.fd);
	}
	vault_end(&v->proc);
	vault_files_close(&v->files);
	v->files = VAULT_FILES_INIT;
}

/* A vault with a passphrase stays closed until somebody types it; any other is restarted even without a
 * request. */
static void vault_has_died(struct vaultd *v, const char *why)
{
	bool opens_itself = v->files.may_reopen;
	uint64_t wait;

	stop_vault(v);
	wait = helper_died(v->helpers, &v->helper, mono_now(), why);
	if (opens_itself)
		loop_timer(v->loop, &v->again, mono_now() + wait);
	else
		log_vault_event(v, "vault.lock", "it has ended, and its passphrase must be typed again");
}

/* The vault sends nothing on its own: this is its error message or its end. */
static void on_vault_gone(struct watch *w, uint32_t events)
{
	(void)events;
	vault_has_died(w->ctx, "it has ended");
}

/* An older file was put in place: rotated and removed secrets are back in it. */
static void check_save_counter(struct vaultd *v)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (v->files.saved <= v->proc.counter)
		return;
	json_u64(&j, "counter", v->proc.counter);
	json_u64(&j, "expected", v->files.saved);
	if (!buf_error(&b))
		(void)!audit_append(v->audit, "secret.rollback", NULL, &b, NULL);
}

static void on_vault_directory(struct watch *w, uint32_t events);

/* Watches the directory, because a new file replaces the old one by rename. */
static int watch_vault_file(struct vaultd *v, struct err *e)
{
	char dir[64];

	v->w_dir = (struct watch){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
				   .fn = on_vault_directory,
				   .ctx = v };
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", v->files.dir);
	if (v->w_dir.fd < 0 ||
	    inotify_add_watch(v->w_dir.fd, dir, IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) < 0)
		return err_sys(e, -errno, "changes of the vault would not be seen");
	return loop_watch(v->loop, &v->w_dir, EPOLLIN);
}

/* The vault has opened its file: watch both. */
static int begin_serving(struct vaultd *v, struct err *e)
{
	int r = watch_vault_file(v, e);

	v->w = (struct watch){ .fd = v->proc.control, .fn = on_vault_gone, .ctx = v };
	if (r == 0)
		r = loop_watch(v->loop, &v->w, EPOLLIN | EPOLLRDHUP);
	if (r < 0)
		return r;
	loop_timer_off(v->loop, &v->again);
	helper_is_up(v->helpers, &v->helper, mono_now());
	check_save_counter(v);
	return 0;
}

static int start_vault_process(struct vault_proc *p, struct err *e)
{
	autoclose int exe = helper_open("coffer-vault", e);

	if (exe < 0)
		return exe;
	p->patience = PATIENCE_MS;
	return vault_start(p, exe, e);
}

static int set_vault_locked(struct err *e)
{
	err_set(e, -VAULT_LOCKED, "the vault is locked");
	return err_hint(e, -VAULT_LOCKED, "coffer secret unlock asks for its passphrase");
}

static int open_by_key(struct vaultd *v, struct err *e)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r = vault_files_take_key(&v->files, &want, e);

	if (r == 0)
		r = start_vault_process(&v->proc, e);
	if (r == 0)
		r = vault_open(&v->proc, &v->files, VAULT_OPEN_READ_ONLY, e);
	return r < 0 ? r : begin_serving(v, e);
}

/* Returns 0 if the vault is open or was opened by its key. */
static int start_vault(struct vaultd *v, struct err *e)
{
	int r;

	if (vault_is_open(v))
		return 0;
	r = open_vault_files(v, &v->files, e);
	if (r == 0 && v->files.kind == VAULT_KEY_PASSPHRASE)
		r = set_vault_locked(e);
	else if (r == 0 && !helper_may_start(&v->helper, mono_now()))
		r = err_set(e, -EAGAIN, "coffer-vault is down and is being restarted: %s", v->helper.why);
	if (r < 0) {
		stop_vault(v);
		return r;
	}
	r = open_by_key(v, e);
	if (r < 0) {
		stop_vault(v);
		(void)helper_died(v->helpers, &v->helper, mono_now(), e->msg);
	}
	return r;
}

static void on_restart_timer(struct timer *t)
{
	struct vaultd *v = t->ctx;
	struct err e = ERR_INIT;

	if (start_vault(v, &e) == 0)
		v->opened(v->ctx);
	else if (vaultd_state(v) == VAULTD_READY)
		loop_timer(v->loop, &v->again, v->helper.not_before);
}

/* vaultd.K4. A key that does not open the new file is no longer valid. */
static void vault_file_changed(struct vaultd *v)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	struct err e = ERR_INIT;
	bool opens_itself = v->files.may_reopen;
	int r = open_vault_files(v, &f, &e), key;

	if (r == 0)
		r = vault_reload(&v->proc, &f, &e);
	if (r == 0) {
		key = v->files.key;
		v->files.key = -1;
		vault_files_close(&v->files);
		v->files = f;
		v->files.key = key;
		v->files.may_reopen = opens_itself;
		f = VAULT_FILES_INIT;
		check_save_counter(v);
		return;
	}
	stop_vault(v);
	if (vaultd_state(v) == VAULTD_READY)
		loop_timer(v->loop, &v->again, mono_now());
	else
		log_vault_event(v, "vault.lock", e.msg);
}

static void on_vault_directory(struct watch *w, uint32_t events)
{
	struct vaultd *v = w->ctx;
	char buf[4096];

	(void)events;
	while (read(w->fd, buf, sizeof(buf)) > 0)
		;
	if (vault_files_changed(&v->files))
		vault_file_changed(v);
}

/* The unlocking client has a copy of the channel: shutdown ends it for both, and the vault restores the
 * terminal and exits. */
static void end_typed_vault(struct vaultd *v)
{
	if (v->typed.control >= 0)
		(void)shutdown(v->typed.control, SHUT_RDWR);
	vault_end(&v->typed);
}

/* --- requests ------------------------------------------------------------------------------------------- */

static int make_vault_channel(int *ret_vaults, int *ret_guards, struct err *e)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	*ret_vaults = sv[0];
	*ret_guards = sv[1];
	return fcntl(sv[1], F_SETFL, 0) < 0 ? err_sys(e, -errno, "cannot make a socket pair") : 0;
}

int vaultd_hold(struct vaultd *v, const char *id, const void *ask, size_t len, int *ret_channel,
		struct err *e)
{
	autogrants struct vault_grants want = GRANTS_INIT;
	autoclose int vaults = -1, guards = -1;
	int r;

	/* The vault would exit on a malformed request. */
	if (grants_unpack(&want, GRANTS_ASKED, ask, len) < 0)
		return err_set(e, -EPROTO, "the request for the vault is malformed");
	r = start_vault(v, e);
	if (r == 0)
		r = make_vault_channel(&vaults, &guards, e);
	if (r == 0)
		r = vault_hold(&v->proc, id, &want, vaults, e);
	if (r == 0)
		*ret_channel = TAKE_FD(guards);
	return r;
}

int vaultd_unlock(struct vaultd *v, int *ret_control, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	int r = vault_is_open(v) ? 0 : open_vault_files(v, &f, e);

	if (r < 0 || vault_is_open(v))
		return r;
	if (f.kind != VAULT_KEY_PASSPHRASE) {
		/* A person asked for it: the pause after a death is over. */
		v->helper.not_before = 0;
		return start_vault(v, e);
	}
	end_typed_vault(v);
	r = start_vault_process(&v->typed, e);
	if (r < 0)
		return r;
	*ret_control = fcntl(v->typed.control, F_DUPFD_CLOEXEC, 3);
	return *ret_control < 0 ? err_sys(e, -errno, "cannot pass on the vault's channel") : 1;
}

int vaultd_unlocked(struct vaultd *v, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	int r = v->typed.pid < 0 ? err_set(e, -EPROTO, "no vault was to be unlocked")
				 : open_vault_files(v, &f, e);

	/* vaultd.K2: it must have opened the file that has the name now. */
	if (r == 0)
		r = vault_reload(&v->typed, &f, e);
	if (r < 0) {
		end_typed_vault(v);
		return r;
	}
	stop_vault(v);
	v->files = f;
	f = VAULT_FILES_INIT;
	v->proc = v->typed;
	v->typed = VAULT_PROC_INIT;
	r = begin_serving(v, e);
	if (r < 0) {
		stop_vault(v);
		return r;
	}
	log_vault_event(v, "vault.unlock", NULL);
	v->opened(v->ctx);
	return 0;
}

void vaultd_cancel_unlock(struct vaultd *v)
{
	end_typed_vault(v);
}

int vaultd_lock(struct vaultd *v, struct err *e)
{
	enum vaultd_state s = vaultd_state(v);

	end_typed_vault(v);
	if (s == VAULTD_LOCKED)
		return 0;
	if (s == VAULTD_ABSENT)
		return err_set(e, -ENOENT, "there is no vault yet");
	if (s == VAULTD_READY || v->files.may_reopen) {
		err_set(e, -EINVAL, "the vault has no passphrase: its key opens it whenever it is needed");
		return err_hint(e, -EINVAL, "coffer secret rekey --passphrase gives it one");
	}
	stop_vault(v);
	log_vault_event(v, "vault.lock", "locked on request");
	return 0;
}

void vaultd_json(const struct vaultd *v, struct json *j)
{
	static const char *const names[] = { "absent", "locked", "unlocked", "unlocked" };
	enum vaultd_state s = vaultd_state(v);

	static_assert(ARRAY_SIZE(names) == VAULTD_STATE_COUNT, "a name for each");
	json_obj(j, "vault");
	json_str(j, "state", names[s]);
	json_bool(j, "running", s == VAULTD_OPEN);
	if (s == VAULTD_OPEN)
		json_u64(j, "pid", (uint64_t)v->proc.pid);
	json_u64(j, "sandboxes", v->leases);
	json_u64(j, "deaths", v->helper.deaths);
	if (v->helper.is_down)
		json_str(j, "why", v->helper.why);
	json_end_obj(j);
}

void vaultd_begin(struct vaultd *v)
{
	v->files = VAULT_FILES_INIT;
	v->proc = v->typed = VAULT_PROC_INIT;
	v->w = v->w_dir = WATCH_INIT;
	v->again = (struct timer){ .fn = on_restart_timer, .ctx = v };
	helpers_add(v->helpers, &v->helper, "coffer-vault");
}

void vaultd_end(struct vaultd *v)
{
	if (!v->helpers)
		return;
	loop_timer_off(v->loop, &v->again);
	end_typed_vault(v);
	stop_vault(v);
	helpers_remove(v->helpers, &v->helper);
}
