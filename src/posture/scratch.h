/* SPDX-License-Identifier: Apache-2.0 */
/* A directory to try things in, on the file system that the state directory is or would be on; gone afterwards. */
#ifndef POSTURE_SCRATCH_H
#define POSTURE_SCRATCH_H

#include "base/err.h"

#include <limits.h>

struct scratch {
	char parent[PATH_MAX]; /* the existing directory that it is in */
	char path[PATH_MAX + 32];
	int fd;
};

#define SCRATCH_INIT ((struct scratch){ .fd = -1 })

int scratch_make(struct scratch *s, struct err *e) MUST_CHECK;
void scratch_remove(struct scratch *s); /* idempotent; for CLEANUP() */

#endif
