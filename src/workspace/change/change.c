/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what a run changed: a walk down the upper layer, with the original beside it.
 *
 * Invariants
 *  C1  An entry of the upper layer that equals its original in type, content, mode and capability is no change,
 *      even though overlayfs has copied it.
 *  C2  Entries hidden by an opaque directory or a whiteout are listed one by one: apply deletes nothing that was not
 *      listed, judged and allowed on its own.
 *  C3  Depth costs a frame and the names that are still to be visited, never a C stack frame and never an fd (see
 *      chain.h).
 *  C4  A directory of ours without permissions gets them while the walk is in it, and its own mode again afterwards.
 *  C5  With a copied layer between (base.h), the merged view of the two below counts as the original. The copy does not
 *      change, so its entries are never in conflict.
 *  C6  A directory that git takes for a repository by its content, on the host and in the layer together, is judged as
 *      one, even if the layer has only some of its parts.
 */
#include "workspace/change/change.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/change/judge.h"
#include "workspace/tree/chain.h"
#include "workspace/tree/layer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

struct ent {
	size_t name; /* offset in names */
	bool in_up;
};

/* A directory that the walk is in. */
struct frame {
	size_t path_len;
	size_t names_at, ents_at; /* start of its part of the shared stacks */
	size_t next;		  /* the entry to visit next */
	bool up, mid, lo;	  /* it exists in the upper layer, the copied layer, the original */
	bool lo_changed;	  /* the original directory has changed since */
	const char *conflict;	  /* everything below is in conflict, for this reason; NULL: not */
	gid_t gid;
	bool setgid;
	mode_t restore, mid_restore; /* modes to set again (change.C4); 0: none */
	struct trigger_place place;  /* the repository that it is in (change.C6) */
};

struct walk {
	struct chain up, mid, lo;
	struct judge judge;
	const struct change_walk_opts *o;
	change_visit *visit;
	void *arg;
	struct err *e;

	struct buf path, names;
	struct ent *ents;
	size_t n_ents, cap_ents;
	struct frame *frames;
	size_t n_frames, cap_frames;
	_Alignas(struct dirent64) char raw[32768];
};

static const char why_changed[] = "the original changed since the run began";
static const char why_gone[] = "the original is gone";
static const char why_other_type[] = "the original has another type now";
static const char why_dir_changed[] = "its directory changed since the run began";
static const char why_unread[] = "the original cannot be read";

static int walk_fail(struct walk *w, int code, const char *what)
{
	char shown[256];

	return err_sys(w->e, code, "cannot read %s (%s)", what,
		       w->path.len ? str_safe(buf_cstr(&w->path), shown, sizeof(shown))
				   : "its top directory");
}

static int changes_no_memory(struct walk *w)
{
	return err_set(w->e, -ENOMEM, "out of memory while listing changes");
}

static uint64_t timespec_nsec(struct timespec t)
{
	return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static bool inode_changed_since(const struct walk *w, const struct stat *st)
{
	return timespec_nsec(st->st_ctim) >= w->o->since;
}

/* change.C5: an entry of the copied layer never counts as changed. */
static bool original_changed(const struct walk *w, const struct pair *p)
{
	return !p->lo_copied && inode_changed_since(w, p->lo);
}

/* A directory with a new ctime but an old mtime: it was moved here, or its mode was changed. */
static bool dir_moved_since(const struct walk *w, const struct stat *st)
{
	return inode_changed_since(w, st) && timespec_nsec(st->st_mtim) < w->o->since;
}

/* --- names of a directory ------------------------------------------------------------------------------- */

static int add_walk_name(struct walk *w, const char *name, bool in_up)
{
	if (VEC_ROOM(w->ents, w->n_ents, w->cap_ents, VEC_NO_MAX) < 0)
		return -ENOMEM;
	w->ents[w->n_ents++] = (struct ent){ .name = w->names.len, .in_up = in_up };
	buf_add(&w->names, name, strlen(name) + 1);
	return buf_error(&w->names);
}

static int read_walk_names(struct walk *w, int dirfd, bool in_up)
{
	ssize_t len;

	while ((len = getdents64(dirfd, w->raw, sizeof(w->raw))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *de = (const void *)(w->raw + at);

			at += de->d_reclen;
			if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
				continue;
			if (add_walk_name(w, de->d_name, in_up) < 0)
				return changes_no_memory(w);
		}
	}
	/* ENOENT: it was removed by the run, which is still going on. */
	return len < 0 && errno != ENOENT ? walk_fail(w, -errno, in_up ? "the run's changes" : "the original")
					  : 0;
}

static int cmp_ents(const void *a, const void *b, void *names)
{
	const struct ent *x = a, *y = b;
	int r = strcmp((char *)names + x->name, (char *)names + y->name);

	return r ? r : (int)y->in_up - (int)x->in_up;
}

/* Sorts the names and keeps each once: that of the upper layer where both sides have it. */
static void sort_walk_names(struct walk *w, size_t from)
{
	struct ent *v = w->ents + from;
	size_t n = w->n_ents - from, kept = 0;

	if (n == 0)
		return;
	qsort_r(v, n, sizeof(*v), cmp_ents, w->names.data);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || strcmp(w->names.data + v[kept - 1].name, w->names.data + v[i].name) != 0)
			v[kept++] = v[i];
	}
	w->n_ents = from + kept;
}

/* --- going in and out ------------------------------------------------------------------------------------- */

/* Reserves a frame before directories are pushed on the chains, so that there is always one to pop them again. */
static int reserve_walk_frame(struct walk *w)
{
	if (VEC_ROOM(w->frames, w->n_frames, w->cap_frames, VEC_NO_MAX) < 0)
		return changes_no_memory(w);
	return 0;
}

/* change.C6: is this directory a git repository, or inside one? `above` is the place of its parent. */
static struct trigger_place find_git_place(struct walk *w, const struct frame *f,
					   const struct trigger_place *above)
{
	struct trigger_place place = *above;
	unsigned parts = 0;

	for (size_t i = f->ents_at; i < w->n_ents; i++)
		parts |= trigger_git_part(w->names.data + w->ents[i].name);
	if (f->mid)
		parts |= layer_git_parts(chain_fd(&w->mid));
	if (f->lo)
		parts |= layer_git_parts(chain_fd(&w->lo));
	if (above->in_git) {
		struct trigger t = trigger_find(buf_cstr(&w->path), true, above);

		place.runs = trigger_is_run_by_git(&t);
	}
	if (parts == TRIGGER_GIT_ALL) {
		place.in_git = true;
		place.git_at = w->path.len;
	}
	return place;
}

/* Fills in a frame for directories that are already on the chains. */
static int open_walk_frame(struct walk *w, struct frame f)
{
	bool opaque = f.up && (f.mid || f.lo) && w->n_frames && layer_is_opaque(chain_fd(&w->up));
	int r = 0;

	f.path_len = w->path.len;
	f.names_at = w->names.len;
	f.ents_at = f.next = w->n_ents;
	w->frames[w->n_frames++] = f;
	if (f.up)
		r = read_walk_names(w, chain_fd(&w->up), true);
	if (r == 0 && f.mid && (!f.up || opaque))
		r = read_walk_names(w, chain_fd(&w->mid), false);
	if (r == 0 && f.lo && (!f.up || opaque))
		r = read_walk_names(w, chain_fd(&w->lo), false);
	sort_walk_names(w, f.ents_at);
	if (r == 0 && w->o->flags) {
		size_t at = w->n_frames - 1;
		const struct trigger_place top = { .above = w->judge.above };

		w->frames[at].place = find_git_place(w, &f, at ? &w->frames[at - 1].place : &top);
	}
	return r;
}

static int close_walk_frame(struct walk *w)
{
	struct frame *f = &w->frames[--w->n_frames];
	int r = 0;

	w->n_ents = f->ents_at;
	w->names.len = f->names_at;
	if (w->n_frames == 0)
		return 0;
	if (f->up)
		r = layer_pop(&w->up, f->restore);
	if (r == 0 && f->mid)
		r = layer_pop(&w->mid, f->mid_restore);
	if (r == 0 && f->lo)
		r = chain_pop(&w->lo);
	if (r == -ESTALE)
		return err_set(w->e, r, "something was moved while it was read; try again");
	return r < 0 ? walk_fail(w, r, "a directory again") : 0;
}

/* --- one entry --------------------------------------------------------------------------------------------- */

static const char *find_conflict(const struct walk *w, const struct frame *f, const struct pair *p,
				 enum change_kind kind)
{
	if (f->conflict)
		return f->conflict;
	switch (kind) {
	case CHANGE_ADDED:
		return layer_has_origin(p->up_dir, p->name) ? why_gone : NULL;
	case CHANGE_DELETED:
		if (original_changed(w, p))
			return why_changed;
		/* Hidden by an opaque directory: if the original directory changed, the sandbox may not have seen the entry. */
		return !p->up && f->up && f->lo_changed ? why_dir_changed : NULL;
	case CHANGE_TYPE:
		if (layer_has_origin(p->up_dir, p->name))
			return why_other_type;
		return original_changed(w, p) ? why_changed : NULL;
	case CHANGE_MODE:
		if (S_ISDIR(p->lo->st_mode))
			return !p->lo_copied && dir_moved_since(w, p->lo) ? why_changed : NULL;
		return original_changed(w, p) ? why_changed : NULL;
	default:
		return original_changed(w, p) ? why_changed : NULL;
	}
}

static int emit_change(struct walk *w, const struct frame *f, const struct pair *p, enum change_kind kind,
		       const char *held)
{
	const struct stat *up = kind == CHANGE_DELETED ? NULL : p->up, *lo = p->lo;
	struct change c = { .path = w->path.data, .kind = kind };
	const char *conflict;

	if (up) {
		c.mode_after = up->st_mode;
		c.size_after = S_ISDIR(up->st_mode) ? 0 : (uint64_t)up->st_size;
	}
	if (lo) {
		c.mode_before = lo->st_mode;
		c.size_before = S_ISDIR(lo->st_mode) ? 0 : (uint64_t)lo->st_size;
		c.before.dev = lo->st_dev;
		c.before.ino = lo->st_ino;
		c.before.nlink = lo->st_nlink;
		c.before.uid = lo->st_uid;
		c.before.gid = lo->st_gid;
		c.before.mtime = lo->st_mtim;
		c.before.ctime = lo->st_ctim;
	}
	if (held)
		change_flag(&c, CHANGE_HELD, held);
	if (w->o->flags) {
		struct pair seen = *p;

		conflict = find_conflict(w, f, p, kind);
		if (conflict)
			change_flag(&c, CHANGE_CONFLICT, conflict);
		seen.up = up; /* a whiteout itself is not judged */
		judge_change(&w->judge, &seen, &c);
	}
	return w->visit(w->arg, &c);
}

static bool is_same_file(const struct pair *p)
{
	autoclose int up = -1, lo = -1;

	if (p->up->st_size != p->lo->st_size)
		return false;
	up = layer_open_file(p->up_dir, p->name);
	lo = p->lo_copied
		     ? layer_open_file(p->lo_dir, p->name)
		     : openat(p->lo_dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return up >= 0 && lo >= 0 && layer_same_content(up, lo, p->up->st_size) == 1;
}

static bool is_same_link(const struct pair *p)
{
	autobuf struct buf up = BUF_INIT, lo = BUF_INIT;

	if (layer_read_link(p->up_dir, p->name, &up) < 0 || layer_read_link(p->lo_dir, p->name, &lo) < 0)
		return false;
	return up.len == lo.len && memcmp(buf_cstr(&up), buf_cstr(&lo), up.len) == 0;
}

/* The kind of change of an entry that has the same type on both sides; -1: none. */
static int compare_entry(const struct walk *w, const struct pair *p)
{
	mode_t type = p->up->st_mode & S_IFMT;

	if (type == S_IFREG && !is_same_file(p))
		return CHANGE_MODIFIED;
	if (type == S_IFLNK)
		return is_same_link(p) ? -1 : CHANGE_MODIFIED;
	if ((type == S_IFCHR || type == S_IFBLK) && p->up->st_rdev != p->lo->st_rdev)
		return CHANGE_MODIFIED;
	if ((p->up->st_mode ^ p->lo->st_mode) & 07777)
		return CHANGE_MODE;
	return judge_foreign_owner(&w->judge, p) || judge_new_capability(p) ? CHANGE_MODE : -1;
}

/* The kind of change of an entry; -1: none. */
static int kind_of_entry(const struct walk *w, const struct pair *p)
{
	if (!p->up || layer_is_whiteout(p->up))
		return p->lo ? CHANGE_DELETED : -1;
	if (!p->lo)
		return CHANGE_ADDED;
	if ((p->up->st_mode ^ p->lo->st_mode) & S_IFMT)
		return CHANGE_TYPE;
	return compare_entry(w, p);
}

/* Enters the copied layer's part of a directory. False when nothing of the original is visible in it. */
static bool descend_copied_layer(struct walk *w, const struct pair *p, struct frame *ret)
{
	ret->mid = layer_push(&w->mid, p->name, &ret->mid_restore) >= 0;
	if (!ret->mid)
		ret->conflict = why_unread;
	return ret->mid && !layer_is_opaque(chain_fd(&w->mid));
}

/* Enters a directory below the layer: that of the copied layer, of the original, or both. */
static void descend_lower_dirs(struct walk *w, const struct frame *f, const struct pair *p, bool up,
			       struct frame *ret)
{
	struct stat st = { 0 };
	int r;

	if ((p->lo_copied && !descend_copied_layer(w, p, ret)) || !f->lo)
		return;
	r = chain_push(&w->lo, p->name);
	/* If the original has no such directory, the copied layer's is entered alone. */
	if (r < 0 && ret->mid && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
		return;
	ret->lo = r >= 0;
	if (!ret->lo || fstat(chain_fd(&w->lo), &st) < 0) {
		ret->conflict = why_unread;
		return;
	}
	ret->lo_changed = inode_changed_since(w, &st);
	if (!ret->conflict && (up || ret->mid ? dir_moved_since(w, &st) : ret->lo_changed))
		ret->conflict = why_dir_changed;
}

/* Prepares the frame for the entries below this one, with its directories on the chains. 0, 1 when there is nothing to
 * enter, or an error; *ret_held is the reason why a directory cannot be entered. */
static int descend_entry(struct walk *w, const struct frame *f, const struct pair *p, int kind,
			 struct frame *ret, const char **ret_held)
{
	bool up = p->up && S_ISDIR(p->up->st_mode), lo = p->lo && S_ISDIR(p->lo->st_mode);
	int r = 0;

	*ret = (struct frame){ .conflict = f->conflict };
	if (!up && !lo)
		return 1;
	if (w->path.len > WORKSPACE_PATH_MAX) {
		*ret_held = "its path is too long";
		return 1;
	}
	if (up) {
		r = layer_push(&w->up, p->name, &ret->restore);
		if (r == -EACCES)
			*ret_held = "it cannot be read";
		if (r == -EACCES || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
			return 1;
		if (r < 0)
			return walk_fail(w, r, "the run's changes");
		ret->up = true;
		ret->gid = p->up->st_gid;
		ret->setgid = p->up->st_mode & S_ISGID;
	}
	if (lo)
		descend_lower_dirs(w, f, p, up, ret);
	else if (!ret->conflict && kind == CHANGE_ADDED && layer_has_origin(p->up_dir, p->name))
		ret->conflict = why_gone;
	return ret->up || ret->mid || ret->lo ? 0 : 1;
}

static int visit_changed_entry(struct walk *w, const struct frame *f, const struct pair *p)
{
	const char *held = NULL;
	struct frame below;
	int kind = kind_of_entry(w, p);
	int r, go;

	if (kind < 0 && !(p->up && S_ISDIR(p->up->st_mode)))
		return 0;
	r = reserve_walk_frame(w);
	if (r < 0)
		return r;
	go = descend_entry(w, f, p, kind, &below, &held);
	if (go < 0)
		return go;
	if (kind < 0 && held)
		kind = CHANGE_MODE;
	r = kind < 0 ? 0 : emit_change(w, f, p, (enum change_kind)kind, held);
	if (go == 0) {
		/* Also when the walk ends here: the frame has the modes to restore. */
		int opened = open_walk_frame(w, below);

		return r ? r : opened;
	}
	return r;
}

/* Looks an entry up in the copied layer and the original. */
static int look_up_original(struct walk *w, struct frame *f, struct pair *p, struct stat *st)
{
	if (f->mid && fstatat(chain_fd(&w->mid), p->name, st, AT_SYMLINK_NOFOLLOW) == 0) {
		p->lo_dir = chain_fd(&w->mid);
		p->lo_copied = true;
		p->lo = layer_is_whiteout(st) ? NULL : st;
		return 0;
	}
	if (f->mid && errno != ENOENT)
		return walk_fail(w, -errno, "the copied layer");
	if (!f->lo)
		return 0;
	p->lo_dir = chain_fd(&w->lo);
	if (fstatat(p->lo_dir, p->name, st, AT_SYMLINK_NOFOLLOW) == 0)
		p->lo = st;
	else if (errno == EACCES)
		f->conflict = why_unread;
	else if (errno != ENOENT)
		return walk_fail(w, -errno, "the original");
	return 0;
}

static int visit_next_entry(struct walk *w)
{
	struct frame f = w->frames[w->n_frames - 1];
	const struct ent *ent = &w->ents[w->frames[w->n_frames - 1].next++];
	struct pair p = {
		.up_dir = -1, .lo_dir = -1, .dir_gid = f.gid, .dir_setgid = f.setgid, .place = f.place
	};
	struct stat up, lo;
	int r;

	w->path.len = f.path_len;
	if (w->path.len)
		buf_addc(&w->path, '/');
	buf_adds(&w->path, w->names.data + ent->name);
	if (buf_error(&w->path))
		return changes_no_memory(w);
	p.path = w->path.data;
	p.name = w->names.data + ent->name;
	if (f.up)
		p.up_dir = chain_fd(&w->up);
	if (ent->in_up) {
		if (fstatat(p.up_dir, p.name, &up, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : walk_fail(w, -errno, "the run's changes");
		p.up = &up;
	}
	r = look_up_original(w, &f, &p, &lo);
	return r < 0 ? r : visit_changed_entry(w, &f, &p);
}

static int start_lower_chains(struct walk *w, struct base base, struct stat *ret_top)
{
	int r = base.layer < 0 ? 0 : chain_start(&w->mid, base.layer);

	if (r == 0 && base.dir >= 0)
		r = chain_start(&w->lo, base.dir);
	if (r == 0 && fstat(base.dir >= 0 ? base.dir : base.layer, ret_top) < 0)
		r = -errno;
	return r < 0 ? walk_fail(w, r, "the original") : 0;
}

static int walk_layer(struct walk *w, int upper_fd, struct base base)
{
	struct frame top = { .up = true, .mid = base.layer >= 0, .lo = base.dir >= 0 };
	struct stat st = { 0 };
	const int original = base.dir >= 0 ? base.dir : base.layer;
	int r = judge_init(&w->judge, original, w->e);

	if (r == 0 && w->o->flags)
		r = judge_place(&w->judge, original, w->e);
	if (r < 0)
		return r;
	r = chain_start(&w->up, upper_fd);
	if (r < 0)
		return walk_fail(w, r, "the run's changes");
	r = start_lower_chains(w, base, &st);
	if (r < 0)
		return r;
	top.gid = st.st_gid;
	top.setgid = st.st_mode & S_ISGID;
	r = reserve_walk_frame(w);
	if (r == 0)
		r = open_walk_frame(w, top);
	while (r == 0 && w->n_frames) {
		if (w->frames[w->n_frames - 1].next < w->n_ents)
			r = visit_next_entry(w);
		else
			r = close_walk_frame(w);
	}
	/* On every way out: restores modes (change.C4). The first error is reported. */
	while (w->n_frames) {
		struct err *e = w->e;

		w->e = NULL;
		if (close_walk_frame(w) < 0 && r == 0)
			r = -EIO;
		w->e = e;
	}
	return r == 1 ? 0 : r;
}

int change_walk(int upper_fd, struct base base, const struct change_walk_opts *o, change_visit *visit,
		void *arg, struct err *e)
{
	struct walk *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(e, -ENOMEM, "out of memory while listing changes");
	w->o = o;
	w->visit = visit;
	w->arg = arg;
	w->e = e;
	r = walk_layer(w, upper_fd, base);
	chain_release(&w->up);
	chain_release(&w->mid);
	chain_release(&w->lo);
	buf_release(&w->path);
	buf_release(&w->names);
	free(w->ents);
	free(w->frames);
	free(w);
	return r;
}
