/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that the command line gives to a sandbox: -e NAME[=VALUE], --env-file FILE. */
#ifndef CLI_RUN_ENV_H
#define CLI_RUN_ENV_H

#include "base/err.h"
#include "base/str.h"

/* NAME or NAME=VALUE: a name has no space and no control character, so that a slip of quoting is noticed. */
int run_env_check(const char *text, struct err *e) MUST_CHECK;

/* Adds what a .env file sets as NAME=VALUE. Its values reach the sandbox as they are: that is said where a name is known
 * for a key or token, which belongs in the vault. */
int run_env_file(struct strv *env, const char *path, struct err *e) MUST_CHECK;

#endif
