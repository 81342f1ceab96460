/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the workspace of a call's origin for writing (into.h). A child process fetches the mount, in the
 * sandbox's namespaces or in new ones, and passes it back as a descriptor: the parent never leaves its own
 * namespaces.
 */
#include "checkpoint/into.h"

#include "base/fd.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/spec/ids_child.h"
#include "sandbox/state/layers.h"
#include "sys/mnt.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define WORK "into-work"
#define COUNT_CAP 1000000
#define STAT_MS 10000
#define STAGE "/tmp" /* covered in the child's own mount namespace only */

/* --- a child that fetches a mount ----------------------------------------------------------------------- */

struct mount_fetch {
	/* Both run in the child (sandbox/spec/ids_child.h): `enter` its namespaces, `make` the detached tree. */
	int (*enter)(void *ctx, struct err *e);
	int (*make)(void *ctx, struct buf *out, struct err *e);
	struct into *i;
	int userns, mntns;     /* of a running sandbox */
	const struct ids *ids; /* of an ended sandbox; NULL: host root, which needs none */
	int tree;
};

static int fetch_workspace_mount(struct mount_fetch *f, struct err *e)
{
	char what[64];
	const struct ids_child c = { .what = what,
				     .ids = f->ids && f->ids->range ? f->ids : NULL,
				     .enter = f->enter,
				     .work = f->make,
				     .ctx = f,
				     .fd = &f->tree };
	int r;

	snprintf(what, sizeof(what), "opens the workspace of %s", f->i->n.r.id);
	f->tree = -1;
	r = ids_child_run(&c, e);
	if (r == 0 && f->tree < 0)
		r = err_set(e, -EIO, "the process that %s died", what);
	if (r < 0)
		fd_close(f->tree);
	return r < 0 ? r : f->tree;
}

/* --- a running sandbox ---------------------------------------------------------------------------------- */

static int sandbox_init_pid(struct into *i, pid_t *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	json_int_t pid = 0;
	json_t *root;
	int r = run_link_stat(&i->n.r.link, STAT_MS, &b, e);

	if (r < 0)
		return r;
	root = json_loadb(buf_cstr(&b), b.len, 0, NULL);
	pid = root ? json_integer_value(json_object_get(root, "pid")) : 0;
	json_decref(root);
	if (pid <= 1 || pid > INT32_MAX)
		return err_set(e, -EPROTO, "the launcher of %s does not say which process is its first",
			       i->n.r.id);
	*ret = (pid_t)pid;
	return 0;
}

/* Opens its mount namespace and the user namespace that owns it. The pid is valid as long as the launcher,
 * which alone can reap the process, reports the same pid afterwards. */
static int open_namespaces(struct into *i, struct mount_fetch *f, struct err *e)
{
	char path[48];
	pid_t pid, again = 0;
	int r = sandbox_init_pid(i, &pid, e);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	f->mntns = open(path, O_RDONLY | O_CLOEXEC);
	f->userns = f->mntns < 0 ? -1 : ioctl(f->mntns, NS_GET_USERNS);
	if (f->mntns < 0 || f->userns < 0) {
		r = err_sys(e, -errno, "cannot open the namespaces of %s", i->n.r.id);
		/* It was started in a user namespace that is neither ours nor below ours, so we have no
		 * rights over it. */
		return err_hint(e, r, "coffer stop %s, then retry; or retry where the sandbox was started",
				i->n.r.id);
	}
	r = sandbox_init_pid(i, &again, e);
	return r == 0 && again != pid ? err_set(e, -ESTALE, "sandbox %s is ending", i->n.r.id) : r;
}

static int enter_running_sandbox(void *ctx, struct err *e)
{
	const struct mount_fetch *f = ctx;

	return setns(f->userns, CLONE_NEWUSER) < 0 || setns(f->mntns, CLONE_NEWNS) < 0
		       ? err_sys(e, -errno, "cannot enter the namespaces of %s", f->i->n.r.id)
		       : 0;
}

static int open_workspace_of_running(void *ctx, struct buf *out, struct err *e)
{
	struct mount_fetch *f = ctx;
	autoclose int dir = open(ROOTFS_WORKSPACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int tree = dir < 0 ? -errno : mnt_tree(dir, "", false);

	(void)out;
	if (tree < 0)
		return err_sys(e, tree, "cannot open the workspace of %s", f->i->n.r.id);
	f->tree = tree;
	return 0;
}

/* For host root each sandbox has other ids outside: show the call's layer with the ids of this sandbox. */
static int idmap_call_layer(struct into *i, int layers_fd, int userns, struct err *e)
{
	autoclose int tree = -1;
	struct stat st;
	int r;

	if (!state_is_host_root())
		return 0;
	tree = mnt_tree(layers_fd, "upper", false);
	r = tree < 0 ? tree : mnt_idmap(tree, userns);
	if (r < 0)
		return err_sys(e, r == -EINVAL ? -EOPNOTSUPP : r,
			       "cannot see the call's files with the owners of %s", i->n.r.id);
	fd_close(i->upper);
	i->upper = TAKE_FD(tree);
	if (fstat(i->tree, &st) < 0)
		return err_sys(e, -errno, "cannot look at the workspace of %s", i->n.r.id);
	i->as_other = true;
	i->uid = st.st_uid;
	i->gid = st.st_gid;
	return 0;
}

static int take_workspace_mount(struct into *i, int mount, struct err *e)
{
	if (mount < 0)
		return mount;
	i->mount = mount;
	i->tree = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return i->tree < 0 ? err_sys(e, -errno, "cannot open the workspace of %s", i->n.r.id) : 0;
}

static int open_into_running(struct into *i, int layers_fd, struct err *e)
{
	struct mount_fetch f = { .enter = enter_running_sandbox,
				 .make = open_workspace_of_running,
				 .i = i,
				 .userns = -1,
				 .mntns = -1 };
	int r = open_namespaces(i, &f, e);

	if (r == 0)
		r = take_workspace_mount(i, fetch_workspace_mount(&f, e), e);
	if (r == 0)
		r = idmap_call_layer(i, layers_fd, f.userns, e);
	fd_close(f.userns);
	fd_close(f.mntns);
	return r;
}

/* --- an ended sandbox ----------------------------------------------------------------------------------- */

/* Opens the directory that fd was opened on outside, in this mount namespace. */
static int reopen_same_directory(const char *path, int fd)
{
	autoclose int again = fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0,
					 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct stat a, b;

	if (again < 0)
		return again;
	if (fstat(again, &a) < 0 || fstat(fd, &b) < 0)
		return -errno;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? TAKE_FD(again) : -ESTALE;
}

static int enter_mount_namespace_of_run(void *ctx, struct err *e)
{
	const struct mount_fetch *f = ctx;

	return unshare(f->ids ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0
		       ? err_sys(e, -errno, "cannot make namespaces to write to %s in", f->i->n.r.id)
		       : 0;
}

/* A single id the child maps itself; a range was mapped from outside. */
static int prepare_new_namespaces(const struct mount_fetch *f, struct err *e)
{
	char map[IDS_MAP_LEN];
	int r = 0;

	if (f->ids && !f->ids->range) {
		r = ns_deny_setgroups("/proc/self", e);
		for (int groups = 0; groups < 2 && r == 0; groups++)
			r = ns_map_ids("/proc/self", groups, ids_outer_map(f->ids, groups, map), e);
	}
	if (r == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		r = err_sys(e, -errno, "cannot make private mounts");
	return r;
}

/* Opens the directory with upper/: the run's directory, or a disk image, which is not mounted yet. */
static int open_layers_here(const struct ckpt_run *r, int *ret_attach)
{
	char path[PATH_MAX];

	if (faccessat(r->run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		*ret_attach = mnt_tree(r->layers_fd, "", false);
		return *ret_attach;
	}
	snprintf(path, sizeof(path), "%s/runs/%s", r->st.path, r->id);
	return reopen_same_directory(path, r->run_fd);
}

static int mount_workspace_of_ended(void *ctx, struct buf *out, struct err *e)
{
	struct mount_fetch *f = ctx;
	const struct ckpt_run *r = &f->i->n.r;
	autoclose int layers = -1, lower = -1;
	int attach = -1, ret = prepare_new_namespaces(f, e);
	char options[256];

	(void)out;
	if (ret < 0)
		return ret;
	lower = reopen_same_directory(r->meta.workspace, f->i->lower);
	layers = lower < 0 ? -1 : open_layers_here(r, &attach);
	ret = lower < 0 ? lower : layers < 0 ? layers : mnt_tmpfs(STAGE, 1 << 20, 64, 0700);
	if (ret == 0 && (mkdir(STAGE "/layers", 0700) < 0 || mkdir(STAGE "/ws", 0700) < 0))
		ret = -errno;
	if (ret == 0 && attach >= 0)
		ret = mnt_attach(attach, AT_FDCWD, STAGE "/layers");
	if (ret == 0)
		snprintf(options, sizeof(options),
			 "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
			 "workdir=/proc/self/fd/%d/" WORK ",userxattr",
			 lower, layers, layers);
	if (ret == 0 && mount("overlay", STAGE "/ws", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		ret = -errno;
	ret = ret < 0 ? ret : mnt_tree(AT_FDCWD, STAGE "/ws", false);
	if (ret < 0)
		return err_sys(e, ret, "cannot lay the layer of %s over its workspace", r->id);
	f->tree = ret;
	return 0;
}

static int open_into_ended(struct into *i, struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	struct mount_fetch f = { .enter = enter_mount_namespace_of_run,
				 .make = mount_workspace_of_ended,
				 .i = i };
	struct ckpt_run *r = &i->n.r;
	int ret = 0;

	if (!state_is_host_root()) {
		ret = ids_plan(&ids, NULL, "", r->mapped ? 0 : geteuid(), r->mapped ? 0 : getegid(),
			       r->mapped, e);
		f.ids = &ids;
	}
	if (ret < 0)
		return ret;
	i->lower = fd_openat2(AT_FDCWD, r->meta.workspace, O_RDONLY | O_DIRECTORY, 0,
			      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (i->lower < 0) {
		ret = i->lower;
		i->lower = -1;
		return err_sys(e, ret, "the directory that %s worked on is not there: %s", r->id,
			       r->meta.workspace);
	}
	/* A killed process may have left one. */
	ret = fd_rm_rf(r->layers_fd, WORK, e);
	if (ret == 0 && mkdirat(r->layers_fd, WORK, 0700) < 0)
		ret = err_sys(e, -errno, "cannot make a work directory for %s", r->id);
	return ret < 0 ? ret : take_workspace_mount(i, fetch_workspace_mount(&f, e), e);
}

/* --- public functions ----------------------------------------------------------------------------------- */

static int refuse_into(const struct ckpt_run *r, const char *hint, struct err *e, const char *why)
{
	err_set(e, -EOPNOTSUPP, "nothing can be put into the workspace of %s: %s", r->id, why);
	return err_hint(e, -EOPNOTSUPP, "%s", hint);
}

static int check_writable(const struct ckpt_run *r, struct err *e)
{
	char stop[80];

	snprintf(stop, sizeof(stop), "coffer stop %s, then retry", r->id);
	if (r->alive && str_eq(r->meta.engine ? r->meta.engine : "", "gvisor"))
		return refuse_into(
			r, stop, e,
			"it runs on engine gvisor, which would not see what is written from outside");
	if (!r->alive && !str_eq(r->meta.ws_mode ? r->meta.ws_mode : "", "overlay"))
		return refuse_into(r, "coffer diff -p shows what the call wrote", e,
				   "it was an empty one, and wiped at its end");
	return 0;
}

int into_open(struct into *i, const char *id, int layers_fd, bool mapped, struct err *e)
{
	int r;

	*i = INTO_INIT;
	r = borrow_open(&i->n, id, e);
	if (r == -ENOENT) {
		err_set(e, r, "sandbox %s is gone, so the call's changes cannot be applied to it", id);
		return err_hint(e, r, "coffer diff -p shows them, coffer discard removes them");
	}
	if (r == 0)
		r = check_writable(&i->n.r, e);
	if (r == 0)
		r = borrow_hold(&i->n, e);
	/* It may have ended, or been restarted, while we waited. */
	if (r == 0)
		r = check_writable(&i->n.r, e);
	if (r < 0)
		return r;
	i->mapped = mapped || i->n.r.mapped;
	i->upper = openat(layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (i->upper < 0)
		return err_sys(e, -errno, "cannot open the call's layer");
	return i->n.r.alive ? open_into_running(i, layers_fd, e) : open_into_ended(i, e);
}

int into_begin(const struct into *i, struct err *e)
{
	if (!i->as_other)
		return 0;
	/* Root keeps its capabilities over files while it makes them as another user. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return err_sys(e, -errno, "cannot keep the right to write to %s", i->n.r.id);
	setfsgid(i->gid);
	setfsuid(i->uid);
	return 0;
}

void into_end(const struct into *i)
{
	if (!i->as_other)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
}

int into_note_changes(struct into *i, struct err *e)
{
	struct ckpt_run *r = &i->n.r;
	autoclose int upper = -1;
	int ret;

	if (r->alive)
		return 0;
	upper = openat(r->layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (upper < 0)
		return err_sys(e, -errno, "cannot open the layer of %s", r->id);
	ret = workspace_count_changes(upper, BASE_DIR(i->lower), COUNT_CAP, &r->meta.changes, e);
	return ret < 0 ? ret : state_meta_write(r->run_fd, &r->meta, e);
}

void into_close(struct into *i)
{
	struct err ignored = ERR_INIT;

	fd_close(i->tree);
	fd_close(i->mount);
	fd_close(i->upper);
	fd_close(i->lower);
	/* If it cannot be removed now, the next into_open() removes it. */
	if (i->n.time && !i->n.r.alive && i->n.r.layers_fd >= 0)
		(void)!fd_rm_rf(i->n.r.layers_fd, WORK, &ignored);
	borrow_release(&i->n);
	*i = INTO_INIT;
}
