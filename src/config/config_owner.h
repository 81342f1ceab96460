/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that decide: a policy, and what it names. One that somebody else may write to is somebody else's policy. Its
 * owner must be root or the caller, and neither its group nor others may write to it; nor may everybody replace it
 * (a directory that all may write to, without the sticky bit).
 */
#ifndef CONFIG_CONFIG_OWNER_H
#define CONFIG_CONFIG_OWNER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* "-" is standard input, which is not checked. When not `must`, a breach is *ret_warning (caller frees) and no error. */
int owner_read(const char *path, size_t max, bool must, struct buf *ret, char **ret_warning,
	       struct err *e) MUST_CHECK;

/* The same (`must`) of a file in a directory that is held open, whatever its path leads to by now; a link is not followed. Both are checked as they
 * are held. The file, open; negative on failure. */
int owner_read_at(int dir, const char *name, const char *shown, size_t max, struct buf *ret,
		  struct err *e) MUST_CHECK;

/* The links that a path leads through, each by where it is itself; nothing where the path ends early. Whoever may turn one chooses the
 * file, so that with `must` each is checked as a file is. -ELOOP when there are too many. */
int owner_links(const char *path, bool must, struct strv *ret, struct err *e) MUST_CHECK;

#endif
