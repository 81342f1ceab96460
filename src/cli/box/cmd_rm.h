/* SPDX-License-Identifier: Apache-2.0 */
/* Removes ended runs, for rm, prune and run --rm. */
#ifndef CLI_CMD_RM_H
#define CLI_CMD_RM_H

#include "audit/audit.h"
#include "base/err.h"
#include "cli/common/run_size.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <sys/types.h>

/* State and audit log; cli_rm_open() also ends runs that a crash left unfinished. */
struct rm_session {
	struct state st;
	struct audit *audit;
};

#define RM_SESSION_INIT ((struct rm_session){ .st = STATE_INIT })

int cli_rm_open(struct rm_session *s, struct err *e) MUST_CHECK;
void cli_rm_release(struct rm_session *s);

/* Removes a run with its layers and its name, after logging that. With `force` a live run is stopped first,
 * and a run that does not exist is no error. */
int cli_rm_run(struct rm_session *s, const char *ref, bool force, struct err *e) MUST_CHECK;

/* A run that has ended, as cli_rm_find_ended() found it. */
struct rm_found {
	char id[RUN_ID_LEN + 1];
	struct run_meta meta;
	struct run_size size;
};

struct rm_list {
	struct rm_found *v;
	size_t n, room;
	size_t kept; /* number of runs that have ended but may be restarted, so that they are not in the list */
};

/* Does the run have a restart policy, and was it not stopped for good? */
bool cli_rm_may_come_back(int run_fd, const struct run_meta *m);

/*
 * Lists the runs that ended at least older_ns ago, in the order of state_run_list(). A run with a restart
 * policy is listed only if it was stopped for good, because cofferd may restart it otherwise.
 */
int cli_rm_find_ended(struct rm_session *s, uint64_t older_ns, struct rm_list *ret, struct err *e) MUST_CHECK;
/* Removes a run of the list; -EBUSY if it was started since. */
int cli_rm_remove_found(struct rm_session *s, const struct rm_found *x, struct err *e) MUST_CHECK;
void cli_rm_list_release(struct rm_list *l);

/*
 * run --rm: a process that removes the run once its launcher has ended, for any reason. It is forked before
 * the launcher confines itself, because a confined process cannot remove layers whose files belong to a
 * mapped range of ids.
 */
struct rm_keeper {
	pid_t pid;
	int pipe; /* carries the run's id; EOF when the launcher has ended */
};

#define RM_KEEPER_INIT ((struct rm_keeper){ .pid = -1, .pipe = -1 })

int cli_rm_keeper_start(struct rm_keeper *k, struct err *e) MUST_CHECK;
int cli_rm_keeper_tell(const struct rm_keeper *k, const char *id, struct err *e) MUST_CHECK;
/* Waits for the removal. Returns 0, or an exit code after the process has printed the error. */
int cli_rm_keeper_end(struct rm_keeper *k);

#endif
