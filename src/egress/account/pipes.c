/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock of pipes.h. A pair that may still hold bytes of one connection is closed, never lent to another.
 */
#include "egress/account/pipes.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdlib.h>

struct pipe_pair *pipes_get(struct pipes *p)
{
	struct pipe_pair *pair = p->idle;
	int fds[2], size;

	if (pair) {
		p->idle = pair->next;
		return pair;
	}
	if (p->n >= PIPES_MAX)
		return NULL;
	pair = malloc(sizeof(*pair));
	if (!pair || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(pair);
		return NULL;
	}
	size = fcntl(fds[1], F_SETPIPE_SZ, PIPES_SIZE);
	*pair = (struct pipe_pair){ .r = fds[0], .w = fds[1], .size = size > 0 ? (size_t)size : 65536 };
	p->n++;
	return pair;
}

static void pipes_close_pair(struct pipes *p, struct pipe_pair *pair)
{
	fd_close(pair->r);
	fd_close(pair->w);
	free(pair);
	p->n--;
}

void pipes_put(struct pipes *p, struct pipe_pair *pair, int broken)
{
	if (broken) {
		pipes_close_pair(p, pair);
		return;
	}
	pair->next = p->idle;
	p->idle = pair;
}

void pipes_free(struct pipes *p)
{
	while (p->idle) {
		struct pipe_pair *next = p->idle->next;

		pipes_close_pair(p, p->idle);
		p->idle = next;
	}
}
