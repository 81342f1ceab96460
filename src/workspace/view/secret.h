/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files and directories that usually hold credentials: what is hidden from a sandbox, and what does not come
 * out of one without a yes. Names are compared without regard to case. Some names are only a suspicion; there a
 * look at the first bytes decides, and a file that cannot be read counts as holding some.
 */
#ifndef WORKSPACE_SECRET_H
#define WORKSPACE_SECRET_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct secret_rule;

/* The rule for an entry, or NULL. `parent` is the name of its directory, "" when there is none. Fast: it is asked for
 * every entry of a workspace at the start of every run. */
const struct secret_rule *secret_match(const char *parent, const char *name, bool is_dir);

/* Does the rule want a look at the content before it counts? */
bool secret_needs_look(const struct secret_rule *r);

/* That look. True when it holds credentials, or when nobody can say. */
bool secret_look(const struct secret_rule *r, int dirfd, const char *name);

/* The first part of a path that a rule matches, as the length of the path up to and with it; 0 when none does.
 * *ret_rule is the rule. A path below a directory that matches, matches. */
size_t secret_match_path(const char *path, bool is_dir, const struct secret_rule **ret_rule);

/* The kind of credential, for people: "an SSH key". */
const char *secret_what(const struct secret_rule *r);

/*
 * A copy of a git configuration without the credentials in it: user and password in URLs, values of extraheader
 * and of keys that are named like a secret. *ret_changed tells whether there were any.
 */
void secret_redact_git(const char *text, size_t len, struct buf *out, bool *ret_changed);

#endif
