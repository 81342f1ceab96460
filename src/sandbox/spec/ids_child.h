/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child that works in other namespaces and reports back: the caller never leaves its own. It executes nothing and
 * dies with its parent.
 */
#ifndef SANDBOX_IDS_CHILD_H
#define SANDBOX_IDS_CHILD_H

#include "base/buf.h"
#include "sandbox/spec/ids.h"

struct ids_child {
	const char *what;      /* completes "the process that ... died" */
	const struct ids *ids; /* mapped from outside after `enter`; NULL: none are */
	/* Both run in the child. `enter` makes or enters the namespaces; NULL: makes a user namespace. The
	 * bytes that `work` adds to `out`, its error, and the descriptor that it puts into *fd come back. */
	int (*enter)(void *ctx, struct err *e);
	int (*work)(void *ctx, struct buf *out, struct err *e);
	void *ctx;
	struct buf *out;
	int *fd; /* NULL: none is passed; otherwise -1 before the call */
};

/* 0, or the error of `enter` or `work`. The bytes and the descriptor come back also after a failure. */
int ids_child_run(const struct ids_child *c, struct err *e) MUST_CHECK;

#endif
