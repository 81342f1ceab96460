/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions in a log, each counted once. As a rule the act that a person was asked about has a line of
 * its own, which names the question. A question that was withdrawn, or whose run ended, has no such line:
 * then its ask.new is the only record of it.
 */
#ifndef CLI_REPLAY_ASKS_H
#define CLI_REPLAY_ASKS_H

#include "base/str.h"
#include "policy/replay/replay.h"

#include <jansson.h>

struct replay_ask;

struct replay_asks {
	struct replay_ask *v;
	size_t n;
	struct strv told; /* "SANDBOX ID" of each question that another line names */
};

#define REPLAY_ASKS_INIT ((struct replay_asks){ .told = STRV_INIT })

void cli_replay_asks_release(struct replay_asks *a);

/*
 * Adds an ask.new. Questions that no policy decides (a requested rule, a signature) are skipped. 0 or
 * -ENOMEM.
 */
int cli_replay_asks_add(struct replay_asks *a, const char *sandbox, const json_t *event) MUST_CHECK;
/* Notes the questions that a line of the log names, separated by commas; NULL and "" are fine. */
int cli_replay_asks_told(struct replay_asks *a, const char *sandbox, const char *ids) MUST_CHECK;
/* To be called at the end: adds the questions that no line named. */
int cli_replay_asks_flush(struct replay_asks *a, struct replay *re) MUST_CHECK;

#endif
