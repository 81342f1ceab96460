/* SPDX-License-Identifier: Apache-2.0 */
/* Where the state is, whose it must be, and disks that do not hold it. */
#include "statedir.h"

#include <sched.h>
#include <sys/mount.h>

/* A place that belongs to somebody else: given away, or the root directory. */
static void test_anothers(const char *path)
{
	struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	struct stat s;

	if (chown(path, 12345, (gid_t)-1) < 0) {
		if (stat("/", &s) < 0 || s.st_uid == geteuid()) {
			tap_skip("a state of another user is refused",
				 "there is nobody else in this user namespace");
			return;
		}
		setenv("COFFER_STATE", "/", 1);
	}
	CHECKF(state_open(&st, &e) == -EPERM && strstr(e.msg, "belongs to another user"),
	       "a state of another user is refused: %s", e.msg);
	CHECK(strstr(e.hint, "COFFER_STATE") && st.fd == -1);
	CHECK(stat(path, &s) == 0 && (s.st_uid == geteuid() || chown(path, geteuid(), (gid_t)-1) == 0));
	setenv("COFFER_STATE", path, 1);
}

/* The result that state_is_host_root() should have, found out another way: only the first namespace has all ids. */
static bool has_all_ids(void)
{
	autobuf struct buf map = BUF_INIT;

	return fd_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &map) == 0 &&
	       strstr(buf_cstr(&map), " 4294967295\n");
}

static void test_place(void)
{
	struct state st, again = STATE_INIT;
	struct err e = ERR_INIT;
	struct stat s;

	begin(&st);
	CHECK(fstat(st.fd, &s) == 0 && (s.st_mode & 07777) == 0700);
	CHECK(fstat(st.runs_fd, &s) == 0 && (s.st_mode & 07777) == 0700);
	CHECK(state_open(&again, &e) == 0);
	state_release(&again);

	/* others may look at the directory itself, never change it */
	CHECK(chmod(st.path, 0755) == 0 && state_open(&again, &e) == 0);
	state_release(&again);
	CHECK(chmod(st.path, 0770) == 0 && state_open(&again, &e) == -EPERM &&
	      strstr(e.msg, "can be written by others"));
	CHECK(strstr(e.hint, "chmod 700") && again.fd == -1);
	CHECK(chmod(st.path, 0702) == 0 && state_open(&again, &e) == -EPERM);
	CHECK(chmod(st.path, 0700) == 0);

	test_anothers(st.path);

	/* a file in its place */
	setenv("COFFER_STATE", "/dev/null", 1);
	CHECK(state_open(&again, &e) == -ENOTDIR && strstr(e.msg, "/dev/null"));
	setenv("COFFER_STATE", "/dev/null/x", 1);
	CHECK(state_open(&again, &e) == -ENOTDIR);
	end(&st);
}

static void test_relative(void)
{
	struct state st, again = STATE_INIT;
	struct err e = ERR_INIT;
	char path[128];
	autoclose int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	begin(&st);
	CHECK(chdir(dir) == 0);
	setenv("COFFER_STATE", "here", 1);
	CHECKF(state_open(&again, &e) == -EINVAL && strstr(e.msg, "not an absolute path"),
	       "a relative path of the state is refused (%s)", e.msg);
	snprintf(path, sizeof(path), "%s/here", dir);
	CHECK(access(path, F_OK) < 0);
	setenv("COFFER_STATE", path, 1);
	CHECKF(state_open(&again, &e) == 0, "an absolute path of the state is accepted %s", e.msg);
	CHECK(same(again.path, path));
	state_release(&again);
	CHECK(fchdir(cwd) == 0);
	end(&st);
}

/* As somebody who is not the host's root, whoever runs the tests: in a user namespace. */
static bool enter_userns(void)
{
	char uids[64], gids[64];

	snprintf(uids, sizeof(uids), "0 %u 1", geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	return fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
	       fd_write_file(AT_FDCWD, "/proc/self/uid_map", uids) == 0 &&
	       fd_write_file(AT_FDCWD, "/proc/self/gid_map", gids) == 0;
}

static void test_home_places(void)
{
	struct state st, s = STATE_INIT;
	struct err e = ERR_INIT;
	char path[128], want[160];
	pid_t pid;
	int code;

	begin(&st);
	CHECK(state_is_host_root() == (geteuid() == 0 && has_all_ids()));
	pid = fork_child();
	if (pid == 0) {
		int failed = 0;

		if (!enter_userns())
			_exit(77);
		failed += geteuid() != 0 || state_is_host_root(); /* root here is not root */
		unsetenv("COFFER_STATE");
		snprintf(path, sizeof(path), "%s/xdg", dir);
		setenv("XDG_STATE_HOME", path, 1);
		setenv("HOME", dir, 1);
		snprintf(want, sizeof(want), "%s/cofferdam", path);
		failed += state_open(&s, &e) < 0 || strcmp(s.path, want) != 0;
		state_release(&s);
		setenv("XDG_STATE_HOME", "not/absolute", 1);
		snprintf(want, sizeof(want), "%s/.local/state/cofferdam", dir);
		failed += state_open(&s, &e) < 0 || strcmp(s.path, want) != 0;
		state_release(&s);
		unsetenv("XDG_STATE_HOME");
		unsetenv("HOME");
		failed += state_open(&s, &e) != -ENOENT || !strstr(e.hint, "COFFER_STATE");
		_exit(failed);
	}
	code = reap(pid);
	if (code == 77)
		tap_skip("states in a home are opened", "no user namespace can be made here");
	else
		CHECKF(code == 0, "states in a home are opened (%d failed)", code);
	end(&st);
}

static int check_bad_disk(const char *options, unsigned long flags, int want)
{
	struct state s = STATE_INIT;
	struct err e = ERR_INIT;
	char mnt[128], path[160];
	char id[RUN_ID_LEN + 1] = "";
	int r;

	snprintf(mnt, sizeof(mnt), "%s/mnt", dir);
	mkdir(mnt, 0700);
	if (mount("none", mnt, "tmpfs", flags, options) < 0)
		return 77;
	snprintf(path, sizeof(path), "%s/state", mnt);
	setenv("COFFER_STATE", path, 1);
	r = state_open(&s, &e);
	if (r == 0)
		r = state_run_create(&s, id, &e);
	state_release(&s);
	umount2(mnt, MNT_DETACH);
	if (want == 0)
		return r < 0;
	return r != want || !strstr(e.msg, mnt) || !strstr(e.hint, "COFFER_STATE");
}

static void test_bad_disks(void)
{
	static const struct {
		const char *what, *options;
		unsigned long flags;
		int want;
	} disks[] = {
		{ "a read-only file system", "mode=700", MS_RDONLY, -EROFS },
		{ "no room for the state directory", "mode=700,nr_inodes=1", 0, -ENOSPC },
		{ "no room for the mark of the format", "mode=700,nr_inodes=2", 0, -ENOSPC },
		{ "no room for runs/", "mode=700,nr_inodes=3", 0, -ENOSPC },
		{ "no room for a run", "mode=700,nr_inodes=4", 0, -ENOSPC },
		{ "no room for the mark of the last run", "mode=700,nr_inodes=5", 0, -ENOSPC },
		{ "no room for a file's bytes", "mode=700,size=4096", 0, -ENOSPC },
		{ "room for the bytes of two files", "mode=700,size=8192", 0, 0 }, /* control */
	};
	struct state st;

	begin(&st);
	for (size_t i = 0; i < ARRAY_SIZE(disks); i++) {
		pid_t pid = fork_child();
		int code;

		if (pid == 0) {
			if (!enter_userns())
				_exit(77);
			_exit(check_bad_disk(disks[i].options, disks[i].flags, disks[i].want));
		}
		code = reap(pid);
		if (code == 77)
			tap_skip(disks[i].what, "no user namespace with mounts can be made here");
		else
			CHECKF(code == 0, "a state directory with %s: %s", disks[i].what,
			       disks[i].want ? "said, with the way out" : "works");
	}
	end(&st);
}

static void test_homes(void)
{
	struct state st;
	struct err e = ERR_INIT;
	struct stat s;
	int fd;

	begin(&st);
	fd = state_home_open(&st, "claude", &e);
	CHECKF(fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0700, "a state in a home is made %s",
	       e.msg);
	CHECK(fd_replace_file(fd, "kept", "x", 1, 0600) == 0);
	fd_close(fd);
	fd = state_home_open(&st, "claude", &e);
	CHECK(fd >= 0 && faccessat(fd, "kept", F_OK, 0) == 0);
	fd_close(fd);
	CHECK(symlinkat("/etc", st.fd, "homes/link") == 0);
	CHECK(state_home_open(&st, "link", &e) < 0);
	CHECK(state_home_open(&st, "../runs", &e) == -EINVAL && state_home_open(&st, "a/b", &e) == -EINVAL);
	end(&st);
}

int main(void)
{
	test_place();
	test_relative();
	test_home_places();
	test_bad_disks();
	test_homes();
	return tap_done();
}
