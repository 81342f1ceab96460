/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and reads the variables of -e and --env-file. Values of a .env file are wiped from our buffer; they
 * are never printed. */
#include "cli/common/run_env.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/core/say.h"
#include "vault/common/envfile.h"
#include "vault/common/envname.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int cli_run_env_check(const char *text, struct err *e)
{
	size_t n = strcspn(text, "=");

	if (n == 0)
		return err_set(e, -EINVAL, "-e '%.100s': expected NAME or NAME=VALUE", text);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c > ' ' && c != 0x7f)
			continue;
		err_set(e, -EINVAL, "-e '%.100s': the name of a variable cannot contain spaces", text);
		return err_hint(e, -EINVAL, "-e NAME='VALUE WITH SPACES'");
	}
	return 0;
}

/* `variable` is the first name in the file that is known for a key or token. */
static void warn_of_secret(const char *path, const char *variable)
{
	say_warn("%s sets %s, which the sandbox sees as it is; a key or token belongs in the vault: "
		 "coffer secret import %s",
		 path, variable, path);
}

static int add_env_entry(struct strv *env, const struct envfile_entry *v, struct err *e)
{
	if (memchr(v->value, 0, v->len))
		return err_set(e, -EINVAL, "line %u: the value of %s has a zero byte", v->line, v->name);
	return strv_addf(env, "%s=%.*s", v->name, (int)v->len, v->value) < 0
		       ? err_set(e, -ENOMEM, "out of memory")
		       : 0;
}

int cli_run_env_file(struct strv *env, const char *path, struct err *e)
{
	autobuf struct buf b = { .wipe = true };
	char secret[ENVFILE_NAME_MAX + 1] = "";
	struct envfile_entry v;
	struct envfile f;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int r = fd < 0 ? -errno : fd_read_all(fd, ENVFILE_MAX, &b);

	if (r < 0)
		return err_sys(e, r, "--env-file %.200s: cannot read it", path);
	if (b.len == 0)
		return 0;
	envfile_init(&f, b.data, b.len);
	while ((r = envfile_next(&f, &v, e)) > 0) {
		r = add_env_entry(env, &v, e);
		if (r < 0)
			break;
		if (!*secret && envname_secret(v.name))
			snprintf(secret, sizeof(secret), "%s", v.name);
	}
	if (r < 0)
		return err_wrap(e, r, "--env-file %.200s", path);
	if (*secret)
		warn_of_secret(path, secret);
	return 0;
}
