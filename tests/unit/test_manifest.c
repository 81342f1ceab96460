/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests: what is written is read back, and nothing else is taken for one. */
#include "codec/file/manifest.h"
#include "tap.h"

#include <errno.h>

static const uint8_t hash_a[MANIFEST_HASH] = { 1, 2, 3 }, hash_b[MANIFEST_HASH] = { 9 };

static void begin(struct buf *b)
{
	const struct manifest_head h = { .time = 7, .number = 3, .flags = MANIFEST_LIVE, .label = "a label" };

	buf_clear(b);
	manifest_add_head(b, &h);
}

static struct manifest_ent ent(enum manifest_type t, const char *name)
{
	return (struct manifest_ent){
		.type = t, .name = name, .mode = 0644, .uid = 5, .gid = 6, .sec = -7, .nsec = 8
	};
}

static void add(struct buf *b, enum manifest_type t, const char *name)
{
	struct manifest_ent e = ent(t, name);

	e.hash = hash_a;
	e.target = "to";
	e.size = t == MANIFEST_LINK ? 2 : 0;
	manifest_add_ent(b, &e);
}

/* How far reading gets: the number of records, or the error. */
static int read_all(const struct buf *b, size_t len)
{
	struct manifest_reader r;
	struct manifest_ent e;
	int n = 0, ret = manifest_open(&r, b->data, len);

	while (ret == 0 && (ret = manifest_next(&r, &e)) > 0) {
		n++;
		ret = 0;
	}
	manifest_close(&r);
	return ret < 0 ? ret : n;
}

static void whole(struct buf *b)
{
	begin(b);
	manifest_add_tree(b, "workspace");
	add(b, MANIFEST_DIR, "");
	add(b, MANIFEST_FILE, "a\nb");
	add(b, MANIFEST_DIR, "d");
	add(b, MANIFEST_LINK, "l");
	manifest_add_leave(b);
	add(b, MANIFEST_WHITEOUT, "w");
	manifest_add_leave(b);
	manifest_add_end(b, 5);
}

static void test_round(void)
{
	autobuf struct buf b = BUF_INIT;
	struct manifest_reader r;
	struct manifest_ent e;

	whole(&b);
	CHECK(read_all(&b, b.len) == 9);
	CHECK(manifest_open(&r, b.data, b.len) == 0 && r.head.number == 3 && r.head.time == 7);
	CHECK_STR(r.head.label, "a label");
	CHECK(manifest_next(&r, &e) == 1 && e.type == MANIFEST_TREE);
	CHECK(manifest_next(&r, &e) == 1 && e.type == MANIFEST_DIR && !*e.name);
	CHECK(manifest_next(&r, &e) == 1 && e.type == MANIFEST_FILE && memcmp(e.hash, hash_a, 32) == 0);
	CHECK_STR(e.name, "a\nb");
	CHECK(e.mode == 0644 && e.uid == 5 && e.gid == 6 && e.sec == -7 && e.nsec == 8);
	manifest_close(&r);
}

/* Cut anywhere, or with anything behind it, it is no manifest. */
static void test_cut(void)
{
	autobuf struct buf b = BUF_INIT;
	bool all = true;

	whole(&b);
	for (size_t n = 0; n < b.len; n++)
		all = all && read_all(&b, n) == -EBADMSG;
	CHECKF(all, "a manifest that is cut at any place is refused");
	buf_addc(&b, 0);
	CHECK(read_all(&b, b.len) == -EBADMSG);
}

/* Two entries in one directory. */
static int pair(const char *x, const char *y)
{
	autobuf struct buf b = BUF_INIT;

	begin(&b);
	manifest_add_tree(&b, "workspace");
	add(&b, MANIFEST_DIR, "");
	add(&b, MANIFEST_FIFO, x);
	add(&b, MANIFEST_FIFO, y);
	manifest_add_leave(&b);
	manifest_add_end(&b, 3);
	return read_all(&b, b.len);
}

static void test_names(void)
{
	char longest[257];

	CHECK(pair("a", "b") == 6);
	CHECK(pair("b", "a") == -EBADMSG);
	CHECK(pair("a", "a") == -EBADMSG);
	CHECK(pair(".", "a") == -EBADMSG);
	CHECK(pair("..", "a") == -EBADMSG);
	CHECK(pair("a/b", "c") == -EBADMSG);
	CHECK(pair("", "c") == -EBADMSG);
	memset(longest, 'a', 256);
	longest[256] = '\0';
	CHECK(pair(longest, "b") == -EBADMSG);
	longest[255] = '\0';
	CHECK(pair(longest, "b") == 6);
}

static int groups(uint32_t first, uint32_t second, const uint8_t *hash, uint64_t size)
{
	autobuf struct buf b = BUF_INIT;
	struct manifest_ent e = ent(MANIFEST_FILE, "a");

	begin(&b);
	manifest_add_tree(&b, "workspace");
	add(&b, MANIFEST_DIR, "");
	e.group = first;
	e.hash = hash_a;
	manifest_add_ent(&b, &e);
	e.name = "b";
	e.group = second;
	e.hash = hash;
	e.size = size;
	manifest_add_ent(&b, &e);
	manifest_add_leave(&b);
	manifest_add_end(&b, 3);
	return read_all(&b, b.len);
}

static void test_groups(void)
{
	CHECK(groups(1, 1, hash_a, 0) == 6);
	CHECK(groups(1, 2, hash_b, 9) == 6);
	CHECK(groups(2, 1, hash_a, 0) == -EBADMSG);
	CHECK(groups(1, 1, hash_b, 0) == -EBADMSG);
	CHECK(groups(1, 1, hash_a, 1) == -EBADMSG);
	CHECK(groups(0, UINT32_MAX, hash_a, 0) == -EBADMSG);
}

static void test_shape(void)
{
	autobuf struct buf b = BUF_INIT;

	begin(&b);
	add(&b, MANIFEST_DIR, "");
	CHECKF(read_all(&b, b.len) == -EBADMSG, "a directory outside of a tree is refused");
	begin(&b);
	manifest_add_leave(&b);
	CHECKF(read_all(&b, b.len) == -EBADMSG, "the end of a directory that was not entered is refused");
	begin(&b);
	manifest_add_tree(&b, "workspace");
	add(&b, MANIFEST_FILE, "f");
	CHECKF(read_all(&b, b.len) == -EBADMSG,
	       "a tree that begins with another entry than a directory is refused");
	begin(&b);
	manifest_add_tree(&b, "../etc");
	CHECKF(read_all(&b, b.len) == -EBADMSG, "a tree whose root has a path for a name is refused");
	begin(&b);
	manifest_add_end(&b, 1);
	CHECKF(read_all(&b, b.len) == -EBADMSG, "a wrong count of entries is refused");
	begin(&b);
	manifest_add_end(&b, 0);
	CHECKF(read_all(&b, b.len) == 1, "a manifest without entries is accepted");
}

int main(void)
{
	test_round();
	test_cut();
	test_names();
	test_groups();
	test_shape();
	return tap_done();
}
