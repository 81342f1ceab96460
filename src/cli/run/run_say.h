/* SPDX-License-Identifier: Apache-2.0 */
/* The notes and warnings of `coffer run` before and after the command, one line each, and only where one is
 * needed. */
#ifndef CLI_RUN_SAY_H
#define CLI_RUN_SAY_H

#include "cli/run/run_spec.h"
#include "run/run.h"
#include "sandbox/engine/choose.h"

void cli_run_say_before(const struct spec *s, const struct choice *c, const struct run_spec_note *note);
/* Warns of hosts on the command line that the policy file does not allow. */
void cli_run_say_conflicts(const struct net_plan *p);
/* Formats a line about the network while the command runs: the callback `say` of struct run_io. */
void cli_run_say_net(enum net_level level, const char *text, struct buf *out);

/* Lists the hidden files. cli_run_say_before() does this unless it comes too early for a call over another
 * sandbox's layer. */
void cli_run_say_masks(const struct spec *s);
/* `kept`: the run's changes are still there, so that it makes sense to name coffer diff. */
void cli_run_say_after(const struct run *r, bool kept);

#endif
