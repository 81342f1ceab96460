/* SPDX-License-Identifier: Apache-2.0 */
/* What diff, apply and discard share: a run with its layer and the directory that it was laid over, and how a change is
 * shown to a person. */
#ifndef CLI_CHANGED_H
#define CLI_CHANGED_H

#include "audit/audit.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "sandbox/state/state.h"
#include "workspace/workspace.h"

#include <stdbool.h>

struct changed {
	struct state st;
	char id[RUN_ID_LEN + 1];
	struct run_meta meta;
	int run_fd;
	int upper, lower; /* -1 until changed_open_trees() */
	int layers; /* the same: what upper is in; a disk image is mounted as long. -1: a launcher has it */
	int layer;  /* the same: between them, of a call over another run's workspace; -1: none */
	bool alive;
};

#define CHANGED_INIT       \
	((struct changed){ \
		.st = STATE_INIT, .run_fd = -1, .upper = -1, .lower = -1, .layer = -1, .layers = -1 })

/* The audit log, once what a crash left of other runs is finished. */
int changed_audit(struct audit **ret, struct err *e) MUST_CHECK;

/* Finds the run. With `claim` it is held until released, and one that still runs is refused. */
int changed_open(struct changed *c, const char *ref, bool claim, struct err *e) MUST_CHECK;

/*
 * A run that changed nothing leaves nothing to open: only the log knows it. Whether `ref` is such a one, whose id is put
 * into `id` then.
 */
bool changed_nothing(const char *ref, char id[RUN_ID_LEN + 1]) MUST_CHECK;

/* Opens its layer and the original directory; an error that explains where a run has no layer. */
int changed_open_trees(struct changed *c, struct err *e) MUST_CHECK;
/* What the layer lies on. */
static inline struct base changed_base(const struct changed *c)
{
	return (struct base){ c->layer, c->lower };
}
/* From when on a change of the original's is a conflict. */
static inline uint64_t changed_since(const struct changed *c)
{
	return c->meta.over ? c->meta.over_time : c->meta.started;
}

/* The changes of the run; files that coffer itself obeys are marked among them (obeyed_files.h). */
int changed_list(struct changed *c, struct changes *ret, struct err *e) MUST_CHECK;

/* The original alone. */
int changed_open_original(struct changed *c, struct err *e) MUST_CHECK;
/* That error alone. */
int changed_has_layer(const struct changed *c, struct err *e) MUST_CHECK;

/*
 * Paths as a person types them, inside the workspace or the host's absolute ones, become the form that the workspace room
 * uses. With `option` the workspace as a whole is refused: a yes names something.
 */
int changed_paths(const struct changed *c, struct strv *paths, const char *option, struct err *e) MUST_CHECK;

/* Wipes the layer, forgets the run, and logs that it is gone. The caller has logged why. */
int changed_remove(struct changed *c, struct audit *a, uint64_t *ret_n, struct err *e) MUST_CHECK;
void changed_release(struct changed *c);

/* "A", "M", "D", "m" (mode only), "T" (type) */
char change_letter(const struct change *c);

/* "A dir/", "m run.sh (0644 -> 0755)", with names made harmless. */
void change_format(const struct change *c, struct buf *out);

/* All reasons, joined by "; ". */
void change_add_reasons(const struct change *c, struct buf *out);

/* The options that would let it go out, quoted for a shell; nothing when none would. */
void change_add_options(const struct change *c, struct buf *out);

#endif
