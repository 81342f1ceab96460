/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many who ask for the same have one answer, and what reads the whole log has its pauses. Pure but for the clock: webd_jobs.c starts,
 * ends and tells.
 *
 *  H1  Shared is only what changes nothing, is the same work word for word, and is asked for in the same role.
 *  H2  No answer is older than the question: who comes while the same work runs waits for the next, which all have who wait by then. So
 *      nobody is told of a time before something that he knows to be done.
 *  H3  Nobody is held up by another's share of the workers: whoever of them has his turn first starts it for all.
 *  H4  Work goes on as long as one of those who share it waits.
 *  H5  After the whole log was read, it is not read again for WEBD_REST times as long as that took, WEBD_REST_MOST at most, whoever asks.
 */
#include "base/str.h"
#include "daemon/broker/webd_int.h"

/* H1 */
static bool is_same(const struct job *a, const struct job *b)
{
	if (a->state != WEBP_ST_WORK || b->state != WEBP_ST_WORK || a->op != b->op || a->role != b->role ||
	    web_route(a->op)->changes || a->argv.n != b->argv.n)
		return false;
	for (size_t i = 0; i < a->argv.n; i++) {
		if (!str_eq(a->argv.v[i], b->argv.v[i]))
			return false;
	}
	return true;
}

/* H5 */
static bool is_resting(struct webd *d, const struct job *x)
{
	if (x->lane != WEBD_WHOLE_LOG || clock_nsec(CLOCK_MONOTONIC) >= d->rest_until)
		return false;
	loop_timer(d->w.loop, &d->rest, d->rest_until);
	return true;
}

bool webd_may_begin(struct webd *d, const struct job *x)
{
	for (const struct job *y = d->jobs; y; y = y->next) {
		if (y->pid && is_same(x, y))
			return false;
	}
	return !is_resting(d, x);
}

void webd_has_begun(struct webd *d, struct job *x)
{
	x->began = clock_nsec(CLOCK_MONOTONIC);
	for (struct job *y = d->jobs; y; y = y->next) {
		if (y != x && !y->pid && !y->with && is_same(x, y))
			y->with = x;
	}
}

void webd_has_ended(struct webd *d, const struct job *x)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), rest = (now - x->began) * WEBD_REST;

	if (x->lane == WEBD_WHOLE_LOG)
		d->rest_until = now + (rest < WEBD_REST_MOST ? rest : WEBD_REST_MOST);
}

struct job *webd_sharer(struct webd *d, const struct job *x)
{
	struct job *y = d->jobs;

	while (y && y->with != x)
		y = y->next;
	return y;
}
