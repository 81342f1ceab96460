/* SPDX-License-Identifier: Apache-2.0 */
/* Paths inside a workspace: relative, any bytes but NUL, no "." and no "..". Pure: nothing here looks at a disk. */
#ifndef WORKSPACE_PATH_H
#define WORKSPACE_PATH_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

/* As a person typed it: "./a//b/" becomes "a/b", "." and "/workspace" become "". -EINVAL for one that leads out. */
int path_normalise(const char *typed, char **ret, struct err *e) MUST_CHECK;
int path_normalise_all(const struct strv *typed, struct strv *ret, struct err *e) MUST_CHECK;

/* Is `path` this directory or something below it? "" covers all. */
bool path_covers(const char *dir, const char *path);

/* The first of the list that covers path, or NULL. */
const char *path_covered(const struct strv *l, const char *path);

/*
 * A path as a file system sees it that does not tell names apart which people cannot tell apart either: capitals are
 * small letters, characters that show nothing are left out (HFS+, and ext4 with casefold), so are dots and blanks at the
 * end of a name and what follows a colon (NTFS). As many names as before, none longer. NULL: out of memory.
 */
char *path_fold(const char *path);

/* Order of a walk: a directory, then all that is in it, then its next neighbour. */
int path_cmp(const char *a, const char *b);

/*
 * Could a symlink at `link` (relative to the workspace) with this target lead out of the workspace? True for an
 * absolute target, for more ".." than there are directories above, and for ".." behind a name, which is as
 * harmless as whatever that name may be a link to.
 */
bool path_link_leaves(const char *link, const char *target);

#endif
