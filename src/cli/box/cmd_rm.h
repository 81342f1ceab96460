/* SPDX-License-Identifier: Apache-2.0 */
/* Removing ended runs, for the verbs and options that do (rm, prune, run --rm). */
#ifndef CLI_CMD_RM_H
#define CLI_CMD_RM_H

#include "audit/audit.h"
#include "base/err.h"
#include "cli/common/run_size.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <sys/types.h>

/* State and log, once what a crash left is finished. */
struct rm_session {
	struct state st;
	struct audit *audit;
};

#define RM_SESSION_INIT ((struct rm_session){ .st = STATE_INIT })

int rm_open(struct rm_session *s, struct err *e) MUST_CHECK;
void rm_release(struct rm_session *s);

/* Removes one run with its layers and its name, logged before. With `force` one that runs is stopped first, and one that
 * is not there is no error. */
int rm_run(struct rm_session *s, const char *ref, bool force, struct err *e) MUST_CHECK;

/*
 * Runs that have ended, those that ended longest ago last; of those with a restart policy only what was stopped for good,
 * because the others may be started again. older_ns: how long ago they ended at least.
 */
struct rm_found {
	char id[RUN_ID_LEN + 1];
	struct run_meta meta;
	struct run_size size;
};

struct rm_list {
	struct rm_found *v;
	size_t n, room;
	size_t kept; /* that have ended and may be started again */
};

/* Has it a restart policy, and was not stopped for good? */
bool rm_may_come_back(int run_fd, const struct run_meta *m);

int rm_find_ended(struct rm_session *s, uint64_t older_ns, struct rm_list *ret, struct err *e) MUST_CHECK;
/* Removes one of the list, unless it was started since: then -EBUSY. */
int rm_found(struct rm_session *s, const struct rm_found *x, struct err *e) MUST_CHECK;
void rm_list_release(struct rm_list *l);

/*
 * run --rm: a process that removes the run once its launcher has ended, however that ended. It is forked before the
 * launcher confines itself, because the layers of a mapped range of ids cannot be removed after that.
 */
struct rm_keeper {
	pid_t pid;
	int pipe; /* the run's id, then EOF */
};

#define RM_KEEPER_INIT ((struct rm_keeper){ .pid = -1, .pipe = -1 })

int rm_keeper_start(struct rm_keeper *k, struct err *e) MUST_CHECK;
int rm_keeper_tell(const struct rm_keeper *k, const char *id, struct err *e) MUST_CHECK;
/* Waits for the removal; 0 or an exit code, and then the keeper has said why. */
int rm_keeper_end(struct rm_keeper *k);

#endif
