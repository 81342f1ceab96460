/* SPDX-License-Identifier: Apache-2.0 */
/* A layer over a copied one over the original: what is seen of the two below, what changed against it, what is hidden. */
#include "overlay.h"
#include "workspace/change/changes.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static bool whiteout(int dir, const char *name)
{
	return mknodat(dir, name, S_IFCHR | 0600, makedev(0, 0)) == 0;
}

static bool opaque(int dir, const char *name)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0;
}

/* The original, and what another sandbox made of it. */
static bool make_below(struct tree *t, int mid)
{
	int d = t->lower;

	return put(d, "same", "same\n") && put(d, "edit", "old\n") && put(d, "gone", "g") &&
	       mkdirat(d, "dir", 0755) == 0 && put(d, "dir/a", "a") && put(d, "dir/b", "b") &&
	       mkdirat(d, "anew", 0755) == 0 && put(d, "anew/x", "x") && put(d, "turn", "t") &&
	       mkdirat(d, "swap", 0755) == 0 && put(d, "swap/y", "y") && put(d, ".env", "TOKEN=1\n") &&
	       put(d, "dir/.env", "TOKEN=2\n") && mkdirat(d, ".ssh", 0700) == 0 &&
	       put(d, ".ssh/id_rsa", "k") && put(mid, "edit", "new\n") && whiteout(mid, "gone") &&
	       mkdirat(mid, "dir", 0755) == 0 && whiteout(mid, "dir/a") && put(mid, "dir/c", "c") &&
	       mkdirat(mid, "anew", 0755) == 0 && opaque(mid, "anew") && put(mid, "anew/z", "z") &&
	       mkdirat(mid, "turn", 0755) == 0 && put(mid, "turn/in", "i") &&
	       symlinkat("/etc", mid, "swap") == 0 && put(mid, "anew/.env", "MINE=1\n") &&
	       whiteout(mid, ".ssh") && mkfifoat(mid, "pipe", 0600) == 0 &&
	       symlinkat("edit", mid, ".netrc") == 0;
}

/* The entry that is visible at a path: its first letter, '-' for nothing, '/' for a directory, '@' for a link. */
static char seen(struct base b, const char *path)
{
	const char *name;
	struct stat st;
	char c = '-';
	autoclose int dir = workspace_open_parent(b, path, &name, &st);
	autoclose int fd = -1;

	if (dir < 0)
		return '-';
	if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
		return S_ISDIR(st.st_mode) ? '/' : '@';
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || read(fd, &c, 1) != 1)
		return '?';
	return c;
}

static void test_seen(struct base b)
{
	CHECK(seen(b, "same") == 's' && seen(b, "edit") == 'n' && seen(b, "gone") == '-');
	CHECK(seen(b, "dir") == '/' && seen(b, "dir/a") == '-' && seen(b, "dir/b") == 'b' &&
	      seen(b, "dir/c") == 'c');
	CHECKF(seen(b, "anew/x") == '-' && seen(b, "anew/z") == 'z',
	       "an opaque directory hides the directory of the original");
	CHECKF(seen(b, "turn/in") == 'i' && seen(b, "swap") == '@' && seen(b, "swap/passwd") == '-' &&
		       seen(b, "swap/y") == '-',
	       "an entry of another type replaces the original, and no link is followed");
	CHECKF(seen((struct base){ b.layer, -1 }, "edit") == 'n' &&
		       seen((struct base){ b.layer, -1 }, "same") == '-',
	       "a layer over nothing shows only its own files");
	CHECK(seen(BASE_DIR(b.dir), "gone") == 'g' && seen(b, "no/such") == '-' && seen(b, "edit/x") == '-');
}

static char kind_at(const struct changes *l, const char *path)
{
	static const char kinds[] = "AMDmT", conflict = '!';

	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i].path, path))
			return (char)(l->v[i].flags & CHANGE_CONFLICT ? conflict : kinds[l->v[i].kind]);
	}
	return '-';
}

static bool make_above(int up)
{
	return put(up, "edit", "mine\n") && put(up, "gone", "back") && put(up, "same", "same\n") &&
	       mkdirat(up, "dir", 0755) == 0 && whiteout(up, "dir/b") && whiteout(up, "dir/a") &&
	       put(up, "dir/c", "c") && whiteout(up, "anew") && mkdirat(up, "turn", 0755) == 0 &&
	       opaque(up, "turn") && put(up, "turn/new", "n") && whiteout(up, "swap") && whiteout(up, "pipe");
}

static void test_changes(struct tree *t, struct base b)
{
	struct changes l = { 0 };
	struct err e = ERR_INIT;
	autobuf struct buf patch = BUF_INIT;
	uint64_t n = 0;

	CHECK(make_above(t->upper));
	/* In the far future nothing is in conflict. */
	CHECKF(workspace_changes(t->upper, b, UINT64_MAX, &l, &e) == 0, "the changes are listed %s", e.msg);
	CHECK(kind_at(&l, "edit") == 'M' && kind_at(&l, "gone") == 'A' && kind_at(&l, "same") == '-');
	CHECK(kind_at(&l, "dir/b") == 'D' && kind_at(&l, "dir/a") == '-' && kind_at(&l, "dir/c") == '-' &&
	      kind_at(&l, "dir") == '-');
	CHECKF(kind_at(&l, "anew") == 'D' && kind_at(&l, "anew/z") == 'D' && kind_at(&l, "anew/x") == '-',
	       "the changes of a removed directory are those entries that were visible");
	CHECK(kind_at(&l, "turn") == '-' && kind_at(&l, "turn/in") == 'D' && kind_at(&l, "turn/new") == 'A');
	CHECK(kind_at(&l, "swap") == 'D' && kind_at(&l, "swap/y") == '-' && kind_at(&l, "pipe") == 'D');
	CHECK(workspace_count_changes(t->upper, b, UINT64_MAX, &n, &e) == 0 && n == l.n);
	for (size_t i = 0; i < l.n; i++) {
		if (str_eq(l.v[i].path, "edit"))
			CHECK(workspace_patch(t->upper, b, &l.v[i], &patch) == 0 &&
			      strstr(buf_cstr(&patch), "-new\n+mine"));
	}
	changes_release(&l);
	CHECK(workspace_changes(t->upper, b, 0, &l, &e) == 0);
	CHECKF(kind_at(&l, "edit") == 'M' && kind_at(&l, "dir/b") == '!',
	       "an unchanged copy of the original has no conflict");
	changes_release(&l);
}

static bool masked(const struct mask *m, size_t n, const char *path, bool is_dir)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(m[i].path, path))
			return m[i].is_dir == is_dir;
	}
	return false;
}

static void test_masks(struct base b)
{
	autostrv struct strv show = STRV_INIT;
	struct mask *m = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	CHECK(workspace_find_masks(b.dir, &show, &m, &n, &e) == 0 && n == 3);
	CHECKF(workspace_merge_masks(b, "/some/where", &show, false, &m, &n, &e) == 0,
	       "the masks are merged %s", e.msg);
	CHECK(n == 3 && masked(m, n, ".env", false) && masked(m, n, "dir/.env", false) &&
	      masked(m, n, "anew/.env", false));
	CHECKF(!masked(m, n, ".ssh", true) && !masked(m, n, "pipe", false) && !masked(m, n, "edit", false),
	       "removed files, new pipes and targets of new links are not masked");
	masks_free(m, n);
}

int main(void)
{
	struct tree t;
	int mid;

	CHECK(tree_init(&t));
	mid = tree_dir(&t, "mid");
	CHECK(mid >= 0 && make_below(&t, mid));
	test_seen((struct base){ mid, t.lower });
	test_masks((struct base){ mid, t.lower });
	test_changes(&t, (struct base){ mid, t.lower });
	fd_close(mid);
	CHECK(tree_release(&t));
	return tap_done();
}
