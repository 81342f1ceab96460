/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of an untrusted root file system: its /etc/passwd and /etc/group, read from its layers by a small parser of our
 * own. Their content is hostile: a user found there is only a number, which gives no right outside the sandbox.
 */
#ifndef SANDBOX_PASSWD_H
#define SANDBOX_PASSWD_H

#include "base/err.h"
#include "sandbox/spec/spec.h"

struct passwd_user {
	uid_t uid;
	gid_t gid;
	char *name; /* NULL when it has none */
	char *home; /* absolute and plain; NULL when there is none */
};

void passwd_user_release(struct passwd_user *u);

/* "NAME", "UID", "NAME:GROUP", "UID:GID" in any mixture; empty means root. As with docker, a uid that is not in the file
 * gets group 0. -ENOENT when a name is not in the file. */
int passwd_resolve(const struct root_lower *lowers, size_t n, const char *text, struct passwd_user *ret,
		   struct err *e) MUST_CHECK;

/* Pure, for tests and fuzzing: finds a line of either file, by number (when `name` is NULL) or name, and splits it in
 * place into fields 0 to n_fields-1; false when no line matches. */
bool passwd_find(char *text, const char *name, uint64_t id, char **fields, size_t n_fields);

#endif
