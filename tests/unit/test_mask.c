/* SPDX-License-Identifier: Apache-2.0 */
/* The masks that hide files from a sandbox. */
#include "overlay.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <sys/resource.h>

struct found {
	struct mask *v;
	size_t n;
	struct err e;
	int r;
};

static struct found search_fd(int fd, const char *show)
{
	autostrv struct strv l = STRV_INIT;
	struct found f = { 0 };

	if (show && strv_add(&l, show) < 0)
		return f;
	f.r = workspace_find_masks(fd, &l, &f.v, &f.n, &f.e);
	if (f.r < 0)
		f = (struct found){ .r = f.r, .e = f.e };
	return f;
}

static struct found search(const struct tree *t, const char *show)
{
	return search_fd(t->lower, show);
}

static const struct mask *get(const struct found *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++) {
		if (str_eq(f->v[i].path, path))
			return &f->v[i];
	}
	return NULL;
}

static bool hides(const struct found *f, const char *path, bool is_dir)
{
	const struct mask *m = get(f, path);

	return m && m->is_dir == is_dir && !m->content;
}

static void list(const struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		printf("# %s%s\n", f->v[i].path, f->v[i].is_dir ? "/" : "");
}

#define KEY "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"

static bool fill(const struct tree *t)
{
	int d = t->lower;
	static const char *const dirs[] = {
		"src",		"src/.ssh",	"src/.ssh/deep",  ".aws",     ".git",
		".git/objects", ".git/modules", ".git/modules/m", "bare.git", "bare.git/objects",
		"conf",		".config",	".config/gcloud", ".docker",  "dir-target"
	};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdirat(d, dirs[i], 0755) < 0)
			return false;
	}
	return put(d, ".env", "x") && put(d, "src/.env.local", "x") && put(d, ".env.example", "x") &&
	       put(d, "src/.ssh/id_rsa", "x") && put(d, ".aws/credentials", "x") && put(d, "key.pem", KEY) &&
	       put(d, "cert.pem", "CERTIFICATE") && put(d, "server.key", KEY) && put(d, "other.key", "x") &&
	       put(d, ".npmrc", "//registry/:_authToken=x") && put(d, "src/.npmrc", "registry=x") &&
	       put(d, ".netrc", "x") && put(d, ".git-credentials", "x") && put(d, "id_ed25519", "x") &&
	       put(d, "id_ed25519.pub", "x") && put(d, ".config/gcloud/x", "x") &&
	       put(d, ".docker/config.json", "x") && put(d, "src/config.json", "x") &&
	       put(d, "conf/target", "x") &&
	       put(d, ".git/config", "[remote \"o\"]\n\turl = https://u:tok@h/r\n") &&
	       put(d, ".git/modules/m/config", "\turl = https://tok@h/r\n") &&
	       put(d, ".git/objects/.env", "x") && put(d, "bare.git/config", "\turl = https://h/r\n") &&
	       put(d, "bare.git/objects/.env", "x") && symlinkat("conf/target", d, ".env.linked") == 0 &&
	       symlinkat("/etc/passwd", d, ".env.out") == 0 &&
	       symlinkat("../cert.pem", d, "conf/ca.pem") == 0 && symlinkat("dir-target", d, ".gnupg") == 0 &&
	       symlinkat(".", d, "loop") == 0 && mkfifoat(d, "src/pipe", 0644) == 0 &&
	       mknodat(d, "daemon.sock", S_IFSOCK | 0644, 0) == 0 && put(d, "src/new\n.pem", KEY);
}

static void test_names(const struct tree *t)
{
	struct found f = search(t, NULL);
	const struct mask *m;
	bool sorted = true;

	CHECKF(f.r == 0, "the search for masks succeeds %s", f.e.msg);
	CHECK(hides(&f, ".env", false) && hides(&f, "src/.env.local", false) && !get(&f, ".env.example"));
	CHECK(hides(&f, "src/.ssh", true) && !get(&f, "src/.ssh/id_rsa") && hides(&f, ".aws", true));
	CHECK(hides(&f, "key.pem", false) && !get(&f, "cert.pem") && hides(&f, "server.key", false) &&
	      !get(&f, "other.key") && hides(&f, "src/new\n.pem", false));
	CHECK(hides(&f, ".npmrc", false) && !get(&f, "src/.npmrc"));
	CHECK(hides(&f, ".netrc", false) && hides(&f, ".git-credentials", false) &&
	      hides(&f, "id_ed25519", false) && !get(&f, "id_ed25519.pub"));
	CHECK(hides(&f, ".config/gcloud", true) && hides(&f, ".docker/config.json", false) &&
	      !get(&f, "src/config.json"));
	CHECKF(hides(&f, "conf/target", false) && !get(&f, ".env.linked") && hides(&f, "dir-target", true),
	       "the target of a link is hidden");
	CHECK(!get(&f, ".env.out") && !get(&f, "conf/ca.pem"));
	CHECKF(hides(&f, "daemon.sock", false) && hides(&f, "src/pipe", false),
	       "sockets and pipes are hidden");
	CHECK(!get(&f, ".git/objects/.env") && hides(&f, "bare.git/objects/.env", false) &&
	      !get(&f, "bare.git/config"));
	m = get(&f, ".git/config");
	CHECK(m && m->content && strstr(m->content, "https://REDACTED@h/r") && !strstr(m->content, "tok") &&
	      m->content_len == strlen(m->content));
	m = get(&f, ".git/modules/m/config");
	CHECK(m && m->content && !strstr(m->content, "tok"));
	for (size_t i = 1; i < f.n; i++)
		sorted = sorted && strcmp(f.v[i - 1].path, f.v[i].path) != 0;
	CHECKF(sorted && f.n == 20, "each of %zu masks is listed once", f.n);
	if (f.n != 20)
		list(&f);
	masks_free(f.v, f.n);
}

static void test_show(const struct tree *t)
{
	struct found f = search(t, ".");

	CHECK(f.r == 0 && f.n == 0);
	masks_free(f.v, f.n);
	f = search(t, "./src/");
	CHECK(f.r == 0 && !get(&f, "src/.env.local") && !get(&f, "src/.ssh") && get(&f, ".env"));
	masks_free(f.v, f.n);
	f = search(t, ".env");
	CHECK(f.r == 0 && !get(&f, ".env") && get(&f, "src/.env.local"));
	masks_free(f.v, f.n);
	f = search(t, "src/.ssh/known_hosts");
	CHECKF(f.r == 0 && !get(&f, "src/.ssh") && hides(&f, "src/.ssh/id_rsa", false) &&
		       hides(&f, "src/.ssh/deep", true),
	       "a path that is shown in a hidden directory leaves its neighbours hidden");
	masks_free(f.v, f.n);
	f = search(t, ".git/config");
	CHECK(f.r == 0 && !get(&f, ".git/config"));
	masks_free(f.v, f.n);
	f = search(t, ".env.linked");
	CHECK(f.r == 0 && !get(&f, "conf/target"));
	masks_free(f.v, f.n);
	f = search(t, "/etc");
	CHECK(f.r == -EINVAL);
}

/* The workspace's own name counts as the parent of what is in it. */
static void test_parent(const struct tree *t)
{
	autoclose int fd = openat(t->lower, ".config", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct found f = search_fd(fd, NULL);

	CHECK(f.r == 0 && hides(&f, "gcloud", true));
	masks_free(f.v, f.n);
}

static void test_many(void)
{
	struct found f;
	struct tree t;
	char name[32];
	bool ok;

	ok = tree_init(&t);
	for (int i = 0; i < WORKSPACE_MASKS_MAX && ok; i++) {
		snprintf(name, sizeof(name), ".env.%d", i);
		ok = put(t.lower, name, "");
	}
	CHECK(ok);
	f = search(&t, NULL);
	CHECK(f.r == 0 && f.n == WORKSPACE_MASKS_MAX);
	masks_free(f.v, f.n);
	CHECK(put(t.lower, ".env.more", ""));
	f = search(&t, NULL);
	CHECKF(f.r == -E2BIG && f.e.hint[0], "a mask beyond the limit is an error: %s", f.e.msg);
	CHECK(tree_release(&t));
}

static void test_deep(void)
{
	struct rlimit few = { 40, 40 }, old = { 0 };
	struct found f;
	struct tree t;
	bool ok;
	int fd;

	ok = tree_init(&t);
	fd = ok ? dup(t.lower) : -1;
	for (int i = 0; i < 3000 && ok; i++) {
		int next;

		ok = mkdirat(fd, "d", 0755) == 0 && mkdirat(fd, "e", 0755) == 0;
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	CHECK(ok && put(fd, ".env", "x") && getrlimit(RLIMIT_NOFILE, &old) == 0);
	fd_close(fd);
	few.rlim_max = old.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	f = search(&t, NULL);
	CHECKF(f.r == 0 && f.n == 1 && strlen(f.v[0].path) == 3000 * 2 + 4,
	       "3000 levels are searched with few descriptors %s", f.e.msg);
	masks_free(f.v, f.n);
	few.rlim_cur = (rlim_t)t.outside + 8;
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	f = search(&t, NULL);
	CHECKF(f.r == 0 && f.n == 1, "the search works with fewer descriptors %s", f.e.msg);
	masks_free(f.v, f.n);
	CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0 && tree_release(&t));
}

/* A directory that cannot be searched or read is hidden. */
static bool closed_as_user(void)
{
	struct found f;
	struct tree t;
	bool ok;

	if (!tree_init(&t) || mkdirat(t.lower, "closed", 0755) < 0 || !put(t.lower, "closed/.env", "x") ||
	    fchmodat(t.lower, "closed", 0, 0) < 0 || !put(t.lower, "unread.pem", "x") ||
	    fchmodat(t.lower, "unread.pem", 0, 0) < 0 || mkdirat(t.lower, ".git", 0755) < 0 ||
	    !put(t.lower, ".git/config", "x") || fchmodat(t.lower, ".git/config", 0, 0) < 0 ||
	    mkdirat(t.lower, "nox", 0755) < 0 || mkdirat(t.lower, "nox/d", 0755) < 0 ||
	    fchmodat(t.lower, "nox", 0600, 0) < 0)
		return false;
	f = search(&t, NULL);
	ok = f.r == 0 && hides(&f, "closed", true) && hides(&f, "unread.pem", false) &&
	     hides(&f, ".git/config", false) && hides(&f, "nox/d", true) && f.n == 4;
	masks_free(f.v, f.n);
	f = search(&t, "closed");
	ok = ok && f.r == 0 && f.n == 3;
	masks_free(f.v, f.n);
	f = search(&t, "closed/.env");
	ok = ok && f.r == 0 && hides(&f, "closed", true);
	masks_free(f.v, f.n);
	return tree_release(&t) && ok;
}

static void test_speed(void)
{
	struct found f;
	struct tree t;
	uint64_t start, best = UINT64_MAX;
	char name[64];
	bool ok;

	ok = tree_init(&t);
	for (int i = 0; i < 20000 && ok; i++) {
		snprintf(name, sizeof(name), "dir%d", i / 100);
		if (i % 100 == 0)
			ok = mkdirat(t.lower, name, 0755) == 0;
		snprintf(name, sizeof(name), "dir%d/source-file-%d.c", i / 100, i);
		ok = ok && put(t.lower, name, "");
	}
	CHECK(ok);
	for (int i = 0; i < 5; i++) {
		start = clock_nsec(CLOCK_MONOTONIC);
		f = search(&t, NULL);
		start = clock_nsec(CLOCK_MONOTONIC) - start;
		best = start < best ? start : best;
		masks_free(f.v, f.n);
	}
	/* About 0.2 µs an entry; the bar is for machines that are slow and busy. */
	CHECKF(best / 20200 < 5000, "the search takes less than 5 us an entry: %llu ns",
	       (unsigned long long)best / 20200);
	CHECK(tree_release(&t));
}

int main(void)
{
	struct tree t;

	umask(022);
	CHECK(tree_init(&t) && fill(&t));
	test_names(&t);
	test_show(&t);
	test_parent(&t);
	CHECK(tree_release(&t));
	test_many();
	test_deep();
	CHECKF(as_user(closed_as_user), "a directory that an ordinary user cannot read is hidden");
	test_speed();
	return tap_done();
}
