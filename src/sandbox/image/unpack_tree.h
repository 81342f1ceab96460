/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the entries of an archive below one directory, as a layer for an overlay.
 *
 * Invariants
 *  E1  A name has no "..", no leading "/", no empty end; its parts are at most 255 bytes. Parents are resolved by the
 *      kernel with the directory as their root (RESOLVE_IN_ROOT): a parent that this very archive made a symlink is
 *      followed inside the directory, as docker does, and never out of it. The last part is never followed: an existing
 *      entry is removed first (unless a directory stays one), and the new one is created exclusively.
 *  E2  Hard links lead to a file or symlink below the directory, found the same way.
 *  E3  A layer has no device, pipe or socket but the device 0:0, the overlay's whiteout, which an archive gets only by
 *      an entry ".wh.NAME". It has no extended attribute but user.overlay.opaque, which an archive gets only by an entry
 *      ".wh..wh..opq", or ".wh.NAME" beside a directory NAME of its own. No setuid bit, and no setgid bit on a file.
 *  E4  At most entries_max entries, including directories that have no entry of their own: one name can imply two thousand.
 */
#ifndef SANDBOX_UNPACK_TREE_H
#define SANDBOX_UNPACK_TREE_H

#include "base/buf.h"
#include "codec/file/tar.h"
#include "sandbox/image/unpack.h"

struct unpack_tree {
	int root; /* the directory */
	const struct unpack_opts *opts;
	struct unpack_reply *counts;
	int file; /* being written, -1: none */
	uint32_t file_mode;
	int64_t file_mtime;
	uint64_t file_uid, file_gid;
	int parent; /* the directory that the last entry was in, -1: none */
	char parent_path[TAR_PATH_MAX + 1];
	struct buf dirs; /* struct dir_meta and path of each directory: modes and times come last */
};

#define UNPACK_TREE_INIT ((struct unpack_tree){ .root = -1, .file = -1, .parent = -1 })

int unpack_tree_entry(struct unpack_tree *u, const struct tar_entry *te, struct err *e) MUST_CHECK;
/* Content of the last entry; `last` with its end. */
int unpack_tree_data(struct unpack_tree *u, const uint8_t *data, size_t len, bool last,
		     struct err *e) MUST_CHECK;
int unpack_tree_finish(struct unpack_tree *u, struct err *e) MUST_CHECK;
void unpack_tree_release(struct unpack_tree *u);

/* Pure; the rules for names of unpack_tree.E1. Writes the parts joined by single slashes; -EINVAL when the name is
 * refused. An empty result is the directory itself. */
int unpack_clean_path(const char *path, char out[TAR_PATH_MAX + 1]) MUST_CHECK;

#endif
