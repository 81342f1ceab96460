/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state directory knows about pids: a launcher holds the lock of its run's directory, cofferd that of cofferd.lock, and
 * meta.json names the guard and the engine. No sandbox sees that directory. It must not make the state directory, nor take one
 * of the locks: /proc/locks shows who has them.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "posture/processes_int.h"
#include "sandbox/state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define LOCKS_MAX (16u << 20)
#define LOCKD "cofferd.lock"

struct locks {
	struct proc_lock *v;
	size_t n;
	bool any_dev; /* the file system shows other device numbers to stat() than to /proc/locks */
};

static void locks_release(struct locks *l)
{
	free(l->v);
}

static int read_locks(struct locks *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	CLEANUP(locks_release) struct locks l = { 0 };
	size_t room = 0;
	int r = fd_read_file(AT_FDCWD, "/proc/locks", LOCKS_MAX, &b);

	if (r < 0)
		return err_sys(e, r, "cannot read /proc/locks");
	for (const char *p = buf_cstr(&b); p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		struct proc_lock one;

		if (proc_text_lock(p, &one) < 0)
			continue;
		if (VEC_ROOM(l.v, l.n, room, VEC_NO_MAX) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		l.v[l.n++] = one;
	}
	*ret = l;
	l = (struct locks){ 0 };
	return 0;
}

/* The process that holds the lock of a file; 0: none does. */
static pid_t lock_holder(const struct locks *l, int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].ino == st.st_ino &&
		    (l->any_dev || (l->v[i].major == major(st.st_dev) && l->v[i].minor == minor(st.st_dev))))
			return l->v[i].pid;
	}
	return 0;
}

/* Gives the process with this pid its part. A pid whose process is visibly another program is from a file that is out of date. */
static void claim_process(struct processes *all, pid_t pid, enum process_program program,
			  enum process_claim claim, const char *run, bool gvisor)
{
	struct process *p = pid > 0 ? process_find(all, pid) : NULL;

	if (!p || (p->f.exe == EXE_HIDDEN ? p->f.says : p->f.program) != program)
		return;
	p->f.claim = claim;
	p->f.gvisor = gvisor;
	snprintf(p->f.run, sizeof(p->f.run), "%s", run);
}

/* A run that somebody holds. The launcher begins before there is a meta.json; once the launcher has died, the guard has the lock. */
static void claim_run(struct processes *all, const struct state *st, const char *id, pid_t holder)
{
	autoclose int fd = openat(st->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct run_meta m = { 0 };
	bool known = fd >= 0 && state_meta_read(fd, &m, NULL) == 0;
	bool gvisor = known && m.engine && str_eq(m.engine, "gvisor");

	if (fd < 0)
		return;
	/* Another command may hold a run that has ended, to remove it or to apply its changes. */
	if (!known || m.launcher == holder)
		claim_process(all, holder, PROGRAM_COFFER,
			      state_run_has_begun(fd) ? CLAIM_LAUNCHER : CLAIM_STANDBY, id, gvisor);
	if (known)
		claim_process(all, (pid_t)m.guard, PROGRAM_COFFER, CLAIM_GUARD, id, gvisor);
	state_meta_release(&m);
}

static int claim_all(struct processes *all, struct state *st, struct err *e)
{
	CLEANUP(locks_release) struct locks l = { 0 };
	autostrv struct strv ids = STRV_INIT;
	struct statfs fs;
	int r = read_locks(&l, e);

	if (r == 0)
		r = state_run_list(st, &ids, e);
	if (r < 0)
		return r;
	l.any_dev = fstatfs(st->fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
	claim_process(all, lock_holder(&l, st->fd, LOCKD), PROGRAM_COFFERD, CLAIM_COFFERD, "", false);
	for (size_t i = 0; i < ids.n; i++) {
		pid_t holder = lock_holder(&l, st->runs_fd, ids.v[i]);

		if (holder > 0)
			claim_run(all, st, ids.v[i], holder);
	}
	return 0;
}

int process_claims_take(struct processes *all, struct err *e)
{
	autofree char *place = state_place(e);
	struct state st = STATE_INIT;
	struct stat there;
	int r;

	if (!place)
		return e && e->code ? e->code : -ENOENT;
	if (stat(place, &there) < 0 && errno == ENOENT)
		return 0;
	r = state_open(&st, e);
	if (r == 0)
		r = claim_all(all, &st, e);
	state_release(&st);
	return r;
}
