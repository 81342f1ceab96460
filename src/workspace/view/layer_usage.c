/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the bytes and inodes of a layer, for the disk limit. The sandbox may be writing to it, so entries vanish, change
 * type and move during the walk; none of that is an error. Depth and width cost no fds and little memory.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/tree/chain.h"
#include "workspace/tree/layer.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <fcntl.h>

struct level {
	size_t first;	/* number of names before its own */
	mode_t restore; /* see layer_push() */
};

struct usage {
	struct chain chain;
	struct buf names; /* directories still to visit, of all levels, one after the other */
	size_t *starts;	  /* where each name starts */
	size_t n, cap;
	struct level *levels; /* one for each of the chain */
	size_t n_levels, cap_levels;
	uint64_t bytes, inodes;
	uint64_t shared; /* inodes of files with several names, in units of 2^-32 */
	uint64_t cap_bytes, cap_inodes;
	_Alignas(struct dirent64) char raw[32768];
};

/* Each name of a file counts for its share (1/nlink), so that the sum is right without a table of seen inodes. */
static void count_usage(struct usage *u, const struct stat *st)
{
	uint64_t links = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : st->st_nlink;

	u->bytes += ((uint64_t)st->st_blocks * 512 + links - 1) / links;
	if (links == 1)
		u->inodes++;
	else
		u->shared += ((1ULL << 32) + links - 1) / links;
}

static bool is_past_caps(const struct usage *u)
{
	return u->bytes > u->cap_bytes || u->inodes + (u->shared >> 32) > u->cap_inodes;
}

static int visit_used_entry(struct usage *u, int fd, const char *name)
{
	struct stat st;

	if (str_eq(name, ".") || str_eq(name, ".."))
		return 0;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	count_usage(u, &st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (VEC_ROOM(u->starts, u->n, u->cap, VEC_NO_MAX) < 0)
		return -ENOMEM;
	u->starts[u->n++] = u->names.len;
	buf_add(&u->names, name, strlen(name) + 1);
	return buf_error(&u->names);
}

static int reserve_level(struct usage *u)
{
	return VEC_ROOM(u->levels, u->n_levels, u->cap_levels, VEC_NO_MAX);
}

/* Counts the entries of the chain's current directory. */
static int count_directory(struct usage *u, mode_t restore)
{
	int fd = chain_fd(&u->chain);
	ssize_t len;

	u->levels[u->n_levels++] = (struct level){ .first = u->n, .restore = restore };
	while ((len = getdents64(fd, u->raw, sizeof(u->raw))) > 0 && !is_past_caps(u)) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *de = (const void *)(u->raw + at);
			int r;

			at += de->d_reclen;
			r = visit_used_entry(u, fd, de->d_name);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int leave_usage_level(struct usage *u)
{
	struct level l = u->levels[--u->n_levels];

	return u->n_levels ? layer_pop(&u->chain, l.restore) : 1;
}

/* One step of the walk; 1 at its end. */
static int usage_step(struct usage *u)
{
	mode_t restore;
	int r;

	if (u->n == u->levels[u->n_levels - 1].first)
		return leave_usage_level(u);
	r = reserve_level(u);
	if (r < 0)
		return r;
	u->names.len = u->starts[--u->n];
	r = layer_push(&u->chain, u->names.data + u->names.len, &restore);
	if (r >= 0)
		return count_directory(u, restore);
	/* It is gone, no directory any more, or not ours; the entry itself was counted. */
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ESTALE ? r : 0;
}

/* The sandbox may have closed the top like any other directory; its permissions are opened for the walk. *ret_mode is its
 * old mode, 0 when it was not changed. */
static int open_layer_top(struct usage *u, int upper_fd, mode_t *ret_mode)
{
	int r = chain_start(&u->chain, upper_fd);
	struct stat st;

	*ret_mode = 0;
	if (r != -EACCES || fstat(upper_fd, &st) < 0 || fchmod(upper_fd, (st.st_mode & 07777) | 0700) < 0)
		return r;
	*ret_mode = st.st_mode;
	return chain_start(&u->chain, upper_fd);
}

static int measure_layer(struct usage *u, int upper_fd)
{
	mode_t top;
	int r = open_layer_top(u, upper_fd, &top);

	u->bytes = u->inodes = u->shared = 0;
	u->n = u->names.len = 0;
	if (r == 0)
		r = reserve_level(u);
	if (r == 0)
		r = count_directory(u, 0);
	while (r == 0 && !is_past_caps(u))
		r = usage_step(u);
	while (u->n_levels) { /* restores modes, also after an error */
		if (leave_usage_level(u) < 0 && r >= 0)
			r = -ESTALE;
	}
	chain_release(&u->chain);
	if (top)
		(void)!fchmod(upper_fd, top & 07777);
	return r < 0 ? r : 0;
}

int workspace_usage(int upper_fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *ret_bytes,
		    uint64_t *ret_inodes, struct err *e)
{
	struct usage *u = calloc(1, sizeof(*u));
	int r = 0;

	if (!u)
		return err_set(e, -ENOMEM, "out of memory while measuring the workspace");
	u->cap_bytes = cap_bytes;
	u->cap_inodes = cap_inodes;
	/* A sandbox that moves directories during the walk is measured again: it cannot escape the limit that way. */
	for (unsigned tries = 0; tries < 3; tries++) {
		r = measure_layer(u, upper_fd);
		if (r != -ESTALE)
			break;
	}
	if (r == 0) {
		*ret_bytes = u->bytes;
		*ret_inodes = u->inodes + (u->shared >> 32) + ((u->shared & 0xffffffff) != 0);
	}
	buf_release(&u->names);
	free(u->starts);
	free(u->levels);
	free(u);
	return r < 0 ? err_sys(e, r, "cannot measure the workspace") : 0;
}
