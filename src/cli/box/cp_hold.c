/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the rules of coffer apply (trigger.h, obeyed_files.h) to the stream of coffer cp. An entry is
 * judged together with the entries that came before it in its directory, because only all parts of a git
 * repository together make it one.
 */
#include "cli/box/cp_hold.h"

#include "cli/common/changed.h"
#include "cli/common/obeyed_files.h"
#include "cli/core/say.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int cp_hold_open(struct cp_hold *h, int dir, struct state *st, struct err *e)
{
	char proc[32];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", dir);
	h->real = realpath(proc, NULL);
	if (!h->real)
		return err_sys(e, -errno, "cannot tell where the copy goes");
	h->level[0].place.above = trigger_above(h->real);
	h->obeyed = OBEYED_INIT(h->real);
	return obeyed_collect(&h->obeyed, st, e);
}

void cp_hold_release(struct cp_hold *h)
{
	strv_release(&h->allow);
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

static int hold_entry(struct cp_hold *h, const struct change *c)
{
	const struct trigger t = { change_why(c, CHANGE_TRIGGER), c->yes_beyond };
	autobuf struct buf line = BUF_INIT, options = BUF_INIT;

	if (trigger_allowed(&t, c->path, &h->allow))
		return 1;
	h->held++;
	str_add_safe(&line, c->path, strlen(c->path), false);
	buf_adds(&line, ": ");
	change_add_reasons(c, &line);
	change_add_options(c, &options);
	say_warn("not copied: %s [%s]", buf_cstr(&line), buf_cstr(&options));
	return 0;
}

static int check_entry(struct cp_hold *h, const struct trigger_place *place, int dir, const char *name,
		       mode_t type)
{
	struct change c = { .path = h->path.data, .kind = CHANGE_ADDED, .mode_after = type };
	struct changes one = { .v = &c, .n = 1 };
	struct trigger t = trigger_find(h->path.data, type == S_IFDIR, place);
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		c.mode_before = st.st_mode;
		c.before.dev = st.st_dev;
		c.before.ino = st.st_ino;
	}
	if (t.why) {
		c.flags = CHANGE_TRIGGER;
		c.why[__builtin_ctz(CHANGE_TRIGGER)] = t.why;
		c.yes_beyond = t.beyond;
	}
	if (obeyed_mark(&h->obeyed, &one) < 0)
		return -ENOMEM;
	return c.flags ? hold_entry(h, &c) : 1;
}

int cp_hold_may(void *ctx, unsigned depth, int dir, const char *name, bool is_dir)
{
	struct cp_hold *h = ctx;
	struct trigger_place place = trigger_place_of(h, depth, dir, name);

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
		return depth && place.in_git && trigger_git_part(name)
			       ? check_entry(h, &place, dir, name, S_IFDIR)
			       : 1;
	}
	/* An entry at depth 0 was named by the user. */
	return depth == 0 ? 1 : check_entry(h, &place, dir, name, S_IFREG);
}
