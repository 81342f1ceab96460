/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which notifications people get about a sandbox's asks, and how often (doc/adr/0021): changes of
 * asks go in, notifications come out. Pure: time is an argument.
 *
 * Invariants (cited elsewhere as askpost.T1 …)
 * T1  A pending ask is announced once; its end is announced once, if the ask itself was.
 * T2  At most ASKPOST_FEW asks per ASKPOST_WINDOW are announced one by one. At the end of the window one
 *     notification gives the number of the others: an agent can neither flood a person nor hide that there
 *     are more.
 * T3  A notification contains no bodies, queries or header values, which may be secrets. Its texts are the
 *     sandbox's words, which notify_make() shortens and makes harmless.
 * T4  While nobody answers, the window doubles with each ASKPOST_FEW asks that expire and with each such
 *     count, up to ASKPOST_WINDOW << ASKPOST_DOUBLED (about an hour): no flood of notifications at night. An
 *     answer of a person restores the normal window.
 */
#ifndef NOTIFY_ASKPOST_H
#define NOTIFY_ASKPOST_H

#include "approval/list/asks.h"
#include "notify/notify.h"

#include <jansson.h>

#define ASKPOST_FEW 5
#define ASKPOST_WINDOW (60 * 1000000000ULL) /* ns */
#define ASKPOST_DOUBLED 6
#define ASKPOST_KEPT 128 /* announced asks that have not ended */

struct askpost {
	void (*post)(void *ctx, const struct notify_event *ev);
	void *ctx;
	const char *ui;	  /* URL of the page; NULL: answer on the command line */
	const char *name; /* name of the sandbox; NULL: none */
	uint64_t last;	  /* number of the newest ask seen: older ones are not new */

	/* Internal. */
	uint64_t window;  /* start of the window, ns; 0: none is open */
	unsigned told;	  /* number of asks announced in the window */
	uint64_t more;	  /* number of asks beyond those */
	unsigned expired; /* expired since the last answer: announced asks, plus ASKPOST_FEW for each count */
	char sandbox[RUN_ID_LEN + 1];
	uint64_t open[ASKPOST_KEPT]; /* numbers of announced asks */
	size_t n_open;
};

/* Takes an ask, new or changed, in the form of ask_json(). */
void askpost_take(struct askpost *p, uint64_t now, const json_t *ask);
/* Lets time pass. Returns the time of the next call (ns); 0: nothing is due. */
uint64_t askpost_tick(struct askpost *p, uint64_t now);
/* No more asks will come: announces the rest. */
void askpost_end(struct askpost *p);

#endif
