/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last printed state of the questions that are followed, so that no change is printed twice. The table
 * is bounded: when it is full, the oldest question that is over is forgotten. Such a question changes no
 * more, except when a use of it is given back.
 */
#ifndef CLI_ASK_SEEN_H
#define CLI_ASK_SEEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASK_SEEN_MAX 512 /* more than one run keeps (asks.A6) */

struct ask_seen {
	struct ask_seen_one {
		uint64_t number;
		int state;
		bool answered;
		uint64_t times, waiters, used;
	} * v;
	size_t n;
};

#define ASK_SEEN_INIT ((struct ask_seen){ 0 })
void cli_ask_seen_release(struct ask_seen *s);

/* The changes of a question since it was noted last. */
struct ask_news {
	bool any;      /* any visible member has changed */
	bool state;    /* the state has changed, or the question is new */
	bool answered; /* it was known, and has been answered since */
};
/* Notes the question's state and reports what has changed. Without memory everything counts as changed. */
void cli_ask_seen_note(struct ask_seen *s, const json_t *ask, struct ask_news *ret);

#endif
