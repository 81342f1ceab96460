/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a run: its upper layer compared with the directories that it is over. Only reads; what a change would do to
 * the host is judged in judge.h.
 */
#ifndef WORKSPACE_CHANGES_H
#define WORKSPACE_CHANGES_H

#include "base/buf.h"
#include "base/err.h"
#include "workspace/tree/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

enum change_kind {
	CHANGE_ADDED,
	CHANGE_MODIFIED,
	CHANGE_DELETED,
	CHANGE_MODE,
	CHANGE_TYPE,
	CHANGE_KIND_COUNT
};

const char *change_kind_name(enum change_kind k); /* "added", "modified", "deleted", "mode", "type" */

enum change_flag {
	CHANGE_SPECIAL =
		1, /* device, pipe, socket, setuid, capability, foreign owner, link that leads outside */
	CHANGE_TRIGGER = 2,  /* a file that the host may run unasked: hooks, CI files, editor settings, … */
	CHANGE_CONFLICT = 4, /* the original changed since the run began */
	CHANGE_SECRETIVE = 8, /* a name that is masked: never applied without its own yes */
	CHANGE_LEAK = 16,     /* the file has credentials in it; only apply reads files */
	CHANGE_HELD = 32 /* cannot be applied, with no option to override; in a result: applying failed */
};
#define CHANGE_FLAG_BITS 6

struct change {
	char *path; /* relative, any bytes but NUL */
	enum change_kind kind;
	unsigned flags;
	mode_t mode_before, mode_after; /* with the type; 0 where there is none */
	uint64_t size_before, size_after;
	const char *why[CHANGE_FLAG_BITS]; /* static text for each flag by its bit; see change_why() */
	size_t yes_beyond;		   /* CHANGE_TRIGGER: its yes is longer than this (trigger.h) */
	bool obeyed;			   /* CHANGE_TRIGGER, because coffer itself obeys it (obeyed.h) */

	/* The original as it was listed, so that apply notices if it has changed since. */
	struct {
		dev_t dev;
		ino_t ino;
		nlink_t nlink;
		uid_t uid;
		gid_t gid;
		struct timespec mtime, ctime;
	} before;
};

/* Static text for one flag of a change, NULL when it is not set. */
const char *change_why(const struct change *c, enum change_flag flag);

/* Is it, or was it, a directory? */
static inline bool change_is_dir(const struct change *c)
{
	return S_ISDIR(c->mode_after ? c->mode_after : c->mode_before);
}

struct changes {
	struct change *v;
	size_t n;
};

/*
 * Lists the changes of a run: the upper layer compared with the directories that it is over. `since` is the start of the
 * run (CLOCK_REALTIME ns). In the order of a walk: a directory, its entries, its next neighbour. For a deleted directory
 * all of its entries are listed too. -E2BIG when the list would need more than WORKSPACE_LIST_MAX bytes; a directory whose
 * path is longer than WORKSPACE_PATH_MAX is one held change.
 */
int workspace_changes(int upper_fd, struct base base, uint64_t since, struct changes *ret,
		      struct err *e) MUST_CHECK;
void changes_release(struct changes *c);

#define WORKSPACE_PATH_MAX 32768
#define WORKSPACE_LIST_MAX (512ULL << 20)

/* Only the number of changes (as workspace_changes() would list them), stopping early at `cap`: cheap enough for the end of
 * every run. */
int workspace_count_changes(int upper_fd, struct base base, uint64_t cap, uint64_t *ret,
			    struct err *e) MUST_CHECK;

/* Adds the content of one change as a unified diff (or why there is none), made harmless for a terminal. Bounded in time
 * and size. 0 or negative errno when it cannot be read. */
int workspace_patch(int upper_fd, struct base base, const struct change *c, struct buf *out) MUST_CHECK;

#endif
