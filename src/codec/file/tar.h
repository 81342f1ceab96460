/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of tar archives as they come from strangers: ustar, pax extended headers, GNU long names, numbers in
 * base 256. Pure and incremental: it is given bytes in pieces of any size and says what they mean.
 *
 *	struct tar t = TAR_INIT;
 *	while ((n = tar_next(&t, data, len, &used, &piece)) >= 0) { data += used; len -= used; … }
 *
 * Invariants
 *  T1  A header is believed only when its checksum is right. What a header says about sizes is checked before it
 *      is used; extended headers and long names together are never larger than TAR_META_MAX.
 *  T2  A path and a link's target are never empty, hold no NUL, and are at most TAR_PATH_MAX long. Nothing else is
 *      promised about them: ".." and "/" are for the caller to refuse.
 *  T3  What could be read in two ways is refused: a sparse file, a second volume, an entry of a type that we do not
 *      know, a global header that names paths or sizes, a number that is not one.
 *  T4  The end is a block of zeros. Some writers leave it out: an archive that stops behind an entry is taken, and
 *      `unended` says so, for one that was cut off there looks the same. Anywhere else it is cut off.
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
	const char *link; /* of both kinds of links; empty otherwise */
	uint32_t mode;	  /* permission bits with setuid, setgid and sticky */
	uint64_t uid, gid;
	uint64_t size; /* of TAR_FILE; 0 otherwise */
	int64_t mtime; /* seconds */
	uint64_t dev_major, dev_minor;
	unsigned xattrs;    /* how many there were */
	bool overlay_xattr; /* one of them means something to an overlay */
};

enum tar_event {
	TAR_MORE,  /* all bytes are used up */
	TAR_ENTRY, /* piece->entry */
	TAR_DATA,  /* piece->data, of the last entry; tar_left() says how much of it is still to come */
	TAR_END,   /* what follows does not matter; comes again each time */
};

struct tar_piece {
	struct tar_entry entry;
	const uint8_t *data;
	size_t len;
};

struct tar {
	int state;
	uint8_t block[TAR_BLOCK];
	size_t have;	/* bytes of block */
	uint64_t left;	/* of the entry's or extended header's data */
	unsigned pad;	/* zeros behind it */
	char meta_type; /* of the header whose data is gathered in meta */
	struct buf meta;
	struct buf path, link; /* from extended headers, for the next entry; empty: none */
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

/* Takes as many bytes as belong to one event: *ret_used. An event, or -EBADMSG (t->why says why), -ENOMEM. */
int tar_next(struct tar *t, const uint8_t *data, size_t len, size_t *ret_used,
	     struct tar_piece *ret) MUST_CHECK;

/* No more bytes will come: 0 when what came is whole. */
int tar_finish(struct tar *t) MUST_CHECK;

/* Bytes of the current entry that are still to come. */
uint64_t tar_left(const struct tar *t);

#endif
