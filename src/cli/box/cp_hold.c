/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the rules of coffer apply (trigger.h, obeyed_files.h) to the stream of coffer cp. An entry is
 * judged together with the entries that came before it in its directory, because only all parts of a git
 * repository together make it one. The sandbox chooses the order: a configuration or a hook may come first, in this
 * copy or in an earlier one, when its directory was no repository yet. So the part that would complete the
 * repository is held back until each of those that are there has a yes.
 */
#include "cli/box/cp_hold.h"

#include "cli/common/changed.h"
#include "cli/common/obeyed_files.h"
#include "cli/core/say.h"
#include "codec/term/termrows.h"
#include "workspace/tree/layer.h"
#include "workspace/tree/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int cli_cp_hold_open(struct cp_hold *h, int dir, struct state *st, struct err *e)
{
	char proc[32];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", dir);
	h->real = realpath(proc, NULL);
	if (!h->real)
		return err_sys(e, -errno, "cannot determine where the copy goes");
	h->level[0].place.above = trigger_above(h->real);
	h->obeyed = OBEYED_INIT(h->real);
	return cli_obeyed_collect(&h->obeyed, st, e);
}

void cli_cp_hold_release(struct cp_hold *h)
{
	strv_release(&h->allow);
	strv_release(&h->allow_special);
	obeyed_release(&h->obeyed);
	free(h->real);
	buf_release(&h->path);
}

/* The place is in a git repository if the directory is one, or would be one with this entry and those that
 * were held back: a person may allow the latter in another copy, when the others are there already. */
static struct trigger_place trigger_place_of(struct cp_hold *h, unsigned depth, int dir, const char *name)
{
	struct trigger_place place = h->level[depth].place;

	h->level[depth].parts |= trigger_git_part(name);
	if ((layer_git_parts(dir) | h->level[depth].parts) == TRIGGER_GIT_ALL) {
		place.in_git = true;
		place.git_at = h->level[depth].path_len;
	}
	return place;
}

/* Each reason needs its own yes. */
static bool is_entry_allowed(const struct cp_hold *h, const struct change *c)
{
	const struct trigger special = { change_why(c, CHANGE_SPECIAL), 0 };
	const struct trigger t = { change_why(c, CHANGE_TRIGGER), c->yes_beyond };

	return trigger_allowed(&special, c->path, &h->allow_special) &&
	       trigger_allowed(&t, c->path, &h->allow);
}

static int hold_entry(struct cp_hold *h, const struct change *c)
{
	autobuf struct buf line = BUF_INIT, options = BUF_INIT;

	if (is_entry_allowed(h, c))
		return 1;
	h->held++;
	termrows_plain(&line, h->path.data, h->path.len);
	buf_adds(&line, ": ");
	cli_change_add_reasons(c, &line);
	cli_change_add_options(c, &options);
	say_warn("not copied: %s [%s]", buf_cstr(&line), buf_cstr(&options));
	return 0;
}

static void flag_entry(struct change *c, enum change_flag flag, const char *why)
{
	c->flags |= flag;
	c->why[__builtin_ctz(flag)] = why;
}

static int flag_trigger(struct cp_hold *h, struct change *c, const struct trigger_place *place, int dir,
			const char *name)
{
	struct changes one = { .v = c, .n = 1 };
	struct trigger t = trigger_find(c->path, S_ISDIR(c->mode_after), place);
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		c->mode_before = st.st_mode;
		c->before.dev = st.st_dev;
		c->before.ino = st.st_ino;
	}
	if (t.why) {
		flag_entry(c, CHANGE_TRIGGER, t.why);
		c->yes_beyond = t.beyond;
	}
	return obeyed_mark(&h->obeyed, &one);
}

/* A symlink that SRC itself names has its target outside of the copy, wherever that is. Below a directory the target must
 * be in that directory. */
static bool link_leaves_copy(const struct cp_hold *h, unsigned depth, const char *target)
{
	const char *path = buf_cstr(&h->path);

	if (depth == 0)
		return true;
	path += h->level[1].path_len;
	return path_link_leaves(path + (*path == '/'), target);
}

/* An entry that SRC itself names (depth 0) is judged only as a symlink. */
static int check_entry(struct cp_hold *h, unsigned depth, const struct trigger_place *place, int dir,
		       const char *name, mode_t type, const char *link)
{
	struct change c = { .path = h->path.data, .kind = CHANGE_ADDED, .mode_after = type };

	if (link && link_leaves_copy(h, depth, link))
		flag_entry(&c, CHANGE_SPECIAL, "symlink that leads outside");
	if (depth && flag_trigger(h, &c, place, dir, name) < 0)
		return -ENOMEM;
	return c.flags ? hold_entry(h, &c) : 1;
}

/* A directory counts by its entries. One that cannot be read is not empty. */
static bool is_missing_or_empty(int dir, const char *name)
{
	autoclose int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;
	bool empty;

	if (fd < 0)
		return errno == ENOENT;
	if (!d)
		return false;
	fd = -1;
	errno = 0;
	while (readdir(d))
		n++;
	empty = errno == 0 && n <= 2;
	closedir(d);
	return empty;
}

/* Lists what git runs or obeys in the directory of an entry and that has no yes, with an option for each. */
static int list_obeyed(const struct cp_hold *h, size_t git_at, int dir, struct buf *paths,
		       struct buf *options)
{
	const struct trigger t = { "git may run or obey it", git_at };
	const char *obeyed;

	for (size_t i = 0; (obeyed = trigger_git_obeyed(i)) != NULL; i++) {
		struct change c = { .flags = CHANGE_TRIGGER };
		autobuf struct buf path = BUF_INIT;

		if (is_missing_or_empty(dir, obeyed))
			continue;
		buf_add(&path, h->path.data, git_at);
		buf_addf(&path, "%s%s", git_at ? "/" : "", obeyed);
		if (buf_error(&path))
			return -ENOMEM;
		c.path = path.data;
		if (trigger_allowed(&t, c.path, &h->allow))
			continue;
		buf_adds(paths, paths->len ? ", " : "");
		termrows_plain(paths, path.data, path.len);
		buf_adds(options, options->len ? " " : "");
		cli_change_add_options(&c, options);
	}
	return buf_error(paths) || buf_error(options) ? -ENOMEM : 0;
}

/* Would this entry complete a repository in `dir` that has something that git runs or obeys, and that has no yes? The user
 * who named the entry itself (depth 0) did not name that. */
static int check_completed(struct cp_hold *h, unsigned depth, int dir, const char *name)
{
	autobuf struct buf line = BUF_INIT, paths = BUF_INIT, options = BUF_INIT;
	const unsigned parts = layer_git_parts(dir);
	int r;

	if (!trigger_git_part(name) || parts == TRIGGER_GIT_ALL ||
	    (parts | h->level[depth].parts) != TRIGGER_GIT_ALL)
		return 1;
	r = list_obeyed(h, h->level[depth].path_len, dir, &paths, &options);
	if (r < 0 || !paths.len)
		return r < 0 ? r : 1;
	h->held++;
	termrows_plain(&line, h->path.data, h->path.len);
	say_warn("not copied: %s: it would complete a git repository, in which git may run or obey %s [%s]",
		 buf_cstr(&line), buf_cstr(&paths), buf_cstr(&options));
	return 0;
}

int cli_cp_hold_may(void *ctx, unsigned depth, int dir, const char *name, bool is_dir, const char *link)
{
	struct cp_hold *h = ctx;
	struct trigger_place place = trigger_place_of(h, depth, dir, name);
	int r = 1;

	h->path.len = h->level[depth].path_len;
	if (*name)
		buf_addf(&h->path, "%s%s", h->path.len ? "/" : "", name);
	if (buf_error(&h->path) || !buf_cstr(&h->path))
		return -ENOMEM;
	if (is_dir) {
		struct trigger t = trigger_find(buf_cstr(&h->path), true, &place);

		h->level[depth + 1].path_len = h->path.len;
		h->level[depth + 1].place = place;
		h->level[depth + 1].parts = 0;
		h->level[depth + 1].place.runs = place.in_git && trigger_is_run_by_git(&t);
		/* A directory is harmless by itself, except as the part that completes a git repository. */
		if (depth && place.in_git && trigger_git_part(name))
			r = check_entry(h, depth, &place, dir, name, S_IFDIR, NULL);
	} else {
		r = check_entry(h, depth, &place, dir, name, link ? S_IFLNK : S_IFREG, link);
	}
	return r == 1 ? check_completed(h, depth, dir, name) : r;
}
