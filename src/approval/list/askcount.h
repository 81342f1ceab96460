/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a run's asks and their outcomes for metrics, from the events that are logged. Pure. */
#ifndef APPROVAL_ASKCOUNT_H
#define APPROVAL_ASKCOUNT_H

#include "base/json.h"

#include <stdint.h>

#define ASKCOUNT_FILE "asks-count.json" /* in a run's directory, beside its questions */

struct askcount {
	uint64_t asked, allowed, denied, expired, gone, used, revoked;
};

/* Counts an event that was logged: its type ("ask.new", "ask.answer", …) and its members without braces. */
void askcount_event(struct askcount *c, const char *type, const struct buf *fields);
void askcount_json(const struct askcount *c, unsigned pending, uint64_t shed, struct buf *out);

#endif
