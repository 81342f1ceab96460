/* SPDX-License-Identifier: Apache-2.0 */
/* Content kept by hash, trees written down and made again, and what differs between two. */
#include "overlay.h"
#include "workspace/store/tree_store.h"

#include <errno.h>
#include <sys/xattr.h>

struct world {
	struct tree t;
	struct objects s;
	struct err e;
};

static bool world_open(struct world *w)
{
	w->e = ERR_INIT;
	return tree_init(&w->t) && objects_open(&w->s, w->t.base, &w->e) == 0;
}

static bool world_close(struct world *w)
{
	objects_release(&w->s);
	return tree_release(&w->t);
}

static int scan(struct world *w, int fd, const struct known *before, struct known *after, struct buf *out,
		uint64_t *ret_read)
{
	const struct manifest_head h = { .number = 1, .label = "" };
	struct scan s = { .store = &w->s, .before = before, .after = after, .out = out };
	int r;

	manifest_add_head(out, &h);
	r = scan_tree(&s, "workspace", fd, &w->e);
	manifest_add_end(out, s.entries);
	if (after)
		known_sort(after);
	if (ret_read)
		*ret_read = s.files_read;
	return r;
}

static int restore(struct world *w, const struct buf *m, const char *name, int old,
		   const struct known *before, struct restore *ret)
{
	struct restore r = { .store = &w->s, .old_fd = old, .before = before };
	struct manifest_reader reader;
	struct manifest_ent ent;
	int ret_code = manifest_open(&reader, m->data, m->len);

	if (ret_code == 0 && manifest_next(&reader, &ent) == 1)
		ret_code = restore_tree(&r, &reader, w->t.base, name, &w->e);
	manifest_close(&reader);
	if (ret)
		*ret = r;
	return ret_code;
}

/* The manifest of a tree that was made from a manifest is that manifest. */
static bool comes_back(struct world *w, const struct buf *m, const char *name)
{
	autobuf struct buf again = BUF_INIT;
	autoclose int fd = openat(w->t.base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && scan(w, fd, NULL, NULL, &again, NULL) == 0 && again.len == m->len &&
	       memcmp(again.data, m->data, m->len) == 0;
}

static bool fill(int up)
{
	int fd;

	if (!put(up, "a", "one") || !put(up, "z", "") || mkdirat(up, "d", 0750) < 0 ||
	    !put(up, "d/f", "two") || linkat(up, "d/f", up, "d/g", 0) < 0 ||
	    symlinkat("nowhere", up, "l") < 0 || mknodat(up, "p", S_IFIFO | 0600, 0) < 0 ||
	    mknodat(up, "w", S_IFCHR, 0) < 0 || fchmodat(up, "a", 04711, 0) < 0)
		return false;
	fd = openat(up, "d/f", O_RDWR | O_CLOEXEC);
	if (fd < 0 || fsetxattr(fd, "user.x", "\0y", 2, 0) < 0)
		return false;
	fd_close(fd);
	fd = openat(up, "hole", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 1LL << 40) < 0 || pwrite(fd, "x", 1, 1LL << 39) != 1)
		return false;
	fd_close(fd);
	return utimensat(up, "d/f", (struct timespec[2]){ { 5, 6 }, { 7, 8 } }, 0) == 0;
}

static void test_round(void)
{
	autobuf struct buf m = BUF_INIT, m2 = BUF_INIT;
	CLEANUP(known_release) struct known known = KNOWN_INIT;
	CLEANUP(known_release) struct known next = KNOWN_INIT;
	struct restore res;
	struct world w;
	uint64_t read = 0;
	struct stat st;

	CHECK(world_open(&w) && fill(w.t.upper));
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	CHECKF(scan(&w, w.t.upper, NULL, &known, &m, &read) == 0, "a tree is written to the store: %s",
	       w.e.msg);
	CHECK(read == 4 + 1);
	CHECK(scan(&w, w.t.upper, &known, &next, &m2, &read) == 0 && read == 0);
	CHECK(m.len == m2.len && memcmp(m.data, m2.data, m.len) == 0);
	CHECKF(restore(&w, &m, "new", -1, NULL, &res) == 0, "a stored tree is restored: %s", w.e.msg);
	CHECK(comes_back(&w, &m, "new"));
	CHECK(fstatat(w.t.base, "new/hole", &st, 0) == 0 && st.st_size == 1LL << 40 && st.st_blocks < 1000);
	CHECK(there(w.t.base, "new/d/g") && !there(w.t.base, "new.links"));
	CHECKF(restore(&w, &m, "linked", w.t.upper, &known, &res) == 0 && res.linked == 3,
	       "unchanged files of a restored tree are linked: %llu", (unsigned long long)res.linked);
	/* As long as the old tree is there its files have a name more. */
	CHECK(fd_rm_rf(w.t.base, "upper", &w.e) == 0 && comes_back(&w, &m, "linked"));
	CHECK(restore(&w, &m, "new", -1, NULL, NULL) == -EEXIST);
	CHECK(world_close(&w));
}

static bool spoil_objects(struct world *w)
{
	char cmd[256];

	snprintf(
		cmd, sizeof(cmd),
		"find %s/objects -type f ! -name lock -exec chmod u+w {} + -exec sh -c 'printf X > $0' {} \\;",
		w->t.path);
	return system(cmd) == 0; /* NOLINT(cert-env33-c) */
}

static void test_damage(void)
{
	autobuf struct buf m = BUF_INIT;
	unsigned char hash[HASH_LEN];
	struct world w;
	autoclose int fd = -1;

	CHECK(world_open(&w) && put(w.t.upper, "a", "o") && scan(&w, w.t.upper, NULL, NULL, &m, NULL) == 0);
	CHECK(spoil_objects(&w));
	CHECKF(restore(&w, &m, "new", -1, NULL, NULL) == -EBADMSG,
	       "stored content that was changed is refused");
	CHECK(strstr(w.e.msg, "damaged"));
	/* A torn object makes way for a whole one. */
	CHECK(put(w.t.upper, "b", "longer") && (fd = openat(w.t.upper, "b", O_RDONLY | O_CLOEXEC)) >= 0);
	CHECK(objects_put(&w.s, fd, 6, hash) == 0 && spoil_objects(&w) &&
	      objects_put(&w.s, fd, 6, hash) == 0);
	fd_close(fd);
	fd = openat(w.t.base, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(objects_get(&w.s, hash, 6, fd) == 0);
	CHECK(world_close(&w));
}

static void test_known(void)
{
	CLEANUP(known_release) struct known k = KNOWN_INIT;
	CLEANUP(known_release) struct known again = KNOWN_INIT;
	const unsigned char hash[HASH_LEN] = { 1 }, other[HASH_LEN] = { 2 };
	autobuf struct buf b = BUF_INIT;
	struct stat st = { .st_dev = 1, .st_ino = 2, .st_size = 3 };
	bool all = true;

	CHECK(known_add(&k, &st, hash, "abc", 3) == 0);
	st.st_ino = 1;
	CHECK(known_add(&k, &st, other, "", 0) == 0);
	known_sort(&k);
	CHECK(known_find(&k, &st) && memcmp(known_find(&k, &st)->hash, other, HASH_LEN) == 0);
	st.st_ctim.tv_nsec = 1;
	CHECK(!known_find(&k, &st) && known_find_inode(&k, &st));
	known_format(&k, hash, &b);
	CHECK(known_parse(&again, b.data, b.len, hash) == 0);
	known_release(&again);
	CHECK(known_parse(&again, b.data, b.len, other) == -ESTALE);
	for (size_t i = 0; i < b.len; i++) {
		known_release(&again);
		b.data[i] ^= 1;
		all = all && known_parse(&again, b.data, b.len, hash) < 0;
		b.data[i] ^= 1;
	}
	CHECKF(all, "a change of any bit is detected");
}

static bool has_change(const struct changes *l, const char *path, enum change_kind kind)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i].path, path) && l->v[i].kind == kind)
			return true;
	}
	return false;
}

static void test_compare(void)
{
	autobuf struct buf a = BUF_INIT, b = BUF_INIT;
	CLEANUP(changes_release) struct changes l = { 0 };
	struct world w;
	struct compare c;

	CHECK(world_open(&w) && put(w.t.lower, "orig", "o") && mkdirat(w.t.lower, "dir", 0755) == 0 &&
	      put(w.t.lower, "dir/x", "x") && put(w.t.lower, "same", "s"));
	CHECK(put(w.t.upper, "orig", "changed") && put(w.t.upper, "new", "n") && put(w.t.upper, "same", "s"));
	CHECK(scan(&w, w.t.upper, NULL, NULL, &a, NULL) == 0);
	CHECK(unlinkat(w.t.upper, "orig", 0) == 0 && unlinkat(w.t.upper, "new", 0) == 0 &&
	      unlinkat(w.t.upper, "same", 0) == 0 && mkdirat(w.t.upper, "dir", 0755) == 0 &&
	      put(w.t.upper, "dir/y", "y"));
	CHECK(fsetxattr(w.t.upper, "user.none", "", 0, 0) == 0);
	CHECK(scan(&w, w.t.upper, NULL, NULL, &b, NULL) == 0);
	c = (struct compare){ a.data, b.data, a.len, b.len, w.t.lower, &w.s };
	CHECK(tree_store_compare(&c, &l, &w.e) == 0 && l.n == 3);
	CHECKF(has_change(&l, "orig", CHANGE_MODIFIED), "a file that is the original's again is modified");
	CHECKF(has_change(&l, "new", CHANGE_DELETED), "a file that only the layer had is deleted");
	CHECKF(has_change(&l, "dir/y", CHANGE_ADDED), "a new file in a directory of the original is added");
	changes_release(&l);
	/* The directory made opaque hides what the original has in it. */
	{
		autoclose int d = openat(w.t.upper, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK(fsetxattr(d, "user.overlay.opaque", "y", 1, 0) == 0);
	}
	buf_clear(&a);
	CHECK(scan(&w, w.t.upper, NULL, NULL, &a, NULL) == 0);
	c = (struct compare){ b.data, a.data, b.len, a.len, w.t.lower, &w.s };
	CHECK(tree_store_compare(&c, &l, &w.e) == 0 && has_change(&l, "dir/x", CHANGE_DELETED) && l.n == 1);
	CHECK(world_close(&w));
}

static void test_sweep(void)
{
	CLEANUP(hashes_release) struct hashes keep = { 0 };
	autobuf struct buf m = BUF_INIT;
	struct objects_use gone, left;
	struct world w;

	CHECK(world_open(&w) && put(w.t.upper, "a", "a") && put(w.t.upper, "b", "b") &&
	      scan(&w, w.t.upper, NULL, NULL, &m, NULL) == 0);
	buf_clear(&m);
	CHECK(unlinkat(w.t.upper, "a", 0) == 0 && scan(&w, w.t.upper, NULL, NULL, &m, NULL) == 0);
	CHECK(tree_store_hashes(m.data, m.len, &keep) == 0 && keep.n == 1);
	hashes_sort(&keep);
	CHECK(objects_lock_alone(&w.s, 0, &w.e) == 0);
	CHECK(objects_sweep(&w.s, &keep, &gone, &left, &w.e) == 0 && gone.objects == 1 && left.objects == 1);
	CHECK(world_close(&w));
}

int main(void)
{
	test_round();
	test_damage();
	test_known();
	test_compare();
	test_sweep();
	return tap_done();
}
