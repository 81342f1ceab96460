/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving a sandbox copies of chosen files of a directory, at the same paths in its own empty workspace. They are copies,
 * so that whatever happens to them inside, the originals stay; blocks are shared where the file system can.
 *
 * Invariants
 *  V1  What is read lies below the directory (openat2 RESOLVE_BENEATH): a symlink that leads out is refused. Where there
 *      is an upper layer, whose sandbox may still run and change it, no symlink is followed at all.
 *  V2  Only files and directories; whatever else is met is refused when it was named, and left out below a directory.
 *  V3  What usually holds credentials is refused when it was named without a yes, and left out below a directory. What
 *      counts is where a file really is, not the link that was named: a sandbox's changes may have brought that link.
 */
#ifndef WORKSPACE_GIVE_H
#define WORKSPACE_GIVE_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

/* What is given from: a directory with a sandbox's upper layer over it, seen as the sandbox sees it. Either may be -1. */
struct give_from {
	int upper, lower;
};

/* `paths` as typed; `show` are those that may be given although they look like credentials. *ret_bytes counts. */
int workspace_give(const struct give_from *from, const struct strv *paths, const struct strv *show, int to_fd,
		   uint64_t *ret_bytes, struct err *e) MUST_CHECK;

#endif
