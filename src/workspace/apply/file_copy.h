/* SPDX-License-Identifier: Apache-2.0 */
/* A file's bytes, holes and user attributes, from one fd to another. */
#ifndef WORKSPACE_FILE_COPY_H
#define WORKSPACE_FILE_COPY_H

#include "base/err.h"

#include <sys/types.h>

/* Shares blocks where the file system can, else copies data and leaves holes as holes. `to` is an empty new file. */
int copy_content(int from, int to, off_t size) MUST_CHECK;

/* Extended attributes of the user's own ("user.") but for those of overlayfs. A file system that has none is fine. */
int copy_user_xattrs(int from, int to) MUST_CHECK;

/* One attribute by name; nothing to copy is fine. */
int copy_xattr(int from, int to, const char *name) MUST_CHECK;

#endif
