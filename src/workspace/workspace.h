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
#include "sandbox/spec/spec.h"
#include "workspace/tree/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

/* May this directory be shown to a sandbox as its workspace? Refuses /, home directories and all that is above one,
 * directories of the system, directories that hold keys, and the state directory with all above and below it. */
int workspace_may_use(int dir_fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

/* May this be bound with -v? Refuses what workspace_may_use() does; sockets, pipes and devices, and directories that
 * hold such sockets; files and directories that hold keys, and all that is above such a directory. */
int workspace_may_bind(int fd, const char *path, const char *state_path, struct err *e) MUST_CHECK;

#define WORKSPACE_MASKS_MAX 4096

/*
 * Finds what is hidden from a sandbox: files that usually hold credentials, sockets and pipes (each a line to some
 * process of the host), directories that this user may not read (but their owner, inside, could open). `show` are
 * paths (relative) that the user wants open; "." opens all and skips the search. Sorted; nothing is listed below a
 * directory that is. -E2BIG past WORKSPACE_MASKS_MAX. The caller frees with masks_free().
 */
int workspace_find_masks(int dir_fd, const struct strv *show, struct mask **ret_masks, size_t *ret_n,
			 struct err *e) MUST_CHECK;
void masks_free(struct mask *m, size_t n);

/*
 * The original's masks become those of the original with a copied layer over it: also what the layer holds of that kind,
 * without what it has taken away. `path` is the original's, NULL: there is none. `mapped`: the layer belongs to
 * subordinate ids, see owner.h. With an error they are as they were.
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
	CHANGE_TRIGGER = 2,   /* something the host may run unasked: hooks, CI files, editor settings, … */
	CHANGE_CONFLICT = 4,  /* the original changed since the run began */
	CHANGE_SECRETIVE = 8, /* a name that is masked: never applied without its own yes */
	CHANGE_LEAK = 16,     /* credentials in it; only apply looks into files */
	CHANGE_HELD = 32      /* cannot go out whatever anybody says; or, in a result, could not */
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

	/* The original as it was seen, so that apply finds out when it is another by then. */
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
 * What a run did to its workspace: the upper layer read against what it lies on. `since` is when the run began
 * (CLOCK_REALTIME ns). In the order of a walk: a directory, then what is in it, then its neighbour. Of a directory
 * that was deleted all that was in it is listed too. -E2BIG when the list would not fit into memory that is
 * reasonable (WORKSPACE_LIST_MAX bytes); a directory whose path is longer than WORKSPACE_PATH_MAX is one held change.
 */
int workspace_changes(int upper_fd, struct base base, uint64_t since, struct changes *ret,
		      struct err *e) MUST_CHECK;
void changes_release(struct changes *c);

#define WORKSPACE_PATH_MAX 32768
#define WORKSPACE_LIST_MAX (512ULL << 20)

/* Only how many (as many as workspace_changes() would list), stopping early when `cap` is reached: cheap on the way out
 * of every run. */
int workspace_count_changes(int upper_fd, struct base base, uint64_t cap, uint64_t *ret,
			    struct err *e) MUST_CHECK;

/* Adds the content of one change as a unified diff (or why there is none), made harmless for a terminal. Bounded in time
 * and size. 0 or negative errno when it cannot be read. */
int workspace_patch(int upper_fd, struct base base, const struct change *c, struct buf *out) MUST_CHECK;

/* Credentials in one file: of those that are not the vault's which, so that one in the place of another is noticed. */
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
	const unsigned char *go; /* for each: 1 when it will go out */
	size_t n_go;
	const struct changes *refused; /* what is in the way of the others that were asked for */
	/* With apply_opts.bind: over all that will be written (digest.h). */
	unsigned char digest[APPLY_DIGEST_LEN];
};

/* One more; -ENOMEM. What is beyond APPLY_TOKENS_MAX is left out. */
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
	/* before() may take its time: what is written then is what it saw, by its digest, or nothing. */
	bool bind;
	/* Called once all is decided and nothing is done yet; a negative return ends it there. May be NULL. */
	int (*before)(void *arg, const struct apply_plan *plan, struct err *e);
	/* Looks into a file that is to go out, and into the original beside it: a credential that was not in there, or any of
	 * the vault's, needs a yes (--allow PATH). An error ends it all. May be NULL. */
	int (*look)(void *arg, int fd, struct apply_found *ret, struct err *e);
	void *arg;
};

struct apply_result {
	size_t total;		/* changes that there were */
	size_t asked;		/* of those, within `paths` */
	size_t applied;		/* went out; in a dry run: would */
	struct changes refused; /* what was asked for and stayed behind, with flags and why */
};

/*
 * Brings changes back to the original directory. Never writes outside it, whatever the sandbox left behind and
 * whatever happens to the directory meanwhile. One change that cannot go out stays behind with its reason; the
 * others go on. All that went out is on the disk when it returns.
 */
int workspace_apply(int upper_fd, int lower_fd, uint64_t since, const struct apply_opts *o,
		    struct apply_result *ret, struct err *e) MUST_CHECK;
void apply_result_release(struct apply_result *r);

/* Removes an ephemeral or discarded layer and verifies that nothing is left; *ret_n gets the entries removed. What
 * belongs to an ordinary user's subordinate ids is removed in `userns`, the user namespace that the sandbox had; -1:
 * in a new one, which needs newuidmap. */
int workspace_wipe(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e) MUST_CHECK;

/* Bytes and inodes that a layer uses now, for the disk limit; stops early past either cap. Safe on a layer that is in
 * use: what comes and goes meanwhile may be missed, and files that are open but deleted cannot be seen. -ESTALE when
 * directories are moved about faster than they can be measured: freeze the sandbox and ask again. */
int workspace_usage(int upper_fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *ret_bytes,
		    uint64_t *ret_inodes, struct err *e) MUST_CHECK;

#endif
