/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of workspaces: a temporary directory with lower/ upper/ work/ merged/ outside/, and a way to do things to
 * a real overlay over them, mounted in a user namespace as the engine does it. The result is then read from the
 * host's side.
 */
#ifndef TESTS_OVERLAY_H
#define TESTS_OVERLAY_H

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

struct tree {
	char path[64];
	int base, lower, upper, outside;
	uint64_t since; /* when the last overlay_run() began */
};

#define TREE_INIT ((struct tree){ .base = -1, .lower = -1, .upper = -1, .outside = -1 })

static inline int tree_dir(struct tree *t, const char *name)
{
	if (mkdirat(t->base, name, 0755) < 0)
		return -1;
	return openat(t->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline bool tree_init(struct tree *t)
{
	const char *tmp = getenv("TMPDIR");

	*t = TREE_INIT;
	snprintf(t->path, sizeof(t->path), "%.40s/ws-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(t->path) || chmod(t->path, 0755) < 0)
		return false;
	t->base = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t->lower = tree_dir(t, "lower");
	t->upper = tree_dir(t, "upper");
	t->outside = tree_dir(t, "outside");
	return t->lower >= 0 && t->upper >= 0 && t->outside >= 0 && mkdirat(t->base, "work", 0755) == 0 &&
	       mkdirat(t->base, "merged", 0755) == 0;
}

static inline bool tree_release(struct tree *t)
{
	struct err e = ERR_INIT;
	int r;

	fd_close(t->base);
	fd_close(t->lower);
	fd_close(t->upper);
	fd_close(t->outside);
	r = fd_rm_rf(AT_FDCWD, t->path, &e);
	if (r < 0)
		printf("# %s\n", e.msg);
	*t = TREE_INIT;
	return r == 0;
}

/* A fresh upper layer over the same lower one. */
static inline bool tree_new_upper(struct tree *t)
{
	struct err e = ERR_INIT;

	fd_close(t->upper);
	if (fd_rm_rf(t->base, "upper", &e) < 0 || fd_rm_rf(t->base, "work", &e) < 0)
		return false;
	t->upper = tree_dir(t, "upper");
	return t->upper >= 0 && mkdirat(t->base, "work", 0755) == 0;
}

static inline bool put(int dirfd, const char *path, const char *text)
{
	autoclose int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

/* Does the file hold exactly this? */
static inline bool holds(int dirfd, const char *path, const char *text)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(dirfd, path, 1 << 20, &b) == 0 && str_eq(buf_cstr(&b), text);
}

static inline bool there(int dirfd, const char *path)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline mode_t mode_of(int dirfd, const char *path)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode : 0;
}

/* Acts that are easier said to a shell, such as rm -r. */
static inline bool shell(const char *command)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static inline bool set_text(const char *path, const char *text)
{
	return fd_write_file(AT_FDCWD, path, text) == 0;
}

static inline bool enter_overlay(const struct tree *t)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[512];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !set_text("/proc/self/setgroups", "deny"))
		return false;
	snprintf(text, sizeof(text), "%u %u 1", uid, uid);
	if (!set_text("/proc/self/uid_map", text))
		return false;
	snprintf(text, sizeof(text), "%u %u 1", gid, gid);
	if (!set_text("/proc/self/gid_map", text) || chdir(t->path) < 0)
		return false;
	return mount("overlay", "merged", "overlay", 0,
		     "lowerdir=lower,upperdir=upper,workdir=work,userxattr") == 0 &&
	       chdir("merged") == 0;
}

/* Runs func with the merged directory as its current one. Waits a moment before and after, so that times tell apart
 * what was before, during and after. */
static inline bool overlay_run(struct tree *t, bool (*func)(void))
{
	const struct timespec moment = { .tv_nsec = 20000000 };
	int status = -1;
	pid_t pid;

	nanosleep(&moment, NULL);
	t->since = clock_nsec(CLOCK_REALTIME);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		umask(022);
		if (!enter_overlay(t)) {
			printf("# no overlay: %s\n", strerror(errno));
			fflush(stdout);
			_exit(2);
		}
		_exit(func() ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	nanosleep(&moment, NULL);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs func in a child that is not root: root may do anything, so for rights it says nothing. */
static inline bool as_user(bool (*func)(void))
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(20001, 20001, 20001) < 0 ||
				       setresuid(20001, 20001, 20001) < 0))
			_exit(9);
		/* A change of ids closes /proc/self, and with it the id maps. */
		if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
			_exit(9);
		_exit(func() ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif
