/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers: files that the host may run or obey without being asked, because some program looks for them by name
 * (trigger_table.c): hooks, editor settings, CI files, shell and tool configuration, instructions to agents. Names are
 * compared as a file system may compare them that knows no case or ignores some characters (path_fold()). Pure.
 */
#ifndef WORKSPACE_TRIGGER_H
#define WORKSPACE_TRIGGER_H

#include "base/str.h"

#include <stdbool.h>

struct trigger {
	const char *why; /* static text; NULL: it is none */
	/* An approval of a directory covers this file only if the approved path is longer than this. A file that git would
	 * run or obey (config, hooks, …) needs an approval of a path inside the repository, so that "--allow .git" lets
	 * out commits and nothing that runs. */
	size_t beyond;
};

/*
 * Where a path is: below a directory that git takes for a repository by what is in it (HEAD, objects, refs), whatever
 * its name is. Such a directory may come together from what the host has and what a change adds.
 */
struct trigger_place {
	bool in_git;
	bool runs;     /* all here is what git runs: an outer repository's hooks, … */
	size_t git_at; /* the length of that directory's path */
	/* The end of the path of the tree itself by which names in it are judged as well (trigger_above()); NULL: none. */
	const char *above;
};

/*
 * A file below .github, and any file below .git, is known by a name above it, which may be that of the tree's own directory or be
 * above that: of ".../.git/hooks" it is ".git/hooks", of any other absolute path without links the last name.
 */
const char *trigger_above(const char *real);

struct trigger trigger_find(const char *path, bool is_dir, const struct trigger_place *place);
bool trigger_is_run_by_git(const struct trigger *t);

/* The part of a git repository that a name is. A directory with all three is a repository. */
enum trigger_git_part {
	TRIGGER_GIT_HEAD = 1,
	TRIGGER_GIT_OBJECTS = 2,
	TRIGGER_GIT_REFS = 4,
	TRIGGER_GIT_ALL = 7
};
enum trigger_git_part trigger_git_part(const char *name);

/* The i-th path in a repository that git runs or obeys; NULL after the last. */
const char *trigger_git_obeyed(size_t i);

/* Is there a yes for this trigger, which is at path? "" is no yes. */
bool trigger_allowed(const struct trigger *t, const char *path, const struct strv *allow);

#endif
