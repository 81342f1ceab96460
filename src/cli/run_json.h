/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about a run, as members of a JSON object: the same for every verb that shows it. */
#ifndef CLI_RUN_JSON_H
#define CLI_RUN_JSON_H

#include "base/json.h"
#include "sandbox/state.h"

/* "starting", "running", "ended", "broken off" */
const char *run_status(const struct run_meta *m, bool alive);

void run_json_add(struct json *j, const struct run_meta *m, bool alive);
/* Of these, those that say how it was started. */
void run_json_add_how(struct json *j, const struct run_meta *m);

#endif
