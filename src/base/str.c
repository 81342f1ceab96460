/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings: numbers with units, the nearest known word for a typing error, text made harmless for a terminal, and lists
 * of strings. Pure: no I/O and no locale.
 */
#include "base/str.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool str_ends(const char *s, const char *suffix)
{
	size_t a = strlen(s), b = strlen(suffix);

	return a >= b && memcmp(s + a - b, suffix, b) == 0;
}

int str_to_u64(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* Parses a decimal number with an optional fraction (nine digits count), then one unit of the table. */
static int parse_number_with_unit(const char *s, const struct unit *units, size_t n, uint64_t *ret)
{
	unsigned __int128 whole = 0, frac = 0, scale = 1, total;
	const char *digits = s;

	for (; *s >= '0' && *s <= '9'; s++) {
		whole = whole * 10 + (unsigned)(*s - '0');
		if (whole > UINT64_MAX)
			return -ERANGE;
	}
	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++) {
			if (scale < 1000000000) {
				frac = frac * 10 + (unsigned)(*s - '0');
				scale *= 10;
			}
		}
	}
	if (s == digits || (s == digits + 1 && *digits == '.'))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(s, units[i].name) != 0)
			continue;
		total = whole * units[i].factor + frac * units[i].factor / scale;
		if (total > UINT64_MAX)
			return -ERANGE;
		*ret = (uint64_t)total;
		return 0;
	}
	return -EINVAL;
}

#define KIB 1024ULL

int str_to_size(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "b", 1 },
		{ "k", KIB },
		{ "kb", KIB },
		{ "kib", KIB },
		{ "m", KIB * KIB },
		{ "mb", KIB * KIB },
		{ "mib", KIB * KIB },
		{ "g", KIB * KIB * KIB },
		{ "gb", KIB * KIB * KIB },
		{ "gib", KIB * KIB * KIB },
		{ "t", KIB * KIB * KIB * KIB },
		{ "tb", KIB * KIB * KIB * KIB },
		{ "tib", KIB * KIB * KIB * KIB },
	};

	return parse_number_with_unit(s, units, ARRAY_SIZE(units), ret);
}

int str_to_nsec(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "", 1000000000ULL },		{ "ms", 1000000ULL },	       { "s", 1000000000ULL },
		{ "m", 60 * 1000000000ULL },	{ "min", 60 * 1000000000ULL }, { "h", 3600 * 1000000000ULL },
		{ "d", 86400 * 1000000000ULL },
	};

	return parse_number_with_unit(s, units, ARRAY_SIZE(units), ret);
}

char *str_from_size(uint64_t bytes, char out[16])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(out, 16, "%u B", (unsigned)bytes);
		return out;
	}
	while (v >= 1023.95 && i + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		i++;
	}
	snprintf(out, 16, "%.1f %s", v, units[i]);
	return out;
}

#define NEAREST_MAX 48

/* Damerau-Levenshtein over short words, three rows. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned rows[3][NEAREST_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > NEAREST_MAX || lb > NEAREST_MAX)
		return NEAREST_MAX;
	for (size_t j = 0; j <= lb; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *cur = rows[i % 3], *prev = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		cur[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);

			if (prev[j] + 1 < best)
				best = prev[j] + 1;
			if (cur[j - 1] + 1 < best)
				best = cur[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			cur[j] = best;
		}
	}
	return rows[la % 3][lb];
}

const char *str_nearest(const char *word, const char *const *known, size_t n)
{
	size_t len = strlen(word);
	unsigned best = len < 6 ? 1 : (unsigned)len / 3;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned d = edit_distance(word, known[i]);

		/* Of two equally near words, the one of the same length is likelier: its letters were swapped. */
		if (d < best ||
		    (d == best && (!found || (strlen(found) != len && strlen(known[i]) == len)))) {
			best = d;
			found = known[i];
		}
	}
	return found;
}

/* The length of the valid UTF-8 sequence at s, with its code point in *cp; 0 when there is no valid one. */
static size_t utf8_decode(const unsigned char *s, size_t len, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n;

	if (s[0] < 0x80) {
		*cp = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (len < n)
		return 0;
	*cp = s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (s[i] & 0x3f);
	}
	if (*cp < least[n] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff))
		return 0;
	return n;
}

static bool is_bidi_control(uint32_t cp)
{
	return (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0x200e ||
	       cp == 0x200f || cp == 0x061c;
}

bool str_steers_terminal(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || is_bidi_control(cp) || cp == 0x2028 || cp == 0x2029;
}

void str_add_safe(struct buf *b, const char *s, size_t len, bool keep_lines)
{
	const unsigned char *p = (const unsigned char *)s;

	while (len) {
		uint32_t cp = 0;
		size_t n = utf8_decode(p, len, &cp);

		if (n == 0) {
			buf_addf(b, "\\x%02x", *p);
			n = 1;
		} else if ((cp == '\n' || cp == '\t') && keep_lines) {
			buf_addc(b, (char)cp);
		} else if (cp < 0x20 || cp == 0x7f) {
			buf_addf(b, "\\x%02x", cp);
		} else if (str_steers_terminal(cp)) {
			buf_addf(b, "\\u{%04x}", cp);
		} else {
			buf_add(b, p, n);
		}
		p += n;
		len -= n;
	}
}

char *str_safe(const char *s, char *out, size_t size)
{
	autobuf struct buf b = BUF_INIT;
	size_t n = 0;

	/* Fast path: most text is printable ASCII. */
	while (n < size && s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	if (n < size && !s[n]) {
		memcpy(out, s, n + 1);
		return out;
	}
	/* Names from inside a sandbox may be long: reads no more than could fit. */
	str_add_safe(&b, s, strnlen(s, size), false);
	if (b.len < size) {
		memcpy(out, buf_cstr(&b), b.len + 1);
	} else {
		memcpy(out, buf_cstr(&b), size - 4);
		memcpy(out + size - 4, "...", 4);
	}
	return out;
}

static bool is_ascii_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool str_is_name(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 64 || !is_ascii_alnum(s[0]))
		return false;
	for (; *s; s++) {
		if (!is_ascii_alnum(*s) && *s != '_' && *s != '.' && *s != '-')
			return false;
	}
	return true;
}

int strv_take(struct strv *l, char *s)
{
	if (!s)
		return -ENOMEM;
	/* n + 1: the NULL at the end is an entry too. */
	if (VEC_DOUBLE(l->v, l->n + 1, VEC_NO_MAX) < 0) {
		free(s);
		return -ENOMEM;
	}
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
	return 0;
}

int strv_add(struct strv *l, const char *s)
{
	return strv_take(l, strdup(s));
}

int strv_addf(struct strv *l, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : strv_take(l, s);
}

void strv_release(struct strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = STRV_INIT;
}
