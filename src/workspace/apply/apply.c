/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the changes of a run to the original directory. All decisions are made first, from the list alone; then the
 * changes are written: deletions from the bottom up, everything else from the top down, then attributes of directories,
 * again from the bottom up.
 *
 * Invariants
 *  A1  Nothing is applied that was not listed; a flagged change is applied only with the user's yes for that flag and that
 *      path.
 *  A2  A directory is deleted or replaced only when everything in it is; nothing is put below a directory that is not
 *      applied.
 *  A3  A failure holds back that one change, unless every other would fail the same way (a full disk).
 *  A4  With `bind`, exactly what before() agreed to is written: the digest is computed before that call and again after it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"
#include "workspace/apply/digest.h"
#include "workspace/apply/place.h"
#include "workspace/change/change.h"
#include "workspace/change/judge.h"
#include "workspace/change/obeyed.h"
#include "workspace/tree/layer.h"
#include "workspace/tree/path.h"
#include "workspace/tree/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* A file of the layer with several names, and the place of the first of them. */
struct placed {
	ino_t up_ino; /* 0: free */
	const char *path;
	struct stat lower;
};

struct apply {
	struct place place;
	struct apply_opts o; /* paths normalised */
	struct changes all;
	unsigned char *go;
	struct apply_result *ret;
	struct placed *placed;
	size_t n_placed, cap_placed;
	int fatal; /* an error that all other changes would meet too */
};

/* --- deciding ------------------------------------------------------------------------------------------------ */

/* A yes must name a path: "" (the whole workspace) does not count. */
static bool is_named_by(const struct strv *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (*l->v[i] && path_covers(l->v[i], path))
			return true;
	}
	return false;
}

static bool is_change_allowed(const struct apply *a, const struct change *c)
{
	if (c->flags & CHANGE_HELD)
		return false;
	if (c->flags & CHANGE_SPECIAL && !is_named_by(&a->o.allow_special, c->path))
		return false;
	if (c->flags & CHANGE_TRIGGER) {
		const struct trigger t = { change_why(c, CHANGE_TRIGGER), c->yes_beyond };

		if (!trigger_allowed(&t, c->path, &a->o.allow_trigger))
			return false;
	}
	if (c->flags & (CHANGE_SECRETIVE | CHANGE_LEAK) && !is_named_by(&a->o.allow_trigger, c->path))
		return false;
	return !(c->flags & CHANGE_CONFLICT) || path_covered(&a->o.force, c->path);
}

/* Requested by path, or all are; or a new directory above a requested change. */
static bool is_change_requested(const struct apply *a, const struct change *c)
{
	if (a->o.paths.n == 0 || path_covered(&a->o.paths, c->path))
		return true;
	if (c->kind != CHANGE_ADDED || !S_ISDIR(c->mode_after))
		return false;
	for (size_t i = 0; i < a->o.paths.n; i++) {
		if (path_covers(c->path, a->o.paths.v[i]))
			return true;
	}
	return false;
}

static bool removes_dir(const struct change *c)
{
	return S_ISDIR(c->mode_before) && (c->kind == CHANGE_DELETED || c->kind == CHANGE_TYPE);
}

static bool makes_dir(const struct change *c)
{
	return S_ISDIR(c->mode_after) && (c->kind == CHANGE_ADDED || c->kind == CHANGE_TYPE);
}

/* --- looking into files ---------------------------------------------------------------------------------------- */

static int look_at_entry(const struct apply *a, int root, const char *path, struct apply_found *ret,
			 struct err *e)
{
	const char *name;
	autoclose int dir = layer_open_parent(root, path, &name);
	autoclose int fd =
		dir < 0 ? dir : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	/* A file that cannot be opened cannot be copied either, and is reported then. */
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return a->o.look(a->o.arg, fd, ret, e);
}

int apply_found_add(struct apply_found *f, const char *what, const unsigned char digest[APPLY_DIGEST_LEN])
{
	if (f->n == APPLY_TOKENS_MAX)
		return 0;
	if (VEC_MORE(f->tokens, f->n, APPLY_TOKENS_MAX) < 0)
		return -ENOMEM;
	f->tokens[f->n].what = what;
	memcpy(f->tokens[f->n++].digest, digest, APPLY_DIGEST_LEN);
	return 0;
}

static void apply_found_release(struct apply_found *f)
{
	free(f->tokens);
	*f = (struct apply_found){ 0 };
}

/* The first token that is not in the original; a file with too many tokens to list counts as having a new one. */
static const char *find_new_token(const struct apply_found *now, const struct apply_found *was)
{
	for (size_t i = 0; i < now->n; i++) {
		size_t k = 0;

		while (k < was->n &&
		       memcmp(now->tokens[i].digest, was->tokens[k].digest, APPLY_DIGEST_LEN) != 0)
			k++;
		if (k == was->n)
			return now->tokens[i].what;
	}
	return now->n == APPLY_TOKENS_MAX ? "so many tokens that they cannot be compared" : NULL;
}

static int check_file_for_secrets(struct apply *a, struct change *c, struct err *e)
{
	CLEANUP(apply_found_release) struct apply_found now = { 0 }, was = { 0 };
	int r = look_at_entry(a, a->place.upper, c->path, &now, e);
	const char *what;

	if (r == 0 && now.n && !now.ours && S_ISREG(c->mode_before))
		r = look_at_entry(a, a->place.lower, c->path, &was, e);
	if (r < 0)
		return r;
	what = now.ours ? "a secret of the vault" : find_new_token(&now, &was);
	if (what)
		change_flag(c, CHANGE_LEAK, what);
	return 0;
}

static int check_files_for_secrets(struct apply *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->all.n && r == 0 && a->o.look; i++) {
		struct change *c = &a->all.v[i];

		if (S_ISREG(c->mode_after) && c->kind != CHANGE_MODE && is_change_requested(a, c))
			r = check_file_for_secrets(a, c, e);
	}
	return r;
}

enum { GO_NO, GO_YES, GO_NOT_ASKED };

/* Is this change approved by a path below the directory? */
static bool is_approved_below(const struct apply *a, const char *dir, const struct change *c)
{
	for (size_t i = 0; i < a->o.allow_trigger.n; i++) {
		const char *yes = a->o.allow_trigger.v[i];

		if (strlen(yes) > strlen(dir) && path_covers(dir, yes) && path_covers(yes, c->path))
			return is_change_requested(a, c) && is_change_allowed(a, c);
	}
	return false;
}

/*
 * A new directory that needs a yes only by its name is made, as a plain directory, for an approved file in it; the yes
 * covers no other file there. Not so the directory that may complete a git repository.
 */
static bool is_dir_for_approved(const struct apply *a, size_t at)
{
	const struct change *dir = &a->all.v[at];
	const char *name = strrchr(dir->path, '/');

	if (dir->kind != CHANGE_ADDED || !S_ISDIR(dir->mode_after) || dir->obeyed ||
	    dir->flags & ~(unsigned)(CHANGE_TRIGGER | CHANGE_SECRETIVE) ||
	    trigger_git_part(name ? name + 1 : dir->path))
		return false;
	for (size_t i = at + 1; i < a->all.n && path_covers(dir->path, a->all.v[i].path); i++) {
		if (is_approved_below(a, dir->path, &a->all.v[i]))
			return true;
	}
	return false;
}

/* apply.A2. The list is in the order of a walk: a directory is followed by everything below it. */
static void decide_changes(struct apply *a)
{
	const char *kept = NULL, *missing = NULL;

	for (size_t i = 0; i < a->all.n; i++) {
		struct change *c = &a->all.v[i];

		if (!is_change_requested(a, c))
			a->go[i] = GO_NOT_ASKED;
		else
			a->go[i] = is_change_allowed(a, c) || is_dir_for_approved(a, i) ? GO_YES : GO_NO;
		if (missing && path_covers(missing, c->path)) {
			if (a->go[i] == GO_YES) {
				change_flag(c, CHANGE_HELD, "its directory is not applied");
				a->go[i] = GO_NO;
			}
		} else if (makes_dir(c) && a->go[i] != GO_YES) {
			missing = c->path;
		}
	}
	for (size_t i = a->all.n; i-- > 0;) {
		struct change *c = &a->all.v[i];

		if (a->go[i] == GO_YES && removes_dir(c) && kept && path_covers(c->path, kept)) {
			change_flag(c, CHANGE_HELD, "a change in it is not applied");
			a->go[i] = GO_NO;
		}
		if (a->go[i] != GO_YES && (c->kind == CHANGE_DELETED || removes_dir(c)))
			kept = c->path;
	}
}

static int refuse_change(struct apply *a, const struct change *c)
{
	return changes_add(&a->ret->refused, c);
}

/* --- hard links ------------------------------------------------------------------------------------------------ */

static struct placed *find_placed(struct apply *a, ino_t ino)
{
	size_t i = (size_t)(ino * 0x9e3779b97f4a7c15ULL) & (a->cap_placed - 1);

	while (a->placed[i].up_ino && a->placed[i].up_ino != ino)
		i = (i + 1) & (a->cap_placed - 1);
	return &a->placed[i];
}

static int grow_placed_table(struct apply *a)
{
	struct placed *old = a->placed;
	size_t n = a->cap_placed;

	if (a->n_placed * 2 < n)
		return 0;
	a->placed = calloc(n ? n * 2 : 64, sizeof(*a->placed));
	if (!a->placed) {
		a->placed = old;
		return -ENOMEM;
	}
	a->cap_placed = n ? n * 2 : 64;
	for (size_t i = 0; i < n; i++) {
		if (old[i].up_ino)
			*find_placed(a, old[i].up_ino) = old[i];
	}
	free(old);
	return 0;
}

/* Names of one file that need no yes stay hard links of one file. A name that needed a yes becomes a file of its own: the
 * yes was not for the other names. */
static int place_linked(struct apply *a, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = layer_open_parent(a->place.upper, c->path, &name);
	struct placed *seen;
	struct stat up, made;
	int r;

	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &up, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (up.st_nlink < 2 || c->flags)
		return place_file(&a->place, c, how, &made);
	r = grow_placed_table(a);
	if (r < 0)
		return r;
	seen = find_placed(a, up.st_ino);
	if (seen->up_ino) {
		r = place_link(&a->place, seen->path, &seen->lower, c, how);
		if (r != -EXDEV)
			return r;
	}
	r = place_file(&a->place, c, how, &made);
	if (r == 0) {
		a->n_placed += !seen->up_ino;
		*seen = (struct placed){ .up_ino = up.st_ino, .path = c->path, .lower = made };
	}
	return r;
}

/* --- doing ------------------------------------------------------------------------------------------------------ */

static struct place_how place_how_for(const struct apply *a, const struct change *c)
{
	return (struct place_how){
		.special = (c->flags & CHANGE_SPECIAL) && is_named_by(&a->o.allow_special, c->path),
		.force = (c->flags & CHANGE_CONFLICT) && path_covered(&a->o.force, c->path),
	};
}

static bool is_fatal_error(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EIO || r == -ENOMEM;
}

static const char *failure_reason(int r)
{
	const char *text;

	switch (r) {
	case PLACE_CHANGED:
		return "the original changed meanwhile";
	case -ELOOP:
	case -ENOTDIR:
	case -EXDEV:
		return "a directory on its path was replaced";
	case -ENOENT:
		return "its directory is missing";
	case -ENOTEMPTY:
		return "it is not empty";
	case -EOVERFLOW:
		return "its attributes are too long for this file system";
	default:
		text = strerrordesc_np(-r);
		return text ? text : "unknown error";
	}
}

/* Records the result of one change in the plan. */
static int settle_change(struct apply *a, size_t i, int r)
{
	struct change *c = &a->all.v[i];

	if (r >= 0)
		return 0;
	if (is_fatal_error(r))
		a->fatal = r;
	change_flag(c, CHANGE_HELD, failure_reason(r));
	a->go[i] = GO_NO;
	return refuse_change(a, c);
}

static int place_one_change(struct apply *a, const struct change *c)
{
	struct place_how how = place_how_for(a, c);

	if (a->fatal)
		return a->fatal;
	if (c->kind == CHANGE_MODE)
		return place_mode(&a->place, c, &how);
	if (S_ISDIR(c->mode_after))
		return place_dir(&a->place, c, &how);
	if (S_ISREG(c->mode_after))
		return place_linked(a, c, &how);
	return place_other(&a->place, c, &how);
}

static int place_all_changes(struct apply *a)
{
	int r = 0;

	for (size_t i = a->all.n; i-- > 0 && r == 0;) {
		const struct change *c = &a->all.v[i];
		struct place_how how = place_how_for(a, c);

		if (a->go[i] == GO_YES && c->kind == CHANGE_DELETED)
			r = settle_change(a, i, a->fatal ? a->fatal : place_delete(&a->place, c, &how));
	}
	for (size_t i = 0; i < a->all.n && r == 0; i++) {
		if (a->go[i] == GO_YES && a->all.v[i].kind != CHANGE_DELETED)
			r = settle_change(a, i, place_one_change(a, &a->all.v[i]));
	}
	for (size_t i = a->all.n; i-- > 0 && r == 0;) {
		const struct change *c = &a->all.v[i];
		struct place_how how = place_how_for(a, c);

		if (a->go[i] == GO_YES && S_ISDIR(c->mode_after))
			r = settle_change(a, i, place_dir_finish(&a->place, c, &how));
	}
	return r;
}

/*
 * An ordinary user cannot search a directory without permissions, not even an own one. Such directories of the list get
 * permissions in the layer while it is read, and their own mode, which the list has, again afterwards.
 */
static void open_closed_dirs(struct apply *a, bool open)
{
	if (a->place.euid == 0)
		return;
	for (size_t k = 0; k < a->all.n; k++) {
		const struct change *c = &a->all.v[open ? k : a->all.n - 1 - k];
		const char *name;
		struct stat st;
		autoclose int dir = -1;

		if (!S_ISDIR(c->mode_after) || (c->mode_after & 0700) == 0700)
			continue;
		dir = layer_open_parent(a->place.upper, c->path, &name);
		if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			continue;
		/* If this fails, reading the entries below fails too, and that is reported. */
		if (fd_chmod_nofollow(dir, name, (c->mode_after & 07777) | (open ? 0700 : 0)) < 0)
			continue;
	}
}

static int list_refused_changes(struct apply *a)
{
	for (size_t i = 0; i < a->all.n; i++) {
		a->ret->asked += a->go[i] != GO_NOT_ASKED;
		a->ret->applied += a->go[i] == GO_YES;
		if (a->go[i] == GO_NO && refuse_change(a, &a->all.v[i]) < 0)
			return -ENOMEM;
		if (a->go[i] != GO_YES)
			a->go[i] = GO_NO;
	}
	return 0;
}

static int compare_refused(const void *x, const void *y)
{
	return path_cmp(((const struct change *)x)->path, ((const struct change *)y)->path);
}

/* apply.A4: computes the digest of the plan; with `again`, compares it with the first one. */
static int digest_plan(struct apply *a, struct apply_plan *plan, bool again, struct err *e)
{
	unsigned char now[APPLY_DIGEST_LEN];
	int r;

	if (!a->o.bind || a->o.dry_run || plan->n_go == 0)
		return 0;
	open_closed_dirs(a, true);
	r = digest_changes(a->place.upper, &a->all, a->go, now, e);
	open_closed_dirs(a, false);
	if (r == 0 && again && memcmp(now, plan->digest, sizeof(now)) != 0)
		return err_set(e, -ESTALE, "the changes differ from those that were approved; ask again");
	memcpy(plan->digest, now, sizeof(now));
	return r;
}

static int decide_and_apply(struct apply *a, struct err *e)
{
	struct apply_plan plan = { .all = &a->all, .refused = &a->ret->refused };
	size_t before;
	int r;

	a->go = calloc(a->all.n + 1, 1);
	if (!a->go)
		return err_set(e, -ENOMEM, "out of memory");
	open_closed_dirs(a, true);
	r = check_files_for_secrets(a, e);
	open_closed_dirs(a, false);
	if (r < 0)
		return r;
	decide_changes(a);
	r = list_refused_changes(a);
	if (r < 0)
		return err_set(e, r, "out of memory");
	a->ret->total = a->all.n;
	plan.go = a->go;
	plan.n_go = a->ret->applied;
	r = digest_plan(a, &plan, false, e);
	if (r == 0 && a->o.before)
		r = a->o.before(a->o.arg, &plan, e);
	if (r == 0)
		r = digest_plan(a, &plan, true, e);
	if (r < 0) {
		a->ret->applied = 0;
		return r;
	}
	if (a->o.dry_run || plan.n_go == 0)
		return 0;
	before = a->ret->refused.n;
	open_closed_dirs(a, true);
	r = place_all_changes(a);
	open_closed_dirs(a, false);
	a->ret->applied -= a->ret->refused.n - before;
	if (a->ret->refused.n > before)
		qsort(a->ret->refused.v, a->ret->refused.n, sizeof(struct change), compare_refused);
	if (r < 0)
		return err_set(e, r, "out of memory while applying");
	/* The layer may be wiped next, so the applied changes must be on the disk. */
	if (syncfs(a->place.lower) < 0)
		return err_sys(e, -errno, "the changes are in place, but could not be written to the disk");
	return 0;
}

void apply_result_release(struct apply_result *r)
{
	changes_release(&r->refused);
	*r = (struct apply_result){ 0 };
}

int workspace_apply(int upper_fd, int lower_fd, uint64_t since, const struct apply_opts *o,
		    struct apply_result *ret, struct err *e)
{
	autostrv struct strv paths = STRV_INIT, special = STRV_INIT, trigger = STRV_INIT, force = STRV_INIT;
	struct apply a = { .place = { .upper = upper_fd, .lower = lower_fd, .euid = geteuid() }, .ret = ret };
	int r;

	*ret = (struct apply_result){ 0 };
	if ((r = path_normalise_all(&o->paths, &paths, e)) < 0 ||
	    (r = path_normalise_all(&o->allow_special, &special, e)) < 0 ||
	    (r = path_normalise_all(&o->allow_trigger, &trigger, e)) < 0 ||
	    (r = path_normalise_all(&o->force, &force, e)) < 0)
		return r;
	a.o = (struct apply_opts){ .paths = paths,
				   .allow_special = special,
				   .allow_trigger = trigger,
				   .force = force,
				   .obeyed = o->obeyed,
				   .dry_run = o->dry_run,
				   .bind = o->bind,
				   .before = o->before,
				   .look = o->look,
				   .arg = o->arg };
	r = workspace_changes(upper_fd, BASE_DIR(lower_fd), since, &a.all, e);
	if (r == 0 && o->obeyed && obeyed_mark(o->obeyed, &a.all) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r == 0)
		r = decide_and_apply(&a, e);
	changes_release(&a.all);
	free(a.go);
	free(a.placed);
	if (r < 0 && ret->applied == 0)
		apply_result_release(ret);
	return r;
}
