/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a call's changes back into the sandbox whose workspace it was made over (doc/adr/0010, B5): that workspace as a
 * directory to be written to, through the overlay that the sandbox itself uses while it runs, through one of our own when
 * it has ended. It is held as long as this is open.
 */
#ifndef CHECKPOINT_INTO_H
#define CHECKPOINT_INTO_H

#include "checkpoint/borrow.h"

#include <sys/types.h>

struct into {
	struct borrow n;
	int mount; /* keeps the tree mounted */
	int tree;  /* the workspace, without what is mounted on it */
	int upper; /* the call's layer, its owners as the tree has them; with host root a mount of its own */
	int lower; /* the original of one that has ended, to count by */
	bool mapped; /* files of either belong to subordinate ids: owner.h */
	bool as_other; /* host root: what is made there is made in the name of these, between into_begin() and into_end() */
	uid_t uid;
	gid_t gid;
};

#define INTO_INIT ((struct into){ .n = BORROW_INIT, .mount = -1, .tree = -1, .upper = -1, .lower = -1 })

/* `id` is the sandbox's; layers_fd (what its upper/ is in) and mapped are the call's. An error that says what to do where it
 * cannot be written to. */
int into_open(struct into *i, const char *id, int layers_fd, bool mapped, struct err *e) MUST_CHECK;

/* Around the writing, and nothing else. */
int into_begin(const struct into *i, struct err *e) MUST_CHECK;
void into_end(const struct into *i);

/* What `coffer ps` tells of one that has ended is true again. */
int into_note_changes(struct into *i, struct err *e) MUST_CHECK;
void into_close(struct into *i);

#endif
