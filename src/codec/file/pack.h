/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small self-describing archive for `coffer cp`: records on a byte stream, read and written front to back.
 * Pure: no I/O. The reader's side treats every byte as hostile.
 *
 * A record is a 16-byte head (u8 type, u8 0, u16 length of name, u32 argument, i64 time of change in ns, little-
 * endian), the name, and for PACK_LINK and PACK_DATA `argument` bytes more. A directory is entered by its record
 * and left by PACK_LEAVE, so a name is always one component and the receiver never resolves a path from the stream.
 *
 * Invariants
 *  K1  A name is 1 to 255 bytes without '/' and NUL, and is neither "." nor ".."; only the outermost entry has
 *      an empty one, because the receiver chooses its name.
 *  K2  Exactly one outermost entry, then PACK_END; a stream that stops before PACK_END is incomplete.
 *  K3  Only directories, regular files and symbolic links exist; a mode has only the bits 0777.
 */
#ifndef CODEC_PACK_H
#define CODEC_PACK_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PACK_HEAD 16
#define PACK_NAME_MAX 255
#define PACK_LINK_MAX 4095
#define PACK_DATA_MAX (60u << 10) /* so that a record fits one frame */
#define PACK_DEPTH_MAX 256

enum pack_type {
	PACK_DIR = 1, /* argument: mode; the entries up to its PACK_LEAVE are inside */
	PACK_FILE,    /* argument: mode; PACK_DATA follows until PACK_CLOSE */
	PACK_DATA,    /* argument: bytes, never 0 */
	PACK_CLOSE,   /* argument: 0, or 1 when the file could not be read to its end */
	PACK_LINK,    /* argument: length of the target */
	PACK_LEAVE,
	PACK_END
};

struct pack_rec {
	enum pack_type type;
	char name[PACK_NAME_MAX + 1];
	uint32_t mode;	     /* PACK_DIR, PACK_FILE */
	int64_t mtime;	     /* ns since 1970; PACK_DIR, PACK_FILE, PACK_LINK */
	const uint8_t *data; /* PACK_DATA, PACK_LINK: into the buffer that was parsed, not NUL-terminated */
	uint32_t len;
	bool cut; /* PACK_CLOSE: the file could not be read to its end */
};

/* Copies a name, cut at PACK_NAME_MAX. */
static inline void pack_set_name(char out[PACK_NAME_MAX + 1], const char *s)
{
	size_t n = strnlen(s, PACK_NAME_MAX);

	memcpy(out, s, n);
	out[n] = '\0';
}

/* The position in a stream; all zero at its start. */
struct pack_state {
	unsigned depth;
	bool in_file;
	bool begun;
	bool ended;
};

/*
 * Parses the record at the start of `data` and checks that it may come now. Returns the bytes it took, 0 when
 * more are needed, or -EPROTO. Nothing may follow PACK_END.
 */
long pack_parse(struct pack_state *s, const void *data, size_t len, struct pack_rec *ret) MUST_CHECK;

/* `data` is the target of a link or the bytes of a file; NULL otherwise. */
void pack_add(struct buf *out, const struct pack_rec *r);

/* Writes only the head of a PACK_DATA record, before bytes that the caller has placed already. */
void pack_put_data_head(uint8_t head[PACK_HEAD], uint32_t len);

#endif
