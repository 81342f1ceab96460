/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is to run next: the client's side, the server's side and the exchange between them wake each other by tasks, not
 * by calls, so that none is ever entered twice and nothing is freed below a caller.
 *
 * Every callback from outside (a descriptor, a timer, a finished dial) is wrapped in runq_enter()/runq_leave(); the
 * outermost leave runs what is due. One leave runs a bounded number of tasks and leaves the rest to the loop's next
 * round, so that two fast peers cannot keep the others waiting.
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
	struct task *dead; /* freed by fn when nothing else runs */
	unsigned depth;
	struct timer again;
};

void runq_init(struct runq *q, struct loop *l);
void runq_release(struct runq *q);
void runq_add(struct runq *q, struct task *t); /* does nothing when it is queued already */
void runq_drop(struct runq *q, struct task *t);
/* fn frees what the task stands in, once nothing can be using it any more. */
void runq_bury(struct runq *q, struct task *t, void (*fn)(struct task *t));
void runq_enter(struct runq *q);
void runq_leave(struct runq *q);

#endif
