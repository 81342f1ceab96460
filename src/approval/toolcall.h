/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a tool: its name and arguments as they came, what the policies say of it (policy/acts.h), and a person's word
 * where they want one. Before anything of the call runs.
 *
 * Invariants
 *  T1  Hostile: a name of other letters than a rule can have, arguments that are no JSON object, have a key twice, are nested
 *      deeper than TOOLCALL_DEPTH_MAX or too long, are refused; nothing is decided on a part of them.
 *  T2  What is asked is bound to the name, all of the arguments, and all of what is run with them (`bound`).
 *  T3  The decision is in the log, as tool.call, before the call runs; one that cannot be logged is a denial.
 */
#ifndef APPROVAL_TOOLCALL_H
#define APPROVAL_TOOLCALL_H

#include "approval/server/askhold.h"
#include "policy/acts.h"

#include <jansson.h>

#define TOOLCALL_ARGS_MAX (64u << 10)
#define TOOLCALL_DEPTH_MAX 32
#define TOOLCALL_VALUES_MAX 16384
#define TOOLCALL_JSON_MAX (32u << 20) /* of what was parsed by others, whose limit is another: MCP's */
#define TOOLCALL_FILE "acts"	      /* in a run's directory: what its policy said of acts when it began */

struct toolcall {
	char name[TOOL_NAME_MAX + 1];
	char *args; /* in one form: keys sorted, ASCII only; NULL: none */
	struct tool_arg *v;
	size_t n;
	struct strv texts; /* what v points to */
	const char *by; /* who calls it, where that is somebody outside, for the log: "ci (api)"; else NULL */
};

#define TOOLCALL_INIT ((struct toolcall){ .texts = STRV_INIT })

/* args: a JSON object, or NULL. */
int toolcall_parse(struct toolcall *t, const char *name, const char *args, size_t len,
		   struct err *e) MUST_CHECK;
/* The same of a value that was parsed already (by who refuses a key that stands twice). */
int toolcall_from_json(struct toolcall *t, const char *name, const json_t *args, struct err *e) MUST_CHECK;
void toolcall_release(struct toolcall *t);

/* What a run's policy said of acts: nothing, where it has no such file and meta.json knows of none. Keeps it there. */
int toolcall_read_acts(int run_fd, const char *run, struct acts *ret, struct err *e) MUST_CHECK;
int toolcall_write_acts(int run_fd, const struct acts *a, struct err *e) MUST_CHECK;

/* What is shown beside the arguments and bound with them: each a text, in order. */
struct toolcall_bound {
	const char *shown;	/* the command, for a person; may be NULL */
	const struct strv *all; /* all that decides what runs: may be NULL */
};

/* The question, whose texts are in *x. */
struct toolcall_texts {
	struct buf preview, what, rule;
};
int toolcall_question(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		      struct toolcall_texts *x, struct ask_question *ret, struct err *e) MUST_CHECK;
void toolcall_texts_release(struct toolcall_texts *x);

/* The strictest of these policies. */
void toolcall_decide(const struct toolcall *t, const struct acts *const *policies, size_t n,
		     struct tool_verdict *ret);

/*
 * Denied at once, or after a person was asked about it in h's run: 0, the reason in *ret_why, and in the log. 1: it may run
 * once toolcall_log() has said so. Negative: not allowed either; -EINTR: it was withdrawn by a signal.
 */
int toolcall_pass(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		  struct askhold *h, struct buf *ret_why, struct err *e) MUST_CHECK;

/* tool.call: what was decided, by which rule of which list (acts_digest()); after an answer, who said so is in ask.answer of `ask`. */
int toolcall_log(const struct toolcall *t, const struct tool_verdict *v, bool allowed, const char *ask,
		 struct audit *a, const char *run, struct err *e) MUST_CHECK;

#endif
