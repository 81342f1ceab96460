/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of checkpoint content: objects/xx/HASH, each the bytes of a file of some checkpoint, stored once.
 *
 * The hash of a file is BLAKE2b over the offset (u64) and the bytes of each 4 KiB page that is not all zeros, followed by the
 * size of the file. So it does not depend on where a file system keeps holes, and a hole of a terabyte costs nothing.
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
	uint64_t floor; /* a new object must leave this many bytes free on the file system; 0: any number */
	bool no_clone;	/* the file systems of source and store cannot share blocks */
	uint64_t new_objects, new_bytes;
	bool by_another; /* some were put by another process: they can only be synced all at once */
	bool no_fd;	 /* the same, because no descriptor was left for one */
	unsigned n_unsynced;
	int unsynced
		[OBJECTS_SYNC_FEW]; /* the first new objects: if there are no more, each gets an fsync() */
	char *space;		    /* OBJECTS_CHUNK bytes */
};

#define OBJECTS_INIT ((struct objects){ .fd = -1, .lock_fd = -1 })

/* objects/ in the state directory, made when missing. */
int objects_open(struct objects *s, int state_fd, struct err *e) MUST_CHECK;
void objects_release(struct objects *s);

/* Take the lock (objects.O3), which objects_release() gives up: shared, waiting for it; or exclusively, -EBUSY after wait_ms. */
int objects_lock(struct objects *s, struct err *e) MUST_CHECK;
int objects_lock_alone(struct objects *s, unsigned wait_ms, struct err *e) MUST_CHECK;
/* Gives the lock up earlier. */
void objects_unlock(struct objects *s);

/* The free bytes that automatic checkpoints must leave on the store's file system; 0 when it cannot be read. It is more than
 * the free space below which a running sandbox is ended (run/supervise/supervise_disk.c). */
uint64_t objects_free_floor(const struct objects *s);
/* Would `bytes` more leave less than `floor` free, or few inodes? */
bool objects_lack_room(const struct objects *s, uint64_t floor, uint64_t bytes);

/* Stores the first `size` bytes of a file, with zeros where the file has become shorter meanwhile. -ENOSPC when a new object
 * would leave less than the floor. */
int objects_put(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN]) MUST_CHECK;

/* Computes the hash of the same bytes and stores nothing. */
int objects_hash(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN]) MUST_CHECK;

/* Fills the empty file `to` with an object. -EBADMSG when the stored bytes do not match the hash, -ENOENT when there is none. */
int objects_get(struct objects *s, const unsigned char hash[HASH_LEN], uint64_t size, int to) MUST_CHECK;

/* Opens an object for reading. The caller only shows it: its hash is not checked. */
int objects_open_one(struct objects *s, const unsigned char hash[HASH_LEN]) MUST_CHECK;

/* Every object that was put is on the disk when this returns. */
int objects_sync(struct objects *s, struct err *e) MUST_CHECK;

/* A list of hashes; a set, which hashes_have() can search, once hashes_sort() was called. */
struct hashes {
	unsigned char (*v)[HASH_LEN];
	size_t n, cap;
};

int hashes_add(struct hashes *h, const unsigned char hash[HASH_LEN]) MUST_CHECK;
void hashes_sort(struct hashes *h); /* removes duplicates */
bool hashes_have(const struct hashes *h, const unsigned char hash[HASH_LEN]);
void hashes_release(struct hashes *h);

struct objects_use {
	uint64_t objects, bytes; /* bytes on the disk */
};

/* Removes every object that is not in the (sorted) set. The caller holds the exclusive lock. */
int objects_sweep(struct objects *s, const struct hashes *keep, struct objects_use *ret_gone,
		  struct objects_use *ret_left, struct err *e) MUST_CHECK;

/* Counts the objects of a (sorted) set and the disk space that they use. */
void objects_measure(struct objects *s, const struct hashes *set, struct objects_use *ret);

#endif
