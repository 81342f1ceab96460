/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalises, compares and folds paths of a workspace (path.h). Pure: no file system is asked.
 */
#include "workspace/tree/path.h"

#include "base/cleanup.h"

#include <errno.h>

/* The workspace's path inside: users copy paths from there. */
#define INSIDE "/workspace"

static bool is_dots_part(const char *s, size_t len, size_t dots)
{
	return len == dots && memcmp(s, "..", dots) == 0;
}

int path_normalise(const char *typed, char **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *p = typed;
	char shown[256];

	if (str_starts(p, INSIDE) && (p[sizeof(INSIDE) - 1] == '/' || !p[sizeof(INSIDE) - 1]))
		p += sizeof(INSIDE) - 1;
	else if (*p == '/')
		return err_set(e, -EINVAL, "%s is not a path below the workspace",
			       str_safe(typed, shown, sizeof(shown)));
	while (*p) {
		size_t len = strcspn(p, "/");

		if (is_dots_part(p, len, 2))
			return err_set(e, -EINVAL, "%s is not a path below the workspace: it has '..' in it",
				       str_safe(typed, shown, sizeof(shown)));
		if (len && !is_dots_part(p, len, 1)) {
			if (b.len)
				buf_addc(&b, '/');
			buf_add(&b, p, len);
		}
		p += len + (p[len] == '/');
	}
	*ret = buf_take(&b);
	return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int path_normalise_all(const struct strv *typed, struct strv *ret, struct err *e)
{
	autostrv struct strv l = STRV_INIT;

	for (size_t i = 0; i < typed->n; i++) {
		char *one = NULL;
		int r = path_normalise(typed->v[i], &one, e);

		if (r < 0)
			return r;
		if (strv_take(&l, one) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	*ret = l;
	l = STRV_INIT;
	return 0;
}

bool path_covers(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]));
}

const char *path_covered(const struct strv *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (path_covers(l->v[i], path))
			return l->v[i];
	}
	return NULL;
}

/* One code point; invalid UTF-8 is taken byte by byte. */
static unsigned path_decode(const char *s, size_t *ret_len)
{
	const unsigned char *b = (const unsigned char *)s;
	size_t n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : b[0] >= 0xc0 ? 2 : 1;
	unsigned c = n == 1 ? b[0] : b[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80) {
			*ret_len = 1;
			return b[0];
		}
		c = c << 6 | (b[i] & 0x3f);
	}
	*ret_len = n;
	return c;
}

/* Unicode's Default_Ignorable_Code_Point. */
static bool is_ignorable_char(unsigned c)
{
	static const struct {
		unsigned from, to;
	} none[] = {
		{ 0xad, 0xad },	      { 0x34f, 0x34f },	  { 0x61c, 0x61c },	{ 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f }, { 0x200b, 0x200f },	{ 0x202a, 0x202e },
		{ 0x2060, 0x206f },   { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },	{ 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },   { 0xfff0, 0xfff8 }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		if (c >= none[i].from && c <= none[i].to)
			return true;
	}
	return false;
}

/* The ASCII letters to which Unicode's case folding maps a character; NULL: it is not changed. */
static const char *ascii_case_fold(unsigned c)
{
	static const struct {
		unsigned c;
		const char *is;
	} folded[] = {
		{ 0x212a, "k" },   { 0x17f, "s" },   { 0xdf, "ss" },   { 0x1e9e, "ss" },
		{ 0xfb00, "ff" },  { 0xfb01, "fi" }, { 0xfb02, "fl" }, { 0xfb03, "ffi" },
		{ 0xfb04, "ffl" }, { 0xfb05, "st" }, { 0xfb06, "st" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(folded); i++) {
		if (c == folded[i].c)
			return folded[i].is;
	}
	return NULL;
}

/* Folds one name; returns the end of the result. */
static char *fold_one_name(const char *s, size_t len, char *out)
{
	char *start = out;

	for (size_t i = 0, n; i < len; i += n) {
		unsigned c = path_decode(s + i, &n);
		const char *ascii = n > 1 ? ascii_case_fold(c) : NULL;

		if (n > 1 && is_ignorable_char(c))
			continue;
		if (c == ':' && out > start)
			break;
		if (ascii) {
			out = stpcpy(out, ascii);
			continue;
		}
		memcpy(out, s + i, n);
		if (n == 1 && c >= 'A' && c <= 'Z')
			*out = (char)(c + 32);
		out += n;
	}
	while (out > start && (out[-1] == '.' || out[-1] == ' '))
		out--;
	if (out == start) { /* nothing but ignored characters: the name itself */
		memcpy(out, s, len);
		out += len;
	}
	return out;
}

char *path_fold(const char *path)
{
	char *out = malloc(strlen(path) + 1), *at = out;

	if (!out)
		return NULL;
	while (*path) {
		size_t len = strcspn(path, "/");

		at = fold_one_name(path, len, at);
		path += len;
		if (*path == '/')
			*at++ = *path++;
	}
	*at = '\0';
	return out;
}

int path_cmp(const char *a, const char *b)
{
	int x, y;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	/* The end sorts before a slash, a slash before any other byte. */
	x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
	y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
	return x - y;
}

bool path_link_leaves(const char *link, const char *target)
{
	bool named = false;
	size_t depth = 0;

	if (*target == '/')
		return true;
	for (const char *p = link; *p; p++)
		depth += *p == '/';
	for (const char *p = target; *p;) {
		size_t len = strcspn(p, "/");

		if (is_dots_part(p, len, 2)) {
			if (named || depth == 0)
				return true;
			depth--;
		} else if (len && !is_dots_part(p, len, 1)) {
			named = true;
		}
		p += len + (p[len] == '/');
	}
	return false;
}
