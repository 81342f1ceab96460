/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the path to each file that coffer obeys, name by name and through every symlink, and flags changes of a run that
 * touch an entry on such a path (obeyed.h). It must not miss another spelling or another mount of such a file.
 */
#include "workspace/change/obeyed.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "workspace/change/judge.h"
#include "workspace/tree/path.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40

static const char why_obeyed[] = "coffer obeys it: a policy, or a file that a run of yours names";

void obeyed_release(struct obeyed *o)
{
	strv_release(&o->files);
	strv_release(&o->ways);
	free(o->nodes);
	*o = OBEYED_INIT(NULL);
}

static bool has_noted_path(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

static bool is_path_below(const char *dir, const char *path)
{
	return str_eq(dir, "/") || path_covers(dir, path);
}

/* Notes an entry on the path, if it is in the workspace. */
static int note_obeyed_path(const struct obeyed *o, struct strv *l, const char *real)
{
	size_t n = str_eq(o->workspace, "/") ? 0 : strlen(o->workspace);
	char *folded;

	/* The workspace itself, or a directory above it, covers all of the workspace. */
	if (l == &o->files && is_path_below(real, o->workspace))
		return has_noted_path(l, "") ? 0 : strv_add(l, "");
	if (!is_path_below(o->workspace, real) || !real[n])
		return 0;
	folded = path_fold(real + n + 1);
	if (!folded)
		return -ENOMEM;
	if (!has_noted_path(l, folded))
		return strv_take(l, folded);
	free(folded);
	return 0;
}

/* The same, and its place in the workspace when the path goes through another mount of that: `mount` is the length of the
 * path up to that mount. */
static int note_path_step(const struct obeyed *o, struct strv *l, const struct buf *real, size_t mount)
{
	autobuf struct buf same = BUF_INIT;
	int r = note_obeyed_path(o, l, buf_cstr(real));

	if (r < 0 || !mount)
		return r;
	buf_addf(&same, "%s%s", str_eq(o->workspace, "/") ? "" : o->workspace, buf_cstr(real) + mount);
	return buf_error(&same) ? -ENOMEM : note_obeyed_path(o, l, same.len ? buf_cstr(&same) : "/");
}

static bool is_same_node(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int note_inode(struct obeyed *o, const struct stat *st)
{
	int r;

	for (size_t i = 0; i < o->n_nodes; i++) {
		if (o->nodes[i].dev == st->st_dev && o->nodes[i].ino == st->st_ino)
			return 0;
	}
	r = VEC_MORE(o->nodes, o->n_nodes, OBEYED_MAX);
	if (r < 0)
		return r;
	o->nodes[o->n_nodes++] = (struct obeyed_node){ .dev = st->st_dev, .ino = st->st_ino };
	return 0;
}

/* Follows a symlink: its target is put before the rest of the path. */
static int follow_path_link(const char *link, struct buf *real, struct buf *rest, unsigned *links)
{
	autobuf struct buf next = BUF_INIT;
	char target[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (++*links > LINKS_MAX)
		return -ELOOP;
	if (target[0] == '/')
		buf_clear(real);
	buf_addf(&next, "%s/%s", target, buf_cstr(rest));
	buf_clear(rest);
	buf_adds(rest, buf_cstr(&next));
	return buf_error(&next) || buf_error(rest) ? -ENOMEM : 0;
}

/* Takes the next name off `rest`; false when there is none. */
static bool take_next_name(struct buf *rest, char name[NAME_MAX + 1])
{
	const char *p = buf_cstr(rest);
	size_t len;

	p += strspn(p, "/");
	len = strcspn(p, "/");
	if (!len || len > NAME_MAX)
		return false;
	memcpy(name, p, len);
	name[len] = '\0';
	p += len;
	memmove(rest->data, p, strlen(p) + 1);
	rest->len = strlen(rest->data);
	return true;
}

static void drop_last_name(struct buf *real)
{
	const char *slash = real->len ? strrchr(buf_cstr(real), '/') : NULL;

	real->len = slash ? (size_t)(slash - real->data) : 0;
	if (real->data)
		real->data[real->len] = '\0';
}

/* The rest of a path that does not exist counts as one file, which may be created later. */
static int obeyed_note_missing(struct obeyed *o, struct buf *real, const struct buf *rest, size_t mount)
{
	int r = 0;
	autobuf struct buf left = BUF_INIT;
	char name[NAME_MAX + 1];

	buf_adds(&left, buf_cstr(rest));
	while (r == 0 && take_next_name(&left, name)) {
		r = note_path_step(o, &o->ways, real, mount);
		buf_addf(real, "/%s", name);
	}
	return r < 0 ? r : note_path_step(o, &o->files, real, mount);
}

/* Progress of the walk along one path. */
struct way {
	struct buf *real, *rest;
	size_t mount; /* note_path_step() */
	unsigned links;
	bool in_dir; /* the last entry is a directory */
};

static void leave_workspace_mount(struct way *w)
{
	if (w->real->len < w->mount)
		w->mount = 0;
}

/* Notes the next entry of the path by its type. */
static int note_path_entry(struct obeyed *o, struct way *w, const struct stat *st)
{
	bool is_dir = S_ISDIR(st->st_mode), is_link = S_ISLNK(st->st_mode);
	autofree char *link = NULL;
	struct stat ws;
	int r;

	if (is_dir && stat(o->workspace, &ws) == 0 && is_same_node(st, &ws))
		w->mount = w->real->len;
	w->in_dir = is_dir || is_link;
	r = note_path_step(o, is_dir ? &o->ways : &o->files, w->real, w->mount);
	if (r == 0 && !is_dir)
		r = note_inode(o, st);
	if (r < 0 || !is_link)
		return r;
	link = strdup(buf_cstr(w->real));
	if (!link)
		return -ENOMEM;
	drop_last_name(w->real);
	r = follow_path_link(link, w->real, w->rest, &w->links);
	leave_workspace_mount(w);
	return r;
}

static int walk_obeyed_path(struct obeyed *o, struct buf *real, struct buf *rest)
{
	struct way w = { .real = real, .rest = rest, .in_dir = true };
	char name[NAME_MAX + 1];
	struct stat st;
	int r = 0;

	while (r == 0 && take_next_name(rest, name)) {
		if (str_eq(name, "."))
			continue;
		if (str_eq(name, "..")) {
			drop_last_name(real);
			leave_workspace_mount(&w);
			continue;
		}
		buf_addf(real, "/%s", name);
		if (buf_error(real))
			return -ENOMEM;
		if (lstat(buf_cstr(real), &st) < 0)
			return obeyed_note_missing(o, real, rest, w.mount);
		r = note_path_entry(o, &w, &st);
	}
	/* A path that ends in a directory covers everything in it. */
	if (r < 0 || !w.in_dir)
		return r;
	return real->len ? note_path_step(o, &o->files, real, w.mount) : note_obeyed_path(o, &o->files, "/");
}

int obeyed_add(struct obeyed *o, const char *path, struct err *e)
{
	autobuf struct buf real = BUF_INIT, rest = BUF_INIT;
	int r;

	if (*path != '/')
		return err_set(e, -EINVAL, "'%s' is not an absolute path", path);
	buf_adds(&rest, path);
	r = buf_error(&rest) ? -ENOMEM : walk_obeyed_path(o, &real, &rest);
	/* A loop of symlinks leads coffer to no file. The links are noted all the same: a change of one may break the loop. */
	if (r == -ELOOP)
		return 0;
	return r < 0 ? err_sys(e, r, "cannot find the links that lead to %s", path) : 0;
}

/* Does the change touch such a file, an entry in it, or a directory on its path that is none afterwards? */
static bool touches_obeyed(const struct obeyed *o, const struct change *c, const char *folded)
{
	for (size_t i = 0; i < o->n_nodes && c->mode_before; i++) {
		if (o->nodes[i].dev == c->before.dev && o->nodes[i].ino == c->before.ino)
			return true;
	}
	if (path_covered(&o->files, folded))
		return true;
	if (S_ISDIR(c->mode_after) && c->kind != CHANGE_TYPE)
		return false;
	for (size_t i = 0; i < o->ways.n; i++) {
		if (str_eq(o->ways.v[i], folded))
			return true;
	}
	return false;
}

int obeyed_mark(const struct obeyed *o, struct changes *l)
{
	if (!o->files.n && !o->ways.n && !o->n_nodes)
		return 0;
	for (size_t i = 0; i < l->n; i++) {
		struct change *c = &l->v[i];
		autofree char *folded = path_fold(c->path);

		if (!folded)
			return -ENOMEM;
		if (!touches_obeyed(o, c, folded))
			continue;
		/* This reason replaces that of a trigger's name, and its yes must name the file itself. */
		c->flags &= ~(unsigned)CHANGE_TRIGGER;
		change_flag(c, CHANGE_TRIGGER, why_obeyed);
		c->yes_beyond = strlen(c->path) - 1;
		c->obeyed = true;
	}
	return 0;
}
