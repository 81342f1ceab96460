/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories that a run's layer is over: the original, and for a call over another sandbox's workspace a copy of that
 * sandbox's layer over it. They are merged as in the kernel's overlay: an entry of the layer hides the original's, a whiteout
 * hides it and shows nothing, two directories are merged unless the upper one is opaque.
 */
#ifndef WORKSPACE_BASE_H
#define WORKSPACE_BASE_H

#include "base/err.h"

#include <sys/stat.h>

struct base {
	int layer; /* -1: none */
	int dir;   /* -1: none */
};

#define BASE_DIR(fd) ((struct base){ .layer = -1, .dir = (fd) })

/* Opens the directory, of either, with the entry that is visible at path: its fd, the last name, and the entry's stat.
 * -ENOENT when there is none. */
int workspace_open_parent(struct base b, const char *path, const char **ret_name,
			  struct stat *ret_st) MUST_CHECK;

#endif
