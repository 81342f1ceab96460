/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs/ID/obeys: the files of the host that a run obeys (its policy and the files that names, its profile, the runsc that was
 * named), and the directories of the host that it may write to. A sandbox must not write to a file that another one, or the
 * next, obeys: coffer apply, coffer diff and the start of any other run of this state directory check that.
 *
 * STATE/obeyed: the last OBEYS_LAST_MAX different files, also of runs that were removed: a policy that was named yesterday
 * will be named tomorrow.
 */
#ifndef RUN_OBEYS_H
#define RUN_OBEYS_H

#include "base/str.h"
#include "netd/plan/net_plan.h"
#include "sandbox/spec/spec.h"
#include "sandbox/state/state.h"

#define OBEYS_LAST_MAX 1000

struct obeys {
	struct strv policies; /* absolute paths: as typed, and the real ones */
	struct strv files;    /* the same, of all other files */
	struct strv writes;   /* real paths of writable binds and of a workspace with :rw */
	bool i_know;	      /* --i-know: conflicts are not refused; not stored */
};

#define OBEYS_INIT ((struct obeys){ .policies = STRV_INIT, .files = STRV_INIT, .writes = STRV_INIT })

/* Adds a file as it was typed, made absolute from the current directory. */
int obeys_add(struct strv *l, const char *typed) MUST_CHECK;
/* Adds the files that a compiled policy was read from, and the directories that a spec lets the sandbox write to. */
int obeys_add_policy(struct obeys *o, const struct config_policy *cp) MUST_CHECK;
int obeys_add_spec(struct obeys *o, const struct spec *s) MUST_CHECK;

/* Adds them to STATE/obeyed. */
int obeys_note(const struct obeys *o, struct state *st, struct err *e) MUST_CHECK;
/* Stores them with the run, then compares with all other live runs: a file that one obeys must not be where another writes. */
int obeys_keep(const struct obeys *o, struct state *st, int run_fd, const char *id, struct err *e) MUST_CHECK;
/* Adds the entries of a run; none where it stored none. */
int obeys_read(int run_fd, struct obeys *o, struct err *e) MUST_CHECK;
/* Adds the entries of STATE/obeyed. */
int obeys_read_last(struct state *st, struct obeys *o, struct err *e) MUST_CHECK;
void obeys_release(struct obeys *o);

#endif
