/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of checkpoint content: objects/xx/HASH, each the bytes of a file of some checkpoint, stored once.
 *
 * The hash of a file is BLAKE2b over, for each 4 KiB page that is not all zeros, its place (u64) and its bytes, and in
 * the end its size: so it does not depend on where a file system keeps holes, and a hole of a terabyte costs nothing.
 *
 * Invariants
 *  O1  An object gets its name when it is complete (linked or renamed into place), and is never written again.
 *  O2  Content is hashed when it is read back, and refused when it does not match its name.
 *  O3  A process that adds objects, or relies on existing ones, holds the lock shared until a manifest that names them is in
 *      place; a process that removes objects holds it exclusively.
 */
#ifndef WORKSPACE_OBJECTS_H
#define WORKSPACE_OBJECTS_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stdint.h>

#define OBJECTS_CHUNK (256u << 10)
#define OBJECTS_SYNC_FEW 8

struct objects {
	int fd;
	int lock_fd;
	bool no_clone; /* this pair of file systems shares no blocks */
	uint64_t new_objects, new_bytes;
	bool by_another; /* some were put by another process: they can only be synced all at once */
	unsigned n_unsynced;
	int unsynced[OBJECTS_SYNC_FEW]; /* the first few of them, to be brought to the disk one by one */
	char *space;			/* OBJECTS_CHUNK bytes */
};

#define OBJECTS_INIT ((struct objects){ .fd = -1, .lock_fd = -1 })

/* objects/ in the state directory, made when missing. */
int objects_open(struct objects *s, int state_fd, struct err *e) MUST_CHECK;
void objects_release(struct objects *s);

/* Waits for it; unlocked by objects_release(). Alone: -EBUSY when it is not to be had in so long. */
int objects_lock(struct objects *s, struct err *e) MUST_CHECK;
int objects_lock_alone(struct objects *s, unsigned wait_ms, struct err *e) MUST_CHECK;

/* Keeps the first `size` bytes of a file (zeros where it is shorter by now). 0 or negative errno. */
int objects_put(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN]) MUST_CHECK;

/* Only the hash. */
int objects_hash(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN]) MUST_CHECK;

/* Fills an empty new file. -EBADMSG when what is kept is not what it should be, -ENOENT when it is not there. */
int objects_get(struct objects *s, const unsigned char hash[HASH_LEN], uint64_t size, int to) MUST_CHECK;

/* An object for reading; for those who show it to a person. */
int objects_open_one(struct objects *s, const unsigned char hash[HASH_LEN]) MUST_CHECK;

/* What was put is on the disk when this returns. */
int objects_sync(struct objects *s, struct err *e) MUST_CHECK;

/* A set of hashes, in the order they came until it is sorted. */
struct hashes {
	unsigned char (*v)[HASH_LEN];
	size_t n, cap;
};

int hashes_add(struct hashes *h, const unsigned char hash[HASH_LEN]) MUST_CHECK;
void hashes_sort(struct hashes *h); /* each once */
bool hashes_have(const struct hashes *h, const unsigned char hash[HASH_LEN]);
void hashes_release(struct hashes *h);

struct objects_use {
	uint64_t objects, bytes; /* bytes on the disk */
};

/* Removes every object that is not in the (sorted) set, under the lock alone. */
int objects_sweep(struct objects *s, const struct hashes *keep, struct objects_use *ret_gone,
		  struct objects_use *ret_left, struct err *e) MUST_CHECK;

/* How much of the disk the objects of a (sorted) set take. */
void objects_measure(struct objects *s, const struct hashes *set, struct objects_use *ret);

#endif
