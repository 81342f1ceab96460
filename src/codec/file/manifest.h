/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's manifest: every entry of each tree that it covers, by itself enough to make those trees again with the
 * content that it names by hash. Pure: no I/O.
 *
 * It is read back from a disk that a crash, or somebody with access to it, may have changed, so the reader takes nothing
 * on trust. Integers are little-endian; a name, a link's target and the name of an attribute are followed by a NUL that
 * does not count.
 *
 *   head   magic, u64 time, u32 number, u32 flags, 32 bytes parent, u16 length, label, NUL
 *   tree   u8 MANIFEST_TREE, u8 length, name, NUL; then its top directory, an entry without a name
 *   entry  u8 type, u8 0, u16 name length, u32 mode, u32 uid, u32 gid, i64 seconds, u32 nanoseconds, u32 link group,
 *          u64 size, u32 length of the attributes, name, NUL, attributes; a file: 32 bytes of hash; a link: target, NUL
 *   leave  u8 MANIFEST_LEAVE: out of a directory
 *   end    u8 MANIFEST_END, u64 how many entries there were
 *
 * Invariants
 *  M1  A name is 1 to 255 bytes without '/' and NUL, neither "." nor "..", and greater than the one before it in its
 *      directory: no name comes twice.
 *  M2  Only the types of the enum exist; a mode has only the bits 07777. No device but the mark for "deleted".
 *  M3  Link groups are numbered in the order of their first files, from 1 in each tree; all files of one agree in size and
 *      content.
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
	MANIFEST_WHITEOUT, /* overlayfs: what the original has here is deleted */
	MANIFEST_LEAVE,
	MANIFEST_END
};

enum manifest_flag {
	MANIFEST_LIVE = 1,   /* processes were there */
	MANIFEST_FROZEN = 2, /* and stood still, all of them */
	MANIFEST_MAPPED = 4, /* ids are those inside the owner's range of ids, not the host's */
	MANIFEST_UNDO = 8,   /* made by a rollback, of what it took away */
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
	const char *name; /* also a tree's; "" for a tree's top directory */
	uint32_t mode, uid, gid;
	int64_t sec;
	uint32_t nsec;
	uint32_t group; /* 0: has no other name */
	uint64_t size;	/* of a file, or of a link's target */
	const uint8_t *attrs;
	uint32_t attrs_len;
	const uint8_t *hash; /* MANIFEST_FILE */
	const char *target;  /* MANIFEST_LINK */
};

/* One attribute of a list of them. */
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
/* To a list of attributes, for manifest_ent.attrs; sorted by name, each once. */
void manifest_add_attr(struct buf *out, const struct manifest_attr *a);

/* The first of a list, and the next ones: 1, 0 at its end, -EBADMSG. *off begins at 0. */
int manifest_next_attr(const uint8_t *attrs, uint32_t len, uint32_t *off,
		       struct manifest_attr *ret) MUST_CHECK;

struct manifest_reader {
	const uint8_t *data;
	size_t len, off;
	struct manifest_head head;
	size_t *last; /* for each directory that we are in: where the last name in it is, or SIZE_MAX */
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

/* Begins with the head, which is checked. The bytes stay the caller's and must live on. 0, -EBADMSG. */
int manifest_open(struct manifest_reader *r, const void *data, size_t len) MUST_CHECK;

/* 1 and the next record, 0 behind the end, -EBADMSG for what is none, -ENOMEM. Pointers lead into the bytes. */
int manifest_next(struct manifest_reader *r, struct manifest_ent *ret) MUST_CHECK;
void manifest_close(struct manifest_reader *r);

/* Only the head, for a list: as much as manifest_open() asks for. */
int manifest_peek(const void *data, size_t len, struct manifest_head *ret) MUST_CHECK;

#endif
