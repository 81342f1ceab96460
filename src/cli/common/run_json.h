/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a JSON object that describe a run. Every verb with --json and the API use them. */
#ifndef CLI_RUN_JSON_H
#define CLI_RUN_JSON_H

#include "base/json.h"
#include "run/supervise/usage.h"
#include "sandbox/state/state.h"

/* "starting", "running", "ended", "broken off" */
const char *cli_run_status(const struct run_meta *m, bool alive);

void cli_run_json_add(struct json *j, const struct run_meta *m, bool alive);
/* Adds only the members that describe how the run was started. */
void cli_run_json_add_how(struct json *j, const struct run_meta *m);
/* Adds the resource usage of a live run. A figure that cannot be read is null. */
void cli_run_json_add_usage(struct json *j, const struct usage *u);

#endif
