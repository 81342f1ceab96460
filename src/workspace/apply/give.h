/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies chosen files of a directory into a sandbox's own empty workspace, at the same paths. Changes to the copies do not
 * reach the originals; blocks are shared where the file system supports it.
 *
 * Invariants
 *  V1  Only files below the directory are read (openat2 RESOLVE_BENEATH): a symlink that leads out is refused. With an
 *      upper layer, which a running sandbox may change, no symlink is followed at all.
 *  V2  Only files and directories are copied; any other type is refused when it was named, and left out below a directory.
 *  V3  Files that usually hold credentials are refused when named without a --show, and left out below a directory. The
 *      file's real path counts, not the symlink that was named: a sandbox's changes may have made that link.
 */
#ifndef WORKSPACE_GIVE_H
#define WORKSPACE_GIVE_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

/* The source: a directory with a sandbox's upper layer over it, in the sandbox's view. Either may be -1. */
struct give_from {
	int upper, lower;
};

/* `paths` as typed; `show` are those that may be given although they look like credentials. *ret_bytes counts. */
int workspace_give(const struct give_from *from, const struct strv *paths, const struct strv *show, int to_fd,
		   uint64_t *ret_bytes, struct err *e) MUST_CHECK;

#endif
