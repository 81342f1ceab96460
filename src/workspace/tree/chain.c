/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path of open directories that stays within CHAIN_OPEN_MAX fds whatever its depth (chain.h). A level that is opened again
 * must be the same inode as before.
 */
#include "workspace/tree/chain.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int add_chain_level(struct chain *c, int fd)
{
	if (VEC_ROOM(c->v, c->n, c->cap, VEC_NO_MAX) < 0)
		return -ENOMEM;
	c->v[c->n++] = (struct chain_level){ .fd = fd };
	return 0;
}

int chain_start(struct chain *c, int root_fd)
{
	int fd = openat(root_fd, ".", DIR_FLAGS);
	int r;

	if (fd < 0)
		return -errno;
	r = add_chain_level(c, fd);
	if (r < 0)
		fd_close(fd);
	return r;
}

void chain_release(struct chain *c)
{
	for (size_t i = c->first_open; i < c->n; i++)
		fd_close(c->v[i].fd);
	free(c->v);
	*c = CHAIN_INIT;
}

/* Closes the open level that is farthest up. */
static int close_topmost_open(struct chain *c)
{
	struct chain_level *l = &c->v[c->first_open];
	struct stat st;

	if (fstat(l->fd, &st) < 0)
		return -errno;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	l->fd = fd_close(l->fd);
	c->first_open++;
	return 0;
}

int chain_push(struct chain *c, const char *name)
{
	int fd, r;

	for (;;) {
		fd = openat(chain_fd(c), name, DIR_FLAGS);
		if (fd >= 0)
			break;
		if ((errno != EMFILE && errno != ENFILE) || c->n - c->first_open < 2)
			return -errno;
		r = close_topmost_open(c);
		if (r < 0)
			return r;
	}
	r = add_chain_level(c, fd);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	if (c->n - c->first_open > CHAIN_OPEN_MAX) {
		r = close_topmost_open(c);
		if (r < 0) {
			fd_close(fd);
			c->n--;
			return r;
		}
	}
	return fd;
}

int chain_pop(struct chain *c)
{
	struct chain_level *below = &c->v[c->n - 1], *l;
	struct stat st;
	int r = 0;

	BUG_ON(c->n < 2);
	l = below - 1;
	if (l->fd < 0) {
		/* An fd is available: at least two levels were open on the way down, and now it is one. */
		l->fd = openat(below->fd, "..", DIR_FLAGS);
		if (l->fd < 0)
			r = -errno;
		else if (fstat(l->fd, &st) < 0 || st.st_dev != l->dev || st.st_ino != l->ino)
			r = -ESTALE;
		if (r < 0)
			l->fd = fd_close(l->fd);
		c->first_open = c->n - 2;
	}
	fd_close(below->fd);
	c->n--;
	return r;
}
