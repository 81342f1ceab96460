/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces on the host's side: which directory may be one, what in it is hidden from a sandbox, what a run
 * changed, and how that gets back out. Works on directory fds; never runs a program; never follows a symlink
 * that the sandbox made.
 */
#ifndef WORKSPACE_WORKSPACE_H
#define WORKSPACE_WORKSPACE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "sandbox/spec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* May this directory be shown to a sandbox? Refuses /, home directories and all that is above one, the state
 * directory and all above or below it. */
int workspace_may_use(int dir_fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

/* May this be bound with -v? Refuses what workspace_may_use() does, sockets of container engines and other
 * daemons, and directories that hold keys. */
int workspace_may_bind(int fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

/* Finds files that usually hold credentials. `show` are paths (relative) that the user wants open; "." opens all and
 * skips the search. Grows *ret_masks; the caller frees with masks_free(). */
int workspace_find_masks(int dir_fd, const struct strv *show, struct mask **ret_masks, size_t *ret_n,
			 struct err *e) MUST_CHECK;
void masks_free(struct mask *m, size_t n);

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED, CHANGE_MODE, CHANGE_TYPE, CHANGE_KIND_COUNT };

enum change_flag {
	CHANGE_SPECIAL = 1,  /* device, fifo, socket, setuid/setgid, file capability, foreign owner */
	CHANGE_TRIGGER = 2,  /* something the host may run unasked: hooks, CI files, editor settings, … */
	CHANGE_CONFLICT = 4, /* the original changed since the run began */
	CHANGE_SECRETIVE = 8 /* a masked path: never applied without its own yes */
};

struct change {
	char *path; /* relative, any bytes but NUL */
	enum change_kind kind;
	unsigned flags;
	mode_t mode_before, mode_after;
	uint64_t size_before, size_after;
	const char *why; /* static text for the flags, NULL when none */
};

struct changes {
	struct change *v;
	size_t n;
};

/* What a run did to its workspace: the upper layer read against the original. `since` is when the run began
 * (CLOCK_REALTIME ns). Sorted by path. */
int workspace_changes(int upper_fd, int lower_fd, uint64_t since, struct changes *ret, struct err *e) MUST_CHECK;
void changes_release(struct changes *c);

/* Only how many, stopping early when `cap` is reached: cheap on the way out of every run. */
int workspace_count_changes(int upper_fd, int lower_fd, uint64_t cap, uint64_t *ret, struct err *e) MUST_CHECK;

struct apply_opts {
	struct strv paths;	   /* only these (and below); empty: all */
	struct strv allow_special; /* --allow-special PATH */
	struct strv allow_trigger; /* --allow PATH: its own yes for what the host may run */
	struct strv force;	   /* --force PATH: although the original changed */
	bool dry_run;
};

struct apply_result {
	size_t applied;
	struct changes refused; /* what stayed behind, with flags and why */
};

int workspace_apply(int upper_fd, int lower_fd, uint64_t since, const struct apply_opts *o,
		    struct apply_result *ret, struct err *e) MUST_CHECK;

/* Removes an ephemeral or discarded layer and verifies that nothing is left; *ret_n gets the entries removed. */
int workspace_wipe(int run_fd, const char *name, uint64_t *ret_n, struct err *e) MUST_CHECK;

/* Bytes and inodes that a layer uses now, for the disk limit; stops early past either cap. */
int workspace_usage(int upper_fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *ret_bytes,
		    uint64_t *ret_inodes, struct err *e) MUST_CHECK;

#endif
