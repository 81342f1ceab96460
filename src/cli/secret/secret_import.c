/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret import: puts those variables of a .env file into the vault that look like secrets. The file
 * holds several values, so it is read into locked memory here; each value is passed to the vault through a
 * pipe. No value may get into a message.
 */
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"
#include "crypto/secmem.h"
#include "vault/common/envfile.h"
#include "vault/common/envname.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int read_env_file(const char *path, struct secmem *m, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int r = fd < 0 ? err_sys(e, -errno, "cannot open %s", path) : secmem_begin(e);

	if (r == 0)
		r = secmem_new(m, ENVFILE_MAX + 1, e);
	while (r == 0 && m->len < m->cap) {
		ssize_t n = read(fd, m->p + m->len, m->cap - m->len);

		if (n < 0 && errno != EINTR)
			r = err_sys(e, -errno, "cannot read %s", path);
		if (n == 0)
			break;
		m->len += n > 0 ? (size_t)n : 0;
	}
	if (r == 0 && m->len > ENVFILE_MAX)
		r = err_set(e, -EFBIG, "%s has more than %u KiB: it is not a .env file", path,
			    ENVFILE_MAX >> 10);
	return r;
}

/*
 * The secret's name for a variable: the one that profiles and --secret use, else the variable's name in
 * lower case.
 */
static void secret_name_of_variable(const char *from, char out[VAULT_NAME_MAX + 1])
{
	const char *known = envname_secret(from);
	size_t i = 0;

	if (known) {
		snprintf(out, VAULT_NAME_MAX + 1, "%s", known);
		return;
	}

	/* A secret's name begins with a letter or digit. */
	while (*from == '_')
		from++;
	for (; i < VAULT_NAME_MAX && from[i]; i++)
		out[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
	out[i] = '\0';
}

static int send_to_vault(struct secret_session *s, const char *name, const struct envfile_entry *v,
			 const struct secret_args *a, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_SET, .num = { a->weak ? VAULT_SET_WEAK : 0, a->expires } };
	int p[2], r;

	ask.num[0] |= a->replace ? VAULT_SET_REPLACE : 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	/* The whole value fits into the pipe: longer ones were refused before. */
	(void)!fcntl(p[1], F_SETPIPE_SZ, VAULT_SECRET_MAX * 2);
	r = fd_set_nonblock(p[1], true);
	if (r == 0)
		r = fd_write_all(p[1], v->value, v->len);
	fd_close(p[1]);
	ask.text[0] = slice_of(name);
	r = r < 0 ? err_sys(e, r, "cannot hand %s to the vault", name)
		  : vault_call(&s->proc, &ask, p, 1, NULL, NULL, NULL, NULL, e);
	fd_close(p[0]);
	return r;
}

/*
 * 1: the value is in the vault, and a line about it in `taken`, to be printed once the vault is saved. 0:
 * the variable was left out.
 */
static int import_entry(struct secret_session *s, const struct envfile_entry *v, const struct secret_args *a,
			struct strv *taken, struct err *e)
{
	char name[VAULT_NAME_MAX + 1];
	struct err why = ERR_INIT;
	int r;

	secret_name_of_variable(v->name, name);
	if (!str_is_name(name)) {
		say_note("left out: %s (line %u): it is not a valid name of a secret", v->name, v->line);
		return 0;
	}
	if (v->len == 0 || (v->len < VAULT_STRONG_MIN && !a->weak)) {
		say_note("left out: %s (line %u): %s", v->name, v->line,
			 v->len ? "it is too short for a secret (--weak accepts it)" : "it is empty");
		return 0;
	}
	if (v->len > VAULT_SECRET_MAX)
		return err_set(e, -EFBIG, "line %u: the value of %s is longer than a secret may be", v->line,
			       v->name);
	r = send_to_vault(s, name, v, a, &why);
	if (r == -EEXIST) {
		say_note("left out: %s (line %u): a secret '%s' already exists (--replace)", v->name, v->line,
			 name);
		return 0;
	}
	if (r < 0) {
		*e = why;
		return err_wrap(e, r, "%s (line %u)", v->name, v->line);
	}
	r = cli_secret_log(s, "secret.set", name, "import", e);
	if (r < 0)
		return r;
	r = strv_addf(taken, "%s is in the vault now, as '%s'", v->name, name);
	return r < 0 ? err_set(e, r, "out of memory") : 1;
}

int cli_secret_import(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	autosecmem struct secmem text = SECMEM_INIT;
	CLEANUP(strv_release) struct strv taken = { 0 };
	struct envfile_entry v;
	struct envfile f;
	size_t entries = 0;
	int r = read_env_file(a->argv[0], &text, e);

	if (r < 0)
		return r;
	envfile_init(&f, (char *)text.p, text.len);
	while ((r = envfile_next(&f, &v, e)) > 0) {
		entries++;
		r = import_entry(s, &v, a, &taken, e);
		if (r < 0)
			break;
	}
	if (r < 0) {
		err_wrap(e, r, "%s: nothing was saved", a->argv[0]);
		return r;
	}
	if (taken.n == 0) {
		say_note("nothing of %s went into the vault: %s", a->argv[0],
			 entries ? "every variable was left out" : "it has no line NAME=VALUE");
		return 1;
	}
	r = cli_secret_save(s, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < taken.n; i++)
		say_note("%s", taken.v[i]);
	say_note("%zu secret%s saved. Bind them (coffer secret bind), and delete the file: rm "
		 "%s; copies may remain in backups and in git's history",
		 taken.n, taken.n == 1 ? "" : "s", a->argv[0]);
	return 0;
}
