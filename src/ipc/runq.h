/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of tasks to run. The client side, the server side and the exchange between them wake each other by queueing tasks
 * instead of calling each other, so that none is entered twice and nothing is freed while a caller still uses it.
 *
 * Every callback from outside (a descriptor, a timer, a finished dial) is wrapped in runq_enter()/runq_leave(); the
 * outermost leave runs the queued tasks. One leave runs a bounded number of tasks and leaves the rest to the next round
 * of the loop, so that two fast peers cannot starve the others.
 */
#ifndef IPC_RUNQ_H
#define IPC_RUNQ_H

#include "ipc/loop.h"

struct task {
	void (*fn)(struct task *t);
	struct task *next;
	bool queued;
};

struct runq {
	struct loop *loop;
	struct task *head, **tail;
	struct task *dead; /* freed by fn when no task runs */
	unsigned depth;
	struct timer again;
};

void runq_init(struct runq *q, struct loop *l);
void runq_release(struct runq *q);
void runq_add(struct runq *q, struct task *t); /* no effect when it is queued already */
void runq_drop(struct runq *q, struct task *t);
/* fn frees the object that contains the task, once no task can be using it any more. */
void runq_bury(struct runq *q, struct task *t, void (*fn)(struct task *t));
void runq_enter(struct runq *q);
void runq_leave(struct runq *q);

#endif
