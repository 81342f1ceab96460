/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces on the host's side: which directory may be one, what is hidden in it from a sandbox, what a run changed, and
 * how changes are applied to the original. Works on directory fds; never runs a program; never follows a symlink that the
 * sandbox made.
 */
#ifndef WORKSPACE_WORKSPACE_H
#define WORKSPACE_WORKSPACE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "sandbox/spec/spec.h"
#include "workspace/tree/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

/* May this directory be shown to a sandbox as its workspace? Refuses /, home directories and all that is above one,
 * directories of the system, directories that hold keys, and the state directory with all above and below it. */
int workspace_may_use(int dir_fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

/* May this be bound with -v? Refuses everything that workspace_may_use() refuses; sockets, pipes and devices, and
 * directories that hold such sockets; files and directories that hold keys, and every directory above one. */
int workspace_may_bind(int fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

#define WORKSPACE_MASKS_MAX 4096

/*
 * Finds what is hidden from a sandbox: files that usually hold credentials, sockets and pipes (each leads to a process of
 * the host), directories that this user may not read (but their owner, inside, could open). `show` are relative paths that
 * the user does not want hidden; "." hides nothing and skips the search. Sorted; nothing is listed below a listed
 * directory. -E2BIG above WORKSPACE_MASKS_MAX. The caller frees with masks_free().
 */
int workspace_find_masks(int dir_fd, const struct strv *show, struct mask **ret_masks, size_t *ret_n,
			 struct err *e) MUST_CHECK;
void masks_free(struct mask *m, size_t n);

/*
 * Turns the masks of the original into those of the original with a copied layer over it: adds the layer's entries of that
 * kind, drops those that the layer deleted. `path` is the original's, NULL: there is none. `mapped`: the layer belongs to
 * subordinate ids, see owner.h. On an error the masks are unchanged.
 */
int workspace_merge_masks(struct base base, const char *path, const struct strv *show, bool mapped,
			  struct mask **masks, size_t *n_masks, struct err *e) MUST_CHECK;

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

/* Credentials found in one file. Those that are not the vault's are recorded by digest, so that a replaced one is noticed. */
#define APPLY_TOKENS_MAX 1000
#define APPLY_DIGEST_LEN 32
struct apply_token {
	const char *what; /* static text */
	unsigned char digest[APPLY_DIGEST_LEN];
};

struct apply_found {
	bool ours; /* one of the vault's */
	size_t n;  /* APPLY_TOKENS_MAX: there may be more */
	struct apply_token *tokens;
};

struct apply_plan {
	const struct changes *all;
	const unsigned char *go; /* for each: 1 when it will be applied */
	size_t n_go;
	const struct changes *refused; /* requested changes that will not be applied, with their reasons */
	/* With apply_opts.bind: over everything that will be written (digest.h). */
	unsigned char digest[APPLY_DIGEST_LEN];
};

/* Adds one; -ENOMEM. Entries beyond APPLY_TOKENS_MAX are left out. */
int apply_found_add(struct apply_found *f, const char *what,
		    const unsigned char digest[APPLY_DIGEST_LEN]) MUST_CHECK;

struct apply_opts {
	struct strv paths;	   /* only these (and below); empty: all */
	struct strv allow_special; /* --allow-special PATH */
	struct strv
		allow_trigger; /* --allow PATH: its own yes for what the host may run, or what is masked */
	struct strv force;     /* --force PATH: although the original changed */
	const struct obeyed *obeyed; /* files that coffer itself obeys (obeyed.h); NULL: none */
	bool dry_run;
	/* before() may take long: afterwards exactly the plan that it saw is written, by its digest, or nothing. */
	bool bind;
	/* Called after all decisions and before the first write; a negative return aborts. May be NULL. */
	int (*before)(void *arg, const struct apply_plan *plan, struct err *e);
	/* Searches a file that would be applied, and its original, for credentials: a credential that the original does not
	 * have, or any of the vault's, needs a yes (--allow PATH). An error aborts. May be NULL. */
	int (*look)(void *arg, int fd, struct apply_found *ret, struct err *e);
	void *arg;
};

struct apply_result {
	size_t total;		/* all changes of the run */
	size_t asked;		/* of those, within `paths` */
	size_t applied;		/* in a dry run: would be applied */
	struct changes refused; /* requested and not applied, with flags and reasons */
};

/*
 * Applies changes to the original directory. Never writes outside it, whatever the sandbox left in the layer and whatever
 * happens to the directory meanwhile. A change that cannot be applied is listed as refused with its reason; the others are
 * still applied. Applied changes are on the disk when it returns.
 */
int workspace_apply(int upper_fd, int lower_fd, uint64_t since, const struct apply_opts *o,
		    struct apply_result *ret, struct err *e) MUST_CHECK;
void apply_result_release(struct apply_result *r);

/* Removes an ephemeral or discarded layer and verifies that nothing is left; *ret_n gets the number of entries removed.
 * Files of an ordinary user's subordinate ids are removed in `userns`, the user namespace that the sandbox had; -1: in a
 * new one, which needs newuidmap. */
int workspace_wipe(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e) MUST_CHECK;

/* Bytes and inodes that a layer uses now, for the disk limit; stops early above either cap. Safe on a layer in use: entries
 * made or removed meanwhile may be missed, and files that are open but deleted cannot be seen. -ESTALE when directories
 * move faster than they can be measured: freeze the sandbox and retry. */
int workspace_usage(int upper_fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *ret_bytes,
		    uint64_t *ret_inodes, struct err *e) MUST_CHECK;

#endif
