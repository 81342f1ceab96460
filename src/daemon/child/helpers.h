/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helper processes that cofferd starts and restarts: a table with one entry for each kind. The starter of a
 * helper checks helper_may_start() first and reports its death; the pause between starts grows. Each death,
 * and the first successful start after it, is in the audit log.
 */
#ifndef DAEMON_HELPERS_H
#define DAEMON_HELPERS_H

#include "audit/audit.h"
#include "base/json.h"
#include "daemon/child/restart.h"

#define HELPER_NAME_LEN 24

struct helper {
	struct helper *next;
	char name[HELPER_NAME_LEN];
	struct backoff backoff;
	uint64_t least;	     /* ns: the first pause, which doubles up to 64 times it; 0: that of restart.h */
	uint64_t since;	     /* CLOCK_MONOTONIC ns: last known to be up; 0: never */
	uint64_t not_before; /* CLOCK_MONOTONIC ns */
	uint64_t deaths;
	bool is_down;  /* it died and is not up again */
	char why[160]; /* reason of the last death */
};

struct helpers {
	struct helper *list;
	struct audit *audit; /* NULL: nothing is logged */
};

void helpers_add(struct helpers *t, struct helper *h, const char *name);
void helpers_remove(struct helpers *t, struct helper *h);

bool helper_may_start(const struct helper *h, uint64_t now);
/* It runs and works. */
void helper_is_up(const struct helpers *t, struct helper *h, uint64_t now);
/* It died or could not be started. Returns the pause before the next attempt. */
uint64_t helper_died(struct helpers *t, struct helper *h, uint64_t now, const char *why);

/* Copies the first line of a child's error output, which was written to the file `fd`, made safe for display; "" without one.
 * `fd` may be -1; it stays open. */
void child_first_line(int fd, char *out, size_t size);

/* An array of the helpers that have died. */
void helpers_json(const struct helpers *t, uint64_t now, struct json *j, const char *key);

#endif
