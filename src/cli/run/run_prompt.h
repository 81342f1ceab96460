/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt for questions on the terminal of `coffer run`: whether it is possible, and how a question is
 * shown. */
#ifndef CLI_RUN_PROMPT_H
#define CLI_RUN_PROMPT_H

#include "run/supervise/supervise.h"

#define RUN_PROMPT_NAMES "auto never"

/* True if standard input and standard error are the same terminal, and it is not a dumb one. `st` must
 * outlive *ret. */
bool cli_run_prompt_open(struct prompt_opts *ret, struct state *st);

#endif
