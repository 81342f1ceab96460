/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the ckpt_*.c files. */
#ifndef CHECKPOINT_CKPT_INT_H
#define CHECKPOINT_CKPT_INT_H

#include "checkpoint/checkpoint.h"

int ckpt_reload(struct ckpt_run *r, struct err *e) MUST_CHECK;
/* Fills in the trees that the run has and returns their number. layers_fd may be -1. */
size_t ckpt_trees(int layers_fd, int homes_fd, const char *id, const char *home,
		  struct ckpt_tree ret[CKPT_TREES]);

/* Opens the top directory of a tree for reading. If it is ours but its mode denies us, the mode is changed,
 * and *ret_mode is the original mode; else 0. */
int ckpt_open_top(const struct ckpt_tree *t, mode_t *ret_mode) MUST_CHECK;
/* Closes it and restores the mode. */
void ckpt_close_top(int fd, mode_t mode);

/* Adds a manifest to the list as number N: it appears atomically and is synced to disk. */
int ckpt_publish(int dir_fd, uint32_t number, const unsigned char hash[HASH_LEN], const struct buf *manifest,
		 struct err *e) MUST_CHECK;

/* Loads the index of known files and the manifest that it belongs to; empty if there is none to rely on. */
int ckpt_load_known(const struct ckpt_run *r, struct known *ret, const struct ckpt **ret_base) MUST_CHECK;
void ckpt_save_known(int dir_fd, const struct known *k, const unsigned char manifest[HASH_LEN]);

/* Scans all trees and appends them, with the end mark, to `manifest`; fills `after`. */
struct ckpt_scan {
	struct ckpt_run *r;
	bool live, hash_only, trust_inodes;
	bool workspace_only;
	const struct known *before;
	struct known *after;
	uint64_t entries, files_read;
};
int ckpt_scan(struct ckpt_scan *s, struct buf *manifest, struct err *e) MUST_CHECK;

/* For a live run: stores content while the run continues, and updates the index of known files. */
int ckpt_first_pass(struct ckpt_run *r, const struct ckpt_scan *how, struct known *k,
		    struct err *e) MUST_CHECK;
/* Freezes the run until r->link is closed, and opens its layers. -ENOENT, -ECONNREFUSED: it is starting or
 * ending; -EPERM: its launcher refuses now. */
int ckpt_hold_still(struct ckpt_run *r, struct err *e) MUST_CHECK;

/* Opens the directories with the layers and homes of a run that is not alive, or whose layers are not a disk
 * image. */
int ckpt_open_places(struct ckpt_run *r, struct err *e) MUST_CHECK;

/* Removes a checkpoint, with the reason for the log. */
int ckpt_remove_for(struct ckpt_run *r, const struct ckpt *c, const char *why, struct err *e) MUST_CHECK;

/* Adds to the number of bytes that the run's checkpoints have stored since the last measurement (ckpt_auto.c). */
void ckpt_note_spent(struct ckpt_run *r, uint64_t new_bytes);

int ckpt_log(struct audit *a, const char *type, const char *id, const struct buf *fields,
	     struct err *e) MUST_CHECK;

/* Builds trees beside the existing ones, from a manifest; fills `after` with the files made. */
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
