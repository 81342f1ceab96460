/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of untrusted tar archives: ustar, pax extended headers, GNU long names, numbers in base 256. Pure and
 * incremental: it takes bytes in pieces of any size and returns events.
 *
 *	struct tar t = TAR_INIT;
 *	while ((n = tar_next(&t, data, len, &used, &piece)) >= 0) { data += used; len -= used; … }
 *
 * Invariants
 *  T1  A header is used only when its checksum is right, and a size in it is checked before it is used. An extended
 *      header or a GNU long name has at most TAR_META_MAX bytes, and only one at a time is kept.
 *  T2  A path and a link's target are never empty, contain no NUL, and are at most TAR_PATH_MAX long. Nothing else is
 *      checked: the caller must refuse ".." and absolute paths.
 *  T3  Entries that two readers may understand differently are refused: a sparse file, a second volume, an unknown
 *      type, a global header with a path or a size, a malformed number.
 *  T4  The end is a block of zeros. Some writers leave it out, so an archive that stops after a complete entry is
 *      accepted, with `unended` set, because one that was cut off there looks the same. A stop anywhere else is an
 *      error.
 */
#ifndef CODEC_TAR_H
#define CODEC_TAR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define TAR_BLOCK ((size_t)512)
#define TAR_PATH_MAX 4095
#define TAR_META_MAX (1u << 20)

enum tar_type {
	TAR_FILE,
	TAR_HARDLINK,
	TAR_SYMLINK,
	TAR_CHAR,
	TAR_BLOCKDEV,
	TAR_DIR,
	TAR_FIFO,
	TAR_TYPE_COUNT
};

struct tar_entry {
	enum tar_type type;
	const char *path; /* valid until the next call */
	const char *link; /* target of a hard or symbolic link; empty otherwise */
	uint32_t mode;	  /* permission bits with setuid, setgid and sticky */
	uint64_t uid, gid;
	uint64_t size; /* of TAR_FILE; 0 otherwise */
	int64_t mtime; /* seconds */
	uint64_t dev_major, dev_minor;
	unsigned xattrs;    /* how many there were */
	bool overlay_xattr; /* one of them has a meaning to overlayfs */
};

enum tar_event {
	TAR_MORE,  /* all bytes are used up */
	TAR_ENTRY, /* piece->entry */
	TAR_DATA,  /* piece->data, of the last entry; tar_left() says how much of it is still to come */
	TAR_END,   /* the rest is ignored; returned again by each later call */
};

struct tar_piece {
	struct tar_entry entry;
	const uint8_t *data;
	size_t len;
};

struct tar {
	int state;
	uint8_t block[TAR_BLOCK];
	size_t have;	/* bytes in block so far */
	uint64_t left;	/* bytes of the entry's or extended header's data to come */
	unsigned pad;	/* bytes of padding after it */
	char meta_type; /* type of the extended header whose data is gathered in meta */
	struct buf meta;
	struct buf path, link; /* from extended headers, for the next entry; valid with has_path, has_link */
	bool has_path, has_link, has_size, has_uid, has_gid, has_mtime;
	uint64_t size, uid, gid;
	int64_t mtime;
	unsigned xattrs;
	bool overlay_xattr;
	bool unended;			/* tar_finish(): the end mark is missing */
	const char *why;		/* static text, once tar_next() or tar_finish() failed */
	char text[2][TAR_PATH_MAX + 1]; /* path and link of the current entry */
};

#define TAR_INIT ((struct tar){ 0 })

void tar_release(struct tar *t);

/* Takes the bytes of one event (*ret_used) and returns it; -EBADMSG with the reason in t->why, -ENOMEM. */
int tar_next(struct tar *t, const uint8_t *data, size_t len, size_t *ret_used,
	     struct tar_piece *ret) MUST_CHECK;

/* To be called after the last byte: 0 when the archive is complete. */
int tar_finish(struct tar *t) MUST_CHECK;

/* Bytes of the current entry that are still to come. */
uint64_t tar_left(const struct tar *t);

#endif
