/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what is hidden from a sandbox in its workspace: one walk over the whole tree at the start of every run, by names
 * and types alone (getdents64 returns both).
 *
 * Invariants
 *  M1  The walk follows no symlink; the target of one that is named like a credential is hidden, if that is inside.
 *  M2  A directory that cannot be searched is hidden: inside, its owner could give itself permissions.
 *  M3  More than WORKSPACE_MASKS_MAX, or any other failure, is an error: no sandbox runs with half of its masks.
 */
#include "workspace/view/mask.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"
#include "workspace/tree/chain.h"
#include "workspace/tree/layer.h"
#include "workspace/tree/path.h"
#include "workspace/view/secret.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>

#define GIT_CONFIG_MAX (1 << 20)

/* A directory that the search is in. */
struct frame {
	size_t path_len;
	size_t name_at; /* offset of its own name in path */
	size_t first;	/* number of pending names before its own */
	bool git;	/* inside a git repository's own directory, or one that is named like it */
	bool repo;	/* inside a .git */
	bool all;	/* everything in it is hidden but the paths of --show */
	mode_t restore; /* of a copy: its own mode, to be set again; 0: not changed */
};

struct search {
	int root;
	struct strv show;
	struct chain chain;
	struct buf path;  /* of the directory that the search is in, without a slash at the end */
	struct buf names; /* directories still to visit, each as a flag byte, the name and a NUL */
	size_t *starts;
	size_t n_starts, cap_starts;
	struct frame *frames;
	size_t n_frames, cap_frames;
	struct mask *masks;
	size_t n_masks, cap_masks;
	char root_path[PATH_MAX]; /* real path of the workspace; filled when first needed */
	bool copied; /* our own copy of a sandbox's layer: its pipes have no other end, its links are the sandbox's */
	struct err *e;
	_Alignas(struct dirent64) char raw[32768];
};

static int masks_no_memory(struct search *s)
{
	return err_set(s->e, -ENOMEM, "out of memory while looking for credentials in the workspace");
}

void masks_free(struct mask *m, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(m[i].path);
		free(m[i].content);
	}
	free(m);
}

/* Takes ownership of content, also on failure. */
static int add_mask(struct search *s, char *path, bool is_dir, char *content, size_t len)
{
	if (!path || VEC_ROOM(s->masks, s->n_masks, s->cap_masks, WORKSPACE_MASKS_MAX) < 0) {
		bool many = s->n_masks == WORKSPACE_MASKS_MAX;

		free(path);
		free(content);
		if (!many)
			return masks_no_memory(s);
		err_set(s->e, -E2BIG, "more than %d files in the workspace look like credentials",
			WORKSPACE_MASKS_MAX);
		return err_hint(s->e, -E2BIG,
				"choose a smaller directory, or open one that holds none: --show DIR");
	}
	s->masks[s->n_masks++] =
		(struct mask){ .path = path, .is_dir = is_dir, .content = content, .content_len = len };
	return 0;
}

/* The path of an entry of the current directory; NULL when there is no memory. */
static char *mask_entry_path(const struct search *s, const char *name)
{
	char *p = NULL;

	if (!s->path.len)
		return strdup(name);
	return asprintf(&p, "%s/%s", s->path.data, name) < 0 ? NULL : p;
}

enum shown { SHOWN_NO, SHOWN_YES, SHOWN_BELOW };

/* Did the user name this path, or one below it, with --show? */
static enum shown shown_by_user(const struct search *s, const char *path)
{
	if (path_covered(&s->show, path))
		return SHOWN_YES;
	for (size_t i = 0; i < s->show.n; i++) {
		if (path_covers(path, s->show.v[i]))
			return SHOWN_BELOW;
	}
	return SHOWN_NO;
}

/* --- directories to visit --------------------------------------------------------------------------------- */

enum { PENDING_ALL = 1, PENDING_GIT = 2, PENDING_REPO = 4 };

static int add_pending(struct search *s, const char *name, char flags)
{
	if (VEC_ROOM(s->starts, s->n_starts, s->cap_starts, VEC_NO_MAX) < 0)
		return masks_no_memory(s);
	s->starts[s->n_starts++] = s->names.len;
	buf_addc(&s->names, flags);
	buf_add(&s->names, name, strlen(name) + 1);
	return buf_error(&s->names) ? masks_no_memory(s) : 0;
}

/* --- one entry --------------------------------------------------------------------------------------------- */

static int hide_entry(struct search *s, const char *name, bool is_dir)
{
	char *path = mask_entry_path(s, name);
	enum shown shown = path && s->show.n ? shown_by_user(s, path) : SHOWN_NO;

	if (shown == SHOWN_YES || (shown == SHOWN_BELOW && is_dir)) {
		free(path);
		return shown == SHOWN_YES ? 0 : add_pending(s, name, PENDING_ALL);
	}
	return add_mask(s, path, is_dir, NULL, 0);
}

static int find_workspace_path(struct search *s)
{
	char proc[32];
	ssize_t n;

	if (s->root_path[0])
		return 0;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", s->root);
	n = readlink(proc, s->root_path, sizeof(s->root_path) - 1);
	if (n <= 0)
		return err_sys(s->e, -errno, "cannot determine where the workspace is");
	s->root_path[n] = '\0';
	return 0;
}

/* mask.M1: hides the target of a link that is named like a credential. The rule may be NULL. */
static int hide_link_target(struct search *s, const char *name, const struct secret_rule *rule)
{
	autoclose int fd = openat(chain_fd(&s->chain), name, O_PATH | O_CLOEXEC);
	autofree char *link = mask_entry_path(s, name);
	char proc[32], target[PATH_MAX];
	struct stat st;
	size_t len;
	ssize_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return 0; /* its target does not exist */
	if (!link)
		return masks_no_memory(s);
	if (path_covered(&s->show, link))
		return 0;
	r = find_workspace_path(s);
	if (r < 0)
		return r;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, target, sizeof(target) - 1);
	if (n <= 0)
		return err_sys(s->e, -errno, "cannot determine where a link in the workspace leads");
	target[n] = '\0';
	len = strlen(s->root_path);
	if (strncmp(target, s->root_path, len) != 0 || target[len] != '/')
		return 0; /* its target is outside, where the sandbox sees nothing */
	if (path_covered(&s->show, target + len + 1))
		return 0;
	if (rule && secret_needs_look(rule) && !secret_look(rule, AT_FDCWD, target))
		return 0;
	return add_mask(s, strdup(target + len + 1), S_ISDIR(st.st_mode), NULL, 0);
}

/* A git configuration is needed inside, without the passwords in it. */
static int redact_git_config(struct search *s, const char *name)
{
	autobuf struct buf in = BUF_INIT, out = BUF_INIT;
	bool changed = false;
	char *path;
	int r = fd_read_file(chain_fd(&s->chain), name, GIT_CONFIG_MAX, &in);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return hide_entry(s, name, false);
	secret_redact_git(buf_cstr(&in), in.len, &out, &changed);
	if (buf_error(&out))
		return masks_no_memory(s);
	if (!changed)
		return 0;
	path = mask_entry_path(s, name);
	if (path && s->show.n && path_covered(&s->show, path)) {
		free(path);
		return 0;
	}
	r = add_mask(s, path, false, NULL, 0);
	if (r < 0)
		return r;
	s->masks[s->n_masks - 1].content_len = out.len;
	s->masks[s->n_masks - 1].content = buf_take(&out);
	return s->masks[s->n_masks - 1].content ? 0 : masks_no_memory(s);
}

static const char *parent_dir_name(struct search *s, const struct frame *f)
{
	const char *slash;

	if (s->n_frames > 1)
		return s->path.data + f->name_at;
	if (find_workspace_path(s) < 0)
		return "";
	slash = strrchr(s->root_path, '/');
	return slash ? slash + 1 : "";
}

static bool is_git_dir_name(const char *name)
{
	size_t n = strlen(name);

	return n >= 4 && strcasecmp(name + n - 4, ".git") == 0; /* also "project.git" */
}

static int mask_visit_dir(struct search *s, const struct frame *f, const char *name)
{
	bool git = f->git || is_git_dir_name(name), repo = f->repo || str_eq(name, ".git");

	if (secret_match(parent_dir_name(s, f), name, true))
		return hide_entry(s, name, true);
	/* git's object directory has thousands of entries, all named by their hash: it is not searched. */
	if (f->repo && str_eq(name, "objects"))
		return 0;
	return add_pending(s, name, (char)((git ? PENDING_GIT : 0) | (repo ? PENDING_REPO : 0)));
}

static int mask_visit_link(struct search *s, const struct frame *f, const char *name)
{
	const struct secret_rule *rule = secret_match(parent_dir_name(s, f), name, false);

	if (!rule) /* the type of its target is not known yet */
		rule = secret_match(parent_dir_name(s, f), name, true);
	return rule ? hide_link_target(s, name, rule) : 0;
}

static int mask_visit_file(struct search *s, const struct frame *f, const char *name)
{
	const struct secret_rule *rule = secret_match(parent_dir_name(s, f), name, false);

	if (!rule || (secret_needs_look(rule) && !secret_look(rule, chain_fd(&s->chain), name)))
		return 0;
	return hide_entry(s, name, false);
}

static bool is_git_config(const struct frame *f, const char *name)
{
	return f->git && (strcasecmp(name, "config") == 0 || strcasecmp(name, "config.worktree") == 0);
}

static int mask_visit_entry(struct search *s, const struct frame *f, const char *name, unsigned char type)
{
	if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
		return 0;
	if (type == DT_UNKNOWN) {
		struct stat st;

		if (fstatat(chain_fd(&s->chain), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : hide_entry(s, name, false);
		type = (unsigned char)IFTODT(st.st_mode);
	}
	if (f->all)
		return hide_entry(s, name, type == DT_DIR);
	switch (type) {
	case DT_DIR:
		return mask_visit_dir(s, f, name);
	case DT_REG:
		return is_git_config(f, name) ? redact_git_config(s, name) : mask_visit_file(s, f, name);
	case DT_LNK:
		if (s->copied)
			return 0;
		return is_git_config(f, name) ? hide_link_target(s, name, NULL) : mask_visit_link(s, f, name);
	case DT_SOCK:
	case DT_FIFO:
		return s->copied ? 0 : hide_entry(s, name, false);
	default:
		return 0;
	}
}

/* mask.M2: hides a directory that we cannot search. */
static int hide_closed_dir(struct search *s, const char *name)
{
	char *path = mask_entry_path(s, name);

	if (path && path_covered(&s->show, path)) {
		free(path);
		return 0;
	}
	return add_mask(s, path, true, NULL, 0);
}

/* --- the walk ------------------------------------------------------------------------------------------------ */

static int search_directory(struct search *s, struct frame f)
{
	int fd = chain_fd(&s->chain);
	ssize_t len;
	int r;

	if (VEC_ROOM(s->frames, s->n_frames, s->cap_frames, VEC_NO_MAX) < 0)
		return masks_no_memory(s);
	f.path_len = s->path.len;
	f.first = s->n_starts;
	s->frames[s->n_frames++] = f;
	while ((len = getdents64(fd, s->raw, sizeof(s->raw))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *de = (const void *)(s->raw + at);

			at += de->d_reclen;
			r = mask_visit_entry(s, &f, de->d_name, de->d_type);
			if (r < 0)
				return r;
		}
	}
	return len < 0 && errno != ENOENT ? err_sys(s->e, -errno, "cannot search the workspace") : 0;
}

static int leave_searched_dir(struct search *s)
{
	mode_t restore = s->frames[s->n_frames - 1].restore;
	int r;

	if (--s->n_frames == 0)
		return 1;
	s->path.len = s->frames[s->n_frames - 1].path_len;
	if (s->path.data)
		s->path.data[s->path.len] = '\0';
	r = layer_pop(&s->chain, restore);
	if (r == -ESTALE)
		return err_set(s->e, r,
			       "a directory of the workspace was moved while it was searched; try again");
	return r < 0 ? err_sys(s->e, r, "cannot search the workspace") : 0;
}

static int search_step(struct search *s)
{
	struct frame below = { 0 };
	const char *name;
	char flags;
	int r;

	if (s->n_starts == s->frames[s->n_frames - 1].first)
		return leave_searched_dir(s);
	s->names.len = s->starts[--s->n_starts];
	flags = s->names.data[s->names.len];
	name = s->names.data + s->names.len + 1;
	/* A copy is ours: directories that its sandbox closed are opened for the search. */
	r = s->copied ? layer_push(&s->chain, name, &below.restore) : chain_push(&s->chain, name);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0; /* gone since its name was read */
	if (r == -EACCES)
		return hide_closed_dir(s, name);
	if (r < 0)
		return err_sys(s->e, r, "cannot search the workspace");
	below.git = flags & PENDING_GIT;
	below.repo = flags & PENDING_REPO;
	below.all = flags & PENDING_ALL;
	if (s->path.len)
		buf_addc(&s->path, '/');
	below.name_at = s->path.len;
	buf_adds(&s->path, name);
	return buf_error(&s->path) ? masks_no_memory(s) : search_directory(s, below);
}

static int compare_masks(const void *a, const void *b)
{
	return path_cmp(((const struct mask *)a)->path, ((const struct mask *)b)->path);
}

void masks_tidy(struct mask *v, size_t *n)
{
	size_t kept = 0;

	if (*n)
		qsort(v, *n, sizeof(*v), compare_masks);
	for (size_t i = 0; i < *n; i++) {
		struct mask *last = kept ? &v[kept - 1] : NULL;

		if (last &&
		    (str_eq(last->path, v[i].path) || (last->is_dir && path_covers(last->path, v[i].path)))) {
			free(v[i].path);
			free(v[i].content);
			continue;
		}
		v[kept++] = v[i];
	}
	*n = kept;
}

static int run_mask_search(struct search *s)
{
	struct frame top = { 0 };
	int r = chain_start(&s->chain, s->root);

	if (r < 0)
		return err_sys(s->e, r, "cannot search the workspace");
	r = search_directory(s, top);
	while (r == 0)
		r = search_step(s);
	if (r == 1)
		masks_tidy(s->masks, &s->n_masks);
	return r < 0 ? r : 0;
}

int mask_search(int dir_fd, const struct strv *show, const char *copy_of, struct mask **ret_masks,
		size_t *ret_n, struct err *e)
{
	struct search *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory while looking for credentials in the workspace");
	s->root = dir_fd;
	s->e = e;
	s->copied = copy_of != NULL;
	if (copy_of)
		snprintf(s->root_path, sizeof(s->root_path), "%s", copy_of);
	r = path_normalise_all(show, &s->show, e);
	if (r == 0 && !path_covered(&s->show, "."))
		r = run_mask_search(s);
	if (r == 0) {
		*ret_masks = s->masks;
		*ret_n = s->n_masks;
	} else {
		masks_free(s->masks, s->n_masks);
	}
	chain_release(&s->chain);
	strv_release(&s->show);
	buf_release(&s->path);
	buf_release(&s->names);
	free(s->starts);
	free(s->frames);
	free(s);
	return r;
}

int workspace_find_masks(int dir_fd, const struct strv *show, struct mask **ret_masks, size_t *ret_n,
			 struct err *e)
{
	return mask_search(dir_fd, show, NULL, ret_masks, ret_n, e);
}
