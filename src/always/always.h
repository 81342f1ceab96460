/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An approval for good: the policy file of a run gets the rule by which the question is not asked again. Done by the person's own
 * process (`coffer approve --always`), never by the guard: a guard that an attacker owns edits nothing.
 *
 *	always_open(&a, run_fd, ask, &e);       what would be written: a.diff shows it to the person
 *	always_commit(&a, audit, &who, &e);     and it is, if the file still is what was shown
 *
 * Invariants
 *  W1  The new policy is compiled as the run's guard compiles it, before a byte is written: it allows what was asked, on the terms
 *      of the rule that asked, and decides every other question that either policy names as before.
 *  W2  The rule is for exactly what was asked: one host and port, one method and path, one operation, one ref; one tool, under the
 *      conditions of the rule that asked; one secret at one host and port. Where the rule that asks is for more than one host or
 *      port, or the edit could not be exact, nothing is written, and words say why.
 *  W3  The file is the old one or the new one at each moment: a new file beside it, synced, takes its name; owner and mode
 *      stay. It is not replaced where that would change more than its bytes: another's file, links, access lists.
 *  W4  In the log (policy.edit) before it takes the name. Two at once wait for each other, and the second edits what the first wrote.
 */
#ifndef ALWAYS_ALWAYS_H
#define ALWAYS_ALWAYS_H

#include "approval/list/asks.h"
#include "audit/audit.h"
#include "netd/plan/net_plan.h"

#include <jansson.h>

struct always {
	struct net_plan plan;
	char run[RUN_ID_LEN + 1], ask[ASK_ID_MAX];
	struct buf before, after; /* the file's bytes */
	struct buf diff;	  /* of the two, for a terminal */
	bool needed;		  /* false: the policy allows it already */
};

#define ALWAYS_INIT ((struct always){ .plan = NET_PLAN_INIT })

/* `ask` is what askc_show() gave. -EOPNOTSUPP: there is no such rule, or it cannot be written; -EPERM: what denies it would still. */
int always_open(struct always *a, int run_fd, const json_t *ask, struct err *e) MUST_CHECK;
/* -EAGAIN: the file is another than when it was shown; open it anew. */
int always_commit(struct always *a, struct audit *audit, const struct ask_who *who, struct err *e) MUST_CHECK;
void always_release(struct always *a);

/* ---- What the files of it share. ---- */

#define ALWAYS_ACTS_MAX 32

enum always_kind { ALWAYS_CONNECT, ALWAYS_HTTP, ALWAYS_GRAPHQL, ALWAYS_GIT, ALWAYS_SECRET };

/* One thing that a rule can be for. Texts point into the question. */
struct always_act {
	enum always_kind kind;
	bool widen;	  /* nobody asks yet: what no rule allows is to be allowed */
	struct host host; /* of a pattern, which only a rule that is asked for may have: one that it covers */
	char host_text[HOST_MAX + 3];
	uint16_t port;
	char method[ASK_METHOD_MAX + 1];
	char *path;	/* canonical, without query */
	char *pattern;	/* the same as a rule has it */
	char *query;	/* without "?" */
	char name[256]; /* a field, a ref, a secret */
	unsigned act;	/* 1 << enum graphql_type, an enum policy_push_act; 0: a fetch */
	char repo[ASK_PATH_MAX + 1];
};

struct always_acts {
	struct always_act v[ALWAYS_ACTS_MAX];
	size_t n;
};

/* always_act.c: what the question is about. -EOPNOTSUPP with words where a policy has no rules for it. */
int always_acts_read(struct always_acts *l, const json_t *ask, struct err *e) MUST_CHECK;
void always_acts_release(struct always_acts *l);
void always_act_decide(const struct policy *p, const struct always_act *x, struct policy_verdict *ret);
/* As an entry of a rule: "PUT /x", "mutation merge", "push o/r refs/heads/x create". */
void always_act_text(const struct always_act *x, struct buf *out);
/* "api.github.com:443 PUT /x", for messages */
void always_act_shown(const struct always_act *x, struct buf *out);

/* As the run's guard does it, with another text in the file. */
int always_compile(const struct always *a, const struct buf *text, struct config_policy *ret,
		   struct err *e) MUST_CHECK;

/* always_tool.c: edits a->after. */
int always_tool(struct always *a, const json_t *ask, struct err *e) MUST_CHECK;
int always_apply(struct always *a, const json_t *ask, struct err *e) MUST_CHECK;

/* always_file.c */
int always_file_read(const char *path, struct buf *ret, struct err *e) MUST_CHECK;
/* Replaces it if it still is `before`; log() is called when all is written and nothing has changed yet. */
int always_file_write(const char *path, const struct buf *before, const struct buf *after,
		      int (*log)(void *ctx, struct err *e), void *ctx, struct err *e) MUST_CHECK;

#endif
