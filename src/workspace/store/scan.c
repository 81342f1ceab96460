/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks one tree and writes its manifest, for a checkpoint.
 *
 * Invariants
 *  S1  A file is read only when it is not known to be unchanged. A hash is remembered only of an inode that changed longer
 *      ago than the clock's tick and that no process had open for writing: a later change then moves its ctime and is
 *      noticed.
 *  S2  A level of depth costs memory for a frame and its names, but no C stack and no descriptor (chain.h).
 *  S3  A directory that its owner may not read gets that permission while the walk is in it, and its own mode afterwards,
 *      on error paths too.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/store/tree_store.h"
#include "workspace/tree/chain.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

#define TICK_NS (20 * NSEC_PER_MSEC) /* twice the coarsest tick of a kernel */
#define TRIES 4

struct group {
	uint64_t dev, ino, size;
	uint32_t number;
	unsigned char hash[HASH_LEN];
};

struct frame {
	size_t names_at, ents_at, next;
	mode_t restore;
};

struct walk {
	struct scan *s;
	struct chain chain;
	struct buf names, attrs;
	size_t *ents; /* names still to visit, of all levels: where each begins */
	size_t n_ents, cap_ents;
	struct frame *frames;
	size_t n_frames, cap_frames;
	struct group *groups; /* open addressing; number 0: free */
	size_t n_groups, cap_groups;
	struct err *e;
	_Alignas(struct dirent64) char raw[32768];
};

static int scan_fail(struct walk *w, int code, const char *name)
{
	char shown[256];

	if (code == -ENOMEM)
		return err_set(w->e, code, "out of memory while making a checkpoint");
	if (code == -ESTALE)
		return err_set(w->e, code, "%s changes faster than it can be read",
			       str_safe(name, shown, sizeof(shown)));
	return err_sys(w->e, code, "cannot take %s into the checkpoint",
		       str_safe(name, shown, sizeof(shown)));
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

static bool is_kept_attr(const char *name)
{
	return str_starts(name, "user.") || str_eq(name, "security.capability") ||
	       str_starts(name, "system.posix_acl_");
}

static int compare_attr_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int add_manifest_attr(int fd, const char *name, struct buf *ret)
{
	char value[4096];
	autofree char *big = NULL;
	struct manifest_attr a = { .name = name, .value = (uint8_t *)value };
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	if (n < 0 && errno == ERANGE) {
		n = fgetxattr(fd, name, NULL, 0);
		big = n < 0 ? NULL : malloc((size_t)n + 1);
		if (n >= 0 && !big)
			return -ENOMEM;
		n = n < 0 ? n : fgetxattr(fd, name, big, (size_t)n);
		a.value = (uint8_t *)big;
	}
	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	a.len = (uint32_t)n;
	manifest_add_attr(ret, &a);
	return buf_error(ret);
}

int attrs_read(int fd, struct buf *ret)
{
	char space[1024];
	autofree char *big = NULL;
	autofree const char **v = NULL;
	char *list = space;
	ssize_t len = flistxattr(fd, space, sizeof(space));
	size_t n = 0;
	int r = 0;

	if (len == 0 || (len < 0 && errno == EOPNOTSUPP))
		return 0;
	if (len < 0 && errno == ERANGE) {
		list = big = malloc(XATTR_LIST_MAX);
		len = big ? flistxattr(fd, big, XATTR_LIST_MAX) : -1;
	}
	if (len < 0)
		return big || list == space ? -errno : -ENOMEM;
	v = calloc((size_t)len, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (const char *p = list; p < list + len; p += strlen(p) + 1) {
		if (is_kept_attr(p))
			v[n++] = p;
	}
	qsort(v, n, sizeof(*v), compare_attr_names);
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_manifest_attr(fd, v[i], ret);
	return r == 0 && ret->len > MANIFEST_ATTRS_MAX ? -E2BIG : r;
}

/* --- files with several names --------------------------------------------------------------------------------------- */

static size_t group_slot(const struct walk *w, uint64_t dev, uint64_t ino)
{
	size_t i = (size_t)((ino * 0x9e3779b97f4a7c15ULL) ^ dev) & (w->cap_groups - 1);

	while (w->groups[i].number && (w->groups[i].ino != ino || w->groups[i].dev != dev))
		i = (i + 1) & (w->cap_groups - 1);
	return i;
}

static int grow_link_groups(struct walk *w)
{
	struct group *old = w->groups;
	size_t n = w->cap_groups;

	w->groups = calloc(n ? n * 2 : 64, sizeof(*w->groups));
	if (!w->groups) {
		w->groups = old;
		return -ENOMEM;
	}
	w->cap_groups = n ? n * 2 : 64;
	for (size_t i = 0; i < n; i++) {
		if (old[i].number)
			w->groups[group_slot(w, old[i].dev, old[i].ino)] = old[i];
	}
	free(old);
	return 0;
}

/* The number of the file's group of hard links, or a negative errno. 0: it has one name, or it was written to after its
 * first name was scanned, so that the names have to be stored as different files. */
static int64_t link_group_of(struct walk *w, const struct stat *st, const unsigned char hash[HASH_LEN])
{
	struct group *g;
	int r;

	if (st->st_nlink < 2)
		return 0;
	r = w->n_groups * 2 >= w->cap_groups ? grow_link_groups(w) : 0;
	if (r < 0)
		return r;
	g = &w->groups[group_slot(w, st->st_dev, st->st_ino)];
	if (!g->number) {
		*g = (struct group){
			st->st_dev, st->st_ino, (uint64_t)st->st_size, (uint32_t)++w->n_groups, { 0 }
		};
		memcpy(g->hash, hash, HASH_LEN);
	}
	return g->size == (uint64_t)st->st_size && memcmp(g->hash, hash, HASH_LEN) == 0 ? g->number : 0;
}

/* --- one entry ------------------------------------------------------------------------------------------------------ */

static struct manifest_ent manifest_ent_of(const char *name, const struct stat *st)
{
	return (struct manifest_ent){
		.name = name,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.sec = st->st_mtim.tv_sec,
		.nsec = (uint32_t)st->st_mtim.tv_nsec,
	};
}

static int add_manifest_entry(struct walk *w, const struct manifest_ent *m)
{
	manifest_add_ent(w->s->out, m);
	w->s->entries++;
	if (w->s->out->len > CHECKPOINT_MANIFEST_MAX)
		return err_set(w->e, -E2BIG, "the files are more than a checkpoint can hold");
	return buf_error(w->s->out) ? scan_fail(w, -ENOMEM, "") : 0;
}

/* True when no process has the file open for writing: a later change then moves its ctime (scan.S1). A write through a
 * mapping that is dirty already would not. */
static bool has_no_writer(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return false;
	return fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

static int remember_file(struct walk *w, const struct stat *before, int fd, uint64_t began,
			 const unsigned char *hash)
{
	struct stat st;
	uint64_t changed;

	if (!w->s->after || fstat(fd, &st) < 0)
		return 0;
	changed = (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
	if (st.st_ctim.tv_sec != before->st_ctim.tv_sec || st.st_ctim.tv_nsec != before->st_ctim.tv_nsec ||
	    st.st_size != before->st_size || st.st_ctim.tv_sec < 0 || changed + TICK_NS > began ||
	    (w->s->live && !has_no_writer(fd)))
		return 0;
	return known_add(w->s->after, &st, hash, buf_cstr(&w->attrs), (uint32_t)w->attrs.len);
}

/* Without read permission an owner cannot read the attributes of a file either, even through an fd: the file gets that
 * permission meanwhile. */
static int read_file_attrs(struct walk *w, int fd, const struct stat *st)
{
	int r;

	buf_clear(&w->attrs);
	r = attrs_read(fd, &w->attrs);
	if (r != -EACCES || st->st_uid != geteuid() || fchmod(fd, (st->st_mode & 07777) | 0400) < 0)
		return r;
	buf_clear(&w->attrs);
	r = attrs_read(fd, &w->attrs);
	return fchmod(fd, st->st_mode & 07777) < 0 ? -errno : r;
}

/* -ESTALE when it is not a regular file any more. */
static int hash_scanned_file(struct walk *w, const char *name, struct stat *st, unsigned char hash[HASH_LEN])
{
	autoclose int fd = layer_open_file(chain_fd(&w->chain), name);
	uint64_t began = clock_nsec(CLOCK_REALTIME);
	int r;

	if (fd < 0)
		return fd == -ELOOP || fd == -ENXIO || fd == -ENODEV ? -ESTALE : fd;
	if (fstat(fd, st) < 0)
		return -errno;
	r = read_file_attrs(w, fd, st);
	if (r < 0)
		return r;
	w->s->files_read++;
	r = w->s->hash_only ? objects_hash(w->s->store, fd, (uint64_t)st->st_size, hash)
			    : objects_put(w->s->store, fd, (uint64_t)st->st_size, hash);
	return r < 0 ? r : remember_file(w, st, fd, began, hash);
}

static int scan_file(struct walk *w, const char *name, struct stat *st)
{
	const struct known *k = w->s->before;
	const struct known_ent *same = !k		    ? NULL
				       : w->s->trust_inodes ? known_find_inode(k, st)
							    : known_find(k, st);
	unsigned char hash[HASH_LEN];
	struct manifest_ent m;
	int64_t group;
	int r;

	if (same) {
		buf_clear(&w->attrs);
		buf_add(&w->attrs, buf_cstr(&k->text) + same->attrs, same->attrs_len);
		memcpy(hash, same->hash, HASH_LEN);
		r = buf_error(&w->attrs);
		if (r == 0 && w->s->after)
			r = known_add(w->s->after, st, hash, w->attrs.data, same->attrs_len);
	} else {
		r = hash_scanned_file(w, name, st, hash);
	}
	if (r < 0)
		return r;
	m = manifest_ent_of(name, st);
	group = link_group_of(w, st, hash);
	if (group < 0)
		return (int)group;
	m.type = MANIFEST_FILE;
	m.size = (uint64_t)st->st_size;
	m.group = (uint32_t)group;
	m.hash = hash;
	m.attrs = (const uint8_t *)buf_cstr(&w->attrs);
	m.attrs_len = (uint32_t)w->attrs.len;
	return add_manifest_entry(w, &m);
}

static int scan_link(struct walk *w, const char *name, const struct stat *st)
{
	autobuf struct buf target = BUF_INIT;
	struct manifest_ent m = manifest_ent_of(name, st);
	int r = layer_read_link(chain_fd(&w->chain), name, &target);

	if (r < 0)
		return r == -EINVAL ? -ESTALE : r;
	m.type = MANIFEST_LINK;
	m.size = target.len;
	m.target = buf_cstr(&target);
	return add_manifest_entry(w, &m);
}

static int scan_special(struct walk *w, const char *name, const struct stat *st)
{
	struct manifest_ent m = manifest_ent_of(name, st);

	m.type = S_ISFIFO(st->st_mode)	 ? MANIFEST_FIFO
		 : S_ISSOCK(st->st_mode) ? MANIFEST_SOCKET
					 : MANIFEST_WHITEOUT;
	if (m.type == MANIFEST_WHITEOUT && !layer_is_whiteout(st))
		return err_set(w->e, -EOPNOTSUPP, "there is a device, which no checkpoint can hold");
	return add_manifest_entry(w, &m);
}

/* --- directories ----------------------------------------------------------------------------------------------------- */

static int add_entry_name(struct walk *w, const char *name)
{
	if (VEC_ROOM(w->ents, w->n_ents, w->cap_ents, VEC_NO_MAX) < 0)
		return -ENOMEM;
	w->ents[w->n_ents++] = w->names.len;
	buf_add(&w->names, name, strlen(name) + 1);
	return buf_error(&w->names);
}

static int compare_entry_names(const void *a, const void *b, void *names)
{
	return strcmp((const char *)names + *(const size_t *)a, (const char *)names + *(const size_t *)b);
}

static int read_scan_names(struct walk *w)
{
	size_t from = w->n_ents, kept = from;
	ssize_t len;

	while ((len = getdents64(chain_fd(&w->chain), w->raw, sizeof(w->raw))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *de = (const void *)(w->raw + at);

			at += de->d_reclen;
			if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
				continue;
			if (add_entry_name(w, de->d_name) < 0)
				return -ENOMEM;
		}
	}
	if (len < 0 && errno != ENOENT)
		return -errno;
	if (w->n_ents == from)
		return 0;
	qsort_r(w->ents + from, w->n_ents - from, sizeof(*w->ents), compare_entry_names, w->names.data);
	/* A directory that changes while it is read may return a name twice. */
	for (size_t i = from; i < w->n_ents; i++) {
		if (kept == from || !str_eq(w->names.data + w->ents[kept - 1], w->names.data + w->ents[i]))
			w->ents[kept++] = w->ents[i];
	}
	w->n_ents = kept;
	return 0;
}

static int reserve_scan_frame(struct walk *w)
{
	if (VEC_ROOM(w->frames, w->n_frames, w->cap_frames, VEC_NO_MAX) < 0)
		return -ENOMEM;
	return 0;
}

/* Adds the record of the chain's current directory, and a frame for its entries. */
static int begin_scanned_dir(struct walk *w, const char *name, const struct stat *st, mode_t restore)
{
	struct manifest_ent m = manifest_ent_of(name, st);
	int r;

	w->frames[w->n_frames++] = (struct frame){
		.names_at = w->names.len, .ents_at = w->n_ents, .next = w->n_ents, .restore = restore
	};
	buf_clear(&w->attrs);
	r = attrs_read(chain_fd(&w->chain), &w->attrs);
	if (r < 0)
		return scan_fail(w, r, name);
	m.type = MANIFEST_DIR;
	m.attrs = (const uint8_t *)buf_cstr(&w->attrs);
	m.attrs_len = (uint32_t)w->attrs.len;
	r = add_manifest_entry(w, &m);
	if (r < 0)
		return r;
	r = read_scan_names(w);
	return r < 0 ? scan_fail(w, r, name) : 0;
}

static int scan_dir(struct walk *w, const char *name)
{
	struct stat st = { 0 };
	mode_t restore;
	int r = reserve_scan_frame(w);

	if (r < 0)
		return r;
	r = layer_push(&w->chain, name, &restore);
	if (r == -ENOTDIR || r == -ELOOP)
		return -ESTALE;
	if (r < 0)
		return r;
	/* It may be another directory by now: the record describes the one that was opened. */
	if (fstat(chain_fd(&w->chain), &st) < 0)
		return -errno;
	if (restore)
		st.st_mode = restore;
	return begin_scanned_dir(w, name, &st, restore);
}

static int scan_entry(struct walk *w, const char *name)
{
	struct stat st = { 0 };
	int r = -ESTALE;

	for (int tries = 0; tries < TRIES && r == -ESTALE; tries++) {
		if (fstatat(chain_fd(&w->chain), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : scan_fail(w, -errno, name);
		switch (st.st_mode & S_IFMT) {
		case S_IFDIR:
			r = scan_dir(w, name);
			break;
		case S_IFREG:
			r = scan_file(w, name, &st);
			break;
		case S_IFLNK:
			r = scan_link(w, name, &st);
			break;
		default:
			r = scan_special(w, name, &st);
			break;
		}
	}
	if (r == -ENOENT)
		return 0; /* removed meanwhile */
	return r < 0 && w->e->code == 0 ? scan_fail(w, r, name) : r;
}

static int leave_scanned_dir(struct walk *w)
{
	struct frame f = w->frames[--w->n_frames];

	w->n_ents = f.ents_at;
	w->names.len = f.names_at;
	manifest_add_leave(w->s->out);
	if (!w->n_frames)
		return 0;
	return layer_pop(&w->chain, f.restore);
}

static int scan_whole_tree(struct walk *w, int top_fd)
{
	struct stat st = { 0 };
	int r = chain_start(&w->chain, top_fd);

	if (r == 0)
		r = reserve_scan_frame(w);
	if (r == 0 && fstat(chain_fd(&w->chain), &st) < 0)
		r = -errno;
	if (r < 0)
		return scan_fail(w, r, "the top directory");
	if (w->s->top_mode)
		st.st_mode = w->s->top_mode;
	r = begin_scanned_dir(w, "", &st, 0);
	while (r == 0 && w->n_frames) {
		struct frame *f = &w->frames[w->n_frames - 1];

		if (f->next < w->n_ents) {
			size_t at = w->ents[f->next++];
			/* The names may move while more are added. */
			char name[NAME_MAX + 1];

			memcpy(name, w->names.data + at, strlen(w->names.data + at) + 1);
			r = scan_entry(w, name);
		} else {
			r = leave_scanned_dir(w);
			r = r < 0 ? scan_fail(w, r, "a directory") : 0;
		}
	}
	while (w->n_frames) { /* scan.S3: restores modes on every way out */
		if (leave_scanned_dir(w) < 0 && r == 0)
			r = scan_fail(w, -ESTALE, "a directory");
	}
	return r;
}

int scan_tree(struct scan *s, const char *name, int top_fd, struct err *e)
{
	struct err local = ERR_INIT;
	struct walk *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(e, -ENOMEM, "out of memory while making a checkpoint");
	w->s = s;
	w->e = e ? e : &local;
	w->e->code = 0;
	manifest_add_tree(s->out, name);
	r = scan_whole_tree(w, top_fd);
	chain_release(&w->chain);
	buf_release(&w->names);
	buf_release(&w->attrs);
	free(w->ents);
	free(w->frames);
	free(w->groups);
	free(w);
	return r;
}
