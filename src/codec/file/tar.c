/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of the tar reader: header block, extended headers, data, padding. Every number of a header is
 * checked before use. Paths are not judged here: the caller refuses ".." and absolute ones.
 */
#include "codec/file/tar.h"

#include "base/str.h"

#include <errno.h>
#include <limits.h>

enum { AT_HEADER, AT_META, AT_BODY, AT_PAD, AT_DONE };

/* Where the fields of a header are. */
enum {
	F_NAME = 0,
	F_MODE = 100,
	F_UID = 108,
	F_GID = 116,
	F_SIZE = 124,
	F_MTIME = 136,
	F_SUM = 148,
	F_TYPE = 156,
	F_LINK = 157,
	F_MAGIC = 257,
	F_MAJOR = 329,
	F_MINOR = 337,
	F_PREFIX = 345,
	NAME_LEN = 100,
	PREFIX_LEN = 155,
};

static int tar_is_malformed(struct tar *t, const char *why)
{
	t->why = why;
	return -EBADMSG;
}

void tar_release(struct tar *t)
{
	buf_release(&t->meta);
	buf_release(&t->path);
	buf_release(&t->link);
}

uint64_t tar_left(const struct tar *t)
{
	return t->state == AT_BODY ? t->left : 0;
}

static unsigned pad_of(uint64_t size)
{
	return (unsigned)(-size & (TAR_BLOCK - 1));
}

/* Base 256: the first bit is set, the second is the sign, the rest a big-endian number. */
static int binary_number(const uint8_t *p, size_t len, bool may_be_negative, int64_t *ret)
{
	bool negative = p[0] & 0x40;
	uint64_t v = negative ? (p[0] | ~0x7fULL) : (p[0] & 0x3fu);

	if (negative && !may_be_negative)
		return -EBADMSG;
	for (size_t i = 1; i < len; i++) {
		/* The bits that are shifted out must equal the sign. */
		if ((int64_t)v >> 55 != (negative ? -1 : 0))
			return -EBADMSG;
		v = v << 8 | p[i];
	}
	*ret = (int64_t)v;
	return 0;
}

/* Octal digits, with spaces before and spaces or NULs after them; an empty field is 0. */
static int octal_number(const uint8_t *p, size_t len, int64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return -EBADMSG;
		v = v << 3 | (p[i] - '0');
	}
	for (; i < len; i++) {
		if (p[i] != ' ' && p[i] != '\0')
			return -EBADMSG;
	}
	*ret = (int64_t)v;
	return 0;
}

static int field(const uint8_t *block, unsigned at, size_t len, bool may_be_negative, int64_t *ret)
{
	const uint8_t *p = block + at;

	return p[0] & 0x80 ? binary_number(p, len, may_be_negative, ret) : octal_number(p, len, ret);
}

static int unsigned_field(const uint8_t *block, unsigned at, size_t len, uint64_t *ret)
{
	int64_t v = 0;
	int r = field(block, at, len, false, &v);

	*ret = (uint64_t)v;
	return r;
}

/* The checksum is the sum of all bytes, with its own field as spaces. Some old writers added the bytes as signed. */
static bool checksum_fits(const uint8_t *block)
{
	int64_t want = 0, sum = 0, old = 0;

	if (octal_number(block + F_SUM, 8, &want) < 0)
		return false;
	for (unsigned i = 0; i < TAR_BLOCK; i++) {
		uint8_t c = i >= F_SUM && i < F_SUM + 8 ? ' ' : block[i];

		sum += c;
		old += (int8_t)c;
	}
	return want == sum || want == old;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

/* --- extended headers --------------------------------------------------------------------------------------- */

static int decimal(const char *s, size_t len, bool may_be_negative, int64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;
	bool negative = len && s[0] == '-';

	if (negative && !may_be_negative)
		return -EBADMSG;
	i = negative;
	if (i == len || s[i] < '0' || s[i] > '9')
		return -EBADMSG;
	for (; i < len && s[i] >= '0' && s[i] <= '9'; i++) {
		if (v > (uint64_t)INT64_MAX / 10 - 1)
			return -EBADMSG;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	/* A time may have a fraction, which is ignored. */
	if (i < len && (!may_be_negative || s[i] != '.'))
		return -EBADMSG;
	for (i += i < len; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EBADMSG;
	}
	*ret = negative ? -(int64_t)v : (int64_t)v;
	return 0;
}

static bool key_is(const char *key, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(key, name, len) == 0;
}

static bool key_starts(const char *key, size_t len, const char *name)
{
	size_t n = strlen(name);

	return len >= n && memcmp(key, name, n) == 0;
}

static int take_pax_text(struct tar *t, struct buf *to, bool *has, const char *v, size_t len)
{
	if (len == 0 || len > TAR_PATH_MAX || memchr(v, '\0', len))
		return tar_is_malformed(t, "a name is empty, too long, or has a NUL in it");
	buf_clear(to);
	buf_add(to, v, len);
	*has = true;
	return buf_error(to);
}

static int take_number(struct tar *t, const char *v, size_t len, uint64_t *ret, bool *has)
{
	int64_t n = 0;

	if (decimal(v, len, false, &n) < 0)
		return tar_is_malformed(t, "a number in an extended header is invalid");
	*ret = (uint64_t)n;
	*has = true;
	return 0;
}

static void take_xattr(struct tar *t, const char *name, size_t len)
{
	t->xattrs += t->xattrs < UINT_MAX;
	if (key_starts(name, len, "trusted.overlay.") || key_starts(name, len, "user.overlay."))
		t->overlay_xattr = true;
}

static int take_record(struct tar *t, const char *key, size_t key_len, const char *v, size_t len)
{
	bool global = t->meta_type == 'g';
	bool is_path = key_is(key, key_len, "path"), is_link = key_is(key, key_len, "linkpath");
	bool is_size = key_is(key, key_len, "size");

	if (key_starts(key, key_len, "GNU.sparse."))
		return tar_is_malformed(
			t, "it has a sparse file, which is not supported (pack it without --sparse)");
	if (global && (is_path || is_link || is_size))
		return tar_is_malformed(t, "a global header names a path or a size");
	if (is_path)
		return take_pax_text(t, &t->path, &t->has_path, v, len);
	if (is_link)
		return take_pax_text(t, &t->link, &t->has_link, v, len);
	if (is_size)
		return take_number(t, v, len, &t->size, &t->has_size);
	if (key_starts(key, key_len, "SCHILY.xattr."))
		take_xattr(t, key + 13, key_len - 13);
	else if (key_starts(key, key_len, "LIBARCHIVE.xattr."))
		take_xattr(t, key + 17, key_len - 17);
	if (global)
		return 0;
	if (key_is(key, key_len, "uid"))
		return take_number(t, v, len, &t->uid, &t->has_uid);
	if (key_is(key, key_len, "gid"))
		return take_number(t, v, len, &t->gid, &t->has_gid);
	if (key_is(key, key_len, "mtime")) {
		if (decimal(v, len, true, &t->mtime) < 0)
			return tar_is_malformed(t, "a time in an extended header is invalid");
		t->has_mtime = true;
	}
	return 0;
}

/* Records of "LEN KEY=VALUE\n", where LEN counts all of the record. */
static int parse_pax(struct tar *t)
{
	const char *p = buf_cstr(&t->meta);
	size_t left = t->meta.len;

	while (left) {
		size_t len = 0, i = 0, eq;
		int r;

		for (; i < left && i < 8 && p[i] >= '0' && p[i] <= '9'; i++)
			len = len * 10 + (size_t)(p[i] - '0');
		if (i == 0 || i >= left || p[i] != ' ' || len > left || len < i + 4 || p[len - 1] != '\n')
			return tar_is_malformed(t, "an extended header is malformed");
		i++;
		for (eq = i; eq < len - 1 && p[eq] != '='; eq++)
			;
		if (eq == i || eq == len - 1)
			return tar_is_malformed(t, "an extended header is malformed");
		r = take_record(t, p + i, eq - i, p + eq + 1, len - 1 - (eq + 1));
		if (r < 0)
			return r;
		p += len;
		left -= len;
	}
	return 0;
}

static int parse_meta(struct tar *t)
{
	size_t len = t->meta.len;

	if (buf_error(&t->meta))
		return buf_error(&t->meta);
	if (t->meta_type == 'x' || t->meta_type == 'g')
		return parse_pax(t);
	/* A GNU long name ends with a NUL. */
	while (len && t->meta.data[len - 1] == '\0')
		len--;
	return t->meta_type == 'L' ? take_pax_text(t, &t->path, &t->has_path, buf_cstr(&t->meta), len)
				   : take_pax_text(t, &t->link, &t->has_link, buf_cstr(&t->meta), len);
}

/* --- headers ------------------------------------------------------------------------------------------------ */

static void forget_extended(struct tar *t)
{
	t->has_path = t->has_link = t->has_size = t->has_uid = t->has_gid = t->has_mtime = false;
	t->xattrs = 0;
	t->overlay_xattr = false;
}

static int begin_meta(struct tar *t, uint64_t size)
{
	if (size == 0 || size > TAR_META_MAX)
		return tar_is_malformed(t, "an extended header is empty or too large");
	t->meta_type = (char)t->block[F_TYPE];
	buf_clear(&t->meta);
	t->left = size;
	t->pad = pad_of(size);
	t->state = AT_META;
	return TAR_MORE;
}

static size_t add_field(char *to, size_t at, const uint8_t *block, unsigned from, size_t len)
{
	size_t n = strnlen((const char *)block + from, len);

	memcpy(to + at, block + from, n);
	return at + n;
}

/* The name in the header, after its prefix if it has one. */
static void header_name(const uint8_t *block, char *to)
{
	size_t n = 0;

	if (memcmp(block + F_MAGIC, "ustar\0", 6) == 0 && block[F_PREFIX]) {
		n = add_field(to, 0, block, F_PREFIX, PREFIX_LEN);
		to[n++] = '/';
	}
	n = add_field(to, n, block, F_NAME, NAME_LEN);
	to[n] = '\0';
}

static int entry_names(struct tar *t, struct tar_entry *e)
{
	if (t->has_path)
		memcpy(t->text[0], t->path.data, t->path.len + 1);
	else
		header_name(t->block, t->text[0]);
	t->text[1][0] = '\0';
	if (e->type == TAR_HARDLINK || e->type == TAR_SYMLINK) {
		if (t->has_link)
			memcpy(t->text[1], t->link.data, t->link.len + 1);
		else
			t->text[1][add_field(t->text[1], 0, t->block, F_LINK, NAME_LEN)] = '\0';
		if (!t->text[1][0])
			return tar_is_malformed(t, "a link has no target");
	}
	if (!t->text[0][0])
		return tar_is_malformed(t, "an entry has no name");
	e->path = t->text[0];
	e->link = t->text[1];
	return 0;
}

static int entry_type(struct tar *t, enum tar_type *ret)
{
	static const char kinds[] = "0123456";
	static const enum tar_type types[] = { TAR_FILE,     TAR_HARDLINK, TAR_SYMLINK, TAR_CHAR,
					       TAR_BLOCKDEV, TAR_DIR,	   TAR_FIFO };
	char c = (char)t->block[F_TYPE];
	const char *p = c ? strchr(kinds, c) : NULL;

	if (p)
		*ret = types[p - kinds];
	else if (c == '\0' || c == '7') /* a file in the format before ustar; a "contiguous" file */
		*ret = TAR_FILE;
	else if (c == 'S')
		return tar_is_malformed(
			t, "it has a sparse file, which is not supported (pack it without --sparse)");
	else
		return tar_is_malformed(t, "it has an entry of an unknown kind");
	return 0;
}

static int entry_numbers(struct tar *t, struct tar_entry *e)
{
	uint64_t mode = 0;
	int64_t mtime = 0;

	if (unsigned_field(t->block, F_MODE, 8, &mode) < 0 ||
	    unsigned_field(t->block, F_UID, 8, &e->uid) < 0 ||
	    unsigned_field(t->block, F_GID, 8, &e->gid) < 0 || field(t->block, F_MTIME, 12, true, &mtime) < 0)
		return tar_is_malformed(t, "a number in a header is invalid");
	if ((e->type == TAR_CHAR || e->type == TAR_BLOCKDEV) &&
	    (unsigned_field(t->block, F_MAJOR, 8, &e->dev_major) < 0 ||
	     unsigned_field(t->block, F_MINOR, 8, &e->dev_minor) < 0))
		return tar_is_malformed(t, "a number in a header is invalid");
	e->mode = (uint32_t)(mode & 07777);
	e->mtime = t->has_mtime ? t->mtime : mtime;
	e->uid = t->has_uid ? t->uid : e->uid;
	e->gid = t->has_gid ? t->gid : e->gid;
	e->xattrs = t->xattrs;
	e->overlay_xattr = t->overlay_xattr;
	return 0;
}

static int begin_entry(struct tar *t, uint64_t size, struct tar_entry *e)
{
	int r = entry_type(t, &e->type);

	if (r == 0)
		r = entry_names(t, e);
	if (r == 0)
		r = entry_numbers(t, e);
	if (r < 0)
		return r;
	/* The format before ustar has no type for directories: their names end with a slash. */
	if (e->type == TAR_FILE && t->block[F_TYPE] == '\0' && str_ends(e->path, "/"))
		e->type = TAR_DIR;
	if (t->has_size)
		size = t->size;
	/* Only files have data. Some writers give a directory or a hard link a size all the same: ignored. */
	if (e->type != TAR_FILE && size != 0 && e->type != TAR_HARDLINK && e->type != TAR_DIR)
		return tar_is_malformed(t, "an entry of a kind without data has data");
	if (e->type != TAR_FILE)
		size = 0;
	if (size > INT64_MAX)
		return tar_is_malformed(t, "the size of a file is out of range");
	e->size = size;
	t->left = size;
	t->pad = pad_of(size);
	t->state = size ? AT_BODY : AT_HEADER;
	forget_extended(t);
	return TAR_ENTRY;
}

/* Takes a complete block at a place where a header must be. */
static int take_header(struct tar *t, struct tar_entry *e)
{
	uint64_t size = 0;
	char type = (char)t->block[F_TYPE];

	t->have = 0;
	if (all_zero(t->block, TAR_BLOCK)) {
		if (t->has_path || t->has_link || t->has_size)
			return tar_is_malformed(t, "it ends after an extended header");
		t->state = AT_DONE;
		return TAR_END;
	}
	if (!checksum_fits(t->block))
		return tar_is_malformed(t, "a header's checksum is wrong: damaged, or not a tar archive");
	if (unsigned_field(t->block, F_SIZE, 12, &size) < 0)
		return tar_is_malformed(t, "a number in a header is invalid");
	if (type && strchr("xgLK", type))
		return begin_meta(t, size);
	return begin_entry(t, size, e);
}

/* --- the machine -------------------------------------------------------------------------------------------- */

static size_t at_most(size_t a, uint64_t b)
{
	return a < b ? a : (size_t)b;
}

static int step_header(struct tar *t, const uint8_t *data, size_t len, size_t *used, struct tar_piece *ret)
{
	size_t n = at_most(len, TAR_BLOCK - t->have);

	memcpy(t->block + t->have, data, n);
	t->have += n;
	*used += n;
	return t->have == TAR_BLOCK ? take_header(t, &ret->entry) : TAR_MORE;
}

static int step_data(struct tar *t, const uint8_t *data, size_t len, size_t *used, struct tar_piece *ret)
{
	size_t n = at_most(len, t->left);
	bool is_meta = t->state == AT_META;
	int r;

	*used += n;
	t->left -= n;
	if (is_meta)
		buf_add(&t->meta, data, n);
	ret->data = data;
	ret->len = n;
	if (t->left == 0) {
		r = is_meta ? parse_meta(t) : 0;
		if (r < 0)
			return r;
		t->state = t->pad ? AT_PAD : AT_HEADER;
	}
	return is_meta ? TAR_MORE : TAR_DATA;
}

static void step_pad(struct tar *t, size_t len, size_t *used)
{
	size_t n = at_most(len, t->pad);

	*used += n;
	t->pad -= (unsigned)n;
	if (t->pad == 0)
		t->state = AT_HEADER;
}

int tar_next(struct tar *t, const uint8_t *data, size_t len, size_t *ret_used, struct tar_piece *ret)
{
	size_t used = 0;
	int r = TAR_MORE;

	*ret = (struct tar_piece){ 0 };
	while (r == TAR_MORE && used < len) {
		if (t->state == AT_DONE) {
			used = len;
			r = TAR_END;
		} else if (t->state == AT_HEADER) {
			r = step_header(t, data + used, len - used, &used, ret);
		} else if (t->state == AT_PAD) {
			step_pad(t, len - used, &used);
		} else {
			r = step_data(t, data + used, len - used, &used, ret);
		}
	}
	*ret_used = used;
	return r;
}

int tar_finish(struct tar *t)
{
	if (t->state == AT_DONE)
		return 0;
	/* The padding of the last entry's data may be missing too. */
	if ((t->state != AT_HEADER && t->state != AT_PAD) || t->have || t->has_path || t->has_link ||
	    t->has_size)
		return tar_is_malformed(t, "it is cut off");
	t->unended = true;
	return 0;
}
