/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cofferd starts for itself and starts again when it dies: a table with one entry for each kind of helper. Who starts
 * one asks first whether it may be, and says when it died; the pause between two starts grows, and each death and
 * the first start that holds after it are in the audit log.
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
	uint64_t least; /* ns: the first pause, which doubles up to 64 times it; 0: as restart.h has it */
	uint64_t since; /* CLOCK_MONOTONIC ns: was there last; 0: never */
	uint64_t not_before; /* CLOCK_MONOTONIC ns */
	uint64_t deaths;
	bool is_down;  /* it died, and is not up again */
	char why[160]; /* of the last */
};

struct helpers {
	struct helper *list;
	struct audit *audit; /* NULL: nothing is said */
};

void helpers_add(struct helpers *t, struct helper *h, const char *name);
void helpers_remove(struct helpers *t, struct helper *h);

bool helper_may_start(const struct helper *h, uint64_t now);
/* It is there, and does its work. */
void helper_is_up(const struct helpers *t, struct helper *h, uint64_t now);
/* It died, or could not be started: how long until it may be tried again. */
uint64_t helper_died(struct helpers *t, struct helper *h, uint64_t now, const char *why);

/* An array of those that have died. */
void helpers_json(const struct helpers *t, uint64_t now, struct json *j, const char *key);

#endif
