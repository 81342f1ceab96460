/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret init, rekey: creates the vault, or seals it with another key. The key is passed to
 * coffer-vault as a descriptor and is never read here.
 */
#include "cli/secret/cmd_secret.h"

#include "cli/core/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *key_description(const struct vault_files *f)
{
	return f->kind == VAULT_KEY_PASSPHRASE ? "a passphrase" : f->key_path;
}

static bool is_in_path(const char *program)
{
	const char *path = getenv("PATH");
	bool found = false;

	while (path && *path && !found) {
		size_t n = strcspn(path, ":");
		char file[4096];

		found = n &&
			snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, program) < (int)sizeof(file) &&
			access(file, X_OK) == 0;
		path += n + (path[n] == ':');
	}
	return found;
}

/*
 * On a server the key need not be stored in plain text. The commands are printed, not run: they change the
 * host's configuration, which is not coffer's to do.
 */
void cli_secret_say_credential(const struct secret_session *s)
{
	if (s->files.kind != VAULT_KEY_FILE || !state_is_host_root() ||
	    access("/run/systemd/system", F_OK) < 0 || !is_in_path("systemd-creds"))
		return;
	say_note(
		"to have it encrypted, by this machine's TPM where there is one, and given to cofferd's service alone:");
	say_note(
		"  install -d -m 700 /etc/credstore.encrypted && systemd-creds encrypt --name=coffer-vault-key %s "
		"/etc/credstore.encrypted/coffer-vault-key",
		s->files.key_path);
	say_note("  systemctl restart cofferd && rm %s", s->files.key_path);
}

int cli_secret_init(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r;

	(void)a;
	if (s->files.file >= 0) {
		err_set(e, -EEXIST, "there is a vault already");
		return err_hint(e, -EEXIST, "coffer secret rekey gives it another key");
	}
	r = cli_secret_log(s, "secret.init", NULL, key_description(&s->files), e);
	if (r == 0)
		r = cli_secret_save(s, e);
	if (r == 0)
		say_note("the vault is made; its key is %s%s", key_description(&s->files),
			 s->files.kind == VAULT_KEY_FILE ? ": keep a copy of it somewhere else" : "");
	if (r == 0)
		cli_secret_say_credential(s);
	return r;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Opens a second set of files, for the new key alone. */
int cli_secret_rekey(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files n = VAULT_FILES_INIT;
	struct vault_msg ask = { .type = VAULT_REKEY };
	int r = vault_files_open_key(&n, &s->files, &a->key, e);

	if (r < 0)
		return r;
	if (n.kind != VAULT_KEY_PASSPHRASE && is_same_file(n.key, s->files.key)) {
		err_set(e, -EEXIST, "the vault is already sealed with this key");
		return err_hint(e, -EEXIST, "--key-file FILE makes another");
	}
	ask.num[0] = n.kind;
	ask.num[1] = n.is_terminal ? VAULT_OPEN_TERMINAL : 0;
	ask.text[0] = slice_of("of the vault");
	r = vault_call(&s->proc, &ask, &n.key, 1, NULL, NULL, NULL, NULL, e);
	if (r == 0)
		r = cli_secret_log(s, "secret.rekey", NULL, key_description(&n), e);
	if (r == 0)
		r = cli_secret_save(s, e);
	if (r == 0)
		r = vault_files_remember(&n, e);
	if (r == 0)
		say_note("the vault is sealed with %s now%s; the old key no longer opens it",
			 key_description(&n), n.made_key ? " (keep a copy of it somewhere else)" : "");
	return r;
}
