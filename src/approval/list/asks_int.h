/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the list of approvals. asks.c has the states, asks_look.c the lookups, asks_text.c the
 * questions, asks_log.c the audit events, asks_tired.c the denials without asking (asks.A7), asks_json.c JSON
 * and the file, asks_kept.c the grants of a session.
 */
#ifndef APPROVAL_ASKS_INT_H
#define APPROVAL_ASKS_INT_H

#include "approval/list/asks.h"

#include <jansson.h>
#include <sys/queue.h>

struct ask {
	TAILQ_ENTRY(ask) link;
	uint64_t number;
	uint64_t seq; /* number of its ask.new in the log; 0: unknown */
	enum ask_state state;
	struct ask_question q; /* its texts are in `text` */
	char *text;
	unsigned char digest[HASH_LEN], subject[HASH_LEN];
	uint64_t asked;		/* real ns */
	uint64_t expires;	/* mono ns; 0: never */
	uint64_t expires_shown; /* real ns */
	uint64_t parked_until,
		parked_shown; /* both ends as the answer set them, for a use that is given back */
	unsigned waiters;     /* number of waiters not told yet */
	uint64_t times, used, uses;
	bool answered;
	bool kept; /* granted to a session (asks.A8) */
	struct ask_answer answer;
	uint64_t answered_at; /* real ns */
	char why[ASK_WHY_MAX];
};

TAILQ_HEAD(ask_list, ask);

/* A blocked asker. Once told "allow" it stays until it reports whether it used the approval. */
struct waiter {
	TAILQ_ENTRY(waiter) link;
	uint64_t id;
	struct ask *a; /* NULL: the ask was dropped from the history */
	bool told;
};

TAILQ_HEAD(waiter_list, waiter);

#define ASKS_TIRED_KEYS 32

struct tired {
	unsigned char key[HASH_LEN];
	uint64_t denied[ASKS_TIRED_AFTER]; /* mono ns of the latest denials */
	uint64_t until;			   /* mono ns */
	uint64_t at;			   /* mono ns of the latest denial */
};

struct asks {
	char run[RUN_ID_LEN + 1];
	uint64_t timeout_s;
	struct asks_out out;
	struct ask_list list;
	struct waiter_list waiters; /* oldest first */
	unsigned n_waiters, n_pending, n_over;
	uint64_t last; /* the number used last */
	uint64_t reserved;
	int (*reserve)(void *ctx, uint64_t *last); /* NULL: numbers are not recorded on disk */
	void *reserve_ctx;
	uint32_t generation;
	unsigned keeps; /* bits of the kinds whose grants belong to a session */
	uint64_t shed;
	struct tired tired[ASKS_TIRED_KEYS];
};

/* asks_text.c: copies the question, with its texts in one allocation. -ENOMEM. */
int ask_question_copy(const struct ask_question *q, struct ask_question *ret, char **ret_text) MUST_CHECK;

/* asks_log.c */
void ask_id(const struct asks *l, const struct ask *a, char out[ASK_ID_MAX]);
/* Sets a->seq too. */
int ask_log_new(struct asks *l, struct ask *a) MUST_CHECK;
int ask_log_answer(struct asks *l, const struct ask *a, const struct ask_answer *n) MUST_CHECK;
int ask_log_revoke(struct asks *l, const struct ask *a, const struct ask_who *who) MUST_CHECK;
/* "ask.use", "ask.unused", "ask.expire", "ask.gone", "ask.lapse". */
int ask_log(struct asks *l, const struct ask *a, const char *type, const char *why) MUST_CHECK;

/* asks.c */
void ask_free(struct asks *l, struct ask *a);
/* asks_look.c: the ask in this state with this digest; the grant for this subject; whether there is room for
 * another question, and for another grant (asks.A6). */
struct ask *ask_find_same(struct asks *l, enum ask_state s, const unsigned char digest[HASH_LEN]);
struct ask *ask_find_grant(struct asks *l, const unsigned char subject[HASH_LEN]);
bool asks_have_room(const struct asks *l, const struct ask_question *q, char why[ASK_WHY_MAX]);
bool asks_may_grant(const struct asks *l, const struct ask *asked, const struct ask_answer *n);
/* asks_json.c: the reverse of ask_json() except for the state. NULL: malformed. */
struct ask *ask_read(const json_t *o);

/* asks_tired.c (asks.A7): records that a person denied this question at `then`; whether it is to be denied
 * without asking. */
void asks_count_denial(struct asks *l, struct asks_now then, const struct ask_question *q);
bool asks_are_tired(struct asks *l, struct asks_now now, const struct ask_question *q, char why[ASK_WHY_MAX]);

#endif
