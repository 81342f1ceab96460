/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a tool: its name and arguments as received, the decision of the policies (policy/acts.h), and a
 * person's answer where they require one. All of it before anything of the call runs.
 *
 * Invariants (cited elsewhere as toolcall.T1 …)
 * T1  Input is hostile: a name with letters that a rule cannot have, or arguments that are no JSON object,
 *     repeat a key, are nested deeper than TOOLCALL_DEPTH_MAX or are too long, are refused; nothing is
 *     decided on a part of them.
 * T2  The question is bound to the name, all of the arguments, and everything that is run with them
 *     (`bound`).
 * T3  The decision is in the log, as tool.call, before the call runs; a decision that cannot be logged is a
 *     denial.
 */
#ifndef APPROVAL_TOOLCALL_H
#define APPROVAL_TOOLCALL_H

#include "approval/server/askhold.h"
#include "policy/acts.h"

#include <jansson.h>

#define TOOLCALL_ARGS_MAX (64u << 10)
#define TOOLCALL_DEPTH_MAX 32
#define TOOLCALL_VALUES_MAX 16384
#define TOOLCALL_JSON_MAX (32u << 20) /* for arguments parsed elsewhere with another limit: MCP's */
#define TOOLCALL_FILE "acts"	      /* in a run's directory: the acts section of its policy when it began */

struct toolcall {
	char name[TOOL_NAME_MAX + 1];
	char *args; /* canonical form: keys sorted, ASCII only; NULL: none */
	struct tool_arg *v;
	size_t n;
	struct strv texts; /* owns the texts of v */
	const char *by;	   /* caller outside the sandbox, for the log: "ci (api)"; else NULL */
};

#define TOOLCALL_INIT ((struct toolcall){ .texts = STRV_INIT })

/* args: a JSON object, or NULL. */
int toolcall_parse(struct toolcall *t, const char *name, const char *args, size_t len,
		   struct err *e) MUST_CHECK;
/* The same from a value that is parsed already (by a parser that refuses duplicate keys). */
int toolcall_from_json(struct toolcall *t, const char *name, const json_t *args, struct err *e) MUST_CHECK;
void toolcall_release(struct toolcall *t);

/* Reads the acts section of a run's policy, empty if there is no such file and meta.json has no record of
 * one; and writes it. */
int toolcall_read_acts(int run_fd, const char *run, struct acts *ret, struct err *e) MUST_CHECK;
int toolcall_write_acts(int run_fd, const struct acts *a, struct err *e) MUST_CHECK;

/* The command that is shown beside the arguments and bound with them. */
struct toolcall_bound {
	const char *shown;	/* the command, for display; may be NULL */
	const struct strv *all; /* everything that determines what runs, in order; may be NULL */
};

/* Makes the question; *x owns its texts. */
struct toolcall_texts {
	struct buf preview, what, rule;
};
int toolcall_question(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		      struct toolcall_texts *x, struct ask_question *ret, struct err *e) MUST_CHECK;
void toolcall_texts_release(struct toolcall_texts *x);

/* Applies the strictest of these policies. */
void toolcall_decide(const struct toolcall *t, const struct acts *const *policies, size_t n,
		     struct tool_verdict *ret);

/*
 * 0: denied, at once or after a person was asked about it in h's run; the reason is in *ret_why and in the
 * log. 1: it may run once toolcall_log() has recorded it. Negative: not allowed either; -EINTR: withdrawn by
 * a signal.
 */
int toolcall_pass(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		  struct askhold *h, struct buf *ret_why, struct err *e) MUST_CHECK;

/* Logs tool.call: the decision, and the rule and list (acts_digest()) it came from. After an answer, the
 * event ask.answer of `ask` names the approver. */
int toolcall_log(const struct toolcall *t, const struct tool_verdict *v, bool allowed, const char *ask,
		 struct audit *a, const char *run, struct err *e) MUST_CHECK;

#endif
