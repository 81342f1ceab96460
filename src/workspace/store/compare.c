/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two manifests over one original.
 *
 * Where a layer has no entry, the original is visible, unless a directory above is opaque or new, or the layer deletes the
 * entry. So the view of a program inside is determined for each side (struct seen), and the two views are compared. Names
 * that only the original has are visited only where one side shows them and the other does not.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/change/change.h"
#include "workspace/change/textdiff.h"
#include "workspace/store/tree_store.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PATCH_FILE_MAX (1 << 20)

struct node {
	struct manifest_ent m;
	size_t end; /* one past its last descendant */
};

struct side {
	struct node *v;
	size_t n, cap;
};

/* The entry that is visible at one path on one side. */
struct seen {
	mode_t mode; /* with the type; 0: nothing */
	uint64_t size;
	size_t at;  /* its node, or SIZE_MAX when it is the original's */
	bool lower; /* a directory in which the original is visible */
	const struct node *node;
};

/* A directory that exists on one side or on both. */
struct frame {
	size_t at[2], end[2]; /* the layers' entries in it that are still to come */
	bool lower[2];
	size_t path_len;
	size_t names_at, next,
		names_end; /* in `names`: names of the original, where only one side shows it */
};

struct cmp {
	const struct compare *c;
	struct side s[2];
	int lower; /* of this tree */
	struct buf path, names;
	struct frame *frames;
	size_t n_frames, cap_frames;
	struct changes *ret;
	uint64_t bytes;
	size_t prefix; /* bytes of the path that name the tree ("~/"), not an entry of the original */
	struct err *e;
};

/* --- a manifest as nodes ------------------------------------------------------------------------------------------- */

static int add_manifest_node(struct side *s, const struct manifest_ent *m)
{
	if (VEC_ROOM(s->v, s->n, s->cap, VEC_NO_MAX) < 0)
		return -ENOMEM;
	s->v[s->n] = (struct node){ .m = *m, .end = s->n + 1 };
	s->n++;
	return 0;
}

static int read_manifest_nodes(struct manifest_reader *m, struct side *s, struct buf *open)
{
	struct manifest_ent ent;
	int r;

	while ((r = manifest_next(m, &ent)) > 0) {
		size_t at = s->n;

		if (ent.type == MANIFEST_END)
			continue;
		if (ent.type == MANIFEST_LEAVE) {
			if (!open->len) /* not reached: the reader checks that directories nest */
				return -EBADMSG;
			open->len -= sizeof(at);
			memcpy(&at, open->data + open->len, sizeof(at));
			s->v[at].end = s->n;
			continue;
		}
		r = add_manifest_node(s, &ent);
		if (r < 0)
			return r;
		if (ent.type == MANIFEST_DIR)
			buf_add(open, &at, sizeof(at));
		if (buf_error(open))
			return -ENOMEM;
		s->v[at].end = s->n;
	}
	return r;
}

static int read_manifest_side(const void *data, size_t len, struct side *s)
{
	autobuf struct buf open = BUF_INIT;
	struct manifest_reader m;
	int r = manifest_open(&m, data, len);

	if (r == 0)
		r = read_manifest_nodes(&m, s, &open);
	manifest_close(&m);
	return r;
}

/* The top directory of a tree, SIZE_MAX when the side has none of that name. */
static size_t find_manifest_tree(const struct side *s, const char *name)
{
	for (size_t i = 0; i + 1 < s->n;) {
		if (s->v[i].m.type == MANIFEST_TREE && str_eq(s->v[i].m.name, name))
			return i + 1;
		i = s->v[i].m.type == MANIFEST_TREE ? i + 1 : s->v[i].end;
	}
	return SIZE_MAX;
}

static mode_t type_bits(enum manifest_type t)
{
	switch (t) {
	case MANIFEST_DIR:
		return S_IFDIR;
	case MANIFEST_FILE:
		return S_IFREG;
	case MANIFEST_LINK:
		return S_IFLNK;
	case MANIFEST_FIFO:
		return S_IFIFO;
	default:
		return S_IFSOCK;
	}
}

static bool is_opaque_node(const struct manifest_ent *m)
{
	struct manifest_attr a;
	uint32_t off = 0;

	while (manifest_next_attr(m->attrs, m->attrs_len, &off, &a) > 0) {
		if (str_eq(a.name, "user.overlay.opaque"))
			return a.len == 1 && a.value[0] == 'y';
	}
	return false;
}

/* --- what is seen ----------------------------------------------------------------------------------------------------- */

/* The original's entry at the current path. */
static int stat_original(const struct cmp *k, struct stat *st)
{
	const char *name;
	autoclose int dir = layer_open_parent(k->lower, k->path.data + k->prefix, &name);

	if (dir < 0)
		return dir;
	return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* at: the layer's own entry at this path, or SIZE_MAX; lower: is the original visible in its directory? */
static struct seen view_of_side(const struct cmp *k, int side, size_t at, bool lower, const struct stat *orig)
{
	struct seen s = { .at = at };

	if (at == SIZE_MAX) {
		if (lower && orig) {
			s.mode = orig->st_mode;
			s.size = S_ISDIR(orig->st_mode) ? 0 : (uint64_t)orig->st_size;
			s.lower = S_ISDIR(orig->st_mode);
		}
		return s;
	}
	s.node = &k->s[side].v[at];
	if (s.node->m.type == MANIFEST_WHITEOUT)
		return (struct seen){ .at = SIZE_MAX };
	s.mode = type_bits(s.node->m.type) | s.node->m.mode;
	s.size = s.node->m.size;
	s.lower = S_ISDIR(s.mode) && lower && orig && S_ISDIR(orig->st_mode) && !is_opaque_node(&s.node->m);
	return s;
}

static bool is_overlay_attr(const char *name)
{
	return str_starts(name, "user.overlay.");
}

/* Compares all attributes except overlayfs's own; both lists are sorted. */
static bool has_same_attrs(const struct manifest_ent *a, const struct manifest_ent *b)
{
	struct manifest_attr x, y;
	uint32_t i = 0, j = 0;
	int r, q;

	for (;;) {
		do {
			r = manifest_next_attr(a->attrs, a->attrs_len, &i, &x);
		} while (r > 0 && is_overlay_attr(x.name));
		do {
			q = manifest_next_attr(b->attrs, b->attrs_len, &j, &y);
		} while (q > 0 && is_overlay_attr(y.name));
		if (r <= 0 || q <= 0)
			return r <= 0 && q <= 0;
		if (!str_eq(x.name, y.name) || x.len != y.len || memcmp(x.value, y.value, x.len) != 0)
			return false;
	}
}

/* The hash of a file on one side; the original's is read. */
static int seen_hash(const struct cmp *k, const struct seen *s, unsigned char ret[HASH_LEN])
{
	const char *name;
	autoclose int dir = -1, fd = -1;

	if (s->node) {
		memcpy(ret, s->node->m.hash, HASH_LEN);
		return 0;
	}
	dir = layer_open_parent(k->lower, k->path.data + k->prefix, &name);
	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : objects_hash(k->c->store, fd, s->size, ret);
}

static int seen_target(const struct cmp *k, const struct seen *s, struct buf *ret)
{
	const char *name;
	autoclose int dir = -1;

	if (s->node) {
		buf_adds(ret, s->node->m.target);
		return buf_error(ret);
	}
	dir = layer_open_parent(k->lower, k->path.data + k->prefix, &name);
	return dir < 0 ? dir : layer_read_link(dir, name, ret);
}

/* True: the content differs. Content that cannot be read counts as different. */
static bool content_differs(const struct cmp *k, const struct seen *a, const struct seen *b)
{
	autobuf struct buf x = BUF_INIT, y = BUF_INIT;
	unsigned char p[HASH_LEN], q[HASH_LEN];

	if (S_ISREG(a->mode)) {
		if (a->size != b->size)
			return true;
		return seen_hash(k, a, p) < 0 || seen_hash(k, b, q) < 0 || memcmp(p, q, HASH_LEN) != 0;
	}
	if (!S_ISLNK(a->mode))
		return false;
	return seen_target(k, a, &x) < 0 || seen_target(k, b, &y) < 0 || !str_eq(buf_cstr(&x), buf_cstr(&y));
}

/* The kind of difference of an entry; -1: none. */
static int kind_of_difference(const struct cmp *k, const struct seen *a, const struct seen *b)
{
	if (!a->mode || !b->mode)
		return a->mode ? CHANGE_DELETED : b->mode ? CHANGE_ADDED : -1;
	if ((a->mode ^ b->mode) & S_IFMT)
		return CHANGE_TYPE;
	if (!a->node && !b->node)
		return -1;
	if (content_differs(k, a, b))
		return CHANGE_MODIFIED;
	if (S_ISLNK(a->mode))
		return -1;
	if ((a->mode ^ b->mode) & 07777)
		return CHANGE_MODE;
	if (a->node && b->node &&
	    (a->node->m.uid != b->node->m.uid || a->node->m.gid != b->node->m.gid ||
	     !has_same_attrs(&a->node->m, &b->node->m)))
		return CHANGE_MODE;
	return -1;
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of the original's directory at the current path; none if it cannot be read. */
static int list_original_names(struct cmp *k)
{
	autoclose int dir = layer_open_dir(k->lower, k->path.data + k->prefix, k->path.len - k->prefix);
	autostrv struct strv l = STRV_INIT;
	autoclosedir DIR *d = NULL;
	const struct dirent *de;
	int fd;

	if (dir < 0)
		return 0;
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(fd);
		return 0;
	}
	while ((de = readdir(d))) {
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, "..") && strv_add(&l, de->d_name) < 0)
			return -ENOMEM;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_strings);
	for (size_t i = 0; i < l.n; i++)
		buf_add(&k->names, l.v[i], strlen(l.v[i]) + 1);
	return buf_error(&k->names);
}

static int enter_compared_dir(struct cmp *k, const struct seen s[2])
{
	struct frame f = { .path_len = k->path.len, .names_at = k->names.len, .next = k->names.len };
	int r = 0;

	for (int i = 0; i < 2; i++) {
		f.lower[i] = s[i].lower;
		if (s[i].node && S_ISDIR(s[i].mode)) {
			f.at[i] = s[i].at + 1;
			f.end[i] = s[i].node->end;
		}
	}
	if (VEC_ROOM(k->frames, k->n_frames, k->cap_frames, VEC_NO_MAX) < 0)
		return -ENOMEM;
	if (f.lower[0] != f.lower[1])
		r = list_original_names(k);
	f.names_end = k->names.len;
	k->frames[k->n_frames++] = f;
	return r;
}

/* The least of the names that come next; NULL when there is none. */
static const char *next_compared_name(const struct cmp *k, const struct frame *f)
{
	const char *least = f->next < f->names_end ? k->names.data + f->next : NULL;

	for (int i = 0; i < 2; i++) {
		const char *name = f->at[i] < f->end[i] ? k->s[i].v[f->at[i]].m.name : NULL;

		if (name && (!least || strcmp(name, least) < 0))
			least = name;
	}
	return least;
}

static int emit_difference(struct cmp *k, int kind, const struct seen s[2], const char *held)
{
	struct change c = {
		.path = k->path.data,
		.kind = (enum change_kind)kind,
		.mode_before = s[0].mode,
		.mode_after = s[1].mode,
		.size_before = s[0].size,
		.size_after = s[1].size,
	};

	if (held) {
		c.flags = CHANGE_HELD;
		c.why[CHANGE_FLAG_BITS - 1] = held;
	}
	k->bytes += sizeof(c) + k->path.len;
	if (k->bytes > WORKSPACE_LIST_MAX)
		return -E2BIG;
	return changes_add(k->ret, &c);
}

static int visit_compared(struct cmp *k, const struct seen s[2])
{
	bool dir = S_ISDIR(s[0].mode) || S_ISDIR(s[1].mode);
	const char *held = dir && k->path.len > WORKSPACE_PATH_MAX ? "its path is too long" : NULL;
	int kind = kind_of_difference(k, &s[0], &s[1]), r = 0;

	if (kind < 0 && held)
		kind = CHANGE_MODE;
	if (kind >= 0)
		r = emit_difference(k, kind, s, held);
	/* Both sides show the original and have no entries of their own: everything below is the same. */
	if (r < 0 || !dir || held || (!s[0].node && !s[1].node && s[0].lower == s[1].lower))
		return r;
	return enter_compared_dir(k, s);
}

/* Compares the next name of the innermost directory, and enters it where it is one; at its end, leaves that directory. */
static int compare_step(struct cmp *k)
{
	struct frame *f = &k->frames[k->n_frames - 1];
	const char *name = next_compared_name(k, f);
	bool lower = f->lower[0] || f->lower[1];
	size_t at[2] = { SIZE_MAX, SIZE_MAX };
	struct seen s[2];
	struct stat st;

	if (!name) {
		k->names.len = f->names_at;
		k->n_frames--;
		return 0;
	}
	k->path.len = f->path_len;
	if (k->path.len > k->prefix)
		buf_addc(&k->path, '/');
	buf_adds(&k->path, name);
	if (buf_error(&k->path))
		return -ENOMEM;
	name = k->path.data + k->path.len - strlen(name);
	for (int i = 0; i < 2; i++) {
		if (f->at[i] < f->end[i] && str_eq(k->s[i].v[f->at[i]].m.name, name)) {
			at[i] = f->at[i];
			f->at[i] = k->s[i].v[at[i]].end;
		}
	}
	if (f->next < f->names_end && str_eq(k->names.data + f->next, name))
		f->next += strlen(name) + 1;
	lower = lower && k->lower >= 0 && stat_original(k, &st) == 0;
	for (int i = 0; i < 2; i++)
		s[i] = view_of_side(k, i, at[i], f->lower[i], lower ? &st : NULL);
	return visit_compared(k, s);
}

static int compare_tree(struct cmp *k, const char *name)
{
	struct seen s[2] = { { .at = SIZE_MAX }, { .at = SIZE_MAX } };
	bool over_original = str_eq(name, "workspace") && k->c->lower >= 0;
	int r;

	k->lower = over_original ? k->c->lower : -1;
	buf_clear(&k->path);
	buf_adds(&k->path, str_eq(name, "workspace") ? "" : str_eq(name, "home") ? "~/" : "/");
	k->prefix = k->path.len;
	for (int i = 0; i < 2; i++) {
		size_t at = find_manifest_tree(&k->s[i], name);

		if (at == SIZE_MAX)
			continue;
		s[i] = view_of_side(k, i, at, false, NULL);
		s[i].lower = over_original;
	}
	/* A checkpoint without that tree has nothing to compare. */
	if (!s[0].node || !s[1].node)
		return 0;
	r = enter_compared_dir(k, s);
	while (r == 0 && k->n_frames)
		r = compare_step(k);
	return r;
}

static void compare_release(struct cmp *k)
{
	free(k->s[0].v);
	free(k->s[1].v);
	free(k->frames);
	buf_release(&k->path);
	buf_release(&k->names);
}

static int open_comparison(struct cmp *k, const struct compare *c)
{
	int r = read_manifest_side(c->a, c->a_len, &k->s[0]);

	k->c = c;
	return r < 0 ? r : read_manifest_side(c->b, c->b_len, &k->s[1]);
}

int tree_store_compare(const struct compare *c, struct changes *ret, struct err *e)
{
	static const char *const trees[] = { "workspace", "root", "home" };
	struct changes all = { 0 };
	struct cmp k = { .ret = &all };
	int r = open_comparison(&k, c);

	for (size_t i = 0; i < ARRAY_SIZE(trees) && r == 0; i++)
		r = compare_tree(&k, trees[i]);
	compare_release(&k);
	if (r < 0) {
		changes_release(&all);
		if (r == -EBADMSG)
			return err_set(e, r, "a checkpoint is damaged");
		return r == -E2BIG ? err_set(e, r, "there are more differences than can be listed")
				   : err_sys(e, r, "cannot compare the checkpoints");
	}
	*ret = all;
	return 0;
}

/* --- the content of one change ------------------------------------------------------------------------------------ */

/* Follows the names of a path on one side; returns the entry that is visible at its end. */
static struct seen resolve_seen(struct cmp *k, int side, size_t top, const char *path, bool lower)
{
	struct seen s = view_of_side(k, side, top, false, NULL);
	struct stat st;

	s.lower = lower;
	k->path.len = k->prefix;
	while (*path && S_ISDIR(s.mode)) {
		size_t n = strcspn(path, "/"), at = SIZE_MAX, i = s.node ? s.at + 1 : 0,
		       end = s.node ? s.node->end : 0;

		if (k->path.len > k->prefix)
			buf_addc(&k->path, '/');
		buf_add(&k->path, path, n);
		for (; i < end && at == SIZE_MAX; i = k->s[side].v[i].end) {
			if (strlen(k->s[side].v[i].m.name) == n &&
			    memcmp(k->s[side].v[i].m.name, path, n) == 0)
				at = i;
		}
		lower = s.lower && k->lower >= 0 && !buf_error(&k->path) && stat_original(k, &st) == 0;
		s = view_of_side(k, side, at, s.lower, lower ? &st : NULL);
		path += n + (path[n] == '/');
	}
	if (*path)
		s = (struct seen){ .at = SIZE_MAX };
	return s;
}

static int read_seen_content(struct cmp *k, const struct seen *s, struct buf *ret)
{
	const char *name;
	autoclose int dir = -1, fd = -1;

	if (S_ISLNK(s->mode)) {
		int r = seen_target(k, s, ret);

		buf_addc(ret, '\n');
		return r;
	}
	if (!S_ISREG(s->mode))
		return 0;
	if (s->node) {
		fd = objects_open_one(k->c->store, s->node->m.hash);
		/* -ENOENT for a file of the present state, which was only hashed: the caller has the layer, and reads it there. */
		return fd < 0 ? fd : fd_read_all(fd, PATCH_FILE_MAX, ret);
	}
	dir = layer_open_parent(k->lower, k->path.data + k->prefix, &name);
	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_read_all(fd, PATCH_FILE_MAX, ret);
}

static int show_difference(struct cmp *k, const char *tree, const char *path, struct buf *out)
{
	struct buf text[2] = { BUF_INIT, BUF_INIT };
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		size_t top = find_manifest_tree(&k->s[i], tree);
		struct seen s = { .at = SIZE_MAX };

		if (top != SIZE_MAX)
			s = resolve_seen(k, i, top, path, k->lower >= 0);
		r = read_seen_content(k, &s, &text[i]);
	}
	if (r == -EFBIG) {
		buf_adds(out, "(too long to show)\n");
		r = 0;
	} else if (r == 0 && (!textdiff_is_text(buf_cstr(&text[0]), text[0].len) ||
			      !textdiff_is_text(buf_cstr(&text[1]), text[1].len))) {
		buf_adds(out, "(not text)\n");
	} else if (r == 0) {
		r = textdiff(buf_cstr(&text[0]), text[0].len, buf_cstr(&text[1]), text[1].len, out);
	}
	buf_release(&text[0]);
	buf_release(&text[1]);
	return r;
}

int tree_store_patch(const struct compare *c, const struct change *change, struct buf *out)
{
	const char *tree = str_starts(change->path, "~/") ? "home"
			   : change->path[0] == '/'	  ? "root"
							  : "workspace";
	struct cmp k = { 0 };
	int r = open_comparison(&k, c);

	k.prefix = str_eq(tree, "home") ? 2 : str_eq(tree, "root");
	k.lower = str_eq(tree, "workspace") ? c->lower : -1;
	buf_add(&k.path, change->path, k.prefix);
	if (r == 0)
		r = show_difference(&k, tree, change->path + k.prefix, out);
	compare_release(&k);
	return r;
}
