/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether and when an ended process is restarted. Pure: ends and times go in, a verdict comes out.
 *
 *	no                never
 *	on-failure[:N]    unless it exited with 0; N times in a row at most
 *	always            however it ended
 *
 * The pause before a start doubles with each start in a row, up to a minute; a run that lasted
 * BACKOFF_LASTING resets it.
 */
#ifndef DAEMON_RESTART_H
#define DAEMON_RESTART_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_FIRST (100 * NSEC_PER_MSEC)
#define BACKOFF_MAX (60 * NSEC_PER_SEC)
#define BACKOFF_LASTING (10 * NSEC_PER_SEC)

struct backoff {
	uint32_t tries; /* starts in a row that did not last */
};

/* After an end: the pause before the next start. `lasted` is how long it ran. */
uint64_t backoff_next(struct backoff *b, uint64_t lasted);

enum restart_when { RESTART_NO, RESTART_ON_FAILURE, RESTART_ALWAYS, RESTART_WHEN_COUNT };

struct restart {
	enum restart_when when;
	uint32_t max; /* starts in a row; 0: any number */
};

#define RESTART_VALUES "no on-failure always"
#define RESTART_TEXT_LEN 24
#define RESTART_MAX_TRIES 1000000u

int restart_parse(const char *text, struct restart *ret, struct err *e) MUST_CHECK;
char *restart_format(const struct restart *r, char out[RESTART_TEXT_LEN]);

struct restart_end {
	bool by_itself; /* the command's own exit; false: it was killed, broken off, or never started */
	int exit_code;
	uint64_t lasted; /* ns */
};

enum restart_verdict {
	RESTART_AGAIN,	/* after *ret_wait */
	RESTART_DONE,	/* the policy wants no restart after that end */
	RESTART_GIVE_UP /* too many in a row */
};

enum restart_verdict restart_decide(const struct restart *r, struct backoff *b, const struct restart_end *end,
				    uint64_t *ret_wait);

#endif
