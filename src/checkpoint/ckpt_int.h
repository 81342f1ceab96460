/* SPDX-License-Identifier: Apache-2.0 */
/* What the ckpt_*.c files share. */
#ifndef CHECKPOINT_CKPT_INT_H
#define CHECKPOINT_CKPT_INT_H

#include "checkpoint/checkpoint.h"

int ckpt_reload(struct ckpt_run *r, struct err *e) MUST_CHECK;
/* Where the run's trees are, those that it has; returns how many. layers_fd may be -1. */
size_t ckpt_trees(int layers_fd, int homes_fd, const char *id, const char *home,
		  struct ckpt_tree ret[CKPT_TREES]);

/* The top of a tree for reading, opened up when it is ours and closed to us; *ret_mode is then its own mode, else 0. */
int ckpt_open_top(const struct ckpt_tree *t, mode_t *ret_mode) MUST_CHECK;
/* Closes it, and puts the mode back. */
void ckpt_close_top(int fd, mode_t mode);

/* Puts a manifest into a list as number N. It shows at once and whole, and is on the disk. */
int ckpt_publish(int dir_fd, uint32_t number, const unsigned char hash[HASH_LEN], const struct buf *manifest,
		 struct err *e) MUST_CHECK;

/* What is known of the files, and of which manifest in the list it is; nothing when there is nothing to be relied on. */
int ckpt_load_known(const struct ckpt_run *r, struct known *ret, const struct ckpt **ret_base) MUST_CHECK;
void ckpt_save_known(int dir_fd, const struct known *k, const unsigned char manifest[HASH_LEN]);

/* All trees into `manifest`, behind what is there, with the end; `after` is filled. */
struct ckpt_scan {
	struct ckpt_run *r;
	bool live, hash_only, trust_inodes;
	bool workspace_only;
	const struct known *before;
	struct known *after;
	uint64_t entries, files_read;
};
int ckpt_scan(struct ckpt_scan *s, struct buf *manifest, struct err *e) MUST_CHECK;

/* Of a run that lives: keeps content while it goes on, and what is known of it. */
int ckpt_first_pass(struct ckpt_run *r, const struct ckpt_scan *how, struct known *k,
		    struct err *e) MUST_CHECK;
/* Makes it stand still until r->link is closed, and takes its layers. -ENOENT, -ECONNREFUSED: it is starting or ending;
 * -EPERM: its launcher will not now. */
int ckpt_hold_still(struct ckpt_run *r, struct err *e) MUST_CHECK;

/* Opens what holds the layers and homes, of a run that is not alive or whose layers are no image. */
int ckpt_open_places(struct ckpt_run *r, struct err *e) MUST_CHECK;

int ckpt_log(struct audit *a, const char *type, const char *id, const struct buf *fields,
	     struct err *e) MUST_CHECK;

/* Makes trees beside the ones that are there, from a manifest. `after` is filled with what was made. */
struct ckpt_build {
	struct objects *store;
	const struct buf *manifest;
	const struct ckpt_tree *trees;
	size_t n_trees;
	const struct known *before;
	struct known *after;
	bool mapped;
	bool no_marks; /* see struct restore */
	uint64_t entries, linked, copied;
};
int ckpt_build(struct ckpt_build *b, struct err *e) MUST_CHECK;

#endif
