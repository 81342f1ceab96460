/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that decide: a policy, and the files that it names. If somebody else may write to such a file, it is their policy. Its
 * owner must be root or the caller, and neither its group nor others may write to it; nor may everybody replace it
 * (a world-writable directory without the sticky bit).
 */
#ifndef CONFIG_CONFIG_OWNER_H
#define CONFIG_CONFIG_OWNER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* "-" is standard input, which is not checked. Unless `must` is set, a violation is only *ret_warning (the
 * caller frees it). */
int owner_read(const char *path, size_t max, bool must, struct buf *ret, char **ret_warning,
	       struct err *e) MUST_CHECK;

/* The same (with `must`) for a file in an open directory, whatever the directory's path leads to by now; does
 * not follow a link. Checks both through their descriptors. Returns the open file; negative on failure. */
int owner_read_at(int dir, const char *name, const char *shown, size_t max, struct buf *ret,
		  struct err *e) MUST_CHECK;

/* The symbolic links that a path leads through, each by its own path; empty if the path ends early. A user
 * who can change a link chooses the file, so with `must` each is checked like a file. -ELOOP if there are too
 * many. */
int owner_links(const char *path, bool must, struct strv *ret, struct err *e) MUST_CHECK;

#endif
