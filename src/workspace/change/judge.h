/* SPDX-License-Identifier: Apache-2.0 */
/* Flags changes that need the user's yes: by their type, owner and mode (special) or by their name (trigger, secretive). */
#ifndef WORKSPACE_JUDGE_H
#define WORKSPACE_JUDGE_H

#include "workspace/change/changes.h"
#include "workspace/tree/trigger.h"

#include <limits.h>

/* Owners that are expected: the caller and the owner of the workspace. */
struct judge {
	uid_t euid, root_uid;
	gid_t root_gid;
	gid_t groups[256];
	size_t n_groups;
	char real[PATH_MAX]; /* the workspace's own path */
	const char *above;   /* of it, trigger_above() */
};

int judge_init(struct judge *j, int lower_fd, struct err *e) MUST_CHECK;
/* Finds out where the workspace is, for judge_change(): its own name and those above it count. */
int judge_place(struct judge *j, int lower_fd, struct err *e) MUST_CHECK;

/* One entry seen from both sides. */
struct pair {
	const char *path, *name;
	int up_dir, lo_dir;	    /* the directories it is in; -1 where there is none */
	const struct stat *up, *lo; /* NULL where it is not */
	bool lo_copied;		    /* the lower one is of a copied layer: nobody changes that */
	struct trigger_place place; /* the repository it is in, if any */
	gid_t dir_gid;		    /* of the directory it is in */
	bool dir_setgid;
};

/* Is the owner one that neither the original nor the caller explains? */
bool judge_foreign_owner(const struct judge *j, const struct pair *p);

/* Does the file have a capability that the original does not have? */
bool judge_new_capability(const struct pair *p);

void judge_change(const struct judge *j, const struct pair *p, struct change *c);

/* Sets one flag with its reason; the first reason stays. */
void change_flag(struct change *c, enum change_flag flag, const char *why);

#endif
