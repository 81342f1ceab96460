/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the person at this terminal can be asked while `coffer run` runs, and how a question is shown to them. */
#ifndef CLI_RUN_PROMPT_H
#define CLI_RUN_PROMPT_H

#include "run/supervise/supervise.h"

#define RUN_PROMPT_NAMES "auto never"

/* Input and standard error are one terminal, which can do more than print. `st` is borrowed. */
bool run_prompt_open(struct prompt_opts *ret, struct state *st);

#endif
