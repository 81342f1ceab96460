/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory and the runs in it. Every start makes a run here, so that takes few system calls.
 *
 * Locks. The process that makes a run or takes it over holds an exclusive lock on its directory. A process that only tests
 * whether the run is alive takes a shared lock for a moment, so that two tests do not mistake each other for the owner.
 * Between mkdir and lock a sweep may have taken and removed the directory: the locked one then has no links, and is made
 * again.
 */
#include "sandbox/state/state.h"

#include "base/clock.h"
#include "base/fd.h"
#include "crypto/hash.h"
#include "sandbox/state/state_internal.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
/* A sweeper may remove a run's directory before it is locked. It wins a few times in a row where the processor is
 * shared by many, but not so often. */
#define CREATE_TRIES 1000
/* A run without meta.json that is younger than this is taken to be still in the making. */
#define FRESH_NS (2 * NSEC_PER_SEC)

/* The inode of the first user namespace is a fixed number of the kernel's interface (linux/nsfs.h). */
#define FIRST_USER_NS "user:[4026531837]"

bool state_is_host_root(void)
{
	char text[32] = "";

	return geteuid() == 0 && readlink("/proc/self/ns/user", text, sizeof(text) - 1) > 0 &&
	       str_eq(text, FIRST_USER_NS);
}

int state_cannot(struct err *e, int code, const char *what, const char *path)
{
	err_sys(e, code, "cannot %s %s", what, path);
	if (code == -EROFS || code == -ENOSPC || code == -EDQUOT || code == -EACCES || code == -EPERM)
		return err_hint(
			e, code,
			"COFFER_STATE=DIR names another place for the state, on a disk that can be written");
	return code;
}

char *state_place(struct err *e)
{
	const char *named = getenv("COFFER_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = 0;

	if (named && *named == '/') {
		n = asprintf(&path, "%s", named);
	} else if (named && *named) {
		/* A relative path would be another directory for each working directory, and might be in a workspace. */
		err_set(e, -EINVAL, "COFFER_STATE is '%.200s', which is not an absolute path", named);
		err_hint(e, -EINVAL, "COFFER_STATE=\"$PWD/%.200s\"", named);
		return NULL;
	} else if (state_is_host_root()) {
		n = asprintf(&path, "/var/lib/cofferdam");
	} else if (xdg && *xdg == '/') { /* the base directory specification: a relative one is ignored */
		n = asprintf(&path, "%s/cofferdam", xdg);
	} else if (home && *home == '/') {
		n = asprintf(&path, "%s/.local/state/cofferdam", home);
	} else {
		err_set(e, -ENOENT, "there is no place for the state: HOME is not set");
		err_hint(e, -ENOENT, "set HOME, or COFFER_STATE=DIR");
		return NULL;
	}
	if (n < 0) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	return path;
}

static int open_state_dir(const char *path, struct err *e)
{
	int fd = open(path, DIR_FLAGS), r;

	if (fd < 0 && errno == ENOENT) {
		r = fd_mkdir_p(AT_FDCWD, path, 0700);
		if (r < 0)
			return state_cannot(e, r, "make the state directory", path);
		fd = open(path, DIR_FLAGS);
	}
	return fd < 0 ? state_cannot(e, -errno, "open the state directory", path) : fd;
}

/* Its content decides what is killed, removed and applied: no other user may own or write it. */
static int check_state_dir(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at the state directory %s", path);
	if (st.st_uid != geteuid()) {
		err_set(e, -EPERM, "the state directory %s belongs to another user (uid %u)", path,
			st.st_uid);
		return err_hint(e, -EPERM, "COFFER_STATE=DIR names another place");
	}
	if (st.st_mode & 022) {
		err_set(e, -EPERM, "the state directory %s can be written by others (mode %04o)", path,
			(unsigned)st.st_mode & 07777);
		return err_hint(e, -EPERM, "chmod 700 %s, or name another with COFFER_STATE=DIR", path);
	}
	return 0;
}

/*
 * ext4 looks at every inode that was freed in the last minutes before it takes another one of the same group, and each run
 * makes and frees about ten. With the top-of-hierarchy flag run directories are spread over all groups. Errors are
 * ignored: the flag only makes it faster.
 */
static void set_top_dir_flag(int fd)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

int state_subdir(const struct state *st, const char *name, struct err *e)
{
	int fd = openat(st->fd, name, DIR_FLAGS | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(st->fd, name, 0700) < 0 && errno != EEXIST)
			return state_cannot(e, -errno, "make a directory in", st->path);
		fd = openat(st->fd, name, DIR_FLAGS | O_NOFOLLOW);
		if (fd >= 0 && str_eq(name, "runs"))
			set_top_dir_flag(fd);
	}
	return fd < 0 ? err_sys(e, -errno, "cannot open %s/%s", st->path, name) : fd;
}

int state_open(struct state *st, struct err *e)
{
	struct state s = STATE_INIT;
	int r;

	s.path = state_place(e);
	if (!s.path)
		return e && e->code ? e->code : -ENOENT;
	s.fd = open_state_dir(s.path, e);
	r = s.fd < 0 ? s.fd : check_state_dir(s.fd, s.path, e);
	/* Nothing is made in it before its format is known (state_format.F1). */
	if (r == 0)
		r = state_format_settle(&s, e);
	if (r == 0) {
		s.runs_fd = state_subdir(&s, "runs", e);
		r = s.runs_fd < 0 ? s.runs_fd : 0;
	}
	if (r < 0)
		state_release(&s);
	else
		*st = s;
	return r;
}

void state_release(struct state *st)
{
	free(st->path);
	fd_close(st->fd);
	fd_close(st->runs_fd);
	*st = STATE_INIT;
}

bool state_is_id(const char *s)
{
	return strspn(s, "0123456789abcdef") == RUN_ID_LEN && s[RUN_ID_LEN] == '\0';
}

int state_new_id(char ret_id[RUN_ID_LEN + 1], struct err *e)
{
	unsigned char r[RUN_ID_LEN / 2];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_sys(e, -errno, "cannot get random numbers");
	hash_hex(r, sizeof(r), ret_id);
	return 0;
}

/* One write: a reader sees the old id or the new one. */
static int write_last_id(const struct state *st, const char *id)
{
	char text[RUN_ID_LEN + 1];
	autoclose int fd = openat(st->fd, "last", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	memcpy(text, id, RUN_ID_LEN);
	text[RUN_ID_LEN] = '\n';
	return pwrite(fd, text, sizeof(text), 0) == (ssize_t)sizeof(text) ? 0 : errno ? -errno : -ENOSPC;
}

int state_last_id(struct state *st, char ret_id[RUN_ID_LEN + 1])
{
	char text[RUN_ID_LEN + 2] = "";
	autoclose int fd = openat(st->fd, "last", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (read(fd, text, RUN_ID_LEN + 1) != RUN_ID_LEN + 1 || text[RUN_ID_LEN] != '\n')
		return -ENOENT;
	text[RUN_ID_LEN] = '\0';
	if (!state_is_id(text))
		return -ENOENT;
	memcpy(ret_id, text, RUN_ID_LEN + 1);
	return 0;
}

static int lock_retrying(int fd, int how)
{
	while (flock(fd, how) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Locks a directory that was just opened. -ENOENT when it was removed meanwhile. */
static int lock_unless_removed(int fd, int how)
{
	struct stat st;
	int r = lock_retrying(fd, how);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink == 0 ? -ENOENT : 0;
}

static int try_make_run_dir(const struct state *st, const char *id)
{
	int r;

	if (mkdirat(st->runs_fd, id, 0700) < 0)
		return -errno;
	autoclose int fd = openat(st->runs_fd, id, DIR_FLAGS | O_NOFOLLOW);
	r = fd < 0 ? -errno : lock_unless_removed(fd, LOCK_EX);
	return r < 0 ? r : TAKE_FD(fd);
}

/* runs/ID, locked. */
static int make_run_dir(struct state *st, const char *id, struct err *e)
{
	int fd = -ENOENT, r;

	if (!state_is_id(id))
		return err_set(e, -EINVAL, "'%.20s' is not the id of a run", id);
	r = state_mark(st, e);
	if (r < 0)
		return r;
	for (int i = 0; i < CREATE_TRIES && fd == -ENOENT; i++)
		fd = try_make_run_dir(st, id);
	if (fd == -ENOENT) {
		struct stat s;

		if (fstat(st->runs_fd, &s) == 0 && s.st_nlink == 0)
			return err_set(e, -ENOENT, "the state directory %s was removed", st->path);
	}
	return fd < 0 ? state_cannot(e, fd, "make a run in the state directory", st->path) : fd;
}

int state_run_create(struct state *st, char id[RUN_ID_LEN + 1], struct err *e)
{
	char fresh[RUN_ID_LEN + 1];
	int fd, r = *id ? 0 : state_new_id(fresh, e);

	if (r < 0)
		return r;
	if (*id)
		snprintf(fresh, sizeof(fresh), "%s", id);
	fd = make_run_dir(st, *id ? id : fresh, e);
	if (fd < 0)
		return fd;
	r = write_last_id(st, fresh);
	if (r < 0) {
		fd_close(fd);
		unlinkat(st->runs_fd, fresh, AT_REMOVEDIR);
		return state_cannot(e, r, "write to the state directory", st->path);
	}
	memcpy(id, fresh, sizeof(fresh));
	return fd;
}

#define AHEAD "ahead" /* mark: made ahead, not begun */

int state_run_create_ahead(struct state *st, const char *id, struct err *e)
{
	autoclose int fd = make_run_dir(st, id, e), mark = -1;

	if (fd < 0)
		return fd;
	mark = openat(fd, AHEAD, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (mark < 0) {
		int r = -errno;

		unlinkat(st->runs_fd, id, AT_REMOVEDIR);
		return state_cannot(e, r, "write to the state directory", st->path);
	}
	return TAKE_FD(fd);
}

int state_run_begin(struct state *st, int run_fd, const char *id, struct err *e)
{
	int r = unlinkat(run_fd, AHEAD, 0) < 0 ? -errno : write_last_id(st, id);

	return r < 0 ? state_cannot(e, r, "write to the state directory", st->path) : 0;
}

bool state_run_has_begun(int run_fd)
{
	return faccessat(run_fd, AHEAD, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

#define OVER "over" /* mark: ended for good */

int state_run_set_over(int run_fd, struct err *e)
{
	autoclose int fd = openat(run_fd, OVER, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

	return fd < 0 ? err_sys(e, -errno, "cannot record that the sandbox is to stay ended") : 0;
}

bool state_run_is_over(int run_fd)
{
	return faccessat(run_fd, OVER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int state_run_clear_over(int run_fd, struct err *e)
{
	return unlinkat(run_fd, OVER, 0) < 0 && errno != ENOENT
		       ? err_sys(e, -errno, "cannot record that the sandbox is to be started again")
		       : 0;
}

int state_run_wait(int run_fd)
{
	int r = lock_retrying(run_fd, LOCK_SH);

	return r < 0 ? r : lock_retrying(run_fd, LOCK_UN);
}

static int open_run_dir(const struct state *st, const char *id, struct err *e)
{
	int fd = -1;

	if (!state_is_id(id))
		return err_set(e, -EINVAL, "'%.20s' is not the id of a run", id);
	fd = openat(st->runs_fd, id, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, -ENOENT, "run %s is gone", id);
	return fd < 0 ? err_sys(e, -errno, "cannot open run %s", id) : fd;
}

int state_run_open(struct state *st, const char *id, bool *ret_alive, struct err *e)
{
	autoclose int fd = open_run_dir(st, id, e);
	int r;

	if (fd < 0)
		return fd;
	r = lock_retrying(fd, LOCK_SH | LOCK_NB);
	if (r == 0)
		r = lock_retrying(fd, LOCK_UN);
	else if (r == -EWOULDBLOCK)
		r = 1;
	if (r < 0)
		return err_sys(e, r, "cannot determine whether run %s is alive", id);
	*ret_alive = r == 1;
	return TAKE_FD(fd);
}

#define LOOKERS_TRIES 1000

/* Is fd still the directory of that id? The previous holder may have buried it. */
static bool run_has_dir(const struct state *st, const char *id, int fd)
{
	struct stat named, held;

	return fstatat(st->runs_fd, id, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &held) == 0 &&
	       named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

int state_run_claim(struct state *st, const char *id, struct err *e)
{
	autoclose int fd = open_run_dir(st, id, e);
	int r;

	if (fd < 0)
		return fd;
	r = lock_unless_removed(fd, LOCK_EX | LOCK_NB);
	/* A process that tests whether the run is alive holds the lock too, for a moment: retry. */
	for (int i = 0; r == -EWOULDBLOCK && i < LOOKERS_TRIES && lock_retrying(fd, LOCK_SH | LOCK_NB) == 0;
	     i++) {
		const struct timespec pause = { .tv_nsec = (long)NSEC_PER_MSEC };

		r = lock_retrying(fd, LOCK_UN);
		nanosleep(&pause, NULL);
		if (r == 0)
			r = lock_unless_removed(fd, LOCK_EX | LOCK_NB);
	}
	if (r == -EWOULDBLOCK)
		return err_set(e, -EBUSY, "run %s is alive", id);
	if (r == -ENOENT || (r == 0 && !run_has_dir(st, id, fd)))
		return err_set(e, -ENOENT, "run %s is gone", id);
	return r < 0 ? err_sys(e, r, "cannot take run %s", id) : TAKE_FD(fd);
}

struct entry {
	uint64_t born;
	char id[RUN_ID_LEN + 1];
};

static int compare_newest_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->born != y->born)
		return x->born < y->born ? 1 : -1;
	return strcmp(x->id, y->id);
}

/* The birth time of a run's directory; where the file system has none, the time of its last change. */
static uint64_t run_birth_time(int dirfd, const char *name)
{
	struct statx sx;
	struct statx_timestamp t;

	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_MTIME, &sx) < 0)
		return 0;
	t = sx.stx_mask & STATX_BTIME ? sx.stx_btime : sx.stx_mtime;
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

static int read_run_ids(const struct state *st, struct buf *ret)
{
	int fd = openat(st->runs_fd, ".", DIR_FLAGS);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		fd_close(fd);
		return -errno;
	}
	while ((de = readdir(d))) {
		struct entry one = { 0 };

		if (!state_is_id(de->d_name))
			continue;
		one.born = run_birth_time(fd, de->d_name);
		memcpy(one.id, de->d_name, sizeof(one.id));
		buf_add(ret, &one, sizeof(one));
	}
	return buf_error(ret);
}

int state_run_list(struct state *st, struct strv *ret, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	autobuf struct buf b = BUF_INIT;
	struct entry *all;
	int r = read_run_ids(st, &b);

	all = (struct entry *)(void *)b.data;
	if (r == 0 && b.len)
		qsort(all, b.len / sizeof(*all), sizeof(*all), compare_newest_first);
	for (size_t i = 0; r == 0 && i < b.len / sizeof(*all); i++)
		r = strv_add(&ids, all[i].id);
	if (r < 0)
		return err_sys(e, r, "cannot list the runs in %s", st->path);
	*ret = ids;
	ids = STRV_INIT;
	return 0;
}

static bool is_stale_run(struct state *st, const char *id)
{
	struct run_meta m = { 0 };
	bool alive = true, ended;
	autoclose int fd = state_run_open(st, id, &alive, NULL);
	int r;

	if (fd < 0 || alive)
		return false;
	r = state_meta_read(fd, &m, NULL);
	if (r == -ENOENT)
		return run_birth_time(st->runs_fd, id) + FRESH_NS < clock_nsec(CLOCK_REALTIME);
	ended = r == 0 && m.ended != 0;
	state_meta_release(&m);
	return !ended;
}

int state_run_stale(struct state *st, struct strv *ret, struct err *e)
{
	autostrv struct strv all = STRV_INIT, stale = STRV_INIT;
	int r = state_run_list(st, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		if (is_stale_run(st, all.v[i]) && strv_add(&stale, all.v[i]) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	*ret = stale;
	stale = STRV_INIT;
	return 0;
}

int state_home_open(struct state *st, const char *name, struct err *e)
{
	autoclose int homes = -1;
	int fd;

	if (!str_is_name(name))
		return state_bad_name(e, name);
	homes = state_subdir(st, "homes", e);
	if (homes < 0)
		return homes;
	if (mkdirat(homes, name, 0700) < 0 && errno != EEXIST)
		return state_cannot(e, -errno, "make a home in the state directory", st->path);
	fd = openat(homes, name, DIR_FLAGS | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, -errno, "cannot open %s/homes/%s", st->path, name) : fd;
}
