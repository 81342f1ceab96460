/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of URL paths, and the two other readings that servers may make of it (urlpath_slashed(),
 * urlpath_folded()). An ambiguous path is refused, not repaired.
 */
#include "codec/http/urlpath.h"

#include "base/hex.h"
#include "codec/asciifold.h"

#include <errno.h>
#include <stdint.h>

struct walk {
	const char *s; /* the raw path, without query */
	size_t len, at;
	struct buf *out;
	size_t segment;	 /* offset in out of the current segment, after its slash */
	bool keep_slash; /* URLPATH_KEEP_SLASH */
	/* The UTF-8 character that is being read: bytes still to come, bytes in all, and its bits so far. */
	unsigned need, size;
	uint32_t point;
};

static int refuse_path(const struct walk *w, const char *why, struct err *e)
{
	char q[SLICE_QUOTE_LEN];

	return err_set(e, -EINVAL, "path '%s' %s", slice_quote(w->s, w->len, q), why);
}

/* The byte that "%XY" at s encodes; -1 when s does not begin with an encoded byte. */
static int encoded_byte(const char *s, size_t len)
{
	return len >= 3 && s[0] == '%' ? hex_byte(s + 1) : -1;
}

static bool is_unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_' || c == '~';
}

static bool is_upper(int c)
{
	return c >= 'A' && c <= 'Z';
}

/* Do some servers treat the encoded and the plain form of this character as the same? */
static bool is_ambiguous(int c)
{
	return c > 0x20 && c < 0x7f && c != '%';
}

static bool is_control(int c)
{
	return c < 0x20 || c == 0x7f;
}

/*
 * Takes one byte over 0x7f of a UTF-8 character. False when it is not UTF-8, not in its shortest form, or a C1
 * control.
 */
static bool take_utf8(struct walk *w, unsigned c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	if (w->need) {
		w->point = w->point << 6 | (c & 0x3f);
		w->need--;
		if ((c & 0xc0) != 0x80)
			return false;
		if (w->need)
			return true;
		if (w->point < 0xa0) /* U+0080 to U+009F are control characters (C1) */
			return false;
		return w->point >= least[w->size] && w->point <= 0x10ffff &&
		       (w->point < 0xd800 || w->point > 0xdfff);
	}
	w->size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	w->need = w->size - 1;
	w->point = c & (0x7fu >> w->size);
	return c >= 0xc2 && c <= 0xf4;
}

static int take_encoded(struct walk *w, struct err *e)
{
	int c = encoded_byte(w->s + w->at, w->len - w->at);

	if (c < 0)
		return refuse_path(w, "has a percent sign without two hexadecimal digits after it", e);
	if (is_control(c) || c == '\\')
		return refuse_path(w, "has an encoded control byte or backslash in it", e);
	if (c == '/' && !w->keep_slash)
		return refuse_path(w, "has an encoded slash (%2F) in it, which servers read in two ways", e);
	if ((c >= 0x80) ? !take_utf8(w, (unsigned)c) : w->need != 0)
		return refuse_path(w, "has encoded bytes in it that are not UTF-8, or a control character",
				   e);
	w->at += 3;
	if (is_unreserved(c)) {
		buf_addc(w->out, (char)c);
		return 0;
	}
	buf_addc(w->out, '%');
	buf_addc(w->out, HEX_UPPER[c >> 4]);
	buf_addc(w->out, HEX_UPPER[c & 15]);
	return 0;
}

/* 1 for ".", 2 for "..", 0 for any other segment. */
static int dots_of(struct slice s)
{
	return slice_eq(s, ".") ? 1 : slice_eq(s, "..") ? 2 : 0;
}

/* The meaning of a character to the most lenient server. */
enum reading {
	READ_OTHER,
	READ_DOT,
	READ_BLANK, /* a space or an invisible character, which some servers drop from the end of a name */
	READ_SEMICOLON,
	READ_SLASH,
	READ_NOTHING, /* ignored by a comparison that folds (asciifold.h); most servers do not ignore it */
};

/* Servers on Windows, and those that normalise text (NFKC, best fit of a code page), read these as the ASCII characters
 * that they resemble. */
static enum reading reading_of(uint32_t c)
{
	static const struct {
		uint32_t first, last;
		enum reading is;
	} table[] = {
		{ ' ', ' ', READ_BLANK },	    { '.', '.', READ_DOT },
		{ '/', '/', READ_SLASH },	    { ';', ';', READ_SEMICOLON },
		{ 0xa0, 0xa0, READ_BLANK },	    { 0xad, 0xad, READ_BLANK },
		{ 0x37e, 0x37e, READ_SEMICOLON },   { 0x180e, 0x180e, READ_BLANK },
		{ 0x2000, 0x200f, READ_BLANK },	    { 0x2024, 0x2026, READ_DOT },
		{ 0x2028, 0x202f, READ_BLANK },	    { 0x2044, 0x2044, READ_SLASH },
		{ 0x205f, 0x206f, READ_BLANK },	    { 0x2100, 0x2101, READ_SLASH },
		{ 0x2105, 0x2106, READ_SLASH },	    { 0x2215, 0x2216, READ_SLASH },
		{ 0x3000, 0x3000, READ_BLANK },	    { 0x3002, 0x3002, READ_DOT },
		{ 0xfe14, 0xfe14, READ_SEMICOLON }, { 0xfe19, 0xfe19, READ_DOT },
		{ 0xfe30, 0xfe30, READ_DOT },	    { 0xfe52, 0xfe52, READ_DOT },
		{ 0xfe54, 0xfe54, READ_SEMICOLON }, { 0xfe68, 0xfe68, READ_SLASH },
		{ 0xfeff, 0xfeff, READ_BLANK },	    { 0xff0e, 0xff0e, READ_DOT },
		{ 0xff0f, 0xff0f, READ_SLASH },	    { 0xff1b, 0xff1b, READ_SEMICOLON },
		{ 0xff3c, 0xff3c, READ_SLASH },	    { 0xff61, 0xff61, READ_DOT },
		{ 0xe0000, 0xe007f, READ_BLANK },
	};
	char text[ASCIIFOLD_MAX];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (c >= table[i].first && c <= table[i].last)
			return table[i].is;
	}
	return c >= 0x80 && asciifold(c, text) && !text[0] ? READ_NOTHING : READ_OTHER;
}

/*
 * The byte that "%XY" at s encodes, with `twice` also "%25XY"; -1 for a plain byte. *used is the number of bytes at
 * s.
 */
static int decoded_byte(const char *s, size_t len, bool twice, size_t *used)
{
	int c = encoded_byte(s, len), inner;
	char again[3] = { '%' };

	*used = c < 0 ? 1 : 3;
	if (c != '%' || !twice || len < 5)
		return c;
	memcpy(again + 1, s + 3, 2);
	inner = encoded_byte(again, sizeof(again));
	*used = inner < 0 ? 3 : 5;
	return inner < 0 ? c : inner;
}

/*
 * The character at s in canonical output; *used is the number of bytes at s. Bytes that are encoded once are valid
 * UTF-8, because take_utf8() has checked them. Bytes that are encoded twice may be anything; where they are not
 * UTF-8, each counts as a character.
 */
static uint32_t char_at(const char *s, size_t len, bool twice, size_t *used)
{
	int c = decoded_byte(s, len, twice, used), more;
	size_t first = *used;
	uint32_t point;

	if (c < 0x80)
		return c < 0 ? (unsigned char)s[0] : (uint32_t)c;
	more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
	point = (uint32_t)c & (0x3fu >> more);
	for (; more > 0; more--) {
		size_t n;
		int next = decoded_byte(s + *used, len - *used, twice, &n);

		if (next < 0x80 || next > 0xbf) {
			*used = first;
			return (uint32_t)c;
		}
		point = point << 6 | ((uint32_t)next & 0x3f);
		*used += n;
	}
	return point;
}

/* The text between two slashes, plain or encoded: how many characters of each kind it has before a semicolon. */
struct part {
	size_t dots, blanks, others;
	bool params;
};

static const char *part_fault(const struct part *p, bool whole)
{
	if (p->others)
		return NULL;
	if (p->dots)
		return "has a segment of more than two dots, or of dots with parameters, with spaces or of another script";
	if (p->blanks)
		return "has a segment of invisible characters only";
	if (p->params)
		return "has a segment that is empty before its parameters (;)";
	return whole ? NULL : "has an encoded slash (%2F) next to another slash or to dots";
}

/*
 * Refuses a segment that is neither "." nor ".." if some server may read it, or a part of it between encoded slashes,
 * as one of them or as empty.
 */
static int check_parts(const struct walk *w, struct slice s, struct err *e)
{
	struct part p = { 0 };
	const char *why;
	bool whole = true;

	for (size_t i = 0, used; i < s.len; i += used) {
		enum reading is = reading_of(char_at(s.p + i, s.len - i, true, &used));

		if (is == READ_SLASH) {
			why = part_fault(&p, false);
			if (why)
				return refuse_path(w, why, e);
			whole = false;
			p = (struct part){ 0 };
		} else if (is == READ_SEMICOLON) {
			p.params = true;
		} else if (!p.params) {
			p.dots += is == READ_DOT;
			p.blanks += is == READ_BLANK || is == READ_NOTHING;
			p.others += is == READ_OTHER;
		}
	}
	why = part_fault(&p, whole);
	return why ? refuse_path(w, why, e) : 0;
}

static struct slice current(const struct walk *w)
{
	return (struct slice){ buf_cstr(w->out) + w->segment, w->out->len - w->segment };
}

static bool has_slash(struct slice s)
{
	for (size_t i = 0, used; i < s.len; i += used) {
		if (reading_of(char_at(s.p + i, s.len - i, true, &used)) == READ_SLASH)
			return true;
	}
	return false;
}

/* Removes the current segment ("."), or it and the segment before it (".."). Output ends with a slash then. */
static int drop_segments(struct walk *w, int dots, struct err *e)
{
	w->out->len = w->segment;
	if (dots == 2) {
		if (w->segment <= 1)
			return refuse_path(w, "leads above the root", e);
		size_t end = --w->out->len;

		while (w->out->data[w->out->len - 1] != '/')
			w->out->len--;
		/* A server that decodes the slash would let ".." remove only the part after it. */
		if (has_slash((struct slice){ w->out->data + w->out->len, end - w->out->len }))
			return refuse_path(w, "has an encoded slash (%2F) before a \"..\"", e);
	}
	w->out->data[w->out->len] = '\0';
	return 0;
}

/*
 * Judges the current segment, now complete. 1: it was "." or ".." and was resolved, so no slash must be added after
 * it.
 */
static int end_segment(struct walk *w, struct err *e)
{
	struct slice s = current(w);
	int dots = dots_of(s), r = 0;

	if (buf_error(w->out))
		return buf_error(w->out);
	if (dots)
		r = drop_segments(w, dots, e);
	else
		r = check_parts(w, s, e);
	return r < 0 ? r : dots > 0;
}

static int take_slash(struct walk *w, struct err *e)
{
	int r;

	if (w->at && w->s[w->at - 1] == '/')
		return refuse_path(w, "has two slashes in a row", e);
	r = w->at ? end_segment(w, e) : 0;
	if (r < 0)
		return r;
	if (r == 0)
		buf_addc(w->out, '/');
	w->segment = w->out->len;
	w->at++;
	return 0;
}

static int take_path(struct walk *w, struct err *e)
{
	int r = 0;

	while (w->at < w->len && r >= 0) {
		char c = w->s[w->at];

		if (c == '%') {
			r = take_encoded(w, e);
			continue;
		}
		if (w->need)
			return refuse_path(
				w, "has encoded bytes in it that are not UTF-8, or a control character", e);
		if (c == '\\')
			return refuse_path(w, "has a backslash in it", e);
		if (c == '/') {
			r = take_slash(w, e);
			continue;
		}
		buf_addc(w->out, c);
		w->at++;
	}
	if (r < 0)
		return r;
	if (w->need)
		return refuse_path(w, "has encoded bytes in it that are not UTF-8, or a control character",
				   e);
	return end_segment(w, e);
}

static int check_bytes(const struct walk *w, struct err *e)
{
	if (w->len > URLPATH_MAX)
		return refuse_path(w, "is too long", e);
	if (w->len && w->s[0] != '/' && w->s[0] != '?')
		return refuse_path(w, "does not begin with a slash", e);
	for (size_t i = 0; i < w->len; i++) {
		if (w->s[i] < 0x21 || w->s[i] > 0x7e || w->s[i] == '#')
			return refuse_path(w, "has a space, a control byte, a # or a byte over 0x7e in it",
					   e);
	}
	return 0;
}

/*
 * Is there a "%25XY" that a second decoding turns into a control byte, slash, backslash, percent sign or unreserved
 * character? Called on the output, where X and Y are no longer encoded themselves.
 */
static bool has_twice(const char *s, size_t len)
{
	for (size_t i = 0; i + 5 <= len; i++) {
		char second[3] = { '%', s[i + 3], s[i + 4] };
		int c = encoded_byte(s + i, len - i) == '%' ? encoded_byte(second, 3) : -1;

		if (c >= 0 && (is_control(c) || is_unreserved(c) || c == '/' || c == '\\' || c == '%'))
			return true;
	}
	return false;
}

/* The ASCII character that some server reads for the encoded character at s; 0: there is none, or s is not encoded. */
static char other_reading(const char *s, size_t len, size_t *used)
{
	static const char as[] = { [READ_OTHER] = 0,	   [READ_DOT] = '.',   [READ_BLANK] = ' ',
				   [READ_SEMICOLON] = ';', [READ_SLASH] = '/', [READ_NOTHING] = 0 };
	uint32_t c = char_at(s, len, false, used);

	if (*used == 1)
		return 0;
	if (c > 0xff00 && c < 0xff5f) /* full width */
		c -= 0xfee0;
	if (c >= 0x80)
		return as[reading_of(c)];
	if (c == '\\')
		c = '/';
	return (char)(is_ambiguous((int)c) ? c : 0);
}

static bool has_other_reading(const char *s, size_t len)
{
	for (size_t i = 0, used; i < len; i += used) {
		if (other_reading(s + i, len - i, &used))
			return true;
	}
	return false;
}

int urlpath_canon(const char *target, size_t len, unsigned flags, struct buf *out, struct urlpath *ret,
		  struct err *e)
{
	struct walk w = { .s = target, .len = len, .out = out, .keep_slash = flags & URLPATH_KEEP_SLASH };
	const char *query = len ? memchr(target, '?', len) : NULL;
	int r = check_bytes(&w, e);

	buf_clear(out);
	if (r < 0)
		return r;
	if (query)
		w.len = (size_t)(query - target);
	r = take_path(&w, e);
	if (r < 0)
		return r;
	if (has_twice(buf_cstr(out), out->len))
		return refuse_path(
			&w,
			"has a letter, digit, slash, dot, percent sign or control byte in it that is encoded twice",
			e);
	if (out->len == 0)
		buf_addc(out, '/');
	*ret = (struct urlpath){ .path_len = out->len,
				 .has_query = query != NULL,
				 .slash = has_other_reading(out->data, out->len) };
	if (query)
		buf_add(out, query, len - w.len);
	return buf_error(out);
}

struct slice urlpath_path(const struct buf *out, const struct urlpath *p)
{
	return (struct slice){ buf_cstr(out), p->path_len };
}

struct slice urlpath_query(const struct buf *out, const struct urlpath *p)
{
	if (!p->has_query)
		return SLICE_NONE;
	return (struct slice){ out->data + p->path_len + 1, out->len - p->path_len - 1 };
}

/* Adds a decoded character, encoded again where a path cannot contain it plain. */
static void add_char(struct buf *out, char c)
{
	if (c == ' ' || c == '%')
		buf_addf(out, "%%%02X", (unsigned)c);
	else
		buf_addc(out, (char)(c == '\\' ? '/' : c));
}

int urlpath_slashed(struct slice path, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0, used; i < path.len; i += used) {
		char c = other_reading(path.p + i, path.len - i, &used);

		if (c)
			add_char(out, c);
		else
			buf_add(out, path.p + i, used);
	}
	return buf_error(out);
}

/* Writes the character at s as the most lenient server reads it. True when urlpath_slashed() writes another one. */
static bool add_folded(const char *s, size_t len, size_t *ret_used, struct buf *out)
{
	char text[ASCIIFOLD_MAX], plain;
	size_t once, used;
	uint32_t c = char_at(s, len, true, &used);

	*ret_used = used;
	plain = other_reading(s, len, &once);
	if (plain && once == used && !(c >= 0x80 && asciifold(c, text))) {
		add_char(out, plain);
		return false;
	}
	if (used == 1) {
		buf_addc(out, *s);
		return false;
	}
	if (c < 0x80) {
		add_char(out, (char)c);
		return once != used; /* true: it was encoded twice */
	}
	if (asciifold(c, text)) {
		for (const char *p = text; *p; p++)
			add_char(out, *p);
		return !plain || text[0] != (plain | (is_upper(plain) ? 0x20 : 0)) || text[1];
	}
	if (once == used) {
		buf_add(out, s, used);
		return false;
	}
	/* Encoded twice, each byte as "%25XY": one level of encoding stays. */
	for (size_t i = 0; i < used; i += 5)
		buf_addf(out, "%%%.2s", s + i + 3);
	return true;
}

int urlpath_folded(struct slice path, struct buf *out)
{
	bool other = false;

	buf_clear(out);
	for (size_t i = 0, used; i < path.len; i += used)
		other |= add_folded(path.p + i, path.len - i, &used, out);
	return buf_error(out) ? buf_error(out) : other;
}
