/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path of open directories: from a root directory down, one name after another.
 *
 * Trees may have any depth, so only the last few levels are open at once. A level that was closed is opened again through
 * ".." of the one below it, and must then be the same directory as before, or the walk ends with -ESTALE. No symlink is
 * ever followed.
 */
#ifndef WORKSPACE_CHAIN_H
#define WORKSPACE_CHAIN_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

#define CHAIN_OPEN_MAX 32

struct chain_level {
	int fd; /* -1 while it is closed: then dev and ino say which directory it was */
	dev_t dev;
	ino_t ino;
};

struct chain {
	struct chain_level *v;
	size_t n, cap;
	size_t first_open; /* levels from here on are open */
};

#define CHAIN_INIT ((struct chain){ 0 })

/* Starts at a directory, which is duplicated. 0 or negative errno. */
int chain_start(struct chain *c, int root_fd) MUST_CHECK;
void chain_release(struct chain *c);

/* Goes into a directory of the current one. Its fd (the chain's), or negative errno and the chain is as before. */
int chain_push(struct chain *c, const char *name) MUST_CHECK;

/* Goes back up. When the level above cannot be opened again that is an error, and the chain is lost: it can only be
 * popped further, with an error each time, and released. */
int chain_pop(struct chain *c) MUST_CHECK;

static inline int chain_fd(const struct chain *c)
{
	return c->v[c->n - 1].fd;
}

#endif
