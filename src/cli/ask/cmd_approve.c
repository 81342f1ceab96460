/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer approve, coffer deny: a person's answer to a pending ask, or the revocation of a grant. An answer
 * must name the digest of the question as it was read here, or that of --digest: if the question has changed
 * since, the ask server refuses the answer. A bare number is answered only after the question was shown.
 */
#include "approval/server/askback.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/ask/ask_past.h"
#include "cli/common/approve_how.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "codec/term/termrows.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { OPT_ONCE = 1, OPT_SANDBOX, OPT_FOR, OPT_USES, OPT_ALWAYS, OPT_YES, OPT_DIGEST, OPT_REASON };

static const struct opt approve_opts[] = {
	{ "once", 0, NULL, "allow this request, one time (the default)", OPT_ONCE },
	{ "sandbox", 0, NULL, "allow until the sandbox ends", OPT_SANDBOX },
	{ "for", 0, "TIME", "allow for this time: 10m, 2h", OPT_FOR },
	{ "uses", 0, "N", "allow this many times", OPT_USES },
	{ "always", 0, NULL, "allow permanently: add a rule to the policy file, shown first", OPT_ALWAYS },
	{ "yes", 'y', NULL, "with --always: edit the file without asking", OPT_YES },
	{ "digest", 0, "HEX", "answer only if the question still has this digest", OPT_DIGEST },
	{ "reason", 0, "TEXT", "the reason, for the log", OPT_REASON },
};

static const struct opt deny_opts[] = {
	{ "digest", 0, "HEX", "answer only if the question still has this digest", OPT_DIGEST },
	{ "reason", 0, "TEXT", "the reason, which the sandbox is told", OPT_REASON },
};

struct answer_args {
	struct ask_answer n;
	const char *digest;
	bool scoped, yes;
};

static enum ask_scope scope_of_option(int id)
{
	return id == OPT_SANDBOX  ? ASK_SANDBOX
	       : id == OPT_FOR	  ? ASK_FOR
	       : id == OPT_USES	  ? ASK_USES
	       : id == OPT_ALWAYS ? ASK_ALWAYS
				  : ASK_ONCE;
}

static int take_answer_option(struct answer_args *a, int id, const char *value, struct err *e)
{
	uint64_t ns;

	if (id == OPT_DIGEST || id == OPT_YES) {
		a->digest = id == OPT_DIGEST ? value : a->digest;
		a->yes = a->yes || id == OPT_YES;
		return 0;
	}
	if (id == OPT_REASON) {
		if (strlen(value) >= sizeof(a->n.reason))
			return err_set(e, -EINVAL, "--reason has at most %zu bytes", sizeof(a->n.reason) - 1);
		snprintf(a->n.reason, sizeof(a->n.reason), "%s", value);
		return 0;
	}
	if (a->scoped)
		return err_set(e, -EINVAL,
			       "only one of --once, --sandbox, --for, --uses and --always can be given");
	a->scoped = true;
	a->n.scope = scope_of_option(id);
	if (id == OPT_FOR) {
		if (str_to_nsec(value, &ns) < 0 || ns < NSEC_PER_SEC)
			return err_set(e, -EINVAL, "--for takes a time such as 10m or 2h");
		a->n.seconds = ns / NSEC_PER_SEC;
	}
	if (id == OPT_USES && (str_to_u64(value, &a->n.uses) < 0 || !a->n.uses))
		return err_set(e, -EINVAL, "--uses takes a number, 1 or more");
	return 0;
}

/* An ask with an answer in force: denying it revokes that answer. */
static bool is_granted_or_parked(const json_t *ask)
{
	return str_eq(jsonget_text(ask, "state"), "granted") || str_eq(jsonget_text(ask, "state"), "parked");
}

static int show_and_confirm(const json_t *ask, struct state *st, bool allow, struct err *e)
{
	autobuf struct buf all = BUF_INIT, act = BUF_INIT;
	unsigned cols = cli_ask_cols(STDERR_FILENO);
	int r;

	cli_ask_show(ask, st, cols, &all);
	cli_ask_show_act(ask, cols, &act);
	r = buf_error(&all) || buf_error(&act) ? err_set(e, -ENOMEM, "out of memory")
					       : cli_approve_show(buf_cstr(&all), buf_cstr(&act), e);
	return r < 0 ? r : cli_approve_confirm(allow ? "Allow this?" : "Deny this?", e);
}

/*
 * With --always, the guard may load the edited policy before the answer arrives. The question is then gone
 * because the new rule decided it, as intended, and these errors are none.
 */
static bool is_decided_by_policy(int r)
{
	return r == -ESTALE || r == -ECANCELED || r == -ENOENT;
}

static int send_answer_or_revoke(struct askc *c, const json_t *ask, const struct answer_args *a,
				 struct err *e)
{
	const char *id = jsonget_text(ask, "id"),
		   *digest = a->digest ? a->digest : jsonget_text(ask, "digest");
	bool always = a->n.allow && a->n.scope == ASK_ALWAYS;
	int r;

	if (!a->n.allow && is_granted_or_parked(ask))
		return askc_revoke(c, id, &a->n.who, NULL, e);
	r = askc_answer(c, id, digest, &a->n, NULL, e);
	if (always && is_decided_by_policy(r))
		return 0;
	return always && r < 0 ? err_wrap(e, r, "the policy file was edited, but") : r;
}

static void say_answered(const json_t *ask, const struct ask_answer *n)
{
	autobuf struct buf act = BUF_INIT, said = BUF_INIT;

	cli_ask_act(ask, ASK_WHAT_MAX, &act);
	buf_addf(&said, "%s %s%s%s: ", jsonget_text(ask, "id"), n->allow ? "allowed" : "denied",
		 n->allow ? ", " : "", n->allow ? ask_scope_name(n->scope) : "");
	termrows_quote(&said, buf_cstr(&act), act.len);
	buf_clear(&act);
	prompt_notice_cut(buf_cstr(&said), cli_ask_cols(STDERR_FILENO) - 1 - strlen("coffer: "), &act);
	say_note("%s", buf_cstr(&act));
}

/* Digest and display come from the same record, so the answer applies to exactly what was shown. */
static int confirm_and_answer(struct askc *c, struct state *st, int run_fd, const json_t *ask, bool show,
			      struct answer_args *a, struct err *e)
{
	int r = show ? show_and_confirm(ask, st, a->n.allow, e) : 0;

	cli_ask_who_am_i(&a->n.who, "cli");
	/*
	 * The policy file must not be edited for a question whose digest is not the one given with
	 * --digest.
	 */
	if (r == 0 && a->n.allow && a->n.scope == ASK_ALWAYS && a->digest &&
	    !str_eq(a->digest, jsonget_text(ask, "digest")))
		r = err_set(e, -ESTALE,
			    "question %s has another digest than --digest: it has changed since it was shown",
			    jsonget_text(ask, "id"));
	if (r == 0 && a->n.allow && a->n.scope == ASK_ALWAYS)
		r = cli_approve_always(c, st, run_fd, ask, &a->n.who, a->yes, e);
	r = r < 0 ? r : send_answer_or_revoke(c, ask, a, e);
	if (r == 0)
		say_answered(ask, &a->n);
	return r;
}

struct wanted {
	const char *id;
	json_t *found;
};

static int find_ask_by_number(void *ctx, json_t *ask)
{
	struct wanted *w = ctx;
	const char *dash = strchr(w->id, '-');
	uint64_t n = 0;

	if (str_to_u64(dash ? dash + 1 : w->id, &n) < 0 ||
	    (uint64_t)json_integer_value(json_object_get(ask, "number")) != n)
		return 0;
	w->found = json_incref(ask);
	return 1;
}

/*
 * No ask server runs. A grant of a session can still be revoked, through its file; any other question has
 * ended.
 */
static int revoke_without_server(struct state *st, int run_fd, const char *run, const char *id,
				 struct answer_args *a, struct err *e)
{
	struct wanted w = { .id = id };
	int r = a->n.allow ? 0 : askc_read_file(run_fd, run, find_ask_by_number, &w, e);

	if (r >= 0 && (!w.found || !is_granted_or_parked(w.found)))
		r = err_set(e, -ENOENT, "question %s cannot be answered: sandbox %s has ended", id, run);
	cli_ask_who_am_i(&a->n.who, "cli");
	if (r >= 0)
		r = askback_revoke(st, run_fd, run, id, &a->n.who, NULL, e);
	if (r == 0)
		say_answered(w.found, &a->n);
	json_decref(w.found);
	return r;
}

static int match_past_ask(void *ctx, json_t *ask)
{
	struct wanted *w = ctx;

	if (!w->found && str_eq(jsonget_text(ask, "id"), w->id))
		w->found = json_incref(ask);
	return 0;
}

/* A question of a removed sandbox is only in the log. `e` has the error if the log does not have it either. */
static int refuse_unknown_question(struct state *st, const char *id, struct err *e)
{
	struct wanted w = { .id = id };
	struct err ignored = ERR_INIT;
	bool more;

	if (cli_ask_past(st, match_past_ask, &w, &more, &ignored) >= 0 && w.found) {
		*e = ERR_INIT;
		err_set(e, -ENOENT, "question %s is over (%s)", id, jsonget_text(w.found, "state"));
		err_hint(e, -ENOENT, "coffer ask show %s", id);
	}
	json_decref(w.found);
	return -ENOENT;
}

static int answer_question(const char *id, struct answer_args *a, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autoaskc struct askc c = ASKC_INIT;
	autoclose int fd = -1;
	char run[RUN_ID_LEN + 1];
	json_t *ask = NULL;
	bool show = false;
	int r = state_open(&st, e);

	r = r < 0 ? r : cli_approve_check_id(&st, id, &show, e);
	r = r < 0 ? r : askc_resolve(&st, id, run, &fd, e);
	if (r == -ENOENT)
		return refuse_unknown_question(&st, id, e);
	if (r < 0)
		return r;
	r = askc_open(&c, fd, e);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		*e = ERR_INIT;
		return revoke_without_server(&st, fd, run, id, a, e);
	}
	r = r < 0 ? r : askc_show(&c, id, &ask, e);
	r = r < 0 ? r : confirm_and_answer(&c, &st, fd, ask, show, a, e);
	json_decref(ask);
	return r;
}

static int run_answer_verb(const struct verb *v, int argc, char **argv, bool allow)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, v->opts, v->n_opts);
	struct answer_args a = { .n.allow = allow };
	struct err e = ERR_INIT;
	const char *value, *ref = NULL;
	int id, r = 0;

	for (;;) {
		while (r == 0 && (id = opt_next(&p, &value, &e)) > 0) {
			if (id == OPT_HELP)
				return verb_print_help(v);
			r = take_answer_option(&a, id, value, &e);
		}
		if (r < 0 || id < 0)
			return say_usage(v, &e);
		value = opt_take(&p);
		if (!value)
			break;
		if (ref)
			return say_usage(v, (err_set(&e, -EINVAL, "one question at a time"), &e));
		ref = value;
	}
	if (a.yes && a.n.scope != ASK_ALWAYS)
		return say_usage(v, (err_set(&e, -EINVAL, "--yes is only valid with --always"), &e));
	if (!ref)
		return say_usage(v, (err_set(&e, -EINVAL,
					     "no question is named; `coffer ask ls` lists those that wait"),
				     &e));
	r = answer_question(ref, &a, &e);
	return r < 0 ? say_error(&e) : 0;
}

static int cmd_approve(int argc, char **argv)
{
	return run_answer_verb(&verb_approve, argc, argv, true);
}

static int cmd_deny(int argc, char **argv)
{
	return run_answer_verb(&verb_deny, argc, argv, false);
}

const struct verb verb_approve = {
	.name = "approve",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] ID",
	.help = "allow what a sandbox asks for",
	.opts = approve_opts,
	.n_opts = ARRAY_SIZE(approve_opts),
	.run = cmd_approve,
	.text = "Answers a question that *coffer ask ls* shows. By default the waiting request is "
		"allowed once, exactly as it was shown; if it is sent a second time, it waits again. "
		"If the asker has given up meanwhile, nothing is sent, and the approval waits two "
		"minutes for the identical request. _--sandbox_, _--for_ and _--uses_ cover more than "
		"this request, as *coffer ask show* describes: requests with the same method, path and "
		"headers and any query and body, or the same operations, refs, host and port, or tool.\n"
		"\n"
		"_--always_ edits the policy file that the sandbox was started with. It adds a rule "
		"for exactly this host and port, method and path, operation or ref, for this tool "
		"under the conditions of the rule, for this secret at this host, or *apply: allow*, "
		"and leaves every other byte unchanged. It shows the change first and asks for "
		"confirmation, unless _--yes_ is given; the audit log has the change and its author. "
		"An act that cannot be written exactly as a rule is refused.\n"
		"\n"
		"The whole id is required, because a number alone may refer to another question by the "
		"time of the answer. On a terminal the number is enough: the question is then shown "
		"and has to be confirmed.\n"
		"\n"
		"When the command returns, the answer is in force and in the audit log. A second "
		"answer is refused.",
	.examples = "coffer approve 3f9a2c-1\n"
		    "coffer approve 3f9a2c-1 --for 2h --reason 'release day'\n"
		    "coffer approve 3f9a2c-1 --always\n",
};

const struct verb verb_deny = {
	.name = "deny",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] ID",
	.help = "deny what a sandbox asks for",
	.opts = deny_opts,
	.n_opts = ARRAY_SIZE(deny_opts),
	.run = cmd_deny,
	.text = "Answers a question that *coffer ask ls* shows, or revokes a grant. The sandbox is "
		"told that a person denied the act, and the reason if there is one. After five denials "
		"of one rule within ten minutes, acts under that rule are denied for ten minutes "
		"without a question.",
	.examples = "coffer deny 3f9a2c-1 --reason 'not before Monday'\n",
};
