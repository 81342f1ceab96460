/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret init, rekey: what the vault is sealed with. The key goes to coffer-vault as a descriptor,
 * and is never read here.
 */
#include "cli/secret.h"

#include "cli/say.h"

#include <errno.h>
#include <sys/stat.h>

static const char *key_text(const struct vault_files *f)
{
	return f->kind == VAULT_KEY_PASSPHRASE ? "a passphrase" : f->key_path;
}

int secret_init(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r;

	(void)a;
	if (s->files.file >= 0) {
		err_set(e, -EEXIST, "there is a vault already");
		return err_hint(e, -EEXIST, "coffer secret rekey gives it another key");
	}
	r = secret_log(s, "secret.init", NULL, key_text(&s->files), e);
	if (r == 0)
		r = secret_save(s, e);
	if (r == 0)
		say_note("the vault is made; its key is %s%s", key_text(&s->files),
			 s->files.kind == VAULT_KEY_FILE ? ": keep a copy of it somewhere else" : "");
	return r;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A second set of files, for the new key alone. */
int secret_rekey(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files n = VAULT_FILES_INIT;
	struct vault_msg ask = { .type = VAULT_REKEY };
	int r = vault_files_open_key(&n, &s->files, &a->key, e);

	if (r < 0)
		return r;
	if (n.kind != VAULT_KEY_PASSPHRASE && is_same_file(n.key, s->files.key)) {
		err_set(e, -EEXIST, "the vault is sealed with that very key");
		return err_hint(e, -EEXIST, "--key-file FILE makes another");
	}
	ask.num[0] = n.kind;
	ask.num[1] = n.is_terminal ? VAULT_OPEN_TERMINAL : 0;
	ask.text[0] = slice_of("of the vault");
	r = vault_call(&s->proc, &ask, &n.key, 1, NULL, NULL, NULL, NULL, e);
	if (r == 0)
		r = secret_log(s, "secret.rekey", NULL, key_text(&n), e);
	if (r == 0)
		r = secret_save(s, e);
	if (r == 0)
		r = vault_files_remember(&n, e);
	if (r == 0)
		say_note("the vault is sealed with %s now; the old key opens it no more", key_text(&n));
	return r;
}
