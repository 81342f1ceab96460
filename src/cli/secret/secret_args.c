/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options of `coffer secret` and checks which of them may be combined. Nothing here opens a file
 * or prompts. A value among the arguments is refused: the shell's history and ps would show it.
 */
#include "cli/secret/secret_args.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int parse_expires(struct secret_args *a, const char *text, struct err *e)
{
	uint64_t now = clock_nsec(CLOCK_REALTIME), at = 0, span = 0;

	a->expires_text = text;
	if (str_eq(text, "never"))
		return 0;
	if (str_to_nsec(text, &span) == 0 && strpbrk(text, "smhdSMHD"))
		at = span > UINT64_MAX - now ? 0 : now + span;
	else if (clock_parse(text, now, &at) < 0)
		at = 0;
	if (!at)
		return err_set(e, -EINVAL,
			       "--expires %s: expected a date (2027-01-31), a span (30d) or never", text);
	if (at <= now)
		return err_set(e, -EINVAL, "--expires %s is in the past", text);
	a->expires = at / NSEC_PER_SEC;
	return 0;
}

static int parse_every(struct secret_args *a, const char *text, struct err *e)
{
	uint64_t span = 0;

	a->every_text = text;
	if (str_eq(text, "never"))
		return 0;
	if (str_to_nsec(text, &span) < 0 || span < NSEC_PER_SEC)
		return err_set(e, -EINVAL, "--every %s: expected a span such as 30d", text);
	a->every = span / NSEC_PER_SEC;
	return 0;
}

static int parse_fd_option(const char *option, const char *text, int *ret, struct err *e)
{
	uint64_t n = 0;

	if (str_to_u64(text, &n) < 0 || n > 1000000 || fcntl((int)n, F_GETFD) < 0)
		return err_set(e, -EINVAL, "%s %s: expected the number of an open descriptor", option, text);
	*ret = (int)n;
	return 0;
}

static int take_text_option(struct secret_args *a, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_FILE:
		a->file = value;
		return 0;
	case OPT_COMMAND:
		a->command = value;
		return *value ? 0 : err_set(e, -EINVAL, "--command is empty");
	case OPT_EXPIRES:
		return parse_expires(a, value, e);
	case OPT_EVERY:
		return parse_every(a, value, e);
	case OPT_HOST:
		return strv_add(&a->hosts, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_KNOWN_HOST:
		return strv_add(&a->known, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_KNOWN_HOSTS:
		return strv_add(&a->known_files, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_AS:
		a->as = value;
		return 0;
	case OPT_USER:
		a->user = value;
		return 0;
	case OPT_KEY_FILE:
		a->key.key_file = value;
		return 0;
	case OPT_KEY_CREDENTIAL:
		a->key.credential = value;
		return 0;
	case OPT_PASSPHRASE_FD:
		return parse_fd_option("--passphrase-fd", value, &a->key.passphrase_fd, e);
	default:
		return parse_fd_option("--old-passphrase-fd", value, &a->old_key.passphrase_fd, e);
	}
}

int cli_secret_take_option(struct secret_args *a, int id, const char *value, struct err *e)
{
	if (value)
		return take_text_option(a, id, value, e);
	a->weak |= id == OPT_WEAK;
	a->replace |= id == OPT_REPLACE;
	a->due |= id == OPT_DUE;
	a->address |= id == OPT_ADDRESS;
	a->asks |= id == OPT_ASK;
	a->passphrase |= id == OPT_PASSPHRASE;
	a->json |= id == OPT_JSON;
	return 0;
}

int cli_secret_check_key(struct secret_args *a, struct err *e)
{
	bool makes = a->act == SECRET_INIT || a->act == SECRET_REKEY;
	int n = (a->key.key_file != NULL) + (a->key.credential != NULL) + a->passphrase;

	if (n > 1)
		return err_set(e, -EINVAL,
			       "a vault has one key: --key-file, --key-credential or --passphrase");
	if (a->passphrase && !makes)
		return err_set(
			e, -EINVAL,
			"--passphrase is only valid with init and rekey; other commands prompt for it when needed");
	if (a->passphrase || (makes && a->key.passphrase_fd >= 0))
		a->key.kind = VAULT_KEY_PASSPHRASE;
	else if (a->key.credential)
		a->key.kind = VAULT_KEY_CREDENTIAL;
	else if (makes && a->key.key_file)
		a->key.kind = VAULT_KEY_FILE;
	if (a->act == SECRET_REKEY && !a->key.kind)
		a->key.kind = VAULT_KEY_FILE;
	return 0;
}

/*
 * A value on the command line is kept in the shell's history, and ps shows it to every user of this
 * machine.
 */
int cli_secret_refuse_value(const struct secret_args *a, struct err *e)
{
	if ((a->act != SECRET_SET && a->act != SECRET_ROTATE) || a->argc < 2 || str_eq(a->argv[1], "-"))
		return 0;
	err_set(e, -EINVAL,
		"a value is never an argument: the shell's history keeps it, and ps shows it to everybody on this machine");
	return err_hint(e, -EINVAL, "leave it out and type it when asked, or use '-', --file or --command");
}

int cli_secret_check_source(const struct secret_args *a, struct err *e)
{
	int n = (a->file != NULL) + (a->command != NULL) + (a->argc > 1 && a->act <= SECRET_ROTATE);

	if (a->act != SECRET_SET && a->act != SECRET_ROTATE && a->act != SECRET_CHANGE &&
	    (a->file || a->command))
		return err_set(e, -EINVAL, "--file and --command are only valid with set and rotate");
	if ((a->act == SECRET_SET || a->act == SECRET_ROTATE) && n > 1)
		return err_set(e, -EINVAL, "a value comes from one place: '-', --file or --command");
	if (a->every && !a->command)
		return err_set(e, -EINVAL, "--every needs --command, which makes the new value");
	if (a->act == SECRET_CHANGE && !a->expires_text && !a->every_text)
		return err_set(e, -EINVAL, "change needs --expires, or --every with --command");
	return 0;
}

int cli_secret_check_names(const struct secret_args *a, struct err *e)
{
	bool one = a->act == SECRET_SET || a->act == SECRET_ROTATE;
	int n = a->act == SECRET_CHECK || a->act == SECRET_IMPORT ? 0 : one && a->argc ? 1 : a->argc;

	for (int i = 0; i < n; i++) {
		if (!str_is_name(a->argv[i]) || strlen(a->argv[i]) > VAULT_NAME_MAX)
			return err_set(e, -EINVAL,
				       "'%.80s' is not a valid name of a secret: letters, digits, "
				       "'.', '_' and '-', at most %d",
				       a->argv[i], VAULT_NAME_MAX);
	}
	return 0;
}
