/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a run: snapshots of everything that it wrote, in the layer of its workspace, the layer of
 * its root file system and its named home, taken together.
 *
 *   STATE/objects/            content, shared by all runs (workspace/store/objects.h)
 *   runs/ID/checkpoints/      N-HASH: the manifest of checkpoint N, named by its own hash; index; lock
 *   runs/ID/rollback          the journal: the trees being exchanged
 *
 * Invariants (cited elsewhere as checkpoint.K1 …)
 * K1  A checkpoint is in the list only if its manifest and all objects that it names exist and are complete.
 * K2  A rollback first makes a checkpoint of the state that it takes away. The new trees are made beside the
 *     old ones; then the journal is written; then each pair is exchanged atomically. After a crash, the next
 *     process that takes the run finishes the exchanges in the journal, or, without a journal, deletes the
 *     new trees.
 * K3  Each act is in the audit log before its effect is visible.
 * K4  Checkpoints that a sandbox's commands cause (automatic ones) leave a floor of free space on the state's
 *     file system, and their content is limited to a multiple of the run's disk limit, plus the newest one.
 */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "audit/audit.h"
#include "run/run.h"
#include "run/supervise/run_link.h"
#include "sandbox/state/state.h"
#include "workspace/store/ckpt_list.h"

#include <stdbool.h>
#include <stdint.h>

#define CKPT_TREES 3

/* A tree that checkpoints cover: dirfd/name, and dirfd/fresh for its replacement while that is made. */
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
	int run_fd; /* if the run is not alive and was opened for changes, this descriptor holds its lock */
	bool alive;
	bool mapped; /* a child with the owner's ids works on its files, see workspace/tree/owner.h */
	int dir_fd;  /* checkpoints/ */
	int lock_fd;
	int layers_fd, homes_fd;
	struct objects store;
	struct run_link link; /* open while the run is frozen */
	unsigned frozen;      /* enum proto_frozen: how it was frozen */
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
			    .link = RUN_LINK_INIT })

/* Finds the run and its checkpoints. With `change`, other processes cannot change them until ckpt_release(),
 * a run that is not alive is locked, and a rollback interrupted by a crash is finished first. */
int ckpt_open(struct ckpt_run *r, const char *ref, bool change, struct err *e) MUST_CHECK;
void ckpt_release(struct ckpt_run *r);

/* Finds "c3" or "3"; NULL: the latest one that was not made by a rollback. */
int ckpt_find(const struct ckpt_run *r, const char *text, const struct ckpt **ret, struct err *e) MUST_CHECK;

/* Does this word have the form of a checkpoint's name? */
bool ckpt_is_name(const char *text);

/* Reads a manifest and verifies its hash. */
int ckpt_read(const struct ckpt_run *r, const struct ckpt *c, struct buf *ret, struct err *e) MUST_CHECK;

struct ckpt_want {
	const char *label; /* "" for none */
	uint64_t keep;	   /* maximum number to keep; 0: all */
	bool only_changed; /* make none if nothing has changed since the last one */
	bool undo;	   /* made by a rollback */
	bool automatic;	   /* set by ckpt_make_automatic() */
	bool hold;	   /* keep a live run frozen until r->link is closed */
};

struct ckpt_made {
	uint32_t number; /* 0: nothing had changed */
	unsigned char hash[HASH_LEN];
	uint64_t entries, files_read, new_objects, new_bytes, pruned;
	uint32_t flags;
	unsigned frozen;
	uint64_t still_ns; /* how long the run was frozen */
	bool no_room;	   /* automatic: none was made, because free space is below the floor */
	bool told;	   /* and that is known since an earlier one */
};

int ckpt_make(struct ckpt_run *r, const struct ckpt_want *w, struct ckpt_made *ret, struct err *e) MUST_CHECK;

/* Makes a checkpoint that no person asked for (checkpoint.K4). Where room is missing, the oldest automatic ones of the run are
 * removed; if that is not enough, returns 0 with ret->no_room. */
int ckpt_make_automatic(struct ckpt_run *r, const struct ckpt_want *w, struct ckpt_made *ret,
			struct err *e) MUST_CHECK;

/* The text for people of ckpt_made.no_room. */
extern const char ckpt_no_room_text[];

/* Is less free space left than automatic checkpoints would leave? */
bool ckpt_room_is_low(const struct ckpt_run *r);

/* The current state as a manifest that is not stored; with `content` its objects are, until the next gc. */
int ckpt_scan_now(struct ckpt_run *r, bool content, struct buf *ret, struct err *e) MUST_CHECK;

int ckpt_remove(struct ckpt_run *r, const struct ckpt *c, struct err *e) MUST_CHECK;

struct ckpt_rolled {
	uint32_t to, undo;
	bool was_alive;
	uint64_t entries, linked, copied;
};

/* Rolls the run back. Afterwards it is not alive, and r->run_fd holds its lock. */
int ckpt_rollback(struct ckpt_run *r, const struct ckpt *to, struct ckpt_rolled *ret,
		  struct err *e) MUST_CHECK;

/* Finishes or discards a rollback that a crash interrupted. The caller holds run_fd's lock. */
int ckpt_recover(struct state *st, const char *id, int run_fd, struct err *e) MUST_CHECK;

/* For run_origin.fill of a fork: fills the new run's layers from a checkpoint of `from`, which becomes its first
 * checkpoint. */
struct ckpt_fork {
	struct ckpt_run *from;
	const struct ckpt *at;
	const char *home; /* home of the new run, made by it; NULL: none */
};

int ckpt_populate(void *fork, struct run *r, struct err *e) MUST_CHECK;

#endif
