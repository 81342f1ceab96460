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
 * Folds a path as the most lenient file systems do, so that names which some of them take for equal become equal: letters
 * are lower case; invisible characters are left out (HFS+, and ext4 with casefold), and so are dots and blanks at the end
 * of a name and everything after a colon (NTFS). As many names as before, none longer. NULL: out of memory.
 */
char *path_fold(const char *path);

/* The order of a walk: a directory, its entries, its next neighbour. */
int path_cmp(const char *a, const char *b);

/*
 * Could a symlink at `link` (relative to the workspace) with this target lead out of the workspace? True for an
 * absolute target, for more ".." than there are directories above, and for ".." after a name, since that name may be a
 * symlink to anywhere.
 */
bool path_link_leaves(const char *link, const char *target);

#endif
