/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was told of questions while they are followed, so that nothing is told twice. Bounded: of what is over the oldest is forgotten,
 * and a question that is over does not change any more, but for one whose use was given back.
 */
#ifndef CLI_ASK_SEEN_H
#define CLI_ASK_SEEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASK_SEEN_MAX 512 /* more than one run keeps (asks.h, A6) */

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
void ask_seen_release(struct ask_seen *s);

/* What is new in it. */
struct ask_news {
	bool any;      /* something that can be seen of it */
	bool state;    /* another state, or it is new */
	bool answered; /* since it was told last, and it was known then */
};
/* Takes note of it. Without memory all is news. */
void ask_seen_note(struct ask_seen *s, const json_t *ask, struct ask_news *ret);

#endif
