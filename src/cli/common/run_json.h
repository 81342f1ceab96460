/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a JSON object that describe a run: every verb and the API show a run with these. */
#ifndef CLI_RUN_JSON_H
#define CLI_RUN_JSON_H

#include "base/json.h"
#include "run/supervise/usage.h"
#include "sandbox/state/state.h"

/* "starting", "running", "ended", "broken off" */
const char *run_status(const struct run_meta *m, bool alive);

void run_json_add(struct json *j, const struct run_meta *m, bool alive);
/* Of these, those that say how it was started. */
void run_json_add_how(struct json *j, const struct run_meta *m);
/* The usage of a live run; a figure that cannot be read is null. */
void run_json_add_usage(struct json *j, const struct usage *u);

#endif
