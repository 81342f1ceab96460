/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the changes of a call back into the sandbox over whose workspace it was made (doc/adr/0010, B5):
 * opens that workspace as a writable directory, through the sandbox's own overlay if it runs, or through a
 * new overlay if it has ended. The sandbox is held as long as this is open.
 */
#ifndef CHECKPOINT_INTO_H
#define CHECKPOINT_INTO_H

#include "checkpoint/borrow.h"

#include <sys/types.h>

struct into {
	struct borrow n;
	int mount;   /* keeps the tree mounted */
	int tree;    /* the workspace, without the mounts on it */
	int upper;   /* the call's layer, with owners as the tree has them; for host root an idmapped mount */
	int lower;   /* the original workspace of an ended sandbox, to count changes against */
	bool mapped; /* files of either belong to subordinate ids: owner.h */
	bool as_other; /* host root: between into_begin() and into_end() files are made as uid and gid */
	uid_t uid;
	gid_t gid;
};

#define INTO_INIT ((struct into){ .n = BORROW_INIT, .mount = -1, .tree = -1, .upper = -1, .lower = -1 })

/* `id` is the sandbox's; layers_fd (the directory that has its upper/) and mapped are the call's. If the
 * sandbox cannot be written to, the error says what to do. */
int into_open(struct into *i, const char *id, int layers_fd, bool mapped, struct err *e) MUST_CHECK;

/* Call around the writing, and around nothing else. */
int into_begin(const struct into *i, struct err *e) MUST_CHECK;
void into_end(const struct into *i);

/* Updates the number of changes that `coffer ps` shows for an ended sandbox. */
int into_note_changes(struct into *i, struct err *e) MUST_CHECK;
void into_close(struct into *i);

#endif
