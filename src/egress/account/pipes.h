/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small stock of pipes for splice(): lent to connections that move much data, so that the kernel moves it
 * without copying.
 */
#ifndef EGRESS_PIPES_H
#define EGRESS_PIPES_H

#include <stddef.h>

#define PIPES_MAX 64
#define PIPES_SIZE (512u << 10) /* requested; pipe_pair.size has the kernel's answer */

struct pipe_pair {
	int r, w;
	size_t size;
	struct pipe_pair *next;
};

struct pipes {
	struct pipe_pair *idle;
	unsigned n; /* open, lent or idle */
};

/* NULL when all are lent out, or none can be created. */
struct pipe_pair *pipes_get(struct pipes *p);
/* Returns an empty pair; with `broken` it is closed. */
void pipes_put(struct pipes *p, struct pipe_pair *pair, int broken);
void pipes_free(struct pipes *p);

#endif
