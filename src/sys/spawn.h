/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program: one way for all of Cofferdam. src/sys/spawn_sites.txt lists every place that starts a process, those
 * that cannot use this file too, with the reason; tests/cli/test_repo.py compares the list with the code.
 *
 * A field that is left out means the strongest choice. Everything that weakens it is a named flag, so that the call shows
 * what the child keeps.
 *
 * Invariants:
 *  S1  Descriptors: the child has those of `fds` at their numbers, and no other. A number without a descriptor of ours is
 *            /dev/null, so that no later open() gets it.
 *  S2  Environment: exactly `env`; nothing where it is NULL. A caller that hands its own on names `environ`.
 *  S3  Identity: with `id` the host's root becomes that user and group, without supplementary groups; any other starter,
 *            also root of a user namespace, keeps its ids. In both cases no capability is permitted, effective,
 *            inheritable or ambient, no_new_privs is set and there is no core dump. The bounding set stays as it is: with
 *            no_new_privs no exec gains from it. Only SPAWN_SAME_ID keeps the starter's identity and capabilities.
 *  S4  Death: the child is killed when its starter dies, even if the starter dies before the child has asked the kernel
 *            for that. It asks after the last change of credentials, because a change cancels it. Only SPAWN_OUTLIVES
 *            lifts this.
 *  S5  Signals: none is blocked, ignored (but for `ignore`) or handled, whatever the starter has set.
 *  S6  Files: the umask is 077 and the working directory is /, unless a flag or `cwd` says otherwise.
 *  S7  Privilege: the child cannot gain any by exec, unless SPAWN_MAY_GAIN: a setuid program such as newuidmap. That
 *            flag needs SPAWN_SAME_ID.
 *  S8  Failure: a step that fails ends the child before exec, so no program ever runs with less than was asked for. The
 *            starter gets the step and its reason, and no process, descriptor or zombie is left. Success means that exec
 *            has happened, or that somebody killed the child before it: both are seen on its pidfd.
 *  S9  The child is a copy of the starter until exec, never one that shares its memory: a process that is about to
 *            change its identity must not be able to write to the one that keeps it.
 */
#ifndef SYS_SPAWN_H
#define SYS_SPAWN_H

#include "base/err.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup;

#define SPAWN_NULL (-1) /* in `fds`: /dev/null */
#define SPAWN_FDS_MAX 128
#define SPAWN_SIGNAL(sig) (1ULL << ((sig)-1))

enum spawn_flag {
	SPAWN_SAME_ID = 1 << 0,	   /* S3: keeps user, groups and capabilities */
	SPAWN_OUTLIVES = 1 << 1,   /* S4: may outlive its starter; the caller says how it ends */
	SPAWN_MAY_GAIN = 1 << 2,   /* S7. Needs SPAWN_SAME_ID */
	SPAWN_KEEP_CWD = 1 << 3,   /* S6 */
	SPAWN_KEEP_UMASK = 1 << 4, /* S6 */
	SPAWN_MEMLOCK = 1 << 5,	   /* may lock any amount of memory, where its starter may grant that */
	SPAWN_SESSION = 1 << 6,	   /* a session of its own: no terminal, no signals from one */
	SPAWN_GROUP = 1 << 7,	   /* a process group of its own, which can be killed as a whole */
	SPAWN_FOREGROUND = 1 << 8, /* that group is in the foreground of `terminal` */
	SPAWN_CWD_FD = 1 << 9,	   /* the working directory is `cwd_fd` */
	SPAWN_NO_CAPS = 1 << 10,   /* S3, with SPAWN_SAME_ID: the capabilities go, user and groups stay */
	SPAWN_ORPHAN = 1 << 11, /* not our child: neither pid nor pidfd is returned. Needs SPAWN_OUTLIVES */
	SPAWN_LATER = 1 << 12,	/* does not wait for exec, to start several at once. See spawn_told() */
};

/* The steps of the child, in the order in which they are done. */
enum spawn_step {
	SPAWN_STEP_CGROUP,
	SPAWN_STEP_SESSION,
	SPAWN_STEP_ORPHAN,
	SPAWN_STEP_TERMINAL,
	SPAWN_STEP_CWD,
	SPAWN_STEP_FDS,
	SPAWN_STEP_LIMITS,
	SPAWN_STEP_ID,
	SPAWN_STEP_PRIVS,
	SPAWN_STEP_DEATH,
	SPAWN_STEP_SIGNALS,
	SPAWN_STEP_EXEC,
	SPAWN_STEP_COUNT,
};

/* Hard and soft limit are lowered to this; never raised. */
struct spawn_limit {
	int what; /* RLIMIT_* */
	uint64_t most;
};

struct spawn {
	const char *name; /* in messages; NULL: argv[0] */
	const char
		*path; /* with a slash: that file; without: looked for in PATH. NULL: the program is `exe` */
	int exe;       /* an open program; it is closed in the child */
	char *const *argv;
	char *const *env; /* S2 */
	const int *fds;	  /* S1: fds[i] becomes descriptor i; the same one may be there twice */
	size_t n_fds;	  /* at least three */
	unsigned flags;	  /* enum spawn_flag */
	uint32_t id;	  /* S3: user and group, when the flags have no SPAWN_SAME_ID */
	uint64_t ignore;  /* SPAWN_SIGNAL() of those that stay ignored */
	const struct spawn_limit *limits;
	size_t n_limits;
	const struct cgroup *cgroup; /* the child enters it first; NULL: it stays in the starter's */
	const char *cwd;	     /* NULL: / */
	int cwd_fd;
	int terminal;
};

struct spawned {
	pid_t pid;  /* 0 with SPAWN_ORPHAN */
	int pidfd;  /* CLOEXEC; -1 with SPAWN_ORPHAN */
	int report; /* with SPAWN_LATER, for spawn_told(); otherwise -1 */
};

#define SPAWNED_INIT ((struct spawned){ 0, -1, -1 })

/* Returns after exec has succeeded or a step has failed (S8): 0 or the negative errno of that step; the message is "cannot start
 * NAME: STEP: REASON". *ret_step is the step that failed, SPAWN_STEP_COUNT
 * when no child was made or none failed. */
int spawn_start(const struct spawn *s, struct spawned *ret, struct err *e) MUST_CHECK;
int spawn_start_step(const struct spawn *s, struct spawned *ret, enum spawn_step *ret_step,
		     struct err *e) MUST_CHECK;

/* With SPAWN_LATER: waits for exec or a failed step, as spawn_start() does otherwise, and closes the report. After a failure the
 * child is about to end, and the caller reaps it. */
int spawn_told(int report, const char *name, enum spawn_step *ret_step, struct err *e) MUST_CHECK;

/* spawn_start() in this process, which becomes the program. Returns only on failure, with some of the steps done: the caller can
 * only report it and exit. S4 does not apply. */
int spawn_exec(const struct spawn *s, struct err *e);

/* The status of a child that another process, or the kernel itself, has reaped: how it ended is unknown, so it failed. */
#define SPAWN_STATUS_UNKNOWN (255 << 8)

/* Waits for its end and closes the pidfd: the status as waitpid() has it, or SPAWN_STATUS_UNKNOWN. */
int spawn_wait(struct spawned *p);

/* S4 for a forked child that executes nothing: it is killed when `parent` dies, and ends here when that has happened already.
 * Call after the last change of credentials. */
void spawn_die_with(pid_t parent);

/* S5 for a forked child that executes nothing. */
void spawn_plain_signals(uint64_t ignore);

/* "NAME=VALUE" of each of these variables that is set. */
int spawn_env_copy(struct strv *env, const char *const *names, size_t n) MUST_CHECK;

/* The environment of this process without these variables. */
int spawn_env_but(struct strv *env, const char *const *names, size_t n) MUST_CHECK;

#endif
