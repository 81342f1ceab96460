/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of a log, each counted once. What a person was asked about has a line of its own as a rule, which names the question; one
 * that was withdrawn, or whose run was ended, has none, and then its ask.new is all that tells of it.
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
	struct strv told; /* "SANDBOX ID" */
};

#define REPLAY_ASKS_INIT ((struct replay_asks){ .told = STRV_INIT })

void replay_asks_release(struct replay_asks *a);

/* An ask.new; one that no policy decides about (a rule that was asked for, a signature) is passed over. 0 or -ENOMEM. */
int replay_asks_add(struct replay_asks *a, const char *sandbox, const json_t *event) MUST_CHECK;
/* A line names these, commas between; NULL and "" are fine. */
int replay_asks_told(struct replay_asks *a, const char *sandbox, const char *ids) MUST_CHECK;
/* At the end: those that no line named. */
int replay_asks_flush(struct replay_asks *a, struct replay *re) MUST_CHECK;

#endif
