/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a sandbox's questions people are told (doc/adr/0021), and how often: asks as they change go in, notifications come
 * out. Pure: time is an argument.
 *
 * Invariants
 *  T1  A question that waits is told once, whatever happens to it then; that it is over is told once, if the question itself was.
 *  T2  At most ASKPOST_FEW questions in ASKPOST_WINDOW are told one by one. Of the others one notification says how many they were,
 *      at the end of that time: an agent cannot bury a person, nor hide that there is more.
 *  T4  While nobody answers, that time doubles with each ASKPOST_FEW questions that expire and with each such count, up to ASKPOST_WINDOW << ASKPOST_DOUBLED (an
 *      hour): nobody is told all night of what nobody looks at. An answer of a person's has it as it was.
 *  T3  Neither bodies nor queries nor values of headers are in it: these may be secrets. What is in it is the sandbox's words, which
 *      notify_make() cuts and makes harmless.
 */
#ifndef NOTIFY_ASKPOST_H
#define NOTIFY_ASKPOST_H

#include "approval/list/asks.h"
#include "notify/notify.h"

#include <jansson.h>

#define ASKPOST_FEW 5
#define ASKPOST_WINDOW (60 * 1000000000ULL) /* ns */
#define ASKPOST_DOUBLED 6
#define ASKPOST_KEPT 128 /* told, and not over */

struct askpost {
	void (*post)(void *ctx, const struct notify_event *ev);
	void *ctx;
	const char *ui;	  /* where the page is; NULL: the command line answers */
	const char *name; /* the sandbox's; NULL: it has none */
	uint64_t last;	  /* number of the newest question that was looked at: older ones are not new */

	/* Its own. */
	uint64_t window; /* when it began; 0: none has */
	unsigned told;	 /* in it */
	uint64_t more;	 /* beyond those */
	unsigned
		expired; /* of those that were told, and ASKPOST_FEW for each count, since somebody answered */
	char sandbox[RUN_ID_LEN + 1];
	uint64_t open[ASKPOST_KEPT]; /* numbers */
	size_t n_open;
};

/* An ask as ask_json() has it, new or changed. */
void askpost_take(struct askpost *p, uint64_t now, const json_t *ask);
/* Lets time pass; returns when it is to be called next (ns), 0: nothing waits for it. */
uint64_t askpost_tick(struct askpost *p, uint64_t now);
/* Nothing more will come. */
void askpost_end(struct askpost *p);

#endif
