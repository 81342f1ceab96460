/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on files that belong to an ordinary user's range of subordinate ids, which only a process that is root over those
 * ids may read and make. A child does it in a user namespace of its own, in which id 0 is the user.
 */
#ifndef WORKSPACE_OWNER_H
#define WORKSPACE_OWNER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/* Calls fn there (or here, when `mapped` is false); what it adds to `out` comes back. */
int owner_call(bool mapped, int (*fn)(void *ctx, struct buf *out, struct err *e), void *ctx, struct buf *out,
	       struct err *e) MUST_CHECK;

#endif
