/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer cp out of a sandbox: holds back files that need a permission of their own (--allow, --allow-special). The
 * file that SRC itself names is copied, unless it is a symlink or would complete a git repository; of the files below a
 * directory, the same are held back as with coffer apply (doc/triggers.md). A symlink that leads outside of the copy is
 * held back everywhere: a later copy to the same DST would follow it.
 */
#ifndef CLI_CP_HOLD_H
#define CLI_CP_HOLD_H

#include "sandbox/init/copy.h"
#include "sandbox/state/state.h"
#include "workspace/change/obeyed.h"
#include "workspace/tree/trigger.h"

struct cp_hold {
	/* normalised paths as messages show them, relative to the directory that DST is in */
	struct strv allow, allow_special;
	struct obeyed obeyed;
	char *real; /* the absolute path of that directory */
	struct buf path;
	struct {
		size_t path_len;
		struct trigger_place place;
		unsigned
			parts; /* the parts of a git repository that came so far, including those that were held back */
	} level[PACK_DEPTH_MAX + 1];
	uint64_t held;
};

/* `dir` is the directory that the copy is written to. */
int cli_cp_hold_open(struct cp_hold *h, int dir, struct state *st, struct err *e) MUST_CHECK;
/* The callback `may` of the unpacker: 1 if the entry may be written, 0 if it is held back, or -ENOMEM. */
int cli_cp_hold_may(void *ctx, unsigned depth, int dir, const char *name, bool is_dir, const char *link);
void cli_cp_hold_release(struct cp_hold *h);

#endif
