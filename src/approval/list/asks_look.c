/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups in the list of approvals, and its limits. Nothing here changes an ask. */
#include "approval/list/asks_int.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

const char *asks_run(const struct asks *l)
{
	return l->run;
}

const struct ask *asks_find(const struct asks *l, const char *id)
{
	const char *dash = strchr(id, '-');
	size_t n = dash ? (size_t)(dash - id) : 0;
	uint64_t number;
	struct ask *a;

	if (dash && (n == 0 || n > RUN_ID_LEN || strncmp(id, l->run, n) != 0))
		return NULL;
	if (str_to_u64(dash ? dash + 1 : id, &number) < 0)
		return NULL;
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->number == number)
			return a;
	}
	return NULL;
}

const struct ask *asks_next(const struct asks *l, const struct ask *after)
{
	return after ? TAILQ_NEXT(after, link) : TAILQ_FIRST(&l->list);
}

void ask_view(const struct asks *l, const struct ask *a, struct ask_view *ret)
{
	*ret = (struct ask_view){ .number = a->number,
				  .seq = a->seq,
				  .state = a->state,
				  .q = a->q,
				  .asked = a->asked,
				  .expires = a->expires ? a->expires_shown : 0,
				  .waiters = a->waiters,
				  .times = a->times,
				  .used = a->used,
				  .uses = a->uses,
				  .answered = a->answered,
				  .answer = a->answer,
				  .answered_at = a->answered_at,
				  .why = a->why };
	ask_id(l, a, ret->id);
	memcpy(ret->run, l->run, sizeof(ret->run));
	hash_hex(a->digest, HASH_LEN, ret->digest);
}

unsigned asks_pending(const struct asks *l)
{
	return l->n_pending;
}

uint64_t asks_shed_count(const struct asks *l)
{
	return l->shed;
}

void asks_set_numbers(struct asks *l, int (*reserve)(void *ctx, uint64_t *last), void *ctx)
{
	l->reserve = reserve;
	l->reserve_ctx = ctx;
}

uint64_t asks_last_number(const struct asks *l)
{
	return l->last;
}

uint64_t asks_reserved(const struct asks *l)
{
	return l->reserved;
}

struct ask *ask_find_same(struct asks *l, enum ask_state s, const unsigned char digest[HASH_LEN])
{
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == s && memcmp(a->digest, digest, HASH_LEN) == 0)
			return a;
	}
	return NULL;
}

struct ask *ask_find_grant(struct asks *l, const unsigned char subject[HASH_LEN])
{
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == ASK_GRANTED && memcmp(a->subject, subject, HASH_LEN) == 0)
			return a;
	}
	return NULL;
}

/* Is there a free place for this question (asks.A6)? If not, `why` has the reason. */
bool asks_have_room(const struct asks *l, const struct ask_question *q, char why[ASK_WHY_MAX])
{
	unsigned submitted = 0, by = 0;
	const struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state != ASK_PENDING || !a->q.submitted)
			continue;
		submitted++;
		by += q->by && q->by[0] && str_eq(a->q.by, q->by);
	}
	if (!q->submitted && l->n_pending - submitted >= ASKS_PENDING_MAX)
		snprintf(why, ASK_WHY_MAX, "%d questions of this sandbox wait for an answer already",
			 ASKS_PENDING_MAX);
	else if (q->submitted && submitted >= ASKS_SUBMITTED_MAX)
		snprintf(why, ASK_WHY_MAX, "%d questions that others put for this sandbox wait already",
			 ASKS_SUBMITTED_MAX);
	else if (q->submitted && by >= ASKS_BY_MAX)
		snprintf(why, ASK_WHY_MAX, "%d questions of the same asker wait already", ASKS_BY_MAX);
	else
		return true;
	return false;
}

/* Is there room for one more answer that stays in force (asks.A6)? One that a waiter uses up at once needs
 * none. */
bool asks_may_grant(const struct asks *l, const struct ask *asked, const struct ask_answer *n)
{
	const struct ask *a;
	unsigned count = 0;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link))
		count += a->state == ASK_GRANTED || a->state == ASK_PARKED;
	return count < ASKS_GRANTS_MAX || (n->scope == ASK_ONCE && asked->waiters);
}
