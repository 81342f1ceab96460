/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer cp out of a sandbox: what stays behind without a yes of its own. What SRC names itself goes where DST says; of what
 * is below a directory the same stays behind as with coffer apply (doc/triggers.md).
 */
#ifndef CLI_CP_HOLD_H
#define CLI_CP_HOLD_H

#include "sandbox/init/copy.h"
#include "sandbox/state/state.h"
#include "workspace/change/obeyed.h"
#include "workspace/tree/trigger.h"

struct cp_hold {
	struct strv
		allow; /* normalised; the paths are those that are said, from the directory that DST is in */
	struct obeyed obeyed;
	char *real; /* the path of that directory */
	struct buf path;
	struct {
		size_t path_len;
		struct trigger_place place;
		unsigned parts; /* of a repository, that came, also those that were held */
	} level[PACK_DEPTH_MAX + 1];
	uint64_t held;
};

/* `dir` is where the copy goes. */
int cp_hold_open(struct cp_hold *h, int dir, struct state *st, struct err *e) MUST_CHECK;
int cp_hold_may(void *ctx, unsigned depth, int dir, const char *name, bool is_dir);
void cp_hold_release(struct cp_hold *h);

#endif
