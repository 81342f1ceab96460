/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of another run, held as it is: for a call that is to see it (a copy of its layer), and for what such a call
 * wrote on its way back (into.h). doc/adr/0010 has the invariants, B1 to B6.
 *
 * One that lives stands still while it is held; one that has ended is locked. Whoever else holds it just then is waited
 * for, and one that ends while it is waited for is taken as ended.
 */
#ifndef CHECKPOINT_BORROW_H
#define CHECKPOINT_BORROW_H

#include "checkpoint/checkpoint.h"

struct borrow {
	struct ckpt_run r;
	uint64_t time; /* when it began to be held, by the clock that dates files */
};

#define BORROW_INIT ((struct borrow){ .r = CKPT_RUN_INIT })

/* Finds the run and reads what it is; it is not held yet. An error that explains when it is gone. */
int borrow_open(struct borrow *b, const char *id, struct err *e) MUST_CHECK;
void borrow_release(struct borrow *b);

/* Holds it until borrow_release(), or until borrow_let_go(). */
int borrow_hold(struct borrow *b, struct err *e) MUST_CHECK;
void borrow_let_go(struct borrow *b);

/* Makes run_fd/LAYERS_FROM a copy of its layer, in place of one that is there. It is held while its files are read, and
 * afterwards still when it was before. */
int borrow_copy(struct borrow *b, int run_fd, struct err *e) MUST_CHECK;

/* For run_origin.fill of a call over it: the copy, and what of it is hidden. */
struct borrow_call {
	struct borrow *from;
	const struct strv *show;
};
int borrow_populate(void *call, struct run *r, struct err *e) MUST_CHECK;

#endif
