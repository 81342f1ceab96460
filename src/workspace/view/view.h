/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a directory that a sandbox may see: which directory may be a workspace or be bound, what is hidden in it, and how
 * much a layer over it uses. Works on directory fds; never follows a symlink that the sandbox made.
 */
#ifndef WORKSPACE_VIEW_H
#define WORKSPACE_VIEW_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/spec/spec.h"
#include "workspace/tree/base.h"

#include <stdbool.h>
#include <stdint.h>

/* May this directory be shown to a sandbox as its workspace? Refuses /, home directories and all that is above one,
 * directories of the system, directories that hold keys, and the state directory with all above and below it. */
int workspace_may_use(int dir_fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

/* May this be bound with -v? Refuses everything that workspace_may_use() refuses; sockets, pipes and devices, and
 * directories that hold such sockets; files and directories that hold keys, and every directory above one. */
int workspace_may_bind(int fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

#define WORKSPACE_MASKS_MAX 4096

/*
 * Finds what is hidden from a sandbox: files that usually hold credentials, sockets and pipes (each leads to a process of
 * the host), directories that this user may not read (but their owner, inside, could open). `show` are relative paths that
 * the user does not want hidden; "." hides nothing and skips the search. Sorted; nothing is listed below a listed
 * directory. -E2BIG above WORKSPACE_MASKS_MAX. The caller frees with masks_free().
 */
int workspace_find_masks(int dir_fd, const struct strv *show, struct mask **ret_masks, size_t *ret_n,
			 struct err *e) MUST_CHECK;
void masks_free(struct mask *m, size_t n);

/*
 * Turns the masks of the original into those of the original with a copied layer over it: adds the layer's entries of that
 * kind, drops those that the layer deleted. `path` is the original's, NULL: there is none. `mapped`: the layer belongs to
 * subordinate ids, see owner.h. On an error the masks are unchanged.
 */
int workspace_merge_masks(struct base base, const char *path, const struct strv *show, bool mapped,
			  struct mask **masks, size_t *n_masks, struct err *e) MUST_CHECK;

/* Bytes and inodes that a layer uses now, for the disk limit; stops early above either cap. Safe on a layer in use: entries
 * made or removed meanwhile may be missed, and files that are open but deleted cannot be seen. -ESTALE when directories
 * move faster than they can be measured: freeze the sandbox and retry. */
int workspace_usage(int upper_fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *ret_bytes,
		    uint64_t *ret_inodes, struct err *e) MUST_CHECK;

#endif
