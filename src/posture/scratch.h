/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary directory for probes, on the file system that holds, or would hold, the state directory;
 * removed afterwards.
 */
#ifndef POSTURE_SCRATCH_H
#define POSTURE_SCRATCH_H

#include "base/err.h"

#include <limits.h>

struct scratch {
	char parent[PATH_MAX]; /* the existing directory that contains it */
	char path[PATH_MAX + 32];
	int fd;
};

#define SCRATCH_INIT ((struct scratch){ .fd = -1 })

int scratch_make(struct scratch *s, struct err *e) MUST_CHECK;
void scratch_remove(struct scratch *s); /* idempotent; for CLEANUP() */

#endif
