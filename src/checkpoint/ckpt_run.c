/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a run's checkpoints: the list and its lock, the run and its trees. Nothing may change without that
 * lock.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "checkpoint/ckpt_int.h"
#include "sandbox/state/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define HEAD_MAX 512

int ckpt_reload(struct ckpt_run *r, struct err *e)
{
	ckpts_release(&r->list);
	return r->dir_fd < 0 ? 0 : ckpt_list(r->dir_fd, &r->list, e);
}

bool ckpt_is_name(const char *text)
{
	return text[0] == 'c' && text[1] >= '1' && text[1] <= '9' &&
	       strspn(text + 1, "0123456789") == strlen(text + 1);
}

int ckpt_find(const struct ckpt_run *r, const char *text, const struct ckpt **ret, struct err *e)
{
	uint64_t number = 0;

	if (!r->list.n) {
		err_set(e, -ENOENT, "%s has no checkpoint", r->id);
		return err_hint(e, -ENOENT, "coffer checkpoint %s makes one", r->id);
	}
	if (text && str_to_u64(text + (text[0] == 'c'), &number) < 0)
		return err_set(e, -EINVAL, "'%.40s' is not a valid checkpoint: c1, c2, …", text);
	for (size_t i = r->list.n; i-- > 0;) {
		const struct ckpt *c = &r->list.v[i];

		if (text ? c->number == number : !(c->flags & MANIFEST_UNDO)) {
			*ret = c;
			return 0;
		}
	}
	if (text)
		err_set(e, -ENOENT, "%s has no checkpoint %.40s", r->id, text);
	else
		err_set(e, -ENOENT, "%s has only checkpoints that a rollback made: name one", r->id);
	return err_hint(e, -ENOENT, "coffer checkpoint ls %s lists them", r->id);
}

int ckpt_read(const struct ckpt_run *r, const struct ckpt *c, struct buf *ret, struct err *e)
{
	return ckpt_list_read(r->dir_fd, c, ret, e);
}

/* --- trees ---------------------------------------------------------------------------------------------- */

static bool name_exists(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

size_t ckpt_trees(int layers_fd, int homes_fd, const char *id, const char *home,
		  struct ckpt_tree ret[CKPT_TREES])
{
	size_t n = 0;

	if (layers_fd >= 0 && (name_exists(layers_fd, "upper") || name_exists(layers_fd, "upper.new")))
		ret[n++] = (struct ckpt_tree){ "workspace", layers_fd, "upper", "upper.new" };
	if (layers_fd >= 0 &&
	    (name_exists(layers_fd, "root-upper") || name_exists(layers_fd, "root-upper.new")))
		ret[n++] = (struct ckpt_tree){ "root", layers_fd, "root-upper", "root-upper.new" };
	if (homes_fd >= 0 && home && str_is_name(home)) {
		ret[n] = (struct ckpt_tree){ .tree = "home", .dirfd = homes_fd };
		snprintf(ret[n].name, sizeof(ret[n].name), "%s", home);
		/* No home has a name that begins with a dot. */
		snprintf(ret[n].fresh, sizeof(ret[n].fresh), ".new-%s-%s", id, home);
		n++;
	}
	return n;
}

int ckpt_open_top(const struct ckpt_tree *t, mode_t *ret_mode)
{
	struct stat st;
	int fd;

	*ret_mode = 0;
	if (fstatat(t->dirfd, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (geteuid() != 0 && st.st_uid == geteuid() && (st.st_mode & 0700) != 0700) {
		if (fd_chmod_nofollow(t->dirfd, t->name, (st.st_mode & 07777) | 0700) < 0)
			return -errno;
		*ret_mode = st.st_mode;
	}
	fd = openat(t->dirfd, t->name, DIR_FLAGS);
	return fd < 0 ? -errno : fd;
}

void ckpt_close_top(int fd, mode_t mode)
{
	if (fd >= 0 && mode)
		(void)!fchmod(fd, mode & 07777);
	fd_close(fd);
}

int ckpt_open_places(struct ckpt_run *r, struct err *e)
{
	if (r->layers_fd < 0) {
		r->layers_fd = layers_open(r->run_fd, e);
		if (r->layers_fd < 0)
			return r->layers_fd;
	}
	if (r->homes_fd < 0 && r->meta.home) {
		r->homes_fd = openat(r->st.fd, "homes", DIR_FLAGS);
		if (r->homes_fd < 0)
			return err_sys(e, -errno, "cannot open the run's home");
	}
	return 0;
}

/* --- opening -------------------------------------------------------------------------------------------- */

static int lock_checkpoints(struct ckpt_run *r, struct err *e)
{
	r->lock_fd = openat(r->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->lock_fd < 0)
		return err_sys(e, -errno, "cannot lock the run's checkpoints");
	while (flock(r->lock_fd, LOCK_EX) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock the run's checkpoints");
	}
	return 0;
}

/* A live run belongs to its launcher; a run that is not alive is locked while we change it. */
static int open_run_for_change(struct ckpt_run *r, struct err *e)
{
	int fd;

	r->run_fd = state_run_open(&r->st, r->id, &r->alive, e);
	if (r->run_fd < 0 || r->alive)
		return r->run_fd < 0 ? r->run_fd : 0;
	fd = state_run_claim(&r->st, r->id, e);
	if (fd == -EBUSY) {
		err_set(e, fd, "another coffer works on %s", r->id);
		return err_hint(e, fd, "try again when it is done");
	}
	if (fd < 0)
		return fd;
	fd_close(r->run_fd);
	r->run_fd = fd;
	return ckpt_recover(&r->st, r->id, r->run_fd, e);
}

static int open_checkpoints(struct ckpt_run *r, bool change, struct err *e)
{
	int ret = state_meta_read(r->run_fd, &r->meta, e);

	if (ret < 0)
		return ret;
	r->mapped = r->meta.map_ids && !state_is_host_root() && geteuid() != 0;
	r->dir_fd = ckpt_open_dir(r->run_fd, change, change ? e : NULL);
	if (r->dir_fd < 0) {
		ret = change ? r->dir_fd : 0;
		r->dir_fd = -1;
		return ret;
	}
	ret = change ? lock_checkpoints(r, e) : 0;
	return ret < 0 ? ret : ckpt_reload(r, e);
}

int ckpt_open(struct ckpt_run *r, const char *ref, bool change, struct err *e)
{
	int ret;

	*r = CKPT_RUN_INIT;
	/* When another process breaks a lease (scan.c), the kernel sends this signal, whose default would end
	 * us. */
	signal(SIGIO, SIG_IGN);
	ret = state_open(&r->st, e);
	if (ret == 0 && change)
		ret = audit_open(&r->audit, r->st.fd, e);
	if (ret == 0 && change)
		ret = run_sweep(&r->st, r->audit, e);
	if (ret >= 0)
		ret = state_resolve(&r->st, ref, r->id, e);
	if (ret == 0)
		ret = objects_open(&r->store, r->st.fd, e);
	/* The list can be read without the object store. */
	if (!change && (ret == -EROFS || ret == -ENOSPC))
		ret = 0;
	if (ret < 0)
		return ret;
	if (change) {
		ret = open_run_for_change(r, e);
	} else {
		r->run_fd = state_run_open(&r->st, r->id, &r->alive, e);
		ret = r->run_fd < 0 ? r->run_fd : 0;
	}
	return ret < 0 ? ret : open_checkpoints(r, change, e);
}

void ckpt_release(struct ckpt_run *r)
{
	run_link_close(&r->link);
	ckpts_release(&r->list);
	objects_release(&r->store);
	fd_close(r->layers_fd);
	fd_close(r->homes_fd);
	fd_close(r->lock_fd);
	fd_close(r->dir_fd);
	fd_close(r->run_fd);
	state_meta_release(&r->meta);
	audit_free(r->audit);
	state_release(&r->st);
	*r = CKPT_RUN_INIT;
}
