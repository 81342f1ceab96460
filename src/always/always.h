/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approvals for good: adds the rule to the policy file of a run that makes its question unnecessary. Done by
 * the approver's own process (`coffer approve --always`), never by the guard: a compromised guard cannot edit
 * a policy.
 *
 *	always_open(&a, run_fd, ask, &e);       computes the new file; a.diff shows it to the person
 *	always_commit(&a, audit, &who, &e);     writes it, if the file still is what was shown
 *
 * Invariants (cited elsewhere as always.W1 …)
 * W1  The new policy is compiled as the run's guard compiles it, before a byte is written: it allows what was
 *     asked, on the terms of the rule that asked, and decides every other question that either policy names
 *     as before.
 * W2  The rule covers exactly what was asked: one host and port, one method and path, one operation, one ref;
 *     one tool under the conditions of the rule that asked; one secret at one host and port. If the rule that
 *     asks covers more than one host or port, or the edit could not be exact, nothing is written, and the
 *     error says why.
 * W3  The file is the old one or the new one at every moment: a new file beside it is synced and renamed over
 *     it; owner and mode stay. It is not replaced where that would change more than its bytes: another user's
 *     file, links, ACLs.
 * W4  The edit is in the log (policy.edit) before the rename. Concurrent edits wait for each other, and the
 *     second one edits the result of the first.
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
	struct buf before, after; /* content of the file */
	struct buf diff;	  /* from before to after, for a terminal */
	bool needed;		  /* false: the policy allows it already */
};

#define ALWAYS_INIT ((struct always){ .plan = NET_PLAN_INIT })

/* `ask` is the result of askc_show(). -EOPNOTSUPP: no such rule exists or can be written; -EPERM: another
 * rule would still deny it. */
int always_open(struct always *a, int run_fd, const json_t *ask, struct err *e) MUST_CHECK;
/* -EAGAIN: the file has changed since it was shown; call always_open() again. */
int always_commit(struct always *a, struct audit *audit, const struct ask_who *who, struct err *e) MUST_CHECK;
void always_release(struct always *a);

/* ---- Shared by the files of this room. ---- */

#define ALWAYS_ACTS_MAX 32

enum always_kind { ALWAYS_CONNECT, ALWAYS_HTTP, ALWAYS_GRAPHQL, ALWAYS_GIT, ALWAYS_SECRET };

/* One act that a rule can cover. Texts point into the question. */
struct always_act {
	enum always_kind kind;
	bool widen;	  /* a requested rule: no rule asks yet, and what no rule allows is to be allowed */
	struct host host; /* if the rule has a pattern (requested rules only): one host that it covers */
	char host_text[HOST_MAX + 3];
	uint16_t port;
	char method[ASK_METHOD_MAX + 1];
	char *path;	/* canonical, without query */
	char *pattern;	/* the path as the rule spells it */
	char *query;	/* without "?" */
	char name[256]; /* a field, a ref, a secret */
	unsigned act;	/* 1 << enum graphql_type, an enum policy_push_act; 0: a fetch */
	char repo[ASK_PATH_MAX + 1];
};

struct always_acts {
	struct always_act v[ALWAYS_ACTS_MAX];
	size_t n;
};

/* always_act.c: reads the acts of a question. -EOPNOTSUPP, with the reason, if policies have no rules for it. */
int always_acts_read(struct always_acts *l, const json_t *ask, struct err *e) MUST_CHECK;
void always_acts_release(struct always_acts *l);
void always_act_decide(const struct policy *p, const struct always_act *x, struct policy_verdict *ret);
/* As an entry of a rule: "PUT /x", "mutation merge", "push o/r refs/heads/x create". */
void always_act_text(const struct always_act *x, struct buf *out);
/* "api.github.com:443 PUT /x", for messages */
void always_act_describe(const struct always_act *x, struct buf *out);

/* Compiles this text in place of the policy file, as the run's guard does. */
int always_compile(const struct always *a, const struct buf *text, struct config_policy *ret,
		   struct err *e) MUST_CHECK;

/* always_tool.c: edits a->after. */
int always_tool(struct always *a, const json_t *ask, struct err *e) MUST_CHECK;
int always_apply(struct always *a, const json_t *ask, struct err *e) MUST_CHECK;

/* always_file.c */
int always_file_read(const char *path, struct buf *ret, struct err *e) MUST_CHECK;
/* Replaces the file if its content still is `before`. log() is called after the new file is written and
 * before it is renamed; if log() fails, nothing changes. */
int always_file_write(const char *path, const struct buf *before, const struct buf *after,
		      int (*log)(void *ctx, struct err *e), void *ctx, struct err *e) MUST_CHECK;

#endif
