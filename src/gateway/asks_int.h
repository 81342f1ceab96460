/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the list of questions share: asks.c the states, asks_text.c what is asked, asks_json.c how it is told. */
#ifndef GATEWAY_ASKS_INT_H
#define GATEWAY_ASKS_INT_H

#include "gateway/asks.h"

#include <sys/queue.h>

struct ask {
	TAILQ_ENTRY(ask) link;
	uint64_t number;
	enum ask_state state;
	struct ask_question q; /* its texts are in `text` */
	char *text;
	unsigned char digest[HASH_LEN], subject[HASH_LEN];
	uint64_t asked;		/* real ns */
	uint64_t expires;	/* mono ns; 0: never */
	uint64_t expires_shown; /* real ns */
	unsigned waiters;	/* that wait */
	uint64_t times, used, uses;
	bool answered;
	struct ask_answer answer;
	uint64_t answered_at; /* real ns */
	char why[ASK_WHY_MAX];
};

TAILQ_HEAD(ask_list, ask);

/* A live request. Once told "allow" it stays until it says what became of it. */
struct waiter {
	TAILQ_ENTRY(waiter) link;
	uint64_t id;
	struct ask *a; /* NULL: the ask was forgotten */
	bool told;
};

TAILQ_HEAD(waiter_list, waiter);

#define ASKS_TIRED_KEYS 32

struct tired {
	unsigned char key[HASH_LEN];
	uint64_t denied[ASKS_TIRED_AFTER]; /* mono ns, the last ones */
	uint64_t until;			   /* mono ns */
	uint64_t at;			   /* of the last one */
};

struct asks {
	char run[RUN_ID_LEN + 1];
	uint64_t timeout_s;
	struct asks_out out;
	struct ask_list list;
	struct waiter_list waiters; /* oldest first */
	unsigned n_waiters, n_pending, n_over;
	uint64_t last; /* number */
	uint32_t generation;
	uint64_t shed;
	struct tired tired[ASKS_TIRED_KEYS];
};

/* asks_text.c: a copy of the question with its texts in one piece of memory. -ENOMEM. */
int ask_question_copy(const struct ask_question *q, struct ask_question *ret, char **ret_text) MUST_CHECK;

#endif
