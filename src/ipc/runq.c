/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of tasks of one process (runq.h). Tasks run only from the outermost runq_leave(); freed objects
 * wait until no task runs.
 */

#include "ipc/runq.h"

#include "base/clock.h"

#define TASKS_A_ROUND 256

/* Runs the tasks that the last runq_leave() left over. */
static void on_again_timer(struct timer *t)
{
	struct runq *q = t->ctx;

	runq_enter(q);
	runq_leave(q);
}

void runq_init(struct runq *q, struct loop *l)
{
	*q = (struct runq){ .loop = l, .again = { .fn = on_again_timer } };
	q->tail = &q->head;
	q->again.ctx = q;
}

static void free_buried(struct runq *q)
{
	while (q->dead) {
		struct task *t = q->dead;

		q->dead = t->next;
		t->fn(t);
	}
}

void runq_release(struct runq *q)
{
	free_buried(q);
	loop_timer_off(q->loop, &q->again);
}

void runq_add(struct runq *q, struct task *t)
{
	if (t->queued)
		return;
	t->queued = true;
	t->next = NULL;
	*q->tail = t;
	q->tail = &t->next;
}

void runq_drop(struct runq *q, struct task *t)
{
	if (!t->queued)
		return;
	for (struct task **p = &q->head; *p; p = &(*p)->next) {
		if (*p != t)
			continue;
		*p = t->next;
		if (q->tail == &t->next)
			q->tail = p;
		break;
	}
	t->queued = false;
}

void runq_bury(struct runq *q, struct task *t, void (*fn)(struct task *t))
{
	runq_drop(q, t);
	t->fn = fn;
	t->next = q->dead;
	t->queued = true; /* so that runq_add() ignores it */
	q->dead = t;
}

void runq_enter(struct runq *q)
{
	q->depth++;
}

void runq_leave(struct runq *q)
{
	unsigned left = TASKS_A_ROUND;

	if (q->depth > 1) {
		q->depth--;
		return;
	}
	while (q->head && left--) {
		struct task *t = q->head;

		q->head = t->next;
		if (!q->head)
			q->tail = &q->head;
		t->queued = false;
		t->fn(t);
	}
	q->depth = 0;
	free_buried(q);
	if (q->head)
		loop_timer(q->loop, &q->again, clock_nsec(CLOCK_MONOTONIC));
}
