/* SPDX-License-Identifier: Apache-2.0 */
/* A run with its layer and the original directory beneath it, shared by diff, apply and discard; and the
 * format of a change for people. */
#ifndef CLI_CHANGED_H
#define CLI_CHANGED_H

#include "audit/audit.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "sandbox/state/state.h"
#include "workspace/change/changes.h"

#include <stdbool.h>

struct changed {
	struct state st;
	char id[RUN_ID_LEN + 1];
	struct run_meta meta;
	int run_fd;
	int upper, lower; /* -1 until cli_changed_open_trees() */
	int layers; /* the directory of upper; a disk image stays mounted while it is open. -1 if a launcher has it mounted */
	int layer; /* for a call over another run's workspace: that run's layer, between upper and lower; else -1 */
	bool alive;
};

#define CHANGED_INIT       \
	((struct changed){ \
		.st = STATE_INIT, .run_fd = -1, .upper = -1, .lower = -1, .layer = -1, .layers = -1 })

/* Opens the audit log, and ends runs that a crash left unfinished. */
int cli_changed_audit(struct audit **ret, struct err *e) MUST_CHECK;

/* Resolves and opens the run. With `claim` it is locked until cli_changed_release(), and a run that is still
 * alive is refused. */
int cli_changed_open(struct changed *c, const char *ref, bool claim, struct err *e) MUST_CHECK;

/*
 * A run that changed nothing leaves no directory: only the audit log knows it. Returns whether `ref` is such
 * a run, and puts its id into `id`.
 */
bool cli_changed_nothing(const char *ref, char id[RUN_ID_LEN + 1]) MUST_CHECK;

/* Opens the run's layer and the original directory. If the run has no layer, the error explains why. */
int cli_changed_open_trees(struct changed *c, struct err *e) MUST_CHECK;
/* The directories beneath the layer. */
static inline struct base changed_base(const struct changed *c)
{
	return (struct base){ c->layer, c->lower };
}
/* The time from which a change of the original is a conflict, in nanoseconds since the epoch. */
static inline uint64_t changed_since(const struct changed *c)
{
	return c->meta.over ? c->meta.over_time : c->meta.started;
}

/* Lists the run's changes. Files that coffer itself obeys are marked among them (obeyed_files.h). */
int cli_changed_list(struct changed *c, struct changes *ret, struct err *e) MUST_CHECK;

/* Opens the original directory alone. */
int cli_changed_open_original(struct changed *c, struct err *e) MUST_CHECK;
/* Returns 0 if the run has a layer, else the error that cli_changed_open_trees() gives. */
int cli_changed_has_layer(const struct changed *c, struct err *e) MUST_CHECK;

/*
 * Converts paths as a person types them (relative to the workspace, or absolute on the host) to the form that
 * the workspace room uses. With `option` (such as "--allow") the workspace as a whole is refused: a
 * permission has to name a path.
 */
int cli_changed_paths(const struct changed *c, struct strv *paths, const char *option,
		      struct err *e) MUST_CHECK;

/* Wipes the layer, removes the run, and logs the removal. The caller has logged the reason. */
int cli_changed_remove(struct changed *c, struct audit *a, uint64_t *ret_n, struct err *e) MUST_CHECK;
void cli_changed_release(struct changed *c);

/* "A", "M", "D", "m" (mode only), "T" (type) */
char cli_change_letter(const struct change *c);

/* "A dir/", "m run.sh (0644 -> 0755)", with control characters in names escaped. */
void cli_change_format(const struct change *c, struct buf *out);

/* Adds all reasons why the change is not applied by itself, joined by "; ". */
void cli_change_add_reasons(const struct change *c, struct buf *out);

/* Adds the options of coffer apply that would let the change through, quoted for a shell; nothing if none
 * would. */
void cli_change_add_options(const struct change *c, struct buf *out);

#endif
