/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run's layer lies on: the original directory, and for a call over another sandbox's workspace a copy of that one's
 * layer over it. Seen together they are what the kernel's overlay of the two shows: an entry of the layer hides the
 * original's, a whiteout hides and shows nothing, two directories are one unless the upper one is opaque.
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

/* The directory, of either, that holds what is seen at path: its fd, the last name, and what is there. -ENOENT where nothing is. */
int base_open_parent(struct base b, const char *path, const char **ret_name, struct stat *ret_st) MUST_CHECK;

#endif
