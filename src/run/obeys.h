/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs/ID/obeys: which files of the host a run obeys (its policy and what that names, its profile, the runsc that was
 * named), and which directories of the host it may write to. For whoever must not let a sandbox write to what another one,
 * or the next, obeys: coffer apply and coffer diff of any run of this state directory, and the start of any other run.
 *
 * STATE/obeyed: the files of the last OBEYS_LAST_MAX different ones, also of runs that nothing is left of: who named a
 * policy yesterday names it tomorrow.
 */
#ifndef RUN_OBEYS_H
#define RUN_OBEYS_H

#include "base/str.h"
#include "netd/plan/net_plan.h"
#include "sandbox/spec/spec.h"
#include "sandbox/state/state.h"

#define OBEYS_LAST_MAX 1000

struct obeys {
	struct strv policies; /* absolute paths, as they were typed and as they were found */
	struct strv files;    /* the same, of all else */
	struct strv writes;   /* real paths of what is bound through */
	bool i_know;	      /* --i-know: not kept */
};

#define OBEYS_INIT ((struct obeys){ .policies = STRV_INIT, .files = STRV_INIT, .writes = STRV_INIT })

/* A file as it was typed, from the current directory. */
int obeys_add(struct strv *l, const char *typed) MUST_CHECK;
/* What a compiled policy was read from, and what a spec binds through. */
int obeys_add_policy(struct obeys *o, const struct config_policy *cp) MUST_CHECK;
int obeys_add_spec(struct obeys *o, const struct spec *s) MUST_CHECK;

/* Takes note in STATE/obeyed. */
int obeys_note(const struct obeys *o, struct state *st, struct err *e) MUST_CHECK;
/* Kept with the run, then compared with all that run: a file that one obeys must not be where another writes. */
int obeys_keep(const struct obeys *o, struct state *st, int run_fd, const char *id, struct err *e) MUST_CHECK;
/* Adds what a run keeps; nothing where it keeps nothing. */
int obeys_read(int run_fd, struct obeys *o, struct err *e) MUST_CHECK;
/* Adds what the last runs obeyed. */
int obeys_read_last(struct state *st, struct obeys *o, struct err *e) MUST_CHECK;
void obeys_release(struct obeys *o);

#endif
