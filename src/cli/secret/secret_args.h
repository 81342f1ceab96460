/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `coffer secret`: the meaning of each option, and which may be combined. Nothing here
 * opens anything or prompts; a value among the arguments is refused.
 */
#ifndef CLI_SECRET_ARGS_H
#define CLI_SECRET_ARGS_H

#include "cli/secret/cmd_secret.h"

enum {
	OPT_FILE = 1,
	OPT_COMMAND,
	OPT_EXPIRES,
	OPT_EVERY,
	OPT_WEAK,
	OPT_REPLACE,
	OPT_DUE,
	OPT_HOST,
	OPT_AS,
	OPT_USER,
	OPT_ADDRESS,
	OPT_ASK,
	OPT_KNOWN_HOST,
	OPT_KNOWN_HOSTS,
	OPT_KEY_FILE,
	OPT_KEY_CREDENTIAL,
	OPT_PASSPHRASE,
	OPT_PASSPHRASE_FD,
	OPT_OLD_PASSPHRASE_FD,
	OPT_JSON
};

/* `value` is NULL for an option without a value. */
int cli_secret_take_option(struct secret_args *a, int id, const char *value, struct err *e) MUST_CHECK;

int cli_secret_refuse_value(const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_check_names(const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_check_source(const struct secret_args *a, struct err *e) MUST_CHECK;
/* Also determines the kind of key. */
int cli_secret_check_key(struct secret_args *a, struct err *e) MUST_CHECK;

#endif
