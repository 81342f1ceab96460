/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the workspace of another run unchanged: for a call that sees a copy of its layer, and while the
 * changes of such a call are written back (into.h). doc/adr/0010 has the invariants, B1 to B6.
 *
 * A live run is frozen while it is held; an ended run is locked. If another process holds it, we wait; a run
 * that ends meanwhile is treated as ended.
 */
#ifndef CHECKPOINT_BORROW_H
#define CHECKPOINT_BORROW_H

#include "checkpoint/checkpoint.h"

struct borrow {
	struct ckpt_run r;
	uint64_t time; /* when holding began, by the clock that dates files */
};

#define BORROW_INIT ((struct borrow){ .r = CKPT_RUN_INIT })

/* Finds the run and reads its metadata, without holding it. The error explains if it is gone. */
int borrow_open(struct borrow *b, const char *id, struct err *e) MUST_CHECK;
void borrow_release(struct borrow *b);

/* Holds it until borrow_release() or borrow_unhold(). */
int borrow_hold(struct borrow *b, struct err *e) MUST_CHECK;
void borrow_unhold(struct borrow *b);

/* Replaces run_fd/LAYERS_FROM by a copy of its layer. The run is held while its files are read, and stays
 * held if it was before. */
int borrow_copy(struct borrow *b, int run_fd, struct err *e) MUST_CHECK;

/* For run_origin.fill of a call over it: makes the copy, and the masks for its hidden files. */
struct borrow_call {
	struct borrow *from;
	const struct strv *show;
};
int borrow_populate(void *call, struct run *r, struct err *e) MUST_CHECK;

#endif
