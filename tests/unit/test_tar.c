/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/file/tar.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static void put(uint8_t *to, const char *text)
{
	for (size_t i = 0; text[i]; i++)
		to[i] = (uint8_t)text[i];
}

/* A header by hand, checksum and all. */
static void header(uint8_t block[TAR_BLOCK], const char *name, char type, const char *size, const char *link)
{
	unsigned sum = 0;

	memset(block, 0, TAR_BLOCK);
	put(block, name);
	put(block + 100, "0004755");
	put(block + 108, "0000012");
	put(block + 116, "0000013");
	put(block + 124, size);
	put(block + 136, "00000000017");
	memset(block + 148, ' ', 8);
	block[156] = (uint8_t)type;
	put(block + 157, link);
	put(block + 257, "ustar");
	put(block + 263, "00");
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	snprintf((char *)block + 148, 8, "%06o", sum);
}

struct seen {
	int entries, result;
	struct tar_entry last;
	char path[TAR_PATH_MAX + 1], link[TAR_PATH_MAX + 1], data[4096];
	size_t len;
	bool unended;
	const char *why;
};

static struct seen *read_all(const uint8_t *data, size_t size, size_t step)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct tar t = TAR_INIT;

	for (size_t at = 0; at < size && s->result >= 0;) {
		size_t used = 0, len = size - at < step ? size - at : step;
		struct tar_piece p;

		s->result = tar_next(&t, data + at, len, &used, &p);
		at += used;
		if (s->result == TAR_ENTRY) {
			s->entries++;
			s->last = p.entry;
			snprintf(s->path, sizeof(s->path), "%s", p.entry.path);
			snprintf(s->link, sizeof(s->link), "%s", p.entry.link);
		} else if (s->result == TAR_DATA && s->len + p.len <= sizeof(s->data)) {
			memcpy(s->data + s->len, p.data, p.len);
			s->len += p.len;
		}
	}
	if (s->result >= 0)
		s->result = tar_finish(&t);
	s->unended = t.unended;
	s->why = t.why;
	tar_release(&t);
	return s;
}

static void test_plain(void)
{
	static const size_t steps[] = { 1, 7, 511, 512, 513, 100000 };
	uint8_t a[TAR_BLOCK * 4] = { 0 };

	header(a, "dir/file", '0', "00000000005", "");
	put(a + TAR_BLOCK, "hello");
	for (size_t i = 0; i < 6; i++) {
		struct seen *s = read_all(a, sizeof(a), steps[i]);

		CHECKF(s->result == 0 && s->entries == 1 && !strcmp(s->path, "dir/file") && s->len == 5 &&
			       !memcmp(s->data, "hello", 5),
		       "a file is read in steps of %zu", steps[i]);
		CHECK(s->last.mode == 04755 && s->last.uid == 10 && s->last.gid == 11 && s->last.mtime == 15);
		free(s);
	}
	a[3] ^= 1;
	struct seen *s = read_all(a, sizeof(a), 512);
	CHECKF(s->result == -EBADMSG && strstr(s->why, "checksum"), "a flipped bit is found");
	free(s);
}

static void test_end(void)
{
	uint8_t a[TAR_BLOCK * 4] = { 0 };
	struct seen *s;

	header(a, "f", '0', "00000000005", "");
	for (size_t len = 1; len < sizeof(a); len += 101) {
		s = read_all(a, len, 512);
		bool whole = len >= TAR_BLOCK + 5 && len < 2 * TAR_BLOCK, at_end = len >= 3 * TAR_BLOCK;
		bool cut = !whole && !at_end && len != 2 * TAR_BLOCK;

		CHECKF((s->result < 0) == cut && s->unended == (whole || len == 2 * TAR_BLOCK),
		       "the end of an archive of %zu bytes is judged", len);
		free(s);
	}
}

static void test_pax(void)
{
	uint8_t a[TAR_BLOCK * 6] = { 0 };
	static const char records[] =
		"20 path=long/name/x\n15 linkpath=to\n30 SCHILY.xattr.user.foo=bar\xff\n"
		"16 mtime=-3.250\n";
	char size[12];
	struct seen *s;

	snprintf(size, sizeof(size), "%011o", (unsigned)strlen(records));
	header(a, "pax", 'x', size, "");
	put(a + TAR_BLOCK, records);
	header(a + TAR_BLOCK * 2, "short", '2', "00000000000", "other");
	s = read_all(a, sizeof(a), 100);
	CHECKF(s->result == 0 && s->entries == 1, "an extended header is not counted as an entry");
	CHECK_STR(s->path, "long/name/x");
	CHECK_STR(s->link, "to");
	CHECK(s->last.xattrs == 1 && !s->last.overlay_xattr && s->last.mtime == -3);
	free(s);
	/* The extended header is for one entry only. */
	header(a + TAR_BLOCK * 3, "second", '2', "00000000000", "elsewhere");
	s = read_all(a, sizeof(a), 100);
	CHECK_STR(s->path, "second");
	CHECK_STR(s->link, "elsewhere");
	CHECK(s->last.xattrs == 0 && s->last.mtime == 15);
	free(s);
}

static void test_gnu(void)
{
	uint8_t a[TAR_BLOCK * 6] = { 0 };
	char name[301];
	struct seen *s;

	memset(name, 'n', 300);
	name[300] = '\0';
	header(a, "././@LongLink", 'L', "00000000455", "");
	memcpy(a + TAR_BLOCK, name, 301);
	header(a + TAR_BLOCK * 2, "nnn", '5', "00000000000", "");
	s = read_all(a, sizeof(a), 77);
	CHECKF(s->result == 0 && s->last.type == TAR_DIR && !strcmp(s->path, name),
	       "a GNU long name is read");
	free(s);
}

static void test_numbers(void)
{
	static const struct {
		const char *size;
		bool good;
	} tries[] = {
		{ "00000000000", true },  { "0", true },	 { "        0 ", true }, { "", true },
		{ "9", false },		  { "0x1", false },	 { "-1", false },	 { "\xff", false },
		{ "77777777777", false }, { "\x80\x01", false },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		uint8_t a[TAR_BLOCK * 3] = { 0 };
		struct seen *s;

		header(a, "f", '0', tries[i].size, "");
		s = read_all(a, sizeof(a), 512);
		CHECKF((s->result == 0) == tries[i].good, "the size '%s' is accepted or refused",
		       i == 7 || i == 9 ? "binary" : tries[i].size);
		free(s);
	}
}

static void test_kinds(void)
{
	int wrong = 0;

	for (int type = 1; type < 256; type++) {
		bool good = strchr("0123456", type) != NULL || type == '7';
		uint8_t a[TAR_BLOCK * 3] = { 0 };
		struct seen *s;

		if (strchr("xgLK", type))
			continue;
		header(a, "f", (char)type, "00000000000", type == '1' || type == '2' ? "t" : "");
		s = read_all(a, sizeof(a), 512);
		if ((s->result == 0) != good)
			wrong = type;
		free(s);
	}
	CHECKF(wrong == 0, "known kinds are accepted and others refused (kind %d)", wrong);
}

int main(void)
{
	test_plain();
	test_end();
	test_pax();
	test_gnu();
	test_numbers();
	test_kinds();
	return tap_done();
}
