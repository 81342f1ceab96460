/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores a tree from a manifest. The manifest describes a tree that a sandbox wrote: its names and attributes are hostile.
 *
 * Invariants
 *  R1  Every system call takes a directory that we have just made and one name. No name of the manifest has a slash
 *      (codec/file/manifest.h), so nothing outside of the new tree is written.
 *  R2  The content of a file is hashed while it is written (objects.O2). A file is linked from the old tree only when the
 *      times of its inode show that it has not changed since it was hashed, and owner, mode, times and attributes are equal.
 *  R3  A directory gets its attributes when everything in it is done, its mode last.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "workspace/store/tree_store.h"
#include "workspace/tree/chain.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

struct making {
	struct restore *r;
	struct chain to, old;
	size_t depth,
		old_depth; /* directories entered in the new tree, and how many of those the old tree has */
	bool has_old;
	struct buf restores; /* mode_t for each level of the old chain */
	struct buf dirs;     /* struct manifest_ent of the directories that we are in */
	int links;	     /* holds one name of each group of links */
	struct err *e;
};

static int restore_fail(struct making *k, int code, const char *name)
{
	char shown[256];

	str_safe(*name ? name : "the top directory", shown, sizeof(shown));
	if (code == -EBADMSG)
		return err_set(k->e, code, "the checkpoint is damaged: the hash of %s does not match", shown);
	if (code == -ENOENT)
		return err_set(k->e, code, "the checkpoint is damaged: the content of %s is missing", shown);
	return err_sys(k->e, code, "cannot restore %s", shown);
}

/* --- what all have ---------------------------------------------------------------------------------------------- */

static int set_manifest_attrs(const struct making *k, int fd, const struct manifest_ent *m)
{
	struct manifest_attr a;
	uint32_t off = 0;
	int r;

	while ((r = manifest_next_attr(m->attrs, m->attrs_len, &off, &a)) > 0) {
		if (k->r->no_marks && str_starts(a.name, "user.overlay."))
			continue;
		if (fsetxattr(fd, a.name, a.value, a.len, 0) < 0)
			return -errno;
	}
	return r;
}

static int set_manifest_owner(int dirfd, const char *name, const struct manifest_ent *m,
			      const struct stat *now)
{
	if (now->st_uid == m->uid && now->st_gid == m->gid)
		return 0;
	return fchownat(dirfd, name, m->uid, m->gid, AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH)) < 0
		       ? -errno
		       : 0;
}

static void manifest_times(const struct manifest_ent *m, struct timespec t[2])
{
	t[0] = t[1] = (struct timespec){ .tv_sec = m->sec, .tv_nsec = m->nsec };
}

/* Sets owner, attributes, times and mode of an open file or directory. The owner comes before the mode, whose bits a change
 * of owner clears. */
static int finish_restored_fd(const struct making *k, int fd, const struct manifest_ent *m, bool with_mode)
{
	struct timespec t[2];
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	r = set_manifest_owner(fd, "", m, &st);
	/* A change of owner removes a capability, so attributes are set after it. */
	if (r == 0)
		r = set_manifest_attrs(k, fd, m);
	if (r == 0 && with_mode && fchmod(fd, m->mode) < 0)
		r = -errno;
	manifest_times(m, t);
	return r == 0 && futimens(fd, t) < 0 ? -errno : r;
}

static int finish_restored_name(int dirfd, const struct manifest_ent *m)
{
	struct timespec t[2];
	struct stat st;
	int r;

	if (fstatat(dirfd, m->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = set_manifest_owner(dirfd, m->name, m, &st);
	if (r == 0 && m->type != MANIFEST_LINK && (st.st_mode & 07777) != m->mode)
		r = fd_chmod_nofollow(dirfd, m->name, m->mode);
	manifest_times(m, t);
	return r == 0 && utimensat(dirfd, m->name, t, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : r;
}

/* --- files --------------------------------------------------------------------------------------------------------- */

/* Is the old tree's file at this path the same in every respect? */
static bool is_same_as_old(struct making *k, const struct manifest_ent *m, struct stat *st)
{
	int dir = chain_fd(&k->old);
	const struct known_ent *e;

	if (fstatat(dir, m->name, st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st->st_mode) || st->st_nlink != 1)
		return false;
	e = known_find(k->r->before, st);
	if (!e || memcmp(e->hash, m->hash, HASH_LEN) != 0 || (uint64_t)st->st_size != m->size)
		return false;
	if ((st->st_mode & 07777) != m->mode || st->st_uid != m->uid || st->st_gid != m->gid ||
	    st->st_mtim.tv_sec != m->sec || st->st_mtim.tv_nsec != (long)m->nsec)
		return false;
	return e->attrs_len == m->attrs_len &&
	       (m->attrs_len == 0 ||
		memcmp(buf_cstr(&k->r->before->text) + e->attrs, m->attrs, m->attrs_len) == 0);
}

/* 1: it was linked from the old tree, 0: it must be made (restore.R2). */
static int link_from_old(struct making *k, const struct manifest_ent *m)
{
	struct stat st;
	int r;

	if (!k->r->before || !k->has_old || m->group || k->old_depth != k->depth ||
	    !is_same_as_old(k, m, &st))
		return 0;
	if (linkat(chain_fd(&k->old), m->name, chain_fd(&k->to), m->name, 0) < 0)
		return 0;
	k->r->linked++;
	r = k->r->after ? known_add(k->r->after, &st, m->hash, m->attrs, m->attrs_len) : 0;
	return r < 0 ? r : 1;
}

static int note_restored_file(struct making *k, int fd, const struct manifest_ent *m)
{
	struct stat st;

	if (!k->r->after)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	return known_add(k->r->after, &st, m->hash, m->attrs, m->attrs_len);
}

static int make_restored_file(struct making *k, const struct manifest_ent *m)
{
	int dir = chain_fd(&k->to);
	autoclose int fd = openat(dir, m->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : objects_get(k->r->store, m->hash, m->size, fd);

	if (r == 0)
		r = finish_restored_fd(k, fd, m, true);
	k->r->copied++;
	return r < 0 ? r : note_restored_file(k, fd, m);
}

/* The first name of a group makes the file; the others are names of it. */
static int make_restored_link(struct making *k, const struct manifest_ent *m)
{
	int dir = chain_fd(&k->to);
	char name[16];
	int r;

	snprintf(name, sizeof(name), "%u", m->group);
	if (linkat(k->links, name, dir, m->name, 0) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	r = make_restored_file(k, m);
	if (r == 0 && linkat(dir, m->name, k->links, name, 0) < 0)
		r = -errno;
	return r;
}

static int restore_file(struct making *k, const struct manifest_ent *m)
{
	int r = link_from_old(k, m);

	if (r != 0)
		return r < 0 ? r : 0;
	return m->group ? make_restored_link(k, m) : make_restored_file(k, m);
}

static int restore_special(struct making *k, const struct manifest_ent *m)
{
	int dir = chain_fd(&k->to), r = 0;

	switch (m->type) {
	case MANIFEST_FILE:
		return restore_file(k, m);
	case MANIFEST_LINK:
		r = symlinkat(m->target, dir, m->name);
		break;
	case MANIFEST_FIFO:
		r = mknodat(dir, m->name, S_IFIFO | 0600, 0);
		break;
	case MANIFEST_SOCKET:
		r = mknodat(dir, m->name, S_IFSOCK | 0600, 0);
		break;
	default:
		r = mknodat(dir, m->name, S_IFCHR | 0600, 0);
		break;
	}
	return r < 0 ? -errno : finish_restored_name(dir, m);
}

/* --- directories --------------------------------------------------------------------------------------------------- */

/* Enters the same directory in the old tree, if it has one. */
static int enter_old_dir(struct making *k, const char *name)
{
	mode_t restore = 0;
	int r;

	if (!k->has_old || k->old_depth != k->depth)
		return 0;
	r = layer_push(&k->old, name, &restore);
	if (r < 0)
		return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
	buf_add(&k->restores, &restore, sizeof(restore));
	k->old_depth++;
	return buf_error(&k->restores);
}

static int leave_old_dir(struct making *k)
{
	mode_t restore;

	if (k->old_depth <= k->depth)
		return 0;
	k->restores.len -= sizeof(restore);
	memcpy(&restore, k->restores.data + k->restores.len, sizeof(restore));
	k->old_depth--;
	return layer_pop(&k->old, restore);
}

static int enter_restored_dir(struct making *k, const struct manifest_ent *m)
{
	int r;

	if (mkdirat(chain_fd(&k->to), m->name, 0700) < 0)
		return -errno;
	r = chain_push(&k->to, m->name);
	if (r < 0)
		return r;
	r = enter_old_dir(k, m->name);
	k->depth++;
	buf_add(&k->dirs, m, sizeof(*m));
	return r < 0 ? r : buf_error(&k->dirs);
}

static int leave_restored_dir(struct making *k)
{
	struct manifest_ent m;
	autoclose int fd = -1;
	int r;

	k->dirs.len -= sizeof(m);
	memcpy(&m, k->dirs.data + k->dirs.len, sizeof(m));
	if (k->depth == 0) /* the top */
		return finish_restored_fd(k, chain_fd(&k->to), &m, true);
	fd = fcntl(chain_fd(&k->to), F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	r = finish_restored_fd(k, fd, &m, false);
	k->depth--;
	/* Reopening the parent may go through this directory, so its mode is set last (restore.R3). */
	if (r == 0)
		r = chain_pop(&k->to);
	if (r == 0 && fchmod(fd, m.mode) < 0)
		r = -errno;
	return r < 0 ? r : leave_old_dir(k);
}

static int restore_entries(struct making *k, struct manifest_reader *m)
{
	struct manifest_ent ent;
	int r = manifest_next(m, &ent); /* the top directory: the reader has checked that it is one */

	if (r <= 0)
		return restore_fail(k, -EBADMSG, "");
	buf_add(&k->dirs, &ent, sizeof(ent));
	while ((r = manifest_next(m, &ent)) > 0) {
		if (ent.type == MANIFEST_LEAVE) {
			r = leave_restored_dir(k);
			if (r < 0)
				return restore_fail(k, r, "a directory");
			if (!m->in_tree)
				return 0;
			continue;
		}
		k->r->entries++;
		r = ent.type == MANIFEST_DIR ? enter_restored_dir(k, &ent) : restore_special(k, &ent);
		if (r < 0)
			return restore_fail(k, r, ent.name);
	}
	return err_set(k->e, r == -ENOMEM ? r : -EBADMSG, "the checkpoint is damaged");
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

static int start_restored_tree(struct making *k, int dirfd, const char *name, const char *links)
{
	autoclose int top = -1;
	int r;

	if (mkdirat(dirfd, name, 0700) < 0 || mkdirat(dirfd, links, 0700) < 0)
		return -errno;
	top = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	k->links = openat(dirfd, links, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || k->links < 0)
		return -errno;
	r = chain_start(&k->to, top);
	k->has_old = r == 0 && k->r->old_fd >= 0;
	return k->has_old ? chain_start(&k->old, k->r->old_fd) : r;
}

static void stop_restore(struct making *k)
{
	while (k->restores.len) { /* modes of the old tree, on every way out */
		k->depth = 0;
		if (leave_old_dir(k) < 0)
			break;
	}
	chain_release(&k->to);
	chain_release(&k->old);
	buf_release(&k->restores);
	buf_release(&k->dirs);
	k->links = fd_close(k->links);
}

int restore_tree(struct restore *r, struct manifest_reader *m, int dirfd, const char *name, struct err *e)
{
	struct err local = ERR_INIT;
	struct making k = { .r = r, .links = -1, .e = e ? e : &local };
	char links[MANIFEST_NAME_MAX + 8];
	int ret, gone;

	snprintf(links, sizeof(links), "%s.links", name);
	ret = start_restored_tree(&k, dirfd, name, links);
	ret = ret < 0 ? restore_fail(&k, ret, "") : restore_entries(&k, m);
	stop_restore(&k);
	gone = fd_rm_rf(dirfd, links, ret < 0 ? &local : k.e);
	return ret < 0 ? ret : gone;
}

int tree_store_hashes(const void *data, size_t len, struct hashes *ret)
{
	struct manifest_reader m;
	struct manifest_ent ent;
	int r = manifest_open(&m, data, len);

	while (r == 0 && (r = manifest_next(&m, &ent)) > 0)
		r = ent.type == MANIFEST_FILE ? hashes_add(ret, ent.hash) : 0;
	manifest_close(&m);
	return r;
}
