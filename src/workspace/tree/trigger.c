/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds triggers in paths: files that programs of the host run or obey by their name (trigger.h; the names are in
 * trigger_table.c). Pure. When in doubt a path is a trigger.
 */
#include "workspace/tree/trigger.h"

#include "base/cleanup.h"
#include "workspace/tree/path.h"
#include "workspace/tree/trigger_table.h"

#include <assert.h>
#include <stdio.h>
#include <strings.h>

/* All names and paths here are folded (path_fold()): lower case, without the characters that some file systems ignore. */

/*
 * First names below .git of files that git itself writes on a commit, a fetch or a merge, and does not obey. Everything
 * else there (config, hooks, info/attributes, modules, worktrees, commondir, a rebase's list of commands…) may make git
 * run a program.
 */
static const char *const internals[] = {
	"objects",     "refs",	      "logs",		"index",       "head",	      "orig_head",
	"fetch_head",  "merge_head",  "merge_msg",	"merge_mode",  "auto_merge",  "cherry_pick_head",
	"revert_head", "rebase_head", "commit_editmsg", "packed-refs", "description", "shallow",
	"gc.log",      "squash_msg",
};

/* Names that git obeys in a repository. A directory that is a repository without being called .git may also have files of
 * the project: only these names and `internals` are judged there. */
static const char *const obeyed_by_git[] = {
	"config",	"config.worktree", "hooks",    "info",	   "modules",
	"worktrees",	"commondir",	   "gitdir",   "common",   "rebase-merge",
	"rebase-apply", "sequencer",	   "remotes",  "reftable", "fsmonitor--daemon",
	"lfs",		"annex",	   "branches",
};

static const char why_internals[] = "repository internals";
static const char why_git_runs[] = "git may run or obey it (config, hooks, attributes)";
static const char why_bare[] = "its directory is or becomes a git repository";
static const char why_bare_runs[] = "git may run or obey it: its directory is or becomes a git repository";
static const char why_unknown[] = "there is not enough memory to judge it";

static bool equals_word(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(s, word, len) == 0;
}

static bool is_in_words(const char *s, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (equals_word(s, len, words[i]))
			return true;
	}
	return false;
}

/*
 * An index of the triggers by their first letter (the second after a dot), because a path may have thousands of names and
 * each is looked up. Those that begin with "*" are in a list of their own.
 */
#define LISTS 512
#define ROWS_MAX 1024
static struct {
	bool ready;
	unsigned short head[LISTS + 1], next[ROWS_MAX]; /* row number plus one; 0 ends a list */
} lists;

static unsigned char ascii_lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static size_t row_list_of(const char *name)
{
	return name[0] == '.' ? 256u + ascii_lower(name[1]) : ascii_lower(name[0]);
}

static void index_rows(void)
{
	assert(n_trigger_rows <= ROWS_MAX);
	for (size_t i = 0; i < n_trigger_rows; i++) {
		const char *name = trigger_rows[i].name;
		size_t at = name[0] == '*' ? LISTS : row_list_of(name);

		lists.next[i] = lists.head[at];
		lists.head[at] = (unsigned short)(i + 1);
	}
	lists.ready = true;
}

/* A "*" of the pattern matches any bytes. The table has names in their usual spelling, so the pattern is folded here. */
static bool matches_pattern(const char *s, size_t len, const char *pattern)
{
	const char *star = NULL;
	size_t at = 0, from = 0;

	while (at < len) {
		if (*pattern == '*') {
			star = ++pattern;
			from = at;
		} else if (*pattern && ascii_lower(*pattern) == (unsigned char)s[at]) {
			pattern++;
			at++;
		} else if (star) {
			pattern = star;
			at = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_dot_git(const char *s, size_t len)
{
	/* "git~1" is a short name of .git on Windows file systems. */
	return equals_word(s, len, ".git") || equals_word(s, len, "git~1");
}

/* The reason for a path after ".git/": git only writes it, or git may run or obey it. */
static const char *why_below_git(const char *rest, bool is_dir)
{
	size_t len = strcspn(rest, "/");
	const char *more = rest[len] ? rest + len + 1 : "";

	/* A directory of hooks without files does nothing, nor do the samples of a new repository; a symlink in its place may. */
	if (equals_word(rest, len, "hooks")) {
		bool sample = str_ends(more, ".sample") && !strchr(more, '/');

		return (*more ? sample : is_dir) ? why_internals : why_git_runs;
	}
	if (equals_word(rest, len, "info"))
		return (*more ? str_eq(more, "exclude") : is_dir) ? why_internals : why_git_runs;
	/* A file there names a remote. Every new repository has the empty directory. */
	if (equals_word(rest, len, "branches"))
		return !*more && is_dir ? why_internals : why_git_runs;
	if (equals_word(rest, len, "objects"))
		return str_starts(more, "info/alternates") || str_starts(more, "info/http-alternates")
			       ? why_git_runs
			       : why_internals;
	return is_in_words(rest, len, internals, ARRAY_SIZE(internals)) ? why_internals : why_git_runs;
}

/* The same in a directory that is a repository by its content. */
static const char *why_in_bare(const char *rest, bool is_dir)
{
	size_t len = strcspn(rest, "/");

	if (!is_in_words(rest, len, internals, ARRAY_SIZE(internals)) &&
	    !is_in_words(rest, len, obeyed_by_git, ARRAY_SIZE(obeyed_by_git)))
		return NULL;
	return why_below_git(rest, is_dir) == why_git_runs ? why_bare_runs : why_bare;
}

/* Is the rest of a path what a row has below its first name? A symlink or file in place of one of the directories on the
 * way counts: a symlink in place of .github may lead to any workflows. */
static bool matches_below(const char *below, const char *next, bool is_dir)
{
	size_t len = strcspn(next, "/");

	if (!*next)
		return !is_dir;
	for (const char *p = strchr(below, '/'); p; p = strchr(p + 1, '/')) {
		if (!next[len])
			return !is_dir && strncasecmp(next, below, len) == 0 && below[len] == '/';
		len += 1 + strcspn(next + len + 1, "/");
	}
	return matches_pattern(next, len, below);
}

static const char *why_by_list(size_t list, const char *name, size_t len, const char *next, bool is_dir)
{
	for (unsigned i = lists.head[list]; i; i = lists.next[i - 1]) {
		const struct trigger_row *row = &trigger_rows[i - 1];

		if (!matches_pattern(name, len, row->name))
			continue;
		if (!row->below || matches_below(row->below, next, is_dir))
			return row->why;
	}
	return NULL;
}

static const char *why_by_name(const char *name, size_t len, const char *next, bool is_dir)
{
	const char *why = why_by_list(row_list_of(name), name, len, next, is_dir);

	return why ? why : why_by_list(LISTS, name, len, next, is_dir);
}

static bool is_git_reason(const char *why)
{
	return why == why_git_runs || why == why_bare_runs;
}

/* Files that git runs take precedence over every other trigger, wherever in the path they are. `folded` has as many names
 * as path. */
static struct trigger find_trigger(const char *path, const char *folded, bool is_dir)
{
	struct trigger found = { 0 };

	for (const char *p = path, *f = folded; *f;) {
		size_t len = strcspn(f, "/");
		const char *next = f[len] ? f + len + 1 : "";
		const char *why;

		if (!is_dot_git(f, len))
			why = found.why ? NULL : why_by_name(f, len, next, is_dir);
		else if (*next)
			why = why_below_git(next, is_dir);
		else
			why = is_dir ? why_internals : why_git_runs; /* a file .git names the repository */
		p += strcspn(p, "/");
		if (why && (!found.why || is_git_reason(why))) {
			found.why = why;
			found.beyond = is_git_reason(why) ? (size_t)(p - path) : 0;
		}
		p += *p == '/';
		f += len + (f[len] == '/');
	}
	return found;
}

/* The rest of a folded path, after as many names as the path has before `at`. */
static const char *folded_rest(const char *path, const char *folded, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (path[i] == '/' || i + 1 == at) {
			folded += strcspn(folded, "/");
			folded += *folded == '/';
		}
	}
	return folded;
}

const char *trigger_above(const char *real)
{
	for (const char *p = real; *p; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		if (strcspn(p, "/") == 4 && strncasecmp(p, ".git", 4) == 0)
			return p;
	}
	return strrchr(real, '/') + 1;
}

static struct trigger find_trigger_below(const char *path, bool is_dir, const struct trigger_place *place)
{
	autofree char *folded = path_fold(path);
	struct trigger t;
	const char *why;

	if (!folded)
		return (struct trigger){ why_unknown, strlen(path) };
	if (!lists.ready)
		index_rows();
	t = find_trigger(path, folded, is_dir);
	if (!place->in_git || is_git_reason(t.why))
		return t;
	why = place->runs ? why_bare_runs : why_in_bare(folded_rest(path, folded, place->git_at), is_dir);
	if (is_git_reason(why))
		return (struct trigger){ why, place->git_at };
	return t.why || !why ? t : (struct trigger){ why, 0 };
}

/* Judged by its path from `above` on; the length that a yes must exceed counts in the path itself. */
struct trigger trigger_find(const char *path, bool is_dir, const struct trigger_place *place)
{
	const size_t n = place->above && *place->above ? strlen(place->above) + 1 : 0;
	struct trigger_place whole_place = *place;
	autofree char *whole = NULL;
	struct trigger t;

	if (!n)
		return find_trigger_below(path, is_dir, place);
	if (asprintf(&whole, "%s/%s", place->above, path) < 0) {
		whole = NULL;
		return (struct trigger){ why_unknown, strlen(path) };
	}
	whole_place.git_at += place->git_at ? n : n - 1;
	t = find_trigger_below(whole, is_dir, &whole_place);
	t.beyond -= t.beyond < n ? t.beyond : n;
	return t;
}

bool trigger_is_run_by_git(const struct trigger *t)
{
	return is_git_reason(t->why);
}

enum trigger_git_part trigger_git_part(const char *name)
{
	autofree char *folded = NULL;

	/* Most names are ruled out by their first letter. */
	if ((unsigned char)name[0] < 0x80 && !strchr("hHoOrRcC", name[0]))
		return 0;
	folded = path_fold(name);
	if (!folded)
		return TRIGGER_GIT_ALL;
	return str_eq(folded, "head")	     ? TRIGGER_GIT_HEAD
	       : str_eq(folded, "objects")   ? TRIGGER_GIT_OBJECTS
	       : str_eq(folded, "refs")	     ? TRIGGER_GIT_REFS
	       : str_eq(folded, "commondir") ? TRIGGER_GIT_OBJECTS | TRIGGER_GIT_REFS
					     : 0;
}

const char *trigger_git_obeyed(size_t i)
{
	static const char *const alternates[] = { "objects/info/alternates", "objects/info/http-alternates" };

	if (i < ARRAY_SIZE(obeyed_by_git))
		return obeyed_by_git[i];
	i -= ARRAY_SIZE(obeyed_by_git);
	return i < ARRAY_SIZE(alternates) ? alternates[i] : NULL;
}

bool trigger_allowed(const struct trigger *t, const char *path, const struct strv *allow)
{
	for (size_t i = 0; i < allow->n; i++) {
		const char *a = allow->v[i];

		if (*a && path_covers(a, path) && (strlen(a) > t->beyond || str_eq(a, path)))
			return true;
	}
	return !t->why;
}
