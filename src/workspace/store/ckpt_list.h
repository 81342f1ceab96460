/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of a run as a list, and the removal of content that no checkpoint needs. Invariants: checkpoint/checkpoint.h. */
#ifndef WORKSPACE_CKPT_LIST_H
#define WORKSPACE_CKPT_LIST_H

#include "sandbox/state/state.h"
#include "workspace/store/tree_store.h"

#include <stdbool.h>
#include <stdint.h>

struct ckpt {
	uint32_t number;
	unsigned char hash[HASH_LEN];
	uint64_t time; /* CLOCK_REALTIME ns */
	uint32_t flags;
	char *label; /* "" for none */
	bool automatic;
};

/* Oldest first. */
struct ckpts {
	struct ckpt *v;
	size_t n;
};

void ckpts_release(struct ckpts *l);

/* Opens "checkpoints/" of a run. Without `make`, -ENOENT when there is none. */
int ckpt_open_dir(int run_fd, bool make, struct err *e) MUST_CHECK;
int ckpt_list(int dir_fd, struct ckpts *ret, struct err *e) MUST_CHECK;
/* Reads the manifest of a checkpoint and compares it with the hash in its name: -EBADMSG when they differ. */
int ckpt_list_read(int dir_fd, const struct ckpt *c, struct buf *ret, struct err *e) MUST_CHECK;
#define CKPT_FILE_MAX (16 + HASH_HEX_LEN)
void ckpt_file_name(uint32_t number, const unsigned char hash[HASH_LEN], char out[CKPT_FILE_MAX]);
/* An empty file of this name marks a checkpoint that was made automatically. */
#define CKPT_MARK_MAX (CKPT_FILE_MAX + 5)
void ckpt_mark_name(uint32_t number, const unsigned char hash[HASH_LEN], char out[CKPT_MARK_MAX]);

/* Removes content that no checkpoint of any run needs, and homes that a crash left half made. -EBUSY when a checkpoint is
 * still being made or restored after wait_ms. */
int ckpt_gc(struct state *st, unsigned wait_ms, struct objects_use *ret_gone, struct objects_use *ret_left,
	    struct err *e) MUST_CHECK;

/* The same for a caller that has just removed a checkpoint: waits briefly, and leaves a failure to the next call. */
void ckpt_tidy(struct state *st);

#endif
