/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that coffer itself obeys: policies, and the files they name, profiles, runsc. A change to one of them, or to a
 * directory or symlink on its path, would let a sandbox decide about the next one; it needs a yes that names it exactly.
 *
 * A file is identified by each name on its path, through every symlink, and by device and inode of each entry, so that
 * another mount of the same directory or another spelling of a name is the same file.
 */
#ifndef WORKSPACE_OBEYED_H
#define WORKSPACE_OBEYED_H

#include "base/str.h"
#include "workspace/change/changes.h"

#define OBEYED_MAX 100000 /* nodes of all files together */

struct obeyed {
	const char *workspace; /* its real path */
	struct strv files;     /* relative to it and folded: the file itself, and links on the way */
	struct strv ways;      /* the same: directories on the way, which must stay directories */
	struct obeyed_node {
		dev_t dev;
		ino_t ino;
	} * nodes;
	size_t n_nodes;
};

#define OBEYED_INIT(real_path) \
	((struct obeyed){ .workspace = (real_path), .files = STRV_INIT, .ways = STRV_INIT })

/* One more, by an absolute path; it need not exist. A directory stands for all that is in it. */
int obeyed_add(struct obeyed *o, const char *path, struct err *e) MUST_CHECK;
void obeyed_release(struct obeyed *o);

/* Flags the changes that touch such a file. -ENOMEM. */
int obeyed_mark(const struct obeyed *o, struct changes *l) MUST_CHECK;

#endif
