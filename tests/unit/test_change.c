/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a run, read from real overlays. */
#include "overlay.h"
#include "workspace/change/changes.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static const struct change *find(const struct changes *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i].path, path))
			return &l->v[i];
	}
	return NULL;
}

static bool is(const struct changes *l, const char *path, enum change_kind kind, unsigned flags)
{
	const struct change *c = find(l, path);

	if (c && c->kind == kind && c->flags == flags)
		return true;
	printf("# %s: %s, flags %x\n", path, c ? change_kind_name(c->kind) : "not there", c ? c->flags : 0);
	return false;
}

static bool why_is(const struct changes *l, const char *path, enum change_flag flag, const char *part)
{
	const struct change *c = find(l, path);

	return c && change_why(c, flag) && strstr(change_why(c, flag), part);
}

static bool list(struct tree *t, struct changes *ret)
{
	struct err e = ERR_INIT;
	uint64_t n = 0;
	int r = workspace_changes(t->upper, BASE_DIR(t->lower), t->since, ret, &e);

	if (r < 0) {
		printf("# %s\n", e.msg);
		*ret = (struct changes){ 0 };
		return false;
	}
	/* Counting finds the same. */
	return workspace_count_changes(t->upper, BASE_DIR(t->lower), UINT64_MAX, &n, &e) == 0 && n == ret->n;
}

static void show(const struct changes *l)
{
	for (size_t i = 0; i < l->n; i++)
		printf("# %-9s %2x %s\n", change_kind_name(l->v[i].kind), l->v[i].flags, l->v[i].path);
}

/* --- the usual ------------------------------------------------------------------------------------------------ */

static bool make_lower(struct tree *t)
{
	int d = t->lower;

	return put(d, "same", "same\n") && put(d, "edit", "old\n") && put(d, "gone", "x") &&
	       put(d, "mode", "m") && put(d, "touched", "t") && mkdirat(d, "dir", 0755) == 0 &&
	       put(d, "dir/a", "a") && put(d, "dir/b", "b") && mkdirat(d, "gonedir", 0755) == 0 &&
	       put(d, "gonedir/x", "x") && mkdirat(d, "gonedir/sub", 0755) == 0 &&
	       put(d, "gonedir/sub/y", "y") && mkdirat(d, "opaque", 0755) == 0 &&
	       put(d, "opaque/keep", "keep") && put(d, "opaque/drop", "drop") &&
	       put(d, "opaque/edit", "old") && put(d, "file2dir", "f") && mkdirat(d, "dir2file", 0755) == 0 &&
	       put(d, "dir2file/in", "i") && symlinkat("edit", d, "link") == 0 &&
	       symlinkat("edit", d, "link2") == 0 && put(d, "h1", "hard") &&
	       linkat(d, "h1", d, "h2", 0) == 0 && mkdirat(d, "dirmode", 0755) == 0 &&
	       mkdirat(d, "quiet", 0755) == 0 && put(d, "quiet/in", "q");
}

static bool do_usual(void)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1 } };

	return put(AT_FDCWD, "edit", "new\n") && unlink("gone") == 0 && chmod("mode", 0755) == 0 &&
	       utimensat(AT_FDCWD, "touched", times, 0) == 0 && put(AT_FDCWD, "new\nline", "n") &&
	       mkdir("newdir", 0755) == 0 && put(AT_FDCWD, "newdir/f", "f") && unlink("dir/a") == 0 &&
	       shell("rm -r gonedir opaque dir2file") && mkdir("opaque", 0755) == 0 &&
	       put(AT_FDCWD, "opaque/keep", "keep") && put(AT_FDCWD, "opaque/edit", "new") &&
	       put(AT_FDCWD, "opaque/add", "add") && unlink("file2dir") == 0 &&
	       mkdir("file2dir", 0755) == 0 && put(AT_FDCWD, "file2dir/in", "i") &&
	       put(AT_FDCWD, "dir2file", "f") && unlink("link") == 0 && symlink("same", "link") == 0 &&
	       unlink("link2") == 0 && symlink("edit", "link2") == 0 && put(AT_FDCWD, "h1", "soft") &&
	       chmod("dirmode", 0700) == 0 && put(AT_FDCWD, "quiet/tmp", "t") && unlink("quiet/tmp") == 0 &&
	       rename("dir", "dir-moved") < 0 && errno == EXDEV;
}

static void test_usual(void)
{
	struct changes l = { 0 };
	struct tree t;
	bool sorted = true;

	CHECK(tree_init(&t) && make_lower(&t));
	CHECKF(overlay_run(&t, do_usual),
	       "the usual changes are made on a real overlay, where moving a lower directory is EXDEV");
	CHECK(list(&t, &l));
	CHECK(is(&l, "edit", CHANGE_MODIFIED, 0) && is(&l, "gone", CHANGE_DELETED, 0));
	CHECK(is(&l, "mode", CHANGE_MODE, 0) && is(&l, "dirmode", CHANGE_MODE, 0));
	CHECKF(!find(&l, "touched"), "a copy that is the same is no change");
	CHECKF(!find(&l, "quiet") && !find(&l, "quiet/tmp"),
	       "a directory with a file that came and went is no change");
	CHECK(is(&l, "new\nline", CHANGE_ADDED, 0));
	CHECK(is(&l, "newdir", CHANGE_ADDED, 0) && is(&l, "newdir/f", CHANGE_ADDED, 0));
	CHECK(is(&l, "dir/a", CHANGE_DELETED, 0) && !find(&l, "dir") && !find(&l, "dir/b"));
	CHECKF(is(&l, "gonedir", CHANGE_DELETED, 0) && is(&l, "gonedir/x", CHANGE_DELETED, 0) &&
		       is(&l, "gonedir/sub", CHANGE_DELETED, 0) && is(&l, "gonedir/sub/y", CHANGE_DELETED, 0),
	       "all that was in a deleted directory is listed");
	CHECKF(!find(&l, "opaque") && !find(&l, "opaque/keep") && is(&l, "opaque/drop", CHANGE_DELETED, 0) &&
		       is(&l, "opaque/edit", CHANGE_MODIFIED, 0) && is(&l, "opaque/add", CHANGE_ADDED, 0),
	       "a replaced directory is compared entry by entry");
	CHECK(is(&l, "file2dir", CHANGE_TYPE, 0) && is(&l, "file2dir/in", CHANGE_ADDED, 0));
	CHECK(is(&l, "dir2file", CHANGE_TYPE, 0) && is(&l, "dir2file/in", CHANGE_DELETED, 0));
	CHECK(is(&l, "link", CHANGE_MODIFIED, 0) && !find(&l, "link2"));
	CHECK(is(&l, "h1", CHANGE_MODIFIED, 0) && !find(&l, "h2"));
	for (size_t i = 1; i < l.n; i++)
		sorted = sorted && strcmp(l.v[i - 1].path, l.v[i].path) != 0;
	CHECKF(sorted && l.n == 21, "each of %zu changes is listed once", l.n);
	if (l.n != 21)
		show(&l);
	changes_release(&l);
	CHECK(tree_release(&t));
}

/* --- special things, triggers, secrets ---------------------------------------------------------------------- */

static bool do_special(void)
{
	return put(AT_FDCWD, "suid", "x") && chmod("suid", 04755) == 0 && mkfifo("pipe", 0644) == 0 &&
	       mknod("sock", S_IFSOCK | 0644, 0) == 0 && symlink("/etc/passwd", "abs") == 0 &&
	       mkdir("d", 0755) == 0 && symlink("../../x", "d/up") == 0 && symlink("../ok", "d/fine") == 0 &&
	       put(AT_FDCWD, "ok", "x") && mkdir("sgid", 0755) == 0 && chmod("sgid", 02755) == 0 &&
	       mkdir(".git", 0755) == 0 && put(AT_FDCWD, ".git/config", "x") &&
	       mkdir(".git/objects", 0755) == 0 && put(AT_FDCWD, ".git/objects/aa", "x") &&
	       put(AT_FDCWD, ".envrc", "x") && put(AT_FDCWD, "key.pem", "-----BEGIN PRIVATE KEY-----") &&
	       put(AT_FDCWD, "cert.pem", "CERTIFICATE") && mkdir(".ssh", 0755) == 0 &&
	       put(AT_FDCWD, ".ssh/config", "x") && put(AT_FDCWD, "kept", "changed");
}

static void test_special(void)
{
	struct changes l = { 0 };
	struct tree t;

	CHECK(tree_init(&t) && put(t.lower, "kept", "x") && fchmodat(t.lower, "kept", 04755, 0) == 0);
	CHECK(overlay_run(&t, do_special));
	if (geteuid() == 0) {
		/* As root's sandbox could leave behind, with its ids shown as they are. */
		unsigned char cap[20] = { [3] = 2, [4] = 1 };
		autoclose int fd = openat(t.upper, "cap", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

		CHECK(fd >= 0 && fsetxattr(fd, "security.capability", cap, sizeof(cap), 0) == 0);
		CHECK(put(t.upper, "foreign", "x") && fchownat(t.upper, "foreign", 12345, 12345, 0) == 0);
		CHECK(mknodat(t.upper, "disk", S_IFBLK | 0666, makedev(7, 0)) == 0);
	}
	CHECK(list(&t, &l));
	CHECK(is(&l, "suid", CHANGE_ADDED, CHANGE_SPECIAL) && why_is(&l, "suid", CHANGE_SPECIAL, "setuid"));
	CHECKF(is(&l, "kept", CHANGE_MODIFIED, find(&l, "kept")->mode_after & 04000 ? CHANGE_SPECIAL : 0) &&
		       (find(&l, "kept")->mode_before & 04000),
	       "a modified setuid file is special while it is setuid");
	CHECK(is(&l, "pipe", CHANGE_ADDED, CHANGE_SPECIAL) && is(&l, "sock", CHANGE_ADDED, CHANGE_SPECIAL));
	CHECK(is(&l, "abs", CHANGE_ADDED, CHANGE_SPECIAL) &&
	      why_is(&l, "abs", CHANGE_SPECIAL, "leads outside"));
	CHECK(is(&l, "d/up", CHANGE_ADDED, CHANGE_SPECIAL) && is(&l, "d/fine", CHANGE_ADDED, 0));
	CHECK(is(&l, "sgid", CHANGE_ADDED, CHANGE_SPECIAL));
	CHECK(is(&l, ".git/config", CHANGE_ADDED, CHANGE_TRIGGER) &&
	      why_is(&l, ".git/objects/aa", CHANGE_TRIGGER, "internals"));
	CHECK(is(&l, ".envrc", CHANGE_ADDED, CHANGE_TRIGGER | CHANGE_SECRETIVE));
	CHECK(is(&l, "key.pem", CHANGE_ADDED, CHANGE_SECRETIVE) && is(&l, "cert.pem", CHANGE_ADDED, 0));
	CHECK(is(&l, ".ssh/config", CHANGE_ADDED, CHANGE_TRIGGER | CHANGE_SECRETIVE));
	if (geteuid() == 0) {
		CHECK(is(&l, "cap", CHANGE_ADDED, CHANGE_SPECIAL) &&
		      why_is(&l, "cap", CHANGE_SPECIAL, "capability"));
		CHECK(is(&l, "foreign", CHANGE_ADDED, CHANGE_SPECIAL) &&
		      why_is(&l, "foreign", CHANGE_SPECIAL, "owner"));
		CHECK(is(&l, "disk", CHANGE_ADDED, CHANGE_SPECIAL) &&
		      why_is(&l, "disk", CHANGE_SPECIAL, "device"));
	}
	changes_release(&l);
	CHECK(tree_release(&t));
}

/* --- conflicts ------------------------------------------------------------------------------------------------ */

static bool do_conflict(void)
{
	return put(AT_FDCWD, "both", "inside") && put(AT_FDCWD, "fine", "inside") &&
	       put(AT_FDCWD, "vanished", "inside") && unlink("deleted") == 0 &&
	       put(AT_FDCWD, "retyped", "inside") && put(AT_FDCWD, "vanished-dir/f", "inside") &&
	       shell("rm -r dir") && shell("rm -r opaque && mkdir opaque") &&
	       put(AT_FDCWD, "moved/f", "inside") && put(AT_FDCWD, "appeared", "inside") &&
	       put(AT_FDCWD, "busy/f", "inside");
}

static void test_conflict(void)
{
	struct changes l = { 0 };
	struct tree t;
	int d;

	CHECK(tree_init(&t));
	d = t.lower;
	CHECK(put(d, "both", "x") && put(d, "fine", "x") && put(d, "vanished", "x") &&
	      put(d, "deleted", "x") && put(d, "retyped", "x") && mkdirat(d, "vanished-dir", 0755) == 0 &&
	      put(d, "vanished-dir/f", "x") && mkdirat(d, "dir", 0755) == 0 && put(d, "dir/f", "x") &&
	      mkdirat(d, "opaque", 0755) == 0 && put(d, "opaque/f", "x") && mkdirat(d, "moved", 0755) == 0 &&
	      put(d, "moved/f", "x") && mkdirat(d, "other", 0755) == 0 && put(d, "other/f", "y") &&
	      mkdirat(d, "busy", 0755) == 0 && put(d, "busy/f", "x"));
	CHECK(overlay_run(&t, do_conflict));
	/* The user's changes to the original meanwhile. */
	CHECK(put(d, "both", "outside") && unlinkat(d, "vanished", 0) == 0 && put(d, "deleted", "outside") &&
	      unlinkat(d, "retyped", 0) == 0 && mkdirat(d, "retyped", 0755) == 0 &&
	      unlinkat(d, "vanished-dir/f", 0) == 0 && unlinkat(d, "vanished-dir", AT_REMOVEDIR) == 0 &&
	      put(d, "dir/new", "outside") && put(d, "opaque/new", "outside") &&
	      unlinkat(d, "moved/f", 0) == 0 && unlinkat(d, "moved", AT_REMOVEDIR) == 0 &&
	      renameat(d, "other", d, "moved") == 0 && put(d, "appeared", "outside") &&
	      put(d, "busy/new", "outside"));
	CHECK(list(&t, &l));
	CHECK(is(&l, "both", CHANGE_MODIFIED, CHANGE_CONFLICT) && is(&l, "fine", CHANGE_MODIFIED, 0));
	CHECK(is(&l, "vanished", CHANGE_ADDED, CHANGE_CONFLICT) &&
	      why_is(&l, "vanished", CHANGE_CONFLICT, "gone"));
	CHECK(is(&l, "deleted", CHANGE_DELETED, CHANGE_CONFLICT));
	CHECK(is(&l, "retyped", CHANGE_TYPE, CHANGE_CONFLICT));
	CHECK(is(&l, "vanished-dir", CHANGE_ADDED, CHANGE_CONFLICT) &&
	      is(&l, "vanished-dir/f", CHANGE_ADDED, CHANGE_CONFLICT));
	CHECK(is(&l, "dir", CHANGE_DELETED, CHANGE_CONFLICT) &&
	      is(&l, "dir/f", CHANGE_DELETED, CHANGE_CONFLICT) &&
	      is(&l, "dir/new", CHANGE_DELETED, CHANGE_CONFLICT));
	CHECK(is(&l, "opaque/new", CHANGE_DELETED, CHANGE_CONFLICT) &&
	      is(&l, "opaque/f", CHANGE_DELETED, CHANGE_CONFLICT));
	CHECKF(is(&l, "moved/f", CHANGE_MODIFIED, CHANGE_CONFLICT),
	       "a directory that replaced the original's file meanwhile is a conflict");
	CHECK(is(&l, "appeared", CHANGE_MODIFIED, CHANGE_CONFLICT));
	CHECKF(is(&l, "busy/f", CHANGE_MODIFIED, 0), "a new neighbour is no conflict");
	changes_release(&l);
	CHECK(tree_release(&t));
}

/* --- sizes and depths ------------------------------------------------------------------------------------------ */

#define TIB (1LL << 40)

static bool do_sparse(void)
{
	autoclose int fd = open("sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	autoclose int same = open("same-sparse", O_RDWR | O_CLOEXEC);

	return fd >= 0 && ftruncate(fd, TIB) == 0 && pwrite(fd, "end", 3, TIB - 3) == 3 && same >= 0 &&
	       pwrite(same, "x", 1, 5) == 1 && pwrite(same, "\0", 1, 5) == 1;
}

static void test_sparse(void)
{
	struct changes l = { 0 };
	struct tree t;
	autoclose int fd = -1;
	uint64_t start, bytes = 0, inodes = 0;
	struct err e = ERR_INIT;

	CHECK(tree_init(&t));
	fd = openat(t.lower, "same-sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && ftruncate(fd, TIB) == 0 && pwrite(fd, "tail", 4, TIB - 4) == 4);
	CHECKF(overlay_run(&t, do_sparse), "files of 1 TiB can be made of holes");
	start = clock_nsec(CLOCK_MONOTONIC);
	CHECK(list(&t, &l));
	CHECKF(clock_nsec(CLOCK_MONOTONIC) - start < 60 * NSEC_PER_SEC,
	       "holes are not read when files are compared");
	CHECK(is(&l, "sparse", CHANGE_ADDED, 0) && find(&l, "sparse")->size_after == (uint64_t)TIB);
	CHECKF(!find(&l, "same-sparse"), "a file with other holes and the same bytes is no change");
	CHECK(workspace_usage(t.upper, UINT64_MAX, UINT64_MAX, &bytes, &inodes, &e) == 0);
	CHECKF(bytes < 1 << 20 && inodes == 2, "a hole takes no space: %llu bytes, %llu inodes",
	       (unsigned long long)bytes, (unsigned long long)inodes);
	changes_release(&l);
	CHECK(tree_release(&t));
}

static bool do_deep(void)
{
	for (int i = 0; i < 5000; i++) {
		if (mkdir("d", 0755) < 0 || chdir("d") < 0)
			return false;
	}
	return put(AT_FDCWD, "bottom", "b");
}

static void test_deep(void)
{
	struct changes l = { 0 };
	struct tree t;
	uint64_t bytes = 0, inodes = 0;
	struct err e = ERR_INIT;

	CHECK(tree_init(&t));
	CHECKF(overlay_run(&t, do_deep), "a tree of 5000 nested directories can be made");
	CHECK(list(&t, &l) && l.n == 5001 && strlen(l.v[5000].path) == 5000 * 2 + 6);
	CHECK(workspace_usage(t.upper, UINT64_MAX, UINT64_MAX, &bytes, &inodes, &e) == 0 && inodes == 5001);
	CHECK(workspace_usage(t.upper, UINT64_MAX, 100, &bytes, &inodes, &e) == 0 && inodes > 100 &&
	      inodes < 5000);
	changes_release(&l);
	CHECK(tree_release(&t));
}

/* Deeper than a path may be: one change, held, and the walk goes on behind it. */
static void test_too_deep(void)
{
	struct changes l = { 0 };
	char name[201];
	struct tree t;
	int fd;

	CHECK(tree_init(&t));
	memset(name, 'x', 200);
	name[200] = '\0';
	fd = dup(t.upper);
	for (int i = 0; i < 400 && fd >= 0; i++) {
		int next = mkdirat(fd, name, 0755) == 0 ? openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
							: -1;

		close(fd);
		fd = next;
	}
	CHECK(fd >= 0 && put(t.upper, "z", "z"));
	fd_close(fd);
	CHECK(list(&t, &l));
	CHECK(l.n > 100 && is(&l, "z", CHANGE_ADDED, 0));
	if (!l.v || l.n < 2)
		return;
	CHECKF(l.v[l.n - 2].flags == CHANGE_HELD && strlen(l.v[l.n - 2].path) > WORKSPACE_PATH_MAX,
	       "the deepest directory is held back: %s", change_why(&l.v[l.n - 2], CHANGE_HELD));
	changes_release(&l);
	CHECK(tree_release(&t));
}

/* --- rights ------------------------------------------------------------------------------------------------------ */

static bool do_closed(void)
{
	return mkdir("closed", 0755) == 0 && mkdir("closed/in", 0755) == 0 &&
	       put(AT_FDCWD, "closed/in/f", "f") && put(AT_FDCWD, "unreadable", "u") &&
	       chmod("unreadable", 0) == 0 && chmod("closed/in", 0100) == 0 && chmod("closed", 0) == 0 &&
	       put(AT_FDCWD, "same", "same") && chmod("same", 0200) == 0;
}

static bool closed_as_user(void)
{
	struct changes l = { 0 };
	struct err e = ERR_INIT;
	uint64_t bytes = 0, inodes = 0;
	struct tree t;
	bool ok;

	/* same: the mode is all that differs, and the bytes have to be read to know. */
	ok = tree_init(&t) && put(t.lower, "same", "same") && overlay_run(&t, do_closed) && list(&t, &l) &&
	     is(&l, "closed", CHANGE_ADDED, 0) && is(&l, "closed/in", CHANGE_ADDED, 0) &&
	     is(&l, "closed/in/f", CHANGE_ADDED, 0) && is(&l, "unreadable", CHANGE_ADDED, 0) &&
	     is(&l, "same", CHANGE_MODE, 0) &&
	     workspace_usage(t.upper, UINT64_MAX, UINT64_MAX, &bytes, &inodes, &e) == 0 && inodes == 5 &&
	     (mode_of(t.upper, "closed") & 07777) == 0 && (mode_of(t.upper, "unreadable") & 07777) == 0;
	changes_release(&l);
	return tree_release(&t) && ok;
}

static void test_closed(void)
{
	CHECKF(as_user(closed_as_user),
	       "a file without rights is read as its owner, and has no rights again");
}

int main(void)
{
	test_usual();
	test_special();
	test_conflict();
	test_sparse();
	test_deep();
	test_too_deep();
	test_closed();
	return tap_done();
}
