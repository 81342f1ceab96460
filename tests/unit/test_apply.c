/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing changes back: what goes out, what stays, and that nothing ever goes anywhere else. */
#include "overlay.h"
#include "workspace/apply/apply.h"
#include "workspace/apply/digest.h"
#include "workspace/change/changes.h"

#include <errno.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

struct run {
	struct tree t;
	struct apply_opts o;
	struct apply_result res;
	struct err e;
};

static const struct change *refused(const struct run *x, const char *path)
{
	for (size_t i = 0; i < x->res.refused.n; i++) {
		if (str_eq(x->res.refused.v[i].path, path))
			return &x->res.refused.v[i];
	}
	return NULL;
}

static bool held_for(const struct run *x, const char *path, enum change_flag flag)
{
	const struct change *c = refused(x, path);

	return c && c->flags & flag && change_why(c, flag);
}

static void show(const struct run *x)
{
	printf("# %zu changes, %zu asked, %zu applied\n", x->res.total, x->res.asked, x->res.applied);
	for (size_t i = 0; i < x->res.refused.n; i++) {
		const struct change *c = &x->res.refused.v[i];

		printf("# refused: %s %x", c->path, c->flags);
		for (unsigned f = 1; f <= CHANGE_HELD; f <<= 1)
			printf(" %s", change_why(c, f) ? change_why(c, f) : "-");
		printf("\n");
	}
}

static bool apply(struct run *x)
{
	int r;

	apply_result_release(&x->res);
	x->e = ERR_INIT;
	r = workspace_apply(x->t.upper, x->t.lower, x->t.since, &x->o, &x->res, &x->e);
	if (r < 0)
		printf("# %s\n", x->e.msg);
	return r == 0;
}

/* All of it, and afterwards there is nothing left to do. */
static bool apply_all(struct run *x)
{
	uint64_t left = 1;

	if (!apply(x) || x->res.refused.n || x->res.applied != x->res.total) {
		show(x);
		return false;
	}
	return workspace_count_changes(x->t.upper, BASE_DIR(x->t.lower), 100, &left, &x->e) == 0 && left == 0;
}

static bool release(struct run *x)
{
	apply_result_release(&x->res);
	strv_release(&x->o.paths);
	strv_release(&x->o.allow_special);
	strv_release(&x->o.allow_trigger);
	strv_release(&x->o.force);
	return tree_release(&x->t);
}

static int count_entries(int dirfd)
{
	autoclosedir DIR *d = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int n = -2;

	while (d && readdir(d))
		n++;
	return n;
}

static bool link_is(int dirfd, const char *path, const char *target)
{
	char got[256];
	ssize_t n = readlinkat(dirfd, path, got, sizeof(got) - 1);

	got[n > 0 ? n : 0] = '\0';
	return str_eq(got, target);
}

/* For what runs in a child too, where nobody counts: says which step failed, and goes no further. */
static bool step(bool ok, bool cond, int line, const char *text)
{
	if (ok && !cond) {
		printf("# line %d: %s\n", line, text);
		fflush(stdout);
	}
	return ok && cond;
}

#define STEP(cond) ok = step(ok, ok && (cond), __LINE__, #cond)

/* --- the usual ------------------------------------------------------------------------------------------------ */

static bool do_usual(void)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1000000007, .tv_nsec = 5 } };
	autoclose int sparse = open("sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	return put(AT_FDCWD, "edit", "new\n") && unlink("gone") == 0 && chmod("mode", 0700) == 0 &&
	       put(AT_FDCWD, "new\nline", "n") && mkdir("newdir", 0750) == 0 &&
	       put(AT_FDCWD, "newdir/f", "f") && chmod("newdir/f", 0755) == 0 &&
	       shell("rm -r gonedir opaque") && mkdir("opaque", 0755) == 0 &&
	       put(AT_FDCWD, "opaque/edit", "new") && unlink("file2dir") == 0 &&
	       mkdir("file2dir", 0755) == 0 && put(AT_FDCWD, "file2dir/in", "i") && shell("rm -r dir2file") &&
	       put(AT_FDCWD, "dir2file", "f") && unlink("link") == 0 && symlink("edit", "link") == 0 &&
	       unlink("file2link") == 0 && symlink("edit", "file2link") == 0 &&
	       link("newdir/f", "newdir/hard") == 0 && link("newdir/f", "hard2") == 0 &&
	       chmod("dirmode", 0710) == 0 && setxattr("newdir/f", "user.colour", "blue", 4, 0) == 0 &&
	       setxattr("newdir", "user.kind", "dir", 3, 0) == 0 &&
	       utimensat(AT_FDCWD, "newdir/f", times, 0) == 0 && sparse >= 0 &&
	       ftruncate(sparse, 1LL << 40) == 0 && pwrite(sparse, "mid", 3, 1LL << 39) == 3 &&
	       put(AT_FDCWD, "h1", "changed") && chmod("h3", 0600) == 0 && mkdir("ro", 0755) == 0 &&
	       put(AT_FDCWD, "ro/f", "x") && chmod("ro", 0555) == 0 && put(AT_FDCWD, "empty", "");
}

static bool usual_lower(const struct run *x)
{
	int d = x->t.lower;

	return put(d, "edit", "old\n") && fchmodat(d, "edit", 0640, 0) == 0 && put(d, "gone", "x") &&
	       put(d, "mode", "m") && mkdirat(d, "gonedir", 0755) == 0 && put(d, "gonedir/x", "x") &&
	       mkdirat(d, "opaque", 0755) == 0 && put(d, "opaque/drop", "d") &&
	       put(d, "opaque/edit", "old") && put(d, "file2dir", "f") && mkdirat(d, "dir2file", 0755) == 0 &&
	       put(d, "dir2file/in", "i") && symlinkat("gone", d, "link") == 0 && put(d, "file2link", "f") &&
	       mkdirat(d, "dirmode", 0755) == 0 && put(d, "h1", "hard") &&
	       linkat(d, "h1", x->t.outside, "h1", 0) == 0 && put(d, "h3", "hard3") &&
	       linkat(d, "h3", x->t.outside, "h3", 0) == 0;
}

static bool usual_names(const struct run *x)
{
	int d = x->t.lower;
	bool ok = true;

	STEP(holds(d, "edit", "new\n") && (mode_of(d, "edit") & 07777) == 0640);
	STEP(!there(d, "gone") && !there(d, "gonedir") && !there(d, "opaque/drop"));
	STEP((mode_of(d, "mode") & 07777) == 0700 && (mode_of(d, "dirmode") & 07777) == 0710);
	STEP(holds(d, "new\nline", "n") && holds(d, "opaque/edit", "new") && holds(d, "empty", ""));
	STEP(holds(d, "file2dir/in", "i") && holds(d, "dir2file", "f"));
	STEP(link_is(d, "link", "edit") && link_is(d, "file2link", "edit"));
	STEP((mode_of(d, "newdir") & 07777) == 0750 && (mode_of(d, "ro") & 07777) == 0555 &&
	     holds(d, "ro/f", "x"));
	/* No temporary file is left. */
	STEP(count_entries(x->t.outside) == 2 && count_entries(d) == 16);
	return ok;
}

static bool usual_links(const struct run *x)
{
	int d = x->t.lower;
	struct stat a, b, c;
	bool ok = true;

	/* Hard links stay one file, with its time. */
	STEP(fstatat(d, "newdir/f", &a, 0) == 0 && fstatat(d, "newdir/hard", &b, 0) == 0 &&
	     fstatat(d, "hard2", &c, 0) == 0);
	STEP(a.st_ino == b.st_ino && a.st_ino == c.st_ino && a.st_nlink == 3);
	STEP(a.st_mtim.tv_sec == 1000000007 && a.st_mtim.tv_nsec == 5 && (a.st_mode & 07777) == 0755);
	/* Another name outside keeps its bytes and its mode. */
	STEP(holds(x->t.outside, "h1", "hard") && holds(d, "h1", "changed"));
	STEP((mode_of(x->t.outside, "h3") & 07777) == 0644 && (mode_of(d, "h3") & 07777) == 0600);
	return ok;
}

static bool usual_insides(const struct run *x)
{
	autoclose int file = openat(x->t.lower, "newdir/f", O_RDONLY | O_CLOEXEC);
	autoclose int dir = openat(x->t.lower, "newdir", O_RDONLY | O_CLOEXEC);
	autoclose int sparse = openat(x->t.lower, "sparse", O_RDONLY | O_CLOEXEC);
	struct stat st;
	char value[16];
	bool ok = true;

	/* The user's attributes go out, overlayfs' do not. */
	STEP(fgetxattr(file, "user.colour", value, sizeof(value)) == 4);
	STEP(fgetxattr(dir, "user.kind", value, sizeof(value)) == 3);
	STEP(fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) < 0 &&
	     fgetxattr(dir, "user.overlay.origin", value, sizeof(value)) < 0);
	/* 1 TiB of holes stays holes. */
	STEP(fstat(sparse, &st) == 0 && st.st_size == 1LL << 40 && st.st_blocks < 2048);
	STEP(pread(sparse, value, 3, 1LL << 39) == 3 && memcmp(value, "mid", 3) == 0);
	return ok;
}

static bool usual(void)
{
	struct run x = { .t = TREE_INIT };
	bool ok = true;

	STEP(tree_init(&x.t) && usual_lower(&x));
	STEP(overlay_run(&x.t, do_usual));
	STEP(apply_all(&x));
	STEP(usual_names(&x) && usual_links(&x) && usual_insides(&x));
	STEP(release(&x));
	return ok;
}

/* --- what does not go out by itself -------------------------------------------------------------------------- */

static bool do_special(void)
{
	return put(AT_FDCWD, "plain", "p") && put(AT_FDCWD, "suid", "x") && chmod("suid", 04755) == 0 &&
	       mkfifo("pipe", 0644) == 0 && symlink("/etc/passwd", "abs") == 0 && mkdir("d", 0755) == 0 &&
	       symlink("../../outside", "d/up") == 0 && mkdir(".git", 0755) == 0 &&
	       put(AT_FDCWD, ".git/config", "x") && mkdir(".git/hooks", 0755) == 0 &&
	       put(AT_FDCWD, ".git/hooks/pre-commit", "x") && put(AT_FDCWD, ".git/HEAD", "x") &&
	       put(AT_FDCWD, ".envrc", "x") && put(AT_FDCWD, ".env", "x") && mkdir("vs", 0755) == 0 &&
	       put(AT_FDCWD, "vs/.envrc", "x") && put(AT_FDCWD, "wassuid", "longer than before");
}

static void test_special(void)
{
	struct run x = { .t = TREE_INIT };
	int d;

	CHECK(tree_init(&x.t) && put(x.t.lower, "wassuid", "x") &&
	      fchmodat(x.t.lower, "wassuid", 04711, 0) == 0);
	d = x.t.lower;
	CHECK(overlay_run(&x.t, do_special));
	/* The kernel takes setuid away on a write; put it back as a sandbox with more rights could. */
	CHECK(fchmodat(x.t.upper, "wassuid", 04711, 0) == 0);
	if (geteuid() == 0)
		CHECK(mknodat(x.t.upper, "disk", S_IFBLK | 0600, makedev(7, 200)) == 0 &&
		      put(x.t.upper, "foreign", "x") && fchownat(x.t.upper, "foreign", 12345, 12345, 0) == 0);

	x.o.dry_run = true;
	CHECK(apply(&x) && x.res.applied == 3 && count_entries(d) == 1);
	x.o.dry_run = false;
	CHECK(apply(&x) && x.res.applied == 3);
	CHECKF(holds(d, "plain", "p") && there(d, "d") && there(d, "vs"),
	       "plain files and directories are applied");
	CHECKF(count_entries(d) == 4 && count_entries(x.t.outside) == 0, "only plain changes are applied");
	CHECK(held_for(&x, "suid", CHANGE_SPECIAL) && held_for(&x, "wassuid", CHANGE_SPECIAL) &&
	      held_for(&x, "pipe", CHANGE_SPECIAL) && held_for(&x, "abs", CHANGE_SPECIAL) &&
	      held_for(&x, "d/up", CHANGE_SPECIAL));
	CHECK(holds(d, "wassuid", "x"));
	CHECK(held_for(&x, ".git/config", CHANGE_TRIGGER) && held_for(&x, ".envrc", CHANGE_TRIGGER) &&
	      held_for(&x, ".env", CHANGE_SECRETIVE));

	CHECKF(strv_add(&x.o.allow_trigger, ".") == 0 && strv_add(&x.o.allow_special, "./") == 0 &&
		       apply(&x) && x.res.applied == 0,
	       "a yes for the whole tree allows nothing");
	CHECKF(strv_add(&x.o.allow_special, ".git") == 0 && strv_add(&x.o.allow_special, ".envrc") == 0 &&
		       apply(&x) && x.res.applied == 0,
	       "a yes for special files allows no trigger");
	CHECKF(strv_add(&x.o.allow_trigger, ".git") == 0 && strv_add(&x.o.allow_trigger, "vs") == 0 &&
		       apply(&x) && there(d, ".git/HEAD") && there(d, "vs/.envrc") &&
		       !there(d, ".git/config") && !there(d, ".git/hooks/pre-commit"),
	       "a yes for .git allows commits but neither hooks nor configuration");
	CHECK(strv_add(&x.o.allow_trigger, ".git/hooks") == 0 && apply(&x) &&
	      there(d, ".git/hooks/pre-commit") && !there(d, ".git/config") && !there(d, ".envrc"));
	CHECK(strv_add(&x.o.allow_special, "suid") == 0 && strv_add(&x.o.allow_special, "pipe") == 0 &&
	      strv_add(&x.o.allow_special, "abs") == 0 && apply(&x));
	CHECK(mode_of(d, "suid") == (S_IFREG | 04755) && S_ISFIFO(mode_of(d, "pipe")) &&
	      link_is(d, "abs", "/etc/passwd"));
	if (geteuid() == 0) {
		struct stat st;

		CHECK(!there(d, "disk") && !there(d, "foreign"));
		CHECK(strv_add(&x.o.allow_special, "disk") == 0 &&
		      strv_add(&x.o.allow_special, "foreign") == 0 && apply(&x) &&
		      S_ISBLK(mode_of(d, "disk")));
		CHECK(fstatat(d, "foreign", &st, 0) == 0 && st.st_uid == 12345 && st.st_gid == 12345);
	}
	CHECK(release(&x));
}

static bool do_selected(void)
{
	return mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0 && put(AT_FDCWD, "a/b/c", "c") &&
	       put(AT_FDCWD, "a/x", "x") && put(AT_FDCWD, "z", "z") && mkdir("held", 0755) == 0 &&
	       chmod("held", 02755) == 0 && put(AT_FDCWD, "held/f", "f") && shell("rm -r gone");
}

static void test_selected(void)
{
	struct run x = { .t = TREE_INIT };
	int d;

	CHECK(tree_init(&x.t) && mkdirat(x.t.lower, "gone", 0755) == 0 &&
	      put(x.t.lower, "gone/.envrc", "x") && put(x.t.lower, "gone/f", "x"));
	d = x.t.lower;
	CHECK(overlay_run(&x.t, do_selected));
	CHECK(strv_add(&x.o.paths, "./a/b/c") == 0 && apply(&x) && holds(d, "a/b/c", "c") &&
	      !there(d, "a/x") && !there(d, "z"));
	CHECKF(x.res.asked == 3 && x.res.applied == 3 && x.res.total == 10,
	       "the directories above a selected file are applied with it");
	CHECK(strv_add(&x.o.paths, "../x") == 0 && !apply(&x) && x.e.code == -EINVAL);
	strv_release(&x.o.paths);
	CHECK(apply(&x) && holds(d, "z", "z") && !there(d, "held"));
	CHECKF(held_for(&x, "held/f", CHANGE_HELD), "nothing is put below a directory that stays behind");
	CHECKF(held_for(&x, "gone", CHANGE_HELD) && there(d, "gone/.envrc") && !there(d, "gone/f"),
	       "a directory stays when something in it is held back");
	CHECK(strv_add(&x.o.allow_trigger, "gone/.envrc") == 0 && strv_add(&x.o.allow_special, "held") == 0);
	/* Its first half was ours, but that cannot be told from the user's. */
	CHECK(apply(&x) && held_for(&x, "gone", CHANGE_CONFLICT) && holds(d, "held/f", "f"));
	CHECK(strv_add(&x.o.force, "gone") == 0 && apply_all(&x) && !there(d, "gone"));
	CHECK(release(&x));
}

static bool do_new_dirs(void)
{
	return shell("mkdir -p .github/workflows/sub .aws sub/refs sub/objects .vscode/deep") &&
	       put(AT_FDCWD, ".github/workflows/ci.yml", "ci") &&
	       put(AT_FDCWD, ".github/workflows/other.yml", "x") &&
	       put(AT_FDCWD, ".github/workflows/sub/x", "x") && put(AT_FDCWD, ".aws/config", "c") &&
	       put(AT_FDCWD, ".aws/credentials", "x") && put(AT_FDCWD, "sub/HEAD", "x") &&
	       put(AT_FDCWD, "sub/refs/x", "x") && put(AT_FDCWD, ".vscode/deep/x", "x");
}

static void test_new_dirs(void)
{
	struct run x = { .t = TREE_INIT };
	int d;

	CHECK(tree_init(&x.t) && overlay_run(&x.t, do_new_dirs));
	d = x.t.lower;
	CHECK(strv_add(&x.o.allow_trigger, ".github/workflows/ci.yml") == 0 &&
	      strv_add(&x.o.allow_trigger, ".aws/config") == 0 &&
	      strv_add(&x.o.allow_trigger, ".vscode/none") == 0 &&
	      strv_add(&x.o.allow_trigger, "sub/refs/x") == 0 && apply(&x));
	CHECKF(holds(d, ".github/workflows/ci.yml", "ci") && holds(d, ".aws/config", "c"),
	       "a yes for a file makes the new directories above it");
	CHECKF(!there(d, ".github/workflows/other.yml") && !there(d, ".github/workflows/sub") &&
		       !there(d, ".aws/credentials"),
	       "a yes for a file lets out nothing else of its directories");
	CHECKF(!there(d, ".vscode"), "a yes for a file that is not there makes no directory");
	CHECKF(!there(d, "sub/refs"), "a yes for a file does not complete a repository");
	CHECK(release(&x));
}

/* --- conflicts ------------------------------------------------------------------------------------------------ */

static bool do_conflict(void)
{
	return put(AT_FDCWD, "both", "inside") && unlink("deleted") == 0 && put(AT_FDCWD, "fine", "inside") &&
	       shell("rm -r dir");
}

static int change_meanwhile(void *arg, const struct apply_plan *plan, struct err *e)
{
	struct run *x = arg;

	if (plan->n_go != 1 || plan->refused->n != 0)
		return err_set(e, -EINVAL, "not the plan that was expected");
	return put(x->t.lower, "fine", "at the last moment") ? 0 : -EIO;
}

static int say_no(void *arg, const struct apply_plan *plan, struct err *e)
{
	*(size_t *)arg = plan->n_go;
	return err_set(e, -ECANCELED, "no");
}

static void test_conflict(void)
{
	struct run x = { .t = TREE_INIT };
	size_t would = 0;
	int d;

	CHECK(tree_init(&x.t));
	d = x.t.lower;
	CHECK(put(d, "both", "x") && put(d, "deleted", "x") && put(d, "fine", "x") &&
	      mkdirat(d, "dir", 0755) == 0 && put(d, "dir/old", "x"));
	CHECK(overlay_run(&x.t, do_conflict));
	CHECK(put(d, "both", "outside") && put(d, "deleted", "outside") && put(d, "dir/new", "outside"));

	x.o.before = say_no;
	x.o.arg = &would;
	CHECKF(!apply(&x) && would == 1 && holds(d, "fine", "x"),
	       "a no before the first change applies nothing");
	x.o.before = change_meanwhile;
	x.o.arg = &x;
	CHECK(strv_add(&x.o.paths, "fine") == 0 && apply(&x));
	CHECKF(held_for(&x, "fine", CHANGE_HELD) && holds(d, "fine", "at the last moment"),
	       "a change of the original at the last moment is held back");
	x.o.before = NULL;
	strv_release(&x.o.paths);

	CHECK(apply(&x) && x.res.applied == 0);
	CHECK(held_for(&x, "both", CHANGE_CONFLICT) && holds(d, "both", "outside"));
	CHECK(held_for(&x, "deleted", CHANGE_CONFLICT) && holds(d, "deleted", "outside"));
	CHECK(held_for(&x, "dir/new", CHANGE_CONFLICT) && holds(d, "dir/new", "outside"));
	CHECK(strv_add(&x.o.force, "both") == 0 && apply(&x) && x.res.applied == 1 &&
	      holds(d, "both", "inside"));
	CHECK(strv_add(&x.o.force, ".") == 0 && apply_all(&x));
	CHECK(!there(d, "deleted") && !there(d, "dir") && holds(d, "fine", "inside"));
	CHECK(release(&x));
}

/* --- deep ---------------------------------------------------------------------------------------------------------- */

static bool do_deep(void)
{
	for (int i = 0; i < 5000; i++) {
		if (mkdir("d", 0755) < 0 || chdir("d") < 0)
			return false;
	}
	return put(AT_FDCWD, "bottom", "b");
}

static bool do_remove_deep(void)
{
	return shell("rm -rf d");
}

static void test_deep(void)
{
	struct run x = { .t = TREE_INIT };

	CHECK(tree_init(&x.t) && overlay_run(&x.t, do_deep));
	CHECKF(apply_all(&x) && x.res.applied == 5001, "a tree of 5000 levels is applied");
	CHECK(tree_new_upper(&x.t) && overlay_run(&x.t, do_remove_deep));
	CHECKF(apply_all(&x) && x.res.applied == 5001 && count_entries(x.t.lower) == 0,
	       "5000 levels are removed again");
	CHECK(release(&x));
}

/* --- rights, as an ordinary user ------------------------------------------------------------------------------- */

static bool do_closed(void)
{
	return mkdir("closed", 0755) == 0 && mkdir("closed/in", 0755) == 0 &&
	       put(AT_FDCWD, "closed/in/f", "f") && chmod("closed/in/f", 0) == 0 &&
	       chmod("closed/in", 0) == 0 && chmod("closed", 0111) == 0 && chmod("was-ro", 0755) == 0 &&
	       put(AT_FDCWD, "was-ro/new", "n");
}

static bool closed_as_user(void)
{
	struct run x = { .t = TREE_INIT };
	bool ok = true;
	int d;

	STEP(tree_init(&x.t) && mkdirat(x.t.lower, "was-ro", 0555) == 0);
	d = x.t.lower;
	STEP(overlay_run(&x.t, do_closed));
	STEP(apply(&x) && x.res.refused.n == 0 && x.res.applied == 5);
	STEP((mode_of(d, "closed") & 07777) == 0111 && (mode_of(x.t.upper, "closed") & 07777) == 0111);
	STEP(fchmodat(d, "closed", 0700, 0) == 0 && (mode_of(d, "closed/in") & 07777) == 0);
	STEP(fchmodat(d, "closed/in", 0700, 0) == 0 && mode_of(d, "closed/in/f") == S_IFREG);
	STEP(holds(d, "was-ro/new", "n"));
	STEP(release(&x));
	return ok;
}

/* A directory that is not ours to write to: a reason, not a failure. */
static bool do_denied(void)
{
	return put(AT_FDCWD, "d/f", "f") && put(AT_FDCWD, "g", "g");
}

static bool denied_as_user(void)
{
	struct run x = { .t = TREE_INIT };
	bool ok = true;

	STEP(tree_init(&x.t) && mkdirat(x.t.lower, "d", 0755) == 0);
	STEP(overlay_run(&x.t, do_denied));
	STEP(fchmodat(x.t.lower, "d", 0555, 0) == 0 && fchmodat(x.t.upper, "d", 0555, 0) == 0);
	STEP(strv_add(&x.o.force, "d") == 0);
	STEP(apply(&x) && held_for(&x, "d/f", CHANGE_HELD) && holds(x.t.lower, "g", "g"));
	STEP(release(&x));
	return ok;
}

/* --- the race ------------------------------------------------------------------------------------------------------- */

static bool do_race(void)
{
	char name[32];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "d/f%d", i);
		if (!put(AT_FDCWD, name, "from inside"))
			return false;
		snprintf(name, sizeof(name), "d/sub/f%d", i);
		if (!put(AT_FDCWD, name, "from inside"))
			return false;
	}
	return mkdir("d/new", 0755) == 0 && put(AT_FDCWD, "d/new/f", "from inside") && unlink("d/old") == 0 &&
	       unlink("d/sub/old") == 0 && chmod("d/mode", 0700) == 0;
}

/* Swaps a directory of the original and a link to outside, for ever. */
static pid_t start_swapper(int lower)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			renameat2(lower, "d", lower, "l", RENAME_EXCHANGE);
	}
	return pid;
}

static void stop_swapper(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool race_outside(struct run *x)
{
	int o = x->t.outside;

	return mkdirat(o, "sub", 0755) == 0 && put(o, "old", "precious") && put(o, "sub/old", "precious") &&
	       put(o, "mode", "precious");
}

/* A directory to change, and a link beside it: each round needs both, and an apply by force may have replaced the link. */
static bool fresh_race_lower(struct run *x)
{
	struct err e = ERR_INIT;
	int d = x->t.lower;

	if (fd_rm_rf(d, "d", &e) < 0 || fd_rm_rf(d, "l", &e) < 0)
		return false;
	return mkdirat(d, "d", 0755) == 0 && mkdirat(d, "d/sub", 0755) == 0 && put(d, "d/old", "x") &&
	       put(d, "d/sub/old", "x") && put(d, "d/mode", "x") && symlinkat("../outside", d, "l") == 0;
}

/* Did this apply find the link in its way? It then kept changes back, or put a directory where the link was. */
static bool met_the_link(const struct run *x)
{
	return x->res.refused.n > 0 ||
	       (!S_ISLNK(mode_of(x->t.lower, "d")) && !S_ISLNK(mode_of(x->t.lower, "l")));
}

static bool outside_untouched(const struct run *x)
{
	int o = x->t.outside;

	return holds(o, "old", "precious") && holds(o, "sub/old", "precious") &&
	       holds(o, "mode", "precious") && (mode_of(o, "mode") & 07777) == 0644 && !there(o, "f0") &&
	       !there(o, "sub/f0") && !there(o, "new") && count_entries(o) == 3;
}

static void test_race(void)
{
	struct run x = { .t = TREE_INIT };
	size_t went = 0, met = 0;
	bool outside = false, ok = true;
	uint64_t enough = clock_nsec(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
	pid_t swapper;

	CHECK(tree_init(&x.t) && race_outside(&x) && fresh_race_lower(&x) && overlay_run(&x.t, do_race));
	swapper = start_swapper(x.t.lower);

	/* Control: who goes by paths is led out within a few tries. */
	for (int i = 0; i < 2000000 && !outside; i++) {
		int fd = openat(x.t.lower, "d/naive", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		fd_close(fd);
		outside = there(x.t.outside, "naive");
	}
	stop_swapper(swapper);
	CHECKF(outside, "the swap leads a naive writer outside");
	unlinkat(x.t.outside, "naive", 0);

	CHECK(strv_add(&x.o.force, ".") == 0);
	/* Nearly every round meets the link; more than 20 are for a machine on which none of them did. */
	for (int i = 0; i < 100 && ok && (i < 20 || !met) && clock_nsec(CLOCK_MONOTONIC) < enough; i++) {
		ok = fresh_race_lower(&x);
		swapper = start_swapper(x.t.lower);
		ok = ok && apply(&x) && outside_untouched(&x);
		stop_swapper(swapper);
		went += x.res.applied;
		met += met_the_link(&x);
	}
	CHECKF(ok && outside_untouched(&x), "nothing outside is ever written, made, deleted or changed");
	CHECKF(went > 0 && met > 0, "the race is met: %zu changes went out, %zu rounds met the link", went,
	       met);
	/* Quiet again: whatever stood in the way is gone. */
	if (S_ISLNK(mode_of(x.t.lower, "d")))
		CHECK(renameat2(x.t.lower, "d", x.t.lower, "l", RENAME_EXCHANGE) == 0);
	CHECK(apply_all(&x) && holds(x.t.lower, "d/f0", "from inside"));
	CHECK(release(&x));
}

/* A link in the way from the beginning. */
static bool do_below_link(void)
{
	return put(AT_FDCWD, "d/f", "from inside");
}

static void test_link_in_the_way(void)
{
	struct run x = { .t = TREE_INIT };
	int d;

	CHECK(tree_init(&x.t) && mkdirat(x.t.lower, "d", 0755) == 0 && overlay_run(&x.t, do_below_link));
	d = x.t.lower;
	CHECK(unlinkat(d, "d", AT_REMOVEDIR) == 0 && symlinkat("../outside", d, "d") == 0);
	CHECK(apply(&x) && x.res.applied == 0 && count_entries(x.t.outside) == 0);
	CHECKF(held_for(&x, "d/f", CHANGE_HELD) || held_for(&x, "d/f", CHANGE_CONFLICT),
	       "a change below a planted link is held back with a reason");
	CHECK(strv_add(&x.o.force, ".") == 0 && apply(&x) && count_entries(x.t.outside) == 0);
	CHECKF(S_ISDIR(mode_of(d, "d")) && holds(d, "d/f", "from inside"),
	       "a forced change replaces the link and not its target");
	CHECK(release(&x));
}

static bool digest_of(int upper, const char *path, unsigned char ret[APPLY_DIGEST_LEN])
{
	struct change c = { .path = (char *)path, .kind = CHANGE_ADDED, .mode_after = S_IFDIR | 0755 };
	struct changes l = { .v = &c, .n = 1 };
	const unsigned char go = 1;
	struct err e = ERR_INIT;

	return digest_changes(upper, &l, &go, ret, &e) == 0;
}

static void test_digest_of_directory(void)
{
	unsigned char before[APPLY_DIGEST_LEN], after[APPLY_DIGEST_LEN];
	struct run x = { .t = TREE_INIT };
	autoclose int d = -1;

	CHECK(tree_init(&x.t) && tree_new_upper(&x.t) && mkdirat(x.t.upper, "d", 0755) == 0);
	d = openat(x.t.upper, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(d >= 0 && digest_of(x.t.upper, "d", before) && digest_of(x.t.upper, "d", after) &&
	      memcmp(before, after, sizeof(before)) == 0);
	CHECK(fsetxattr(d, "user.kind", "one", 3, 0) == 0 && digest_of(x.t.upper, "d", after));
	CHECKF(memcmp(before, after, sizeof(before)) != 0, "the digest covers an attribute of a directory");
	CHECK(fchmod(d, 0) == 0 && digest_of(x.t.upper, "d", after) && fchmod(d, 0755) == 0);
	CHECK(release(&x));
}

int main(void)
{
	umask(022);
	CHECKF(usual(), "files, modes, links, holes and attributes are applied, and no change is left");
	CHECKF(as_user(usual), "an ordinary user applies files, modes, links, holes and attributes");
	test_special();
	test_selected();
	test_new_dirs();
	test_conflict();
	test_deep();
	CHECKF(as_user(closed_as_user), "a file without rights is applied without rights");
	CHECKF(as_user(denied_as_user), "a change that the user may not write is reported");
	test_race();
	test_link_in_the_way();
	test_digest_of_directory();
	return tap_done();
}
