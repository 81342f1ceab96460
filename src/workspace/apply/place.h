/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one change to the original directory, or deletes one entry of it.
 *
 * Invariants
 *  P1  Every act is on (directory fd, one name). The fd was opened below the workspace through real directories, at
 *      the moment of the act; the name has no slash. So nothing outside is written, whatever is renamed meanwhile.
 *  P2  Content is written to a file without a visible name, then renamed or linked into place. An existing file is never
 *      written to: it may have another name outside the workspace.
 *  P3  The old entry must still be as it was listed, or the act is refused (PLACE_CHANGED).
 */
#ifndef WORKSPACE_PLACE_H
#define WORKSPACE_PLACE_H

#include "workspace/change/changes.h"

/* Beside negative errnos: why an act was not done. */
enum { PLACE_CHANGED = -10001 /* the original is no longer what was listed */ };

struct place {
	int upper, lower; /* tops of both trees */
	uid_t euid;
};

struct place_how {
	bool special; /* there is a yes for setuid bits, capabilities, owners, devices */
	bool force;   /* there is a yes for overwriting what has changed */
};

/* Each: 0, PLACE_CHANGED, or negative errno. */
int place_delete(const struct place *p, const struct change *c, const struct place_how *how) MUST_CHECK;
int place_file(const struct place *p, const struct change *c, const struct place_how *how,
	       struct stat *ret_new) MUST_CHECK;
int place_other(const struct place *p, const struct change *c, const struct place_how *how) MUST_CHECK;
int place_dir(const struct place *p, const struct change *c, const struct place_how *how) MUST_CHECK;

/* Another name for a file that was placed before; -EXDEV when it is not there any more as `expect` says. */
int place_link(const struct place *p, const char *first, const struct stat *expect, const struct change *c,
	       const struct place_how *how) MUST_CHECK;

/* Mode of a file or directory whose content stays. */
int place_mode(const struct place *p, const struct change *c, const struct place_how *how) MUST_CHECK;

/* The last touch for a directory, once all below it is done: its owner, attributes and mode. */
int place_dir_finish(const struct place *p, const struct change *c, const struct place_how *how) MUST_CHECK;

#endif
