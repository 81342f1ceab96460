/* SPDX-License-Identifier: Apache-2.0 */
/* Removing hostile trees: deep, wide, without rights, with hardly an fd left, and with links that lead out. */
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int base = -1; /* a temporary directory that belongs to this test */
static char base_path[64];

static bool exists(const char *name)
{
	struct stat st;

	return fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool make_file(int dir, const char *name)
{
	autoclose int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd >= 0;
}

/* A chain of directories below base/name, a file in each `every`-th. */
static bool make_deep(const char *name, unsigned levels, unsigned every)
{
	autoclose int fd = -1;

	if (mkdirat(base, name, 0700) < 0)
		return false;
	fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < levels && fd >= 0; i++) {
		int next;

		if (mkdirat(fd, "d", 0700) < 0 || (i % every == 0 && !make_file(fd, "f")))
			return false;
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd_close(fd);
		fd = next;
	}
	return fd >= 0;
}

static void test_small(void)
{
	struct err e = ERR_INIT;
	uint64_t n = 99;

	CHECK(fd_rm_tree(base, "nothing", &n, &e) == 0 && n == 0);
	CHECK(make_file(base, "one"));
	CHECK(fd_rm_tree(base, "one", &n, &e) == 0 && n == 1 && !exists("one"));
	CHECK(symlinkat(base_path, base, "link") == 0);
	CHECK(fd_rm_tree(base, "link", &n, &e) == 0 && n == 1 && exists("."));
	CHECK(make_deep("t", 3, 1));
	CHECK(fd_rm_tree(base, "t", &n, &e) == 0 && n == 7 && !exists("t"));
}

/* In memory where there is a place for it: making a hundred thousand directories takes a disk half a minute. */
static void test_deep(void)
{
	char shm[] = "/dev/shm/rmtree-XXXXXX";
	bool in_memory = mkdtemp(shm) != NULL;
	struct err e = ERR_INIT;
	int disk = base;
	uint64_t n = 0;

	if (in_memory)
		base = open(shm, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECKF(make_deep("deep", 100000, 10), "a tree of 100000 levels is made");
	CHECKF(fd_rm_tree(base, "deep", &n, &e) == 0, "the deep tree is removed (%s)", e.msg);
	CHECKF(n == 110001 && !exists("deep"), "all %llu entries of the deep tree are gone",
	       (unsigned long long)n);
	if (in_memory) {
		fd_close(base);
		base = disk;
		CHECK(rmdir(shm) == 0);
	}
}

static void test_wide(void)
{
	struct err e = ERR_INIT;
	autoclose int fd = -1;
	uint64_t n = 0;
	bool ok = true;
	char name[32];

	ok = mkdirat(base, "wide", 0700) == 0;
	fd = openat(base, "wide", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; ok && i < 60000; i++) {
		snprintf(name, sizeof(name), "entry-%u", i);
		ok = i % 4 ? make_file(fd, name) : mkdirat(fd, name, 0700) == 0;
	}
	CHECKF(ok, "a directory with 60000 entries is made");
	CHECKF(fd_rm_tree(base, "wide", &n, &e) == 0 && n == 60001, "the wide directory is removed (%s)",
	       e.msg);
}

/* In a child that is not root and has few fds, for root may do anything. */
static bool as_user(bool (*func)(void))
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(20001, 20001, 20001) < 0 ||
				       setresuid(20001, 20001, 20001) < 0))
			_exit(9);
		_exit(func() ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool remove_rightless(void)
{
	struct err e = ERR_INIT;

	if (!make_deep("rights", 40, 1))
		return false;
	/* From the bottom up, or we could not get down any more. */
	for (int depth = 39; depth >= 0; depth--) {
		char path[256] = "rights";

		for (size_t i = 0; i < (size_t)depth; i++)
			memcpy(path + 6 + 2 * i, "/d", 3);
		if (fchmodat(base, path, depth % 2 ? 0 : 0500, 0) < 0)
			return false;
	}
	if (fd_rm_rf(base, "rights", &e) < 0) {
		printf("# %s\n", e.msg);
		return false;
	}
	return !exists("rights");
}

static bool remove_without_fds(void)
{
	struct rlimit few = { 0 };
	struct err e = ERR_INIT;
	int next;

	if (!make_deep("fds", 300, 3))
		return false;
	next = fcntl(base, F_DUPFD, 0);
	close(next);
	few.rlim_cur = few.rlim_max = (rlim_t)next + 2; /* one for the top, one below it */
	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		return false;
	if (fd_rm_rf(base, "fds", &e) < 0) {
		printf("# %s\n", e.msg);
		return false;
	}
	return !exists("fds");
}

static bool refuse_without_any_fd(void)
{
	struct rlimit few = { 0 };
	struct err e = ERR_INIT;

	if (!make_deep("none", 3, 3) || setrlimit(RLIMIT_NOFILE, &few) < 0)
		return false;
	return fd_rm_rf(base, "none", &e) == -EMFILE && e.msg[0];
}

/* Links to outside are removed as links; what they lead to stays. */
static void test_links(void)
{
	struct err e = ERR_INIT;

	CHECK(mkdirat(base, "keep", 0700) == 0 && make_deep("links", 30, 100));
	CHECK(symlinkat("../keep", base, "links/d/d/out") == 0);
	CHECK(symlinkat(base_path, base, "links/up") == 0);
	CHECK(linkat(base, "links/f", base, "keep/hard", 0) == 0);
	CHECK(fd_rm_rf(base, "links", &e) == 0 && !exists("links"));
	CHECK(exists("keep/hard"));
	CHECK(fd_rm_rf(base, "keep", &e) == 0);
}

/* A bind mount in the tree is not entered: what it shows is somebody else's. */
static bool stop_at_mount(void)
{
	struct err e = ERR_INIT;
	char src[96], dst[96];
	int r;

	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	snprintf(src, sizeof(src), "%s/shown", base_path);
	snprintf(dst, sizeof(dst), "%s/mounted/d", base_path);
	if (mount(src, dst, NULL, MS_BIND, NULL) < 0)
		return false;
	/* The mount is seen through a path of this namespace only. */
	fd_close(base);
	base = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd_rm_rf(base, "mounted", &e);
	return r < 0 && exists("shown/precious");
}

static void test_mount(void)
{
	int status = -1;
	struct err e = ERR_INIT;
	pid_t pid;

	CHECK(make_deep("mounted", 1, 100) && mkdirat(base, "shown", 0700) == 0 &&
	      make_file(base, "shown/precious"));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(stop_at_mount() ? 0 : 1);
	CHECKF(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	       "a mount in a tree stops its removal");
	CHECK(exists("shown/precious"));
	CHECK(fd_rm_rf(base, "mounted", &e) == 0 && fd_rm_rf(base, "shown", &e) == 0);
}

static void test_message(void)
{
	char shown[16];

	CHECK(str_eq(str_safe("a\nb", shown, sizeof(shown)), "a\\x0ab"));
	CHECK(str_eq(str_safe("0123456789abcdefgh", shown, sizeof(shown)), "0123456789ab..."));
	CHECK(str_eq(str_safe("0123456789abcde", shown, sizeof(shown)), "0123456789abcde"));
}

int main(void)
{
	struct err e = ERR_INIT;
	const char *tmp = getenv("TMPDIR");

	snprintf(base_path, sizeof(base_path), "%.40s/rmtree-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(base_path) || chmod(base_path, 0777) < 0)
		return 1;
	base = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	test_small();
	test_deep();
	test_wide();
	test_links();
	test_mount();
	test_message();
	CHECKF(as_user(remove_rightless), "directories without rights are removed by an ordinary user");
	CHECKF(as_user(remove_without_fds), "300 levels are removed with two descriptors");
	CHECKF(as_user(refuse_without_any_fd),
	       "a tree cannot be removed without a descriptor, and the error names that");
	fd_close(base);
	CHECK(fd_rm_rf(AT_FDCWD, base_path, &e) == 0);
	return tap_done();
}
