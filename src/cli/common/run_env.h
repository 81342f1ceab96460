/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that the command line gives to a sandbox: -e NAME[=VALUE], --env-file FILE. */
#ifndef CLI_RUN_ENV_H
#define CLI_RUN_ENV_H

#include "base/err.h"
#include "base/str.h"

/* Checks NAME or NAME=VALUE. A name must not have spaces or control characters, so that a mistake in quoting
 * is noticed. */
int cli_run_env_check(const char *text, struct err *e) MUST_CHECK;

/* Adds the variables of a .env file as NAME=VALUE. The sandbox sees their values in plain text, so a warning
 * is printed if a name is known for a key or token: those belong in the vault. */
int cli_run_env_file(struct strv *env, const char *path, struct err *e) MUST_CHECK;

#endif
