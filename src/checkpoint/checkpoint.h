/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a run: all that it wrote, in its workspace's layer, in the layer of its root file system and in its named
 * home, taken together.
 *
 *   STATE/objects/            content, shared by all runs (workspace/store/objects.h)
 *   runs/ID/checkpoints/      N-HASH: the manifest number N, named by its own hash; index; lock
 *   runs/ID/rollback          while trees are exchanged: which ones (the journal)
 *
 * Invariants
 *  K1  A checkpoint is in the list only when its manifest and all that it names are there and whole.
 *  K2  A rollback first makes a checkpoint of what it takes away. The new trees are made beside the old ones; then the
 *      journal is written; then each pair is exchanged in one act. Whoever takes the run next finishes what the journal
 *      says, or, where there is none, throws the new trees away.
 *  K3  What was done is in the audit log before it shows.
 */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "audit/audit.h"
#include "run/run.h"
#include "run/supervise/link.h"
#include "sandbox/state/state.h"
#include "workspace/store/ckpt_list.h"

#include <stdbool.h>
#include <stdint.h>

#define CKPT_TREES 3

/* A tree that checkpoints cover: dirfd/name, and beside it what is being made. */
struct ckpt_tree {
	const char *tree; /* "workspace", "root", "home" */
	int dirfd;	  /* borrowed */
	char name[80], fresh[96];
};

struct ckpt_run {
	struct state st;
	struct audit *audit;
	char id[RUN_ID_LEN + 1];
	struct run_meta meta;
	int run_fd; /* of one that is not alive: with its lock, when it was opened to be changed */
	bool alive;
	bool mapped; /* work on its files is done by a child, see workspace/tree/owner.h */
	int dir_fd;  /* checkpoints/ */
	int lock_fd;
	int layers_fd, homes_fd;
	struct objects store;
	struct link link; /* while it stands still */
	unsigned frozen;  /* enum proto_frozen, then */
	struct ckpts list;
};

#define CKPT_RUN_INIT                              \
	((struct ckpt_run){ .st = STATE_INIT,      \
			    .run_fd = -1,          \
			    .dir_fd = -1,          \
			    .lock_fd = -1,         \
			    .layers_fd = -1,       \
			    .homes_fd = -1,        \
			    .store = OBJECTS_INIT, \
			    .link = LINK_INIT })

/* Finds the run and its checkpoints. With `change` nobody else changes them until it is released, and one that is not
 * alive is held; what a crash left of a rollback is finished first. */
int ckpt_open(struct ckpt_run *r, const char *ref, bool change, struct err *e) MUST_CHECK;
void ckpt_release(struct ckpt_run *r);

/* "c3" or "3"; NULL: the last one that was not made by a rollback. */
int ckpt_find(const struct ckpt_run *r, const char *text, const struct ckpt **ret, struct err *e) MUST_CHECK;

/* Could this word mean a checkpoint? */
bool ckpt_is_name(const char *text);

/* Reads a manifest, and that it is what it is called. */
int ckpt_read(const struct ckpt_run *r, const struct ckpt *c, struct buf *ret, struct err *e) MUST_CHECK;

struct ckpt_want {
	const char *label; /* "" for none */
	uint64_t keep;	   /* so many at most; 0: all */
	bool only_changed; /* none when nothing has changed since the last */
	bool undo;	   /* made by a rollback */
	bool hold;	   /* one that lives goes on standing still, until r->link is closed */
};

struct ckpt_made {
	uint32_t number; /* 0: nothing had changed */
	unsigned char hash[HASH_LEN];
	uint64_t entries, files_read, new_objects, new_bytes, pruned;
	uint32_t flags;
	unsigned frozen;
	uint64_t still_ns; /* how long it stood still */
};

int ckpt_make(struct ckpt_run *r, const struct ckpt_want *w, struct ckpt_made *ret, struct err *e) MUST_CHECK;

/* The state as it is now as a manifest that is kept nowhere; with `content` the objects are, until the next gc. */
int ckpt_now(struct ckpt_run *r, bool content, struct buf *ret, struct err *e) MUST_CHECK;

int ckpt_remove(struct ckpt_run *r, const struct ckpt *c, struct err *e) MUST_CHECK;

struct ckpt_rolled {
	uint32_t to, undo;
	bool was_alive;
	uint64_t entries, linked, copied;
};

/* Takes the run back. Afterwards it is not alive, and held by r->run_fd. */
int ckpt_rollback(struct ckpt_run *r, const struct ckpt *to, struct ckpt_rolled *ret,
		  struct err *e) MUST_CHECK;

/* Finishes or forgets what a crash left of a rollback. run_fd is held. */
int ckpt_recover(struct state *st, const char *id, int run_fd, struct err *e) MUST_CHECK;

/* For run_origin.fill of a fork: fills the new run's layers from a checkpoint of r, and makes it its first one. */
struct ckpt_fork {
	struct ckpt_run *from;
	const struct ckpt *at;
	const char *home; /* the new run's own, made by it; NULL: it has none */
};

int ckpt_populate(void *fork, struct run *r, struct err *e) MUST_CHECK;

#endif
