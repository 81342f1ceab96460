/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's manifest: every entry of each tree that it covers. The manifest and the objects that it names by
 * hash are enough to make those trees again. Pure: no I/O.
 *
 * A crash, or a person with access to the disk, may have changed the manifest since it was written, so the reader
 * checks every byte. Integers are little-endian; a name, a link's target and the name of an attribute are followed by
 * a NUL that their length does not count.
 *
 *   head   magic, u64 time, u32 number, u32 flags, 32 bytes parent, u16 length, label, NUL
 *   tree   u8 MANIFEST_TREE, u8 length, name, NUL; then its top directory, an entry without a name
 *   entry  u8 type, u8 0, u16 name length, u32 mode, u32 uid, u32 gid, i64 seconds, u32 nanoseconds, u32 link group,
 *          u64 size, u32 length of the attributes, name, NUL, attributes; a file: 32 bytes of hash; a link: target, NUL
 *   leave  u8 MANIFEST_LEAVE: the end of a directory
 *   end    u8 MANIFEST_END, u64 number of entries
 *
 * Invariants
 *  M1  A name is 1 to 255 bytes without '/' and NUL, neither "." nor "..", and greater than the one before it in its
 *      directory: no name comes twice.
 *  M2  Only the types of the enum exist; a mode has only the bits 07777. The only device is overlayfs's
 *      mark for a deleted file.
 *  M3  A link group is the set of names of one file (hard links). Groups are numbered in the order of their first
 *      names, from 1 in each tree; all entries of a group have the same size and content.
 *  M4  Nothing follows the end.
 */
#ifndef CODEC_MANIFEST_H
#define CODEC_MANIFEST_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define MANIFEST_HASH 32
#define MANIFEST_NAME_MAX 255
#define MANIFEST_LABEL_MAX 256
#define MANIFEST_TARGET_MAX 4096
#define MANIFEST_ATTRS_MAX (1u << 20)
#define MANIFEST_TREES_MAX 8

enum manifest_type {
	MANIFEST_TREE = 1,
	MANIFEST_DIR,
	MANIFEST_FILE,
	MANIFEST_LINK,
	MANIFEST_FIFO,
	MANIFEST_SOCKET,
	MANIFEST_WHITEOUT, /* overlayfs: the original's file of this name is deleted */
	MANIFEST_LEAVE,
	MANIFEST_END
};

enum manifest_flag {
	MANIFEST_LIVE = 1,   /* processes were running in the sandbox */
	MANIFEST_FROZEN = 2, /* and all of them were frozen meanwhile */
	MANIFEST_MAPPED = 4, /* uid and gid are numbers inside the owner's id range, not the host's */
	MANIFEST_UNDO = 8,   /* made by a rollback, of the state that it replaced */
	MANIFEST_FLAGS = 15
};

struct manifest_head {
	uint64_t time; /* CLOCK_REALTIME ns */
	uint32_t number;
	uint32_t flags;
	unsigned char parent[MANIFEST_HASH]; /* zeros: none */
	const char *label;		     /* "" for none */
};

struct manifest_ent {
	enum manifest_type type;
	const char *name; /* of an entry or a tree; "" for a tree's top directory */
	uint32_t mode, uid, gid;
	int64_t sec;
	uint32_t nsec;
	uint32_t group; /* link group; 0: the file has no other name */
	uint64_t size;	/* of a file, or of a link's target */
	const uint8_t *attrs;
	uint32_t attrs_len;
	const uint8_t *hash; /* MANIFEST_FILE */
	const char *target;  /* MANIFEST_LINK */
};

/* One extended attribute of a list. */
struct manifest_attr {
	const char *name;
	const uint8_t *value;
	uint32_t len;
};

void manifest_add_head(struct buf *out, const struct manifest_head *h);
void manifest_add_tree(struct buf *out, const char *name);
void manifest_add_ent(struct buf *out, const struct manifest_ent *e);
void manifest_add_leave(struct buf *out);
void manifest_add_end(struct buf *out, uint64_t entries);
/* Adds to a list for manifest_ent.attrs. The caller adds attributes sorted by name, each once. */
void manifest_add_attr(struct buf *out, const struct manifest_attr *a);

/* Reads the attribute at *off, which begins at 0, and moves *off: 1, 0 at the end of the list, -EBADMSG. */
int manifest_next_attr(const uint8_t *attrs, uint32_t len, uint32_t *off,
		       struct manifest_attr *ret) MUST_CHECK;

struct manifest_reader {
	const uint8_t *data;
	size_t len, off;
	struct manifest_head head;
	size_t *last; /* for each open directory: offset of the last name in it, SIZE_MAX at first */
	size_t depth, cap;
	uint64_t entries;
	struct manifest_seen {
		uint64_t size;
		const uint8_t *hash;
	} * groups;
	uint32_t n_groups, cap_groups;
	unsigned trees;
	bool in_tree, ended;
};

/* Begins to read, and checks the head: 0 or -EBADMSG. The bytes stay the caller's and must outlive the reader. */
int manifest_open(struct manifest_reader *r, const void *data, size_t len) MUST_CHECK;

/* Reads the next record: 1, 0 after the end, -EBADMSG, -ENOMEM. Pointers in *ret are into the bytes. */
int manifest_next(struct manifest_reader *r, struct manifest_ent *ret) MUST_CHECK;
void manifest_close(struct manifest_reader *r);

/* Reads and checks only the head, for a list of checkpoints. `data` needs no more than the head's bytes. */
int manifest_peek(const void *data, size_t len, struct manifest_head *ret) MUST_CHECK;

#endif
