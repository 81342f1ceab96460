/* SPDX-License-Identifier: Apache-2.0 */
/* What `coffer run` tells a person before and after, a line each, and only where there is something to tell. */
#ifndef CLI_RUN_SAY_H
#define CLI_RUN_SAY_H

#include "cli/run/run_spec.h"
#include "run/run.h"
#include "sandbox/engine/choose.h"

void run_say_before(const struct spec *s, const struct choice *c, const struct run_spec_note *note);
/* What the command line asks of the network in vain. */
void run_say_conflicts(const struct net_plan *p);
/* A line about the network while the command runs: see struct run_io. */
void run_say_net(enum net_level level, const char *text, struct buf *out);

/* What is hidden; by itself where run_say_before() came too early for it. */
void run_say_masks(const struct spec *s);
/* `kept`: what it changed is still there. */
void run_say_after(const struct run *r, bool kept);

#endif
