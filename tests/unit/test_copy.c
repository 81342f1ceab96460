/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking a hostile archive: nothing outside the destination, nothing but files, directories and links. */
#include "base/fd.h"
#include "sandbox/init/copy.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static char dir[] = "/tmp/coffer-test-copy-XXXXXX";
static int dir_fd;

static void add(struct buf *b, enum pack_type type, const char *name, const char *data, uint32_t mode)
{
	struct pack_rec r = {
		.type = type, .mode = mode, .mtime = 1000000000LL * 86400, .data = (const uint8_t *)data
	};

	r.len = data ? (uint32_t)strlen(data) : 0;
	pack_set_name(r.name, name);
	pack_add(b, &r);
}

static void add_file(struct buf *b, const char *name, const char *text, uint32_t mode)
{
	add(b, PACK_FILE, name, NULL, mode);
	add(b, PACK_DATA, "", text, 0);
	add(b, PACK_CLOSE, "", NULL, 0);
}

/* Unpacks to `dst` (below dir), byte by byte when `slowly`. */
static int unpack(const struct buf *b, const char *dst, const char *source_name, bool slowly)
{
	static struct unpacker u;
	struct copy_target t;
	struct copy_fail fail = { 0 };
	int r = copy_target_open(&t, dir_fd, dst, source_name, &fail);

	if (r < 0)
		return r;
	unpacker_init(&u, &t, 100, 100000);
	for (size_t i = 0; r == 0 && i < b->len; i += slowly ? 1 : b->len)
		r = unpacker_feed(&u, b->data + i, slowly ? 1 : b->len);
	if (r == 0 && !unpacker_is_complete(&u))
		r = -ENODATA;
	unpacker_release(&u);
	fd_close(t.dir);
	return r;
}

static bool holds(const char *path, const char *text)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(dir_fd, path, 1000, &b) == 0 && strcmp(buf_cstr(&b), text) == 0;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

static void put(const char *path, const char *text)
{
	CHECK(fd_replace_file(dir_fd, path, text, strlen(text), 0600) == 0);
}

static void test_places(void)
{
	autobuf struct buf file = BUF_INIT, tree = BUF_INIT;

	add_file(&file, "", "text", 0644);
	add(&file, PACK_END, "", NULL, 0);
	add(&tree, PACK_DIR, "", NULL, 0755);
	add_file(&tree, "f", "in tree", 0600);
	add(&tree, PACK_LEAVE, "", NULL, 0);
	add(&tree, PACK_END, "", NULL, 0);

	CHECK(unpack(&file, "new", "src", false) == 0 && holds("new", "text"));
	CHECK(mkdirat(dir_fd, "d", 0755) == 0);
	CHECK(unpack(&file, "d", "src", true) == 0 && holds("d/src", "text"));
	CHECK(unpack(&file, "d/", "src2", false) == 0 && holds("d/src2", "text"));
	CHECK(unpack(&file, "missing/x", "src", false) == -ENOENT);
	CHECK(unpack(&file, "missing/", "src", false) == -ENOTDIR);
	CHECK(unpack(&tree, "t", "src", true) == 0 && holds("t/f", "in tree"));
	CHECKF(unpack(&tree, "t", "src", false) == 0 && holds("t/src/f", "in tree"),
	       "an existing directory takes the copy inside");
	CHECKF(unpack(&tree, "d", "", false) == 0 && holds("d/f", "in tree"),
	       "a copy of SRC/. merges into the directory");
	CHECKF(unpack(&tree, "new", "src", false) < 0 && holds("new", "text"),
	       "a directory does not replace a file");
	CHECKF(unpack(&file, "d", "", false) == -ENOTDIR, "a file does not replace a directory");
	CHECK((mode_of("t/f") & 07777) == 0600);
}

static void test_links(void)
{
	autobuf struct buf b = BUF_INIT;

	put("outside", "precious");
	CHECK(symlinkat("../outside", dir_fd, "d/planted") == 0 && symlinkat("..", dir_fd, "d/up") == 0);
	CHECK(linkat(dir_fd, "outside", dir_fd, "d/hard", 0) == 0);
	add(&b, PACK_DIR, "", NULL, 0755);
	add_file(&b, "planted", "evil", 0644);
	add_file(&b, "hard", "evil", 0644);
	add(&b, PACK_LINK, "own", "../outside", 0);
	add_file(&b, "own", "evil", 0644);
	add(&b, PACK_LEAVE, "", NULL, 0);
	add(&b, PACK_END, "", NULL, 0);
	CHECK(unpack(&b, "d", "", false) == 0);
	CHECKF(holds("outside", "precious"),
	       "no link is written through: planted, hard, or of the copy itself");
	CHECK(S_ISREG(mode_of("d/planted")) && S_ISREG(mode_of("d/own")) && holds("d/own", "evil"));

	buf_clear(&b);
	add(&b, PACK_DIR, "", NULL, 0755);
	add(&b, PACK_DIR, "up", NULL, 0755);
	add_file(&b, "escaped", "evil", 0644);
	add(&b, PACK_LEAVE, "", NULL, 0);
	add(&b, PACK_LEAVE, "", NULL, 0);
	add(&b, PACK_END, "", NULL, 0);
	CHECK(unpack(&b, "d", "", false) < 0);
	CHECKF(mode_of("escaped") == 0, "a directory is not entered through a link");

	buf_clear(&b);
	add(&b, PACK_DIR, "", NULL, 0755);
	add(&b, PACK_LINK, "door", "..", 0);
	add(&b, PACK_DIR, "door", NULL, 0755);
	CHECKF(unpack(&b, "fresh", "", false) < 0, "nothing is unpacked through a link of the same archive");
}

static void test_limits(void)
{
	autobuf struct buf b = BUF_INIT;
	static char big[50001];

	memset(big, 'x', sizeof(big) - 1);
	add(&b, PACK_DIR, "", NULL, 0755);
	for (int i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%d", i);
		add_file(&b, name, big, 0644);
	}
	CHECKF(unpack(&b, "big", "", false) == -EFBIG, "a stream with too many bytes is refused");
	buf_clear(&b);
	add(&b, PACK_DIR, "", NULL, 0755);
	for (int i = 0; i < 101; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%d", i);
		add_file(&b, name, "x", 0644);
	}
	CHECKF(unpack(&b, "many", "", false) == -EFBIG, "a stream with too many files is refused");
	buf_clear(&b);
	add_file(&b, "", "cut", 0644);
	CHECKF(unpack(&b, "cut", "", false) == -ENODATA, "a stream without its end is refused as incomplete");
}

static void test_names(void)
{
	char name[PACK_NAME_MAX + 1], longer[PACK_NAME_MAX + 2];

	CHECK(copy_source_name("/a/b", name) == 0 && strcmp(name, "b") == 0);
	CHECK(copy_source_name("a/b///", name) == 0 && strcmp(name, "b") == 0);
	CHECK(copy_source_name("a/.", name) == 0 && name[0] == '\0');
	CHECK(copy_source_name("/", name) == 0 && name[0] == '\0');
	CHECK(copy_source_name("..", name) == 0 && name[0] == '\0');
	memset(longer, 'x', sizeof(longer));
	longer[PACK_NAME_MAX + 1] = '\0';
	CHECK(copy_source_name(longer, name) == -ENAMETOOLONG);
}

/* A tree there and back through the archive, with what cannot come along left out and counted. */
static void test_pack(void)
{
	static struct packer p;
	autobuf struct buf b = BUF_INIT;
	int r;

	CHECK(mkdirat(dir_fd, "src", 0750) == 0 && mkdirat(dir_fd, "src/sub", 0700) == 0);
	put("src/one", "1");
	put("src/sub/two", "2");
	CHECK(symlinkat("one", dir_fd, "src/link") == 0 && mkfifoat(dir_fd, "src/fifo", 0600) == 0);
	CHECK(fchmodat(dir_fd, "src/one", 04755, 0) == 0);
	r = packer_open(&p, dir_fd, "src", false, &b);
	for (r = r < 0 ? r : 1; r > 0;)
		r = packer_next(&p, &b);
	CHECK(r == 0 && p.skipped == 1 && p.fail.code == -EOPNOTSUPP);
	CHECK_STR(p.fail.name, "fifo");
	packer_release(&p);
	CHECK(unpack(&b, "back", "", true) == 0);
	CHECK(holds("back/one", "1") && holds("back/sub/two", "2") && S_ISLNK(mode_of("back/link")));
	CHECKF((mode_of("back/one") & 07777) == 0755, "the set-uid bit is not copied");
	CHECK((mode_of("back") & 07777) == 0750 && (mode_of("back/sub") & 07777) == 0700);
	buf_clear(&b);
	CHECK(packer_open(&p, dir_fd, "src/link", false, &b) == 0 && packer_next(&p, &b) == 0);
	packer_release(&p);
	CHECK(unpack(&b, "link-copy", "", false) == 0 && S_ISLNK(mode_of("link-copy")));
	buf_clear(&b);
	CHECK(packer_open(&p, dir_fd, "no-such", false, &b) == -ENOENT);
	packer_release(&p);
}

int main(void)
{
	struct err e = ERR_INIT;

	umask(022);
	if (!mkdtemp(dir))
		return 1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_places();
	test_links();
	test_limits();
	test_names();
	test_pack();
	if (fd_rm_rf(AT_FDCWD, dir, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
