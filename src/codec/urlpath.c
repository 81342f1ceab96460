/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/urlpath.h"

#include <errno.h>
#include <stdint.h>

struct walk {
	const char *s; /* the raw path, without query */
	size_t len, at;
	struct buf *out;
	size_t segment;		/* where the current one begins in out, behind its slash */
	bool keep_slash, slash; /* %2F may be kept; there was one */
	/* A character of UTF-8 whose encoded bytes are still to come: how many, and what is there already. */
	unsigned need, size;
	uint32_t point;
};

static int refuse(const struct walk *w, const char *why, struct err *e)
{
	char q[SLICE_QUOTE_LEN];

	return err_set(e, -EINVAL, "path '%s' %s", slice_quote(w->s, w->len, q), why);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "%XY" at s stands for; -1 when it is no such thing. */
static int encoded_byte(const char *s, size_t len)
{
	int hi = len >= 3 && s[0] == '%' ? hex_digit(s[1]) : -1, lo = hi < 0 ? -1 : hex_digit(s[2]);

	return lo < 0 ? -1 : hi << 4 | lo;
}

static bool is_unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_' || c == '~';
}

/* Encoded or not, some server takes it for the same. */
static bool is_ambiguous(int c)
{
	return c > 0x20 && c < 0x7f && c != '%';
}

static bool is_control(int c)
{
	return c < 0x20 || c == 0x7f;
}

/* Bytes over 0x7f make up one character after the other, each in its shortest form. */
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
	const char hex[] = "0123456789ABCDEF";

	if (c < 0)
		return refuse(w, "has a percent sign that two hexadecimal digits do not follow", e);
	if (is_control(c) || c == '\\')
		return refuse(w, "has an encoded control byte or backslash in it", e);
	if (c == '/' && !w->keep_slash)
		return refuse(w, "has an encoded slash (%2F) in it, which servers read in two ways", e);
	if ((c >= 0x80) ? !take_utf8(w, (unsigned)c) : w->need != 0)
		return refuse(w, "has encoded bytes in it that are not UTF-8", e);
	w->at += 3;
	if (is_unreserved(c)) {
		buf_addc(w->out, (char)c);
		return 0;
	}
	w->slash = w->slash || c == '/';
	buf_addc(w->out, '%');
	buf_addc(w->out, hex[c >> 4]);
	buf_addc(w->out, hex[c & 15]);
	return 0;
}

/* "." and "..": 1 and 2 dots and nothing else. -1 with parameters behind, 0 for all else. */
static int dots_of(struct slice s)
{
	size_t n = 0;

	while (n < s.len && n < 3 && s.p[n] == '.')
		n++;
	if (n == 0 || n == 3)
		return 0;
	s = (struct slice){ s.p + n, s.len - n };
	if (s.len == 0)
		return (int)n;
	return s.p[0] == ';' || slice_starts(s, "%3B") ? -1 : 0;
}

/* With %2F kept: each part between them is an ordinary one. */
static int check_parts(const struct walk *w, struct slice s, struct err *e)
{
	size_t start = 0;

	for (size_t i = 0; i <= s.len; i++) {
		bool slash = s.len - i >= 3 && memcmp(s.p + i, "%2F", 3) == 0;

		if (!slash && i < s.len)
			continue;
		if (i == start || dots_of((struct slice){ s.p + start, i - start }))
			return refuse(w, "has an encoded slash (%2F) beside nothing or beside dots", e);
		start = i + 3;
	}
	return 0;
}

static struct slice current(const struct walk *w)
{
	return (struct slice){ buf_cstr(w->out) + w->segment, w->out->len - w->segment };
}

/* Back to behind the slash before the segment that is before this one. */
static int drop_segments(struct walk *w, int dots, struct err *e)
{
	w->out->len = w->segment;
	if (dots == 2) {
		if (w->segment <= 1)
			return refuse(w, "leads above the root", e);
		size_t end = --w->out->len;

		while (w->out->data[w->out->len - 1] != '/')
			w->out->len--;
		/* With the other reading of %2F, ".." would take away only a part of it. */
		if (memmem(w->out->data + w->out->len, end - w->out->len, "%2F", 3))
			return refuse(w, "has an encoded slash (%2F) before a \"..\"", e);
	}
	w->out->data[w->out->len] = '\0';
	return 0;
}

/* The current segment is whole, in canonical form. 1: it was dots, and is gone with the slash that would follow. */
static int end_segment(struct walk *w, struct err *e)
{
	struct slice s = current(w);
	int dots = dots_of(s), r = 0;

	if (buf_error(w->out))
		return buf_error(w->out);
	if (dots < 0)
		return refuse(w, "has a dot segment with parameters in it", e);
	if (dots)
		r = drop_segments(w, dots, e);
	else if (w->slash && memmem(s.p, s.len, "%2F", 3))
		r = check_parts(w, s, e);
	return r < 0 ? r : dots > 0;
}

static int take_slash(struct walk *w, struct err *e)
{
	int r;

	if (w->at && w->s[w->at - 1] == '/')
		return refuse(w, "has two slashes behind each other", e);
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
			return refuse(w, "has encoded bytes in it that are not UTF-8", e);
		if (c == '\\')
			return refuse(w, "has a backslash in it", e);
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
		return refuse(w, "has encoded bytes in it that are not UTF-8", e);
	return end_segment(w, e);
}

static int check_bytes(const struct walk *w, struct err *e)
{
	if (w->len > URLPATH_MAX)
		return refuse(w, "is too long", e);
	if (w->len && w->s[0] != '/' && w->s[0] != '?')
		return refuse(w, "does not begin with a slash", e);
	for (size_t i = 0; i < w->len; i++) {
		if (w->s[i] < 0x21 || w->s[i] > 0x7e || w->s[i] == '#')
			return refuse(w, "has a space, a control byte, a # or a byte over 0x7e in it", e);
	}
	return 0;
}

/*
 * "%25" and two more digits: does undoing it twice give something that undoing it once must not? Asked of the output,
 * where those digits are no longer encoded themselves.
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

static bool has_other_reading(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (is_ambiguous(encoded_byte(s + i, len - i)))
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
		return refuse(
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

int urlpath_slashed(struct slice path, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0; i < path.len; i++) {
		int c = encoded_byte(path.p + i, path.len - i);

		if (is_ambiguous(c)) {
			buf_addc(out, (char)c);
			i += 2;
		} else {
			buf_addc(out, path.p[i]);
		}
	}
	return buf_error(out);
}
