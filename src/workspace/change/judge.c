/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags a change that must not be applied without its own yes: special files, foreign owners, triggers, names of credentials
 * (judge.h). Decides nothing else; apply.c enforces the flags.
 */
#include "workspace/change/judge.h"

#include "base/cleanup.h"
#include "workspace/tree/layer.h"
#include "workspace/tree/path.h"
#include "workspace/view/secret.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int judge_init(struct judge *j, int lower_fd, struct err *e)
{
	struct stat st;
	int n;

	if (fstat(lower_fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at the workspace");
	j->euid = geteuid();
	j->root_uid = st.st_uid;
	j->root_gid = st.st_gid;
	j->groups[0] = getegid();
	n = getgroups(ARRAY_SIZE(j->groups) - 1, j->groups + 1);
	j->n_groups = 1 + (size_t)(n > 0 ? n : 0);
	return 0;
}

int judge_place(struct judge *j, int lower_fd, struct err *e)
{
	char proc[32];
	ssize_t len;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", lower_fd);
	len = readlink(proc, j->real, sizeof(j->real) - 1);
	if (len < 0)
		return err_sys(e, -errno, "cannot determine where the workspace is");
	j->real[len] = '\0';
	j->above = j->real[0] == '/' ? trigger_above(j->real) : NULL;
	return 0;
}

void change_flag(struct change *c, enum change_flag flag, const char *why)
{
	unsigned bit = (unsigned)__builtin_ctz(flag);

	static_assert(CHANGE_HELD == 1 << (CHANGE_FLAG_BITS - 1), "a place for each flag");
	if (!(c->flags & flag))
		c->why[bit] = why;
	c->flags |= flag;
}

const char *change_why(const struct change *c, enum change_flag flag)
{
	return c->flags & flag ? c->why[__builtin_ctz(flag)] : NULL;
}

bool judge_foreign_owner(const struct judge *j, const struct pair *p)
{
	const struct stat *up = p->up, *lo = p->lo;
	bool gid_known;

	if (up->st_uid != j->euid && up->st_uid != j->root_uid && !(lo && up->st_uid == lo->st_uid))
		return true;
	gid_known = up->st_gid == j->root_gid || up->st_gid == p->dir_gid || (lo && up->st_gid == lo->st_gid);
	for (size_t i = 0; i < j->n_groups && !gid_known; i++)
		gid_known = up->st_gid == j->groups[i];
	return !gid_known;
}

bool judge_new_capability(const struct pair *p)
{
	unsigned char up[LAYER_CAP_MAX], lo[LAYER_CAP_MAX];
	size_t n = S_ISREG(p->up->st_mode) ? layer_capability(p->up_dir, p->name, up) : 0;

	if (n == 0)
		return false;
	return !p->lo || layer_capability(p->lo_dir, p->name, lo) != n || memcmp(up, lo, n) != 0;
}

/* setgid on a directory only passes the group on; it is not flagged where the original or the parent has it. */
static bool gains_set_id(const struct pair *p)
{
	mode_t bits = p->up->st_mode & (S_ISUID | S_ISGID);

	if (S_ISREG(p->up->st_mode))
		return bits != 0;
	if (!S_ISDIR(p->up->st_mode) || bits == 0)
		return false;
	return (bits & S_ISUID) || !(p->dir_setgid || (p->lo && p->lo->st_mode & S_ISGID));
}

static bool link_leaves_workspace(const struct pair *p)
{
	autobuf struct buf target = BUF_INIT;

	if (layer_read_link(p->up_dir, p->name, &target) < 0)
		return true;
	return path_link_leaves(p->path, buf_cstr(&target));
}

/* An old capability counts too if the file's content has changed. */
static bool carries_capability(const struct pair *p)
{
	unsigned char cap[LAYER_CAP_MAX];

	return S_ISREG(p->up->st_mode) && layer_capability(p->up_dir, p->name, cap) > 0;
}

static void judge_special(const struct judge *j, const struct pair *p, struct change *c)
{
	mode_t type = p->up->st_mode & S_IFMT;

	if (type == S_IFCHR || type == S_IFBLK)
		change_flag(c, CHANGE_SPECIAL, "device");
	else if (type == S_IFIFO)
		change_flag(c, CHANGE_SPECIAL, "named pipe");
	else if (type == S_IFSOCK)
		change_flag(c, CHANGE_SPECIAL, "socket");
	else if (gains_set_id(p))
		change_flag(c, CHANGE_SPECIAL, "setuid or setgid");
	else if (carries_capability(p))
		change_flag(c, CHANGE_SPECIAL, "file capability");
	else if (judge_foreign_owner(j, p))
		change_flag(c, CHANGE_SPECIAL, "foreign owner");
	else if (type == S_IFLNK && link_leaves_workspace(p))
		change_flag(c, CHANGE_SPECIAL, "symlink that leads outside");
}

static void judge_secretive(const struct pair *p, struct change *c)
{
	const struct secret_rule *rule = NULL;
	size_t end = secret_match_path(p->path, change_is_dir(c), &rule);

	if (!end && S_ISLNK(c->mode_after)) /* a symlink may lead to a directory */
		end = secret_match_path(p->path, true, &rule);
	if (!end)
		return;
	/* Where the name is only a suspicion, the file's content decides; for a deleted one, that of the original. */
	if (!p->path[end] && secret_needs_look(rule) &&
	    !secret_look(rule, p->up ? p->up_dir : p->lo_dir, p->name))
		return;
	change_flag(c, CHANGE_SECRETIVE, secret_what(rule));
}

void judge_change(const struct judge *j, const struct pair *p, struct change *c)
{
	struct trigger t = trigger_find(c->path, change_is_dir(c), &p->place);

	if (p->up)
		judge_special(j, p, c);
	if (t.why) {
		change_flag(c, CHANGE_TRIGGER, t.why);
		c->yes_beyond = t.beyond;
	}
	judge_secretive(p, c);
}
