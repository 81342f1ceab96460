/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the list of questions share: asks.c the states, asks_look.c looking, asks_text.c what is asked, asks_log.c
 * what is written down, asks_tired.c when nobody is asked, asks_json.c how it is told, asks_kept.c what a
 * session has. */
#ifndef APPROVAL_ASKS_INT_H
#define APPROVAL_ASKS_INT_H

#include "approval/list/asks.h"

#include <jansson.h>
#include <sys/queue.h>

struct ask {
	TAILQ_ENTRY(ask) link;
	uint64_t number;
	uint64_t seq; /* of its ask.new in the log; 0: not known */
	enum ask_state state;
	struct ask_question q; /* its texts are in `text` */
	char *text;
	unsigned char digest[HASH_LEN], subject[HASH_LEN];
	uint64_t asked;			     /* real ns */
	uint64_t expires;		     /* mono ns; 0: never */
	uint64_t expires_shown;		     /* real ns */
	uint64_t parked_until, parked_shown; /* the two of the answer, for one that comes back unused */
	unsigned waiters;		     /* that wait */
	uint64_t times, used, uses;
	bool answered;
	bool kept; /* granted to a session (A8) */
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
	uint64_t reserved;
	int (*reserve)(void *ctx, uint64_t *last); /* NULL: nobody remembers */
	void *reserve_ctx;
	uint32_t generation;
	unsigned keeps; /* kinds whose grants are a session's */
	uint64_t shed;
	struct tired tired[ASKS_TIRED_KEYS];
};

/* asks_text.c: a copy of the question with its texts in one piece of memory. -ENOMEM. */
int ask_question_copy(const struct ask_question *q, struct ask_question *ret, char **ret_text) MUST_CHECK;

/* asks_log.c */
void ask_id(const struct asks *l, const struct ask *a, char out[ASK_ID_MAX]);
/* Also where it stands in the log. */
int ask_log_new(struct asks *l, struct ask *a) MUST_CHECK;
int ask_log_answer(struct asks *l, const struct ask *a, const struct ask_answer *n) MUST_CHECK;
int ask_log_revoke(struct asks *l, const struct ask *a, const struct ask_who *who) MUST_CHECK;
/* "ask.use", "ask.unused", "ask.expire", "ask.gone", "ask.lapse". */
int ask_log(struct asks *l, const struct ask *a, const char *type, const char *why) MUST_CHECK;

/* asks.c */
void ask_free(struct asks *l, struct ask *a);
/* asks_look.c: one in this state with this digest; one that grants what is about this; is there room for one more (A6),
 * and for one that is granted so? */
struct ask *ask_find_same(struct asks *l, enum ask_state s, const unsigned char digest[HASH_LEN]);
struct ask *ask_find_grant(struct asks *l, const unsigned char subject[HASH_LEN]);
bool asks_have_room(const struct asks *l, const struct ask_question *q, char why[ASK_WHY_MAX]);
bool asks_may_grant(const struct asks *l, const struct ask *asked, const struct ask_answer *n);
/* asks_json.c: what ask_json() has said of one, but for its state; NULL: it was not. */
struct ask *ask_read(const json_t *o);

/* asks_tired.c (A7): a person said no to this then; is it denied without asking? */
void asks_count_denial(struct asks *l, struct asks_now then, const struct ask_question *q);
bool asks_are_tired(struct asks *l, struct asks_now now, const struct ask_question *q, char why[ASK_WHY_MAX]);

#endif
