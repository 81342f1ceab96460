/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what overlayfs (mounted with userxattr, no redirect_dir, no metacopy) left in an upper layer, from the host.
 * A sandbox chose every name, byte, mode and most attributes in there: nothing is followed, nothing is opened that could
 * block, and all that is read is bounded.
 */
#ifndef WORKSPACE_LAYER_H
#define WORKSPACE_LAYER_H

#include "base/buf.h"
#include "base/err.h"
#include "workspace/tree/chain.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* The mark for "this was deleted": a character device 0:0. */
bool layer_is_whiteout(const struct stat *st);

/* Does this directory hide the original's one instead of being laid over it? */
bool layer_is_opaque(int dirfd);

/* Was this entry copied up from an original (rather than made anew)? */
bool layer_has_origin(int dirfd, const char *name);

#define LAYER_CAP_MAX 64
/* The file capability of an entry: its bytes and length, 0 when it has none. */
size_t layer_capability(int dirfd, const char *name, unsigned char ret[LAYER_CAP_MAX]);

/* O_PATH fd of a directory below root, through real directories only; path may be longer than PATH_MAX. */
int layer_open_dir(int root, const char *path, size_t len) MUST_CHECK;

/* The directory that `path` is in, and its last name. */
int layer_open_parent(int root, const char *path, const char **ret_name) MUST_CHECK;

/*
 * Goes into a directory of an upper layer. One that is ours but lets nobody in is opened up; *ret_restore is then its
 * own mode (with the type), for layer_pop() to set again, else 0. -EACCES when it is closed to us for good.
 */
int layer_push(struct chain *c, const char *name, mode_t *ret_restore) MUST_CHECK;
int layer_pop(struct chain *c, mode_t restore) MUST_CHECK;

/* The parts of a git repository (trigger.h) that a directory has. Its file system decides which spellings are one name. */
unsigned layer_git_parts(int dirfd);

/* A regular file of an upper layer for reading, also when it has no right to be read but is ours. */
int layer_open_file(int dirfd, const char *name) MUST_CHECK;
int layer_open_directory(int dirfd, const char *name) MUST_CHECK; /* the same for a directory */

/* A symlink's target; at most PATH_MAX bytes, which is all that one can have. */
int layer_read_link(int dirfd, const char *name, struct buf *ret) MUST_CHECK;

/* 1 when two regular files hold the same bytes, 0 when not. Holes are skipped. */
int layer_same_content(int a, int b, off_t size) MUST_CHECK;

#endif
