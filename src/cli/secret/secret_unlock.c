/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret unlock, lock: the vault that cofferd keeps open for all sandboxes. coffer-vault itself
 * reads the passphrase; it never enters this process.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"
#include "cofferdc/cofferd_client.h"

#include <errno.h>
#include <time.h>

#define TYPED_MAX 3 /* attempts at the passphrase on a terminal */
#define TRIES 50    /* retries while one cofferd exits and the next one starts */

/* cofferd_unlock(), after starting cofferd if none runs. */
static int unlock_with_launch(struct state *st, struct vault_proc *ret, int *ret_conn, struct err *e)
{
	int r = -ECONNREFUSED;

	for (int i = 0; i < TRIES; i++) {
		*e = ERR_INIT;
		r = cofferd_unlock(st, ret, ret_conn, e);
		if (r != -ECONNREFUSED && r != -EPIPE && r != -ECONNRESET)
			return r;
		*e = ERR_INIT;
		r = cofferd_launch(st, false, e);
		if (r < 0)
			return r;
		nanosleep(&(struct timespec){ .tv_nsec = 100 * (long)NSEC_PER_MSEC }, NULL);
	}
	return err_set(e, -ECONNREFUSED, "cofferd exits on every request");
}

static int open_with_passphrase(struct vault_proc *p, struct vault_files *f, const struct secret_args *a,
				struct err *e)
{
	int r = vault_files_take_key(f, &a->key, e);

	if (r < 0)
		return r;
	for (int i = 1;; i++) {
		r = vault_open(p, f, VAULT_OPEN_READ_ONLY, e);
		if (r == 0 || !f->is_terminal || i == TYPED_MAX || p->fault != VAULT_FAULT_PASSPHRASE)
			return r;
		say_warn("%s", e->msg);
		*e = ERR_INIT;
	}
}

int cli_secret_unlock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	CLEANUP(vault_end) struct vault_proc p = VAULT_PROC_INIT;
	autoclose int conn = -1;
	int r = state_open(&st, e);

	/* Checked first, so that no cofferd is started if there is no vault. */
	if (r == 0)
		r = vault_files_open(&f, st.fd, &a->key, VAULT_FILES_NO_KEY, e);
	if (r == 0)
		r = unlock_with_launch(&st, &p, &conn, e);
	if (r == 0) {
		say_note(f.kind == VAULT_KEY_PASSPHRASE ? "the vault is unlocked already"
							: "the vault is open; its key opens it by itself");
		return 0;
	}
	if (r > 0)
		r = open_with_passphrase(&p, &f, a, e);
	*ret_fault = p.fault;
	if (r == 0)
		r = cofferd_unlocked(conn, e);
	if (r == 0)
		say_note("the vault is unlocked, until coffer secret lock or the end of cofferd");
	return r;
}

int cli_secret_lock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct cofferd_reply reply = { 0 };
	int r = state_open(&st, e);

	(void)a;
	(void)ret_fault;
	if (r == 0)
		r = cofferd_tell(&st, COFFERD_LOCK, &reply);
	if (r == -ECONNREFUSED) {
		say_note("cofferd does not run, so it keeps no vault open");
		return 0;
	}
	if (r < 0)
		return e->code ? r : err_sys(e, r, "cofferd does not respond");
	if (!reply.error)
		return 0;
	err_set(e, reply.error, "%s", reply.why);
	return *reply.hint ? err_hint(e, reply.error, "%s", reply.hint) : reply.error;
}
