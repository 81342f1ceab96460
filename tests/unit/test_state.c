/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/state.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64];

static bool same(const char *a, const char *b)
{
	if (a && b && strcmp(a, b) == 0)
		return true;
	printf("# got '%s', wanted '%s'\n", a ? a : "(null)", b ? b : "(null)");
	return false;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static void begin(struct state *st)
{
	char path[128];
	struct err e = ERR_INIT;

	strcpy(dir, "/tmp/test_state-XXXXXX");
	CHECKF(mkdtemp(dir) != NULL, "a place to test in: %s", dir);
	snprintf(path, sizeof(path), "%s/deep/er/state", dir);
	setenv("COFFER_STATE", path, 1);
	*st = STATE_INIT;
	CHECKF(state_open(st, &e) == 0, "the state directory is made %s", e.msg);
	CHECK(same(st->path, path));
}

static void end(struct state *st)
{
	struct err e = ERR_INIT;

	state_release(st);
	CHECKF(fd_rm_rf(AT_FDCWD, dir, &e) == 0, "the place is removed %s", e.msg);
}

/* Runs a test in a process of its own, which says by its exit code how many checks failed. */
static pid_t fork_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static int reap(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A place that belongs to somebody else: given away, or the root directory. */
static void test_anothers(const char *path)
{
	struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	struct stat s;

	if (chown(path, 12345, (gid_t)-1) < 0) {
		if (stat("/", &s) < 0 || s.st_uid == geteuid()) {
			tap_skip("another's place", "there is nobody else in this user namespace");
			return;
		}
		setenv("COFFER_STATE", "/", 1);
	}
	CHECKF(state_open(&st, &e) == -EPERM && strstr(e.msg, "belongs to another user"), "another's: %s",
	       e.msg);
	CHECK(strstr(e.hint, "COFFER_STATE") && st.fd == -1);
	CHECK(stat(path, &s) == 0 && (s.st_uid == geteuid() || chown(path, geteuid(), (gid_t)-1) == 0));
	setenv("COFFER_STATE", path, 1);
}

/* What state_is_host_root() should say, found out another way: only the first namespace has all ids. */
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
	CHECKF(state_open(&again, &e) == 0, "a relative place %s", e.msg);
	snprintf(path, sizeof(path), "%s/here", dir);
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
		tap_skip("places in a home", "no user namespace can be made here");
	else
		CHECKF(code == 0, "places in a home (%d failed)", code);
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
		{ "no room for runs/", "mode=700,nr_inodes=2", 0, -ENOSPC },
		{ "no room for a run", "mode=700,nr_inodes=3", 0, -ENOSPC },
		{ "no room for the mark of the last run", "mode=700,nr_inodes=4", 0, -ENOSPC },
		{ "no room for a file's bytes", "mode=700,size=4096", 0,
		  0 }, /* control: directories and one file fit */
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
			CHECKF(code == 0, "%s: %s", disks[i].what,
			       disks[i].want ? "said, with the way out" : "works");
	}
	end(&st);
}

static void test_runs(void)
{
	char id[RUN_ID_LEN + 1] = "", named[RUN_ID_LEN + 1] = "00ff00ff00ff",
			     bad[RUN_ID_LEN + 1] = "../../../etc";
	struct state st;
	struct err e = ERR_INIT;
	bool alive = false;
	int fd, other;

	begin(&st);
	fd = state_run_create(&st, id, &e);
	CHECKF(fd >= 0 && strlen(id) == RUN_ID_LEN, "a run is made: %s %s", id, e.msg);
	CHECK(strspn(id, "0123456789abcdef") == RUN_ID_LEN && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && alive);
	fd_close(other);
	CHECK(state_run_claim(&st, id, &e) == -EBUSY && strstr(e.msg, "alive"));
	fd_close(fd);
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && !alive);
	/* who only asked holds nothing */
	fd = state_run_claim(&st, id, &e);
	CHECKF(fd >= 0, "a run that nobody holds can be taken %s", e.msg);
	fd_close(other);
	other = state_run_open(&st, id, &alive, &e);
	CHECK(other >= 0 && alive);
	fd_close(other);
	CHECK(unlinkat(st.runs_fd, id, AT_REMOVEDIR) == 0);
	fd_close(fd);
	CHECK(state_run_claim(&st, id, &e) == -ENOENT && state_run_open(&st, id, &alive, &e) == -ENOENT);

	fd = state_run_create(&st, named, &e);
	CHECK(fd >= 0 && strcmp(named, "00ff00ff00ff") == 0);
	CHECK(state_run_create(&st, named, &e) == -EEXIST);
	fd_close(fd);
	CHECK(state_run_create(&st, bad, &e) == -EINVAL);
	CHECK(state_run_open(&st, "../runs", &alive, &e) == -EINVAL &&
	      state_run_claim(&st, "", &e) == -EINVAL);
	CHECK(state_run_open(&st, "00FF00FF00FF", &alive, &e) == -EINVAL);
	end(&st);
}

/* The lock lives as long as any process that has the fd. */
static void test_lock_inherited(void)
{
	char id[RUN_ID_LEN + 1] = "";
	struct state st;
	bool alive = false;
	int fd, other;
	pid_t pid;

	begin(&st);
	fd = state_run_create(&st, id, NULL);
	pid = fork_child();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	fd_close(fd);
	other = state_run_open(&st, id, &alive, NULL);
	CHECK(other >= 0 && alive);
	kill(pid, SIGKILL);
	reap(pid);
	fd_close(other);
	other = state_run_open(&st, id, &alive, NULL);
	CHECK(other >= 0 && !alive);
	fd_close(other);
	end(&st);
}

static void make_run(struct state *st, const char *id)
{
	CHECKF(mkdirat(st->runs_fd, id, 0700) == 0, "run %s is made", id);
	pause_ms(15); /* the clock of a file system ticks slower than we do */
}

static void test_list(void)
{
	static const char *const ids[] = { "ff0000000001", "000000000002", "770000000003" };
	autostrv struct strv all = STRV_INIT;
	struct state st;

	begin(&st);
	CHECK(state_run_list(&st, &all, NULL) == 0 && all.n == 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		make_run(&st, ids[i]);
	CHECK(mkdirat(st.runs_fd, "not-a-run", 0700) == 0 && mkdirat(st.runs_fd, "FF0000000001", 0700) == 0);
	CHECK(state_run_list(&st, &all, NULL) == 0 && all.n == 3);
	for (size_t i = 0; i < all.n && i < 3; i++)
		CHECK(same(all.v[i], ids[2 - i]));
	end(&st);
}

static void test_last(void)
{
	char a[RUN_ID_LEN + 1] = "", b[RUN_ID_LEN + 1] = "", got[RUN_ID_LEN + 1] = "";
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	CHECK(state_last_id(&st, got) == -ENOENT);
	CHECK(state_resolve(&st, "@last", got, &e) == -ENOENT && strstr(e.msg, "nothing was run yet"));
	fd = state_run_create(&st, a, &e);
	fd_close(fd);
	CHECK(state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, a));
	pause_ms(15);
	fd = state_run_create(&st, b, &e);
	fd_close(fd);
	CHECK(state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, b));
	CHECK(unlinkat(st.runs_fd, b, AT_REMOVEDIR) == 0);
	CHECK(state_resolve(&st, "@last", got, &e) == -ENOENT && strstr(e.msg, "left nothing behind") &&
	      strstr(e.msg, b));
	CHECK(state_last_id(&st, got) == 0);
	CHECK(same(got, b));
	/* a spoiled mark is not believed: the newest that is there */
	CHECK(fd_replace_file(st.fd, "last", "../../etc/pa\n", 13, 0600) == 0);
	CHECK(state_last_id(&st, got) == -ENOENT && state_resolve(&st, "@last", got, &e) == 0);
	CHECK(same(got, a));
	CHECK(fd_replace_file(st.fd, "last", "", 0, 0600) == 0 && state_last_id(&st, got) == -ENOENT);
	end(&st);
}

static void test_resolve(void)
{
	static const char *const bad[] = { "../x", "",	      "a/b",	 ".",  "..",	       "@first",
					   "zz",   "\033[2J", "abcdefg", "AB", "ab0000000001x" };
	static char huge[20000];
	char got[RUN_ID_LEN + 1] = "untouched";
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	CHECK(state_resolve(&st, "ab", got, &e) == -ENOENT &&
	      strstr(e.msg, "no run has left anything behind"));
	make_run(&st, "ab0000000001");
	make_run(&st, "ab0000000002");
	make_run(&st, "cd0000000003");
	CHECK(state_resolve(&st, "cd", got, &e) == 0);
	CHECK(same(got, "cd0000000003"));
	CHECK(state_resolve(&st, "ab0000000002", got, &e) == 0);
	CHECK(same(got, "ab0000000002"));
	CHECK(state_resolve(&st, "ab", got, &e) == -ENOTUNIQ && strstr(e.msg, "ab0000000001") &&
	      strstr(e.msg, "ab0000000002"));
	CHECK(state_resolve(&st, "c", got, &e) == -ENOENT && strstr(e.hint, "two digits"));
	CHECK(state_name_set(&st, "web", "cd0000000003", &e) == 0 && state_resolve(&st, "web", got, &e) == 0);
	CHECK(same(got, "cd0000000003"));
	CHECK(state_name_set(&st, "ab", "cd0000000003", &e) == 0 && state_resolve(&st, "ab", got, &e) == 0);
	CHECK(same(got, "cd0000000003")); /* a name goes before a prefix */
	CHECK(state_resolve(&st, "wbe", got, &e) == -ENOENT && strstr(e.hint, "web") &&
	      strstr(e.msg, "cd0000000003"));
	strcpy(got, "untouched");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (strcmp(bad[i], "AB") == 0)
			continue;
		CHECKF(state_resolve(&st, bad[i], got, &e) == -ENOENT && !strchr(e.msg, '\033'), "no run: %s",
		       e.msg);
	}
	memset(huge, 'a', sizeof(huge) - 1);
	CHECK(state_resolve(&st, huge, got, &e) == -ENOENT);
	CHECK(same(got, "untouched"));
	end(&st);
}

static void test_names(void)
{
	char got[RUN_ID_LEN + 1];
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	make_run(&st, "ab0000000001");
	make_run(&st, "ab0000000002");
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0);
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0); /* it is ours already */
	CHECK(state_name_set(&st, "web", "ab0000000002", &e) == -EEXIST && strstr(e.msg, "ab0000000001"));
	CHECK(strstr(e.hint, "coffer rm web"));
	state_name_clear(&st, "web", "ab0000000002"); /* not its name */
	CHECK(state_resolve(&st, "web", got, &e) == 0);
	state_name_clear(&st, "web", "ab0000000001");
	CHECK(state_resolve(&st, "web", got, &e) == -ENOENT);
	CHECK(state_name_set(&st, "web", "ab0000000001", &e) == 0);
	CHECK(unlinkat(st.runs_fd, "ab0000000001", AT_REMOVEDIR) == 0);
	CHECK(state_resolve(&st, "web", got, &e) == -ENOENT); /* a name without its run is none */
	CHECK(state_name_set(&st, "web", "ab0000000002", &e) == 0 && state_resolve(&st, "web", got, &e) == 0);
	CHECK(same(got, "ab0000000002"));
	/* a link that was spoiled is not followed, and does not block the name */
	CHECK(symlinkat("../../../etc/passwd", st.fd, "names/odd") == 0);
	CHECK(state_resolve(&st, "odd", got, &e) == -ENOENT);
	CHECK(state_name_set(&st, "odd", "ab0000000002", &e) == 0 && state_resolve(&st, "odd", got, &e) == 0);
	CHECK(state_name_set(&st, "a/b", "ab0000000002", &e) == -EINVAL &&
	      state_name_set(&st, "", "x", &e) == -EINVAL);
	CHECK(state_name_set(&st, "../runs", "ab0000000002", &e) == -EINVAL && e.hint[0]);
	state_name_clear(&st, "../runs", "ab0000000002");
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
	CHECKF(fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 07777) == 0700, "a home is made %s", e.msg);
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

static void write_meta(struct state *st, const char *id, uint64_t ended)
{
	struct run_meta m = { .started = 5, .ended = ended };
	autoclose int fd = openat(st->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = ERR_INIT;

	memcpy(m.id, id, RUN_ID_LEN + 1);
	CHECKF(run_meta_write(fd, &m, &e) == 0, "meta.json of %s %s", id, e.msg);
}

static void test_stale(void)
{
	autostrv struct strv stale = STRV_INIT;
	char alive[RUN_ID_LEN + 1] = "", path[64];
	struct state st;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001"); /* no meta.json: being made, for as long as that may take */
	make_run(&st, "aa0000000002");
	write_meta(&st, "aa0000000002", 0);
	make_run(&st, "aa0000000003");
	write_meta(&st, "aa0000000003", 77);
	make_run(&st, "aa0000000004");
	snprintf(path, sizeof(path), "aa0000000004/meta.json");
	CHECK(fd_replace_file(st.runs_fd, path, "{\"id\":", 6, 0600) == 0);
	fd = state_run_create(&st, alive, NULL);
	write_meta(&st, alive, 0);
	CHECK(state_run_stale(&st, &stale, NULL) == 0 && stale.n == 2);
	CHECK(same(stale.n > 0 ? stale.v[0] : "", "aa0000000004"));
	CHECK(same(stale.n > 1 ? stale.v[1] : "", "aa0000000002"));
	strv_release(&stale);
	pause_ms(2100);
	CHECK(state_run_stale(&st, &stale, NULL) == 0 && stale.n == 3);
	CHECK(same(stale.n > 2 ? stale.v[2] : "", "aa0000000001"));
	fd_close(fd);
	end(&st);
}

static void test_meta(void)
{
	static char big[10 << 20];
	char odd[] = "/home/\xff\xfe/gr\xc3\xbc\xc3\x9f/a\nb\"\\";
	struct run_meta m = { .id = "aa0000000001",
			      .name = (char *)"web",
			      .engine = (char *)"ns",
			      .command = (char *)"sh -c 'a\nb'",
			      .workspace = odd,
			      .ws_mode = (char *)"overlay",
			      .started = 1700000000123456789,
			      .ended = 0,
			      .launcher = 12,
			      .guard = 13,
			      .detached = true };
	struct run_meta r = { 0 };
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001");
	fd = openat(st.runs_fd, "aa0000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(run_meta_read(fd, &r, &e) == -ENOENT && r.name == NULL);
	CHECKF(run_meta_write(fd, &m, &e) == 0 && run_meta_read(fd, &r, &e) == 0, "written and read %s",
	       e.msg);
	CHECK(same(r.id, "aa0000000001"));
	CHECK(same(r.name, "web"));
	CHECK(same(r.engine, "ns"));
	CHECK(same(r.command, "sh -c 'a\nb'"));
	CHECK(same(r.workspace, odd));
	CHECK(same(r.ws_mode, "overlay"));
	CHECK(r.started == 1700000000123456789 && r.ended == 0 && r.launcher == 12 && r.guard == 13 &&
	      r.detached);
	CHECK(r.cause == NULL);
	run_meta_release(&r);
	CHECK(r.name == NULL);

	memset(big, 'x', sizeof(big) - 1);
	big[4095] = '\xc3'; /* a letter of two bytes, just where it would be cut */
	big[4096] = '\xbc';
	m = (struct run_meta){ .id = "aa0000000001",
			       .command = big,
			       .ended = 9,
			       .exit_code = 137,
			       .cause = (char *)"oom",
			       .changes = 3,
			       .workspace = (char *)"/w" };
	CHECK(run_meta_write(fd, &m, &e) == 0 && run_meta_read(fd, &r, &e) == 0);
	CHECK(r.name == NULL && r.ended == 9 && r.exit_code == 137 && r.changes == 3 &&
	      strlen(r.command) == 4095);
	CHECK(same(r.cause, "oom"));
	CHECK(same(r.workspace, "/w"));
	run_meta_release(&r);
	CHECK(faccessat(fd, "meta.json", F_OK, 0) == 0);
	fd_close(fd);
	end(&st);
}

static void test_meta_damaged(void)
{
	static const char *const bad[] = { "",
					   "{",
					   "[]",
					   "null",
					   "{}",
					   "{\"id\":5}",
					   "{\"id\":\"short\"}",
					   "{\"id\":\"aa0000000001\",\"id\":\"aa0000000002\"}",
					   "{\"id\":\"aa0000000001\",\"workspace_bytes\":\"\xe2\x82\xac\"}",
					   "{\"id\":\"aa0000000001\"} trailing" };
	struct run_meta r = { 0 };
	struct state st;
	struct err e = ERR_INIT;
	int fd;

	begin(&st);
	make_run(&st, "aa0000000001");
	fd = openat(st.runs_fd, "aa0000000001", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(fd_replace_file(fd, "meta.json", bad[i], strlen(bad[i]), 0600) == 0);
		CHECKF(run_meta_read(fd, &r, &e) == -EBADMSG && strstr(e.msg, "damaged") && !r.name,
		       "'%s' is refused: %s", bad[i], e.msg);
	}
	/* control: the least that is accepted */
	CHECK(fd_replace_file(fd, "meta.json", "{\"id\":\"aa0000000001\"}", 21, 0600) == 0);
	CHECK(run_meta_read(fd, &r, &e) == 0);
	run_meta_release(&r);
	CHECK(unlinkat(fd, "meta.json", 0) == 0 && symlinkat("/etc/passwd", fd, "meta.json") == 0);
	CHECK(run_meta_read(fd, &r, &e) < 0);
	fd_close(fd);
	end(&st);
}

/* Makes runs while others do, and while a sweeper takes what it finds unlocked. */
static int create_many(struct state *st, int n)
{
	int failed = 0;

	for (int i = 0; i < n; i++) {
		char id[RUN_ID_LEN + 1] = "";
		struct stat a, b;
		int fd = state_run_create(st, id, NULL);

		failed += fd < 0 || fstat(fd, &a) < 0 || fstatat(st->runs_fd, id, &b, 0) < 0 ||
			  a.st_ino != b.st_ino;
		failed += state_run_claim(st, id, NULL) != -EBUSY;
		failed += unlinkat(st->runs_fd, id, AT_REMOVEDIR) < 0;
		fd_close(fd);
	}
	return failed > 100 ? 100 : failed;
}

static void sweep_greedily(struct state *st)
{
	for (;;) {
		autostrv struct strv ids = STRV_INIT;

		if (state_run_list(st, &ids, NULL) < 0)
			_exit(1);
		for (size_t i = 0; i < ids.n; i++) {
			int fd = state_run_claim(st, ids.v[i], NULL);

			if (fd >= 0)
				unlinkat(st->runs_fd, ids.v[i], AT_REMOVEDIR);
			fd_close(fd);
		}
	}
}

static void test_many(void)
{
	char last[RUN_ID_LEN + 1];
	struct state st;
	pid_t pids[6], sweeper;

	begin(&st);
	sweeper = fork_child();
	if (sweeper == 0)
		sweep_greedily(&st);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork_child();
		if (pids[i] == 0)
			_exit(create_many(&st, 100));
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		CHECKF(reap(pids[i]) == 0, "process %zu made 100 runs beside others and a sweeper", i);
	kill(sweeper, SIGKILL);
	reap(sweeper);
	CHECK(state_last_id(&st, last) == 0);
	end(&st);
}

/* Many want the name of a run that is gone: one gets it. */
static void test_name_race(void)
{
	struct state st;
	struct err e = ERR_INIT;

	begin(&st);
	for (int round = 0; round < 20; round++) {
		int winners = 0, go[2];
		pid_t pids[8];

		CHECKF(pipe2(go, O_CLOEXEC) == 0 &&
			       symlinkat("ee0000000000", st.fd, round ? "names/x" : "gone") == 0,
		       "round %d", round);
		if (round == 0 && state_name_set(&st, "x", "ee0000000000", &e) < 0)
			CHECKF(false, "%s", e.msg);
		for (int i = 0; i < 8; i++) {
			pids[i] = fork_child();
			if (pids[i] == 0) {
				char id[RUN_ID_LEN + 1], c;

				snprintf(id, sizeof(id), "dd%02u%08u", (unsigned)round % 100u,
					 (unsigned)i % 100u);
				close(go[1]);
				if (mkdirat(st.runs_fd, id, 0700) < 0 || read(go[0], &c, 1) < 0)
					_exit(9);
				_exit(state_name_set(&st, "x", id, NULL) == 0);
			}
		}
		close(go[1]);
		for (int i = 0; i < 8; i++)
			winners += reap(pids[i]);
		close(go[0]);
		CHECKF(winners == 1, "round %d: %d got the name", round, winners);
		unlinkat(st.fd, "names/x", 0);
	}
	end(&st);
}

int main(void)
{
	test_place();
	test_relative();
	test_home_places();
	test_bad_disks();
	test_runs();
	test_lock_inherited();
	test_list();
	test_last();
	test_resolve();
	test_names();
	test_homes();
	test_stale();
	test_meta();
	test_meta_damaged();
	test_many();
	test_name_race();
	return tap_done();
}
