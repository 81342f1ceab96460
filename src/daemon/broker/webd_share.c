/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares identical work between API requests, and limits reads of the whole log. Only reads the clock:
 * webd_jobs.c starts, ends and answers jobs.
 *
 * Invariants (cited elsewhere as webd_share.H1 …)
 * H1  Work is shared only if it changes nothing, has the same arguments, and is requested with the same role.
 * H2  No answer is older than its request: a request that arrives while the same work runs waits for the next
 *     run, which all requests waiting by then share. So nobody gets a state from before an act that he knows
 *     to be done.
 * H3  Nobody is delayed by another caller's quota: the first of the sharers whose turn it is starts the work
 *     for all.
 * H4  Work continues as long as one of its sharers waits.
 * H5  After a read of the whole log there is a pause of WEBD_REST times its duration, at most WEBD_REST_MOST,
 *     for all callers.
 */
#include "base/str.h"
#include "daemon/broker/webd_int.h"

/* webd_share.H1 */
static bool is_same_work(const struct job *a, const struct job *b)
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

/* webd_share.H5: the pause after a read of the whole log. */
static bool must_rest(struct webd *d, const struct job *x)
{
	if (x->lane != WEBD_WHOLE_LOG || clock_nsec(CLOCK_MONOTONIC) >= d->rest_until)
		return false;
	loop_timer(d->w.loop, &d->rest, d->rest_until);
	return true;
}

bool webd_may_start_job(struct webd *d, const struct job *x)
{
	for (const struct job *y = d->jobs; y; y = y->next) {
		if (y->pid && is_same_work(x, y))
			return false;
	}
	return !must_rest(d, x);
}

void webd_job_started(struct webd *d, struct job *x)
{
	x->began = clock_nsec(CLOCK_MONOTONIC);
	for (struct job *y = d->jobs; y; y = y->next) {
		if (y != x && !y->pid && !y->with && is_same_work(x, y))
			y->with = x;
	}
}

void webd_job_ended(struct webd *d, const struct job *x)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), rest = (now - x->began) * WEBD_REST;

	if (x->lane == WEBD_WHOLE_LOG)
		d->rest_until = now + (rest < WEBD_REST_MOST ? rest : WEBD_REST_MOST);
}

struct job *webd_next_sharer(struct webd *d, const struct job *x)
{
	struct job *y = d->jobs;

	while (y && y->with != x)
		y = y->next;
	return y;
}
