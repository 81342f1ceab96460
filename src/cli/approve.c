/* SPDX-License-Identifier: Apache-2.0 */
/* coffer approve, coffer deny: a person's answer. Bound to the digest of what was shown. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/ask_show.h"
#include "cli/say.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdio.h>

enum { OPT_ONCE = 1, OPT_SANDBOX, OPT_FOR, OPT_USES, OPT_DIGEST, OPT_REASON };

static const struct opt approve_opts[] = {
	{ "once", 0, NULL, "this very request, one time (the default)", OPT_ONCE },
	{ "sandbox", 0, NULL, "as long as the sandbox lives", OPT_SANDBOX },
	{ "for", 0, "TIME", "for so long: 10m, 2h", OPT_FOR },
	{ "uses", 0, "N", "so many times", OPT_USES },
	{ "digest", 0, "HEX", "only if the question still is the one with this digest", OPT_DIGEST },
	{ "reason", 0, "TEXT", "why, for the log", OPT_REASON },
};

static const struct opt deny_opts[] = {
	{ "digest", 0, "HEX", "only if the question still is the one with this digest", OPT_DIGEST },
	{ "reason", 0, "TEXT", "why: the sandbox is told", OPT_REASON },
};

struct answer_args {
	struct ask_answer n;
	const char *digest;
	bool scoped;
};

static int take(struct answer_args *a, int id, const char *value, struct err *e)
{
	uint64_t ns;

	if (id == OPT_DIGEST) {
		a->digest = value;
		return 0;
	}
	if (id == OPT_REASON) {
		if (strlen(value) >= sizeof(a->n.reason))
			return err_set(e, -EINVAL, "--reason has at most %zu bytes", sizeof(a->n.reason) - 1);
		snprintf(a->n.reason, sizeof(a->n.reason), "%s", value);
		return 0;
	}
	if (a->scoped)
		return err_set(e, -EINVAL, "only one of --once, --sandbox, --for and --uses can be given");
	a->scoped = true;
	a->n.scope = id == OPT_SANDBOX ? ASK_SANDBOX
		     : id == OPT_FOR   ? ASK_FOR
		     : id == OPT_USES  ? ASK_USES
				       : ASK_ONCE;
	if (id == OPT_FOR) {
		if (str_to_nsec(value, &ns) < 0 || ns < NSEC_PER_SEC)
			return err_set(e, -EINVAL, "--for takes a time such as 10m or 2h");
		a->n.seconds = ns / NSEC_PER_SEC;
	}
	if (id == OPT_USES && (str_to_u64(value, &a->n.uses) < 0 || !a->n.uses))
		return err_set(e, -EINVAL, "--uses takes a number, 1 or more");
	return 0;
}

/* Denying what was granted takes it back. */
static bool is_granted(const json_t *ask)
{
	return str_eq(ask_text(ask, "state"), "granted") || str_eq(ask_text(ask, "state"), "parked");
}

/* The digest comes from the same place as what is printed: what was answered is what is said to have been. */
static int answer(const char *id, struct answer_args *a, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autoaskc struct askc c = ASKC_INIT;
	autobuf struct buf act = BUF_INIT;
	autoclose int fd = -1;
	char run[RUN_ID_LEN + 1];
	json_t *ask = NULL;
	int r = state_open(&st, e);

	r = r < 0 ? r : askc_resolve(&st, id, run, &fd, e);
	if (r < 0)
		return r;
	r = askc_open(&c, fd, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return err_set(e, r, "sandbox %s has ended, and with it the question %s", run, id);
	r = r < 0 ? r : askc_show(&c, id, &ask, e);
	if (r < 0)
		return r;
	ask_who_am_i(&a->n.who, "cli");
	ask_act(ask, 200, &act);
	if (!a->n.allow && is_granted(ask))
		r = askc_revoke(&c, ask_text(ask, "id"), &a->n.who, NULL, e);
	else
		r = askc_answer(&c, ask_text(ask, "id"), a->digest ? a->digest : ask_text(ask, "digest"),
				&a->n, NULL, e);
	if (r == 0)
		say_note("%s %s%s%s: %s", ask_text(ask, "id"), a->n.allow ? "allowed" : "denied",
			 a->n.allow ? ", " : "", a->n.allow ? ask_scope_name(a->n.scope) : "",
			 buf_cstr(&act));
	json_decref(ask);
	return r;
}

static int run(const struct verb *v, int argc, char **argv, bool allow)
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
			r = take(&a, id, value, &e);
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
	if (!ref)
		return say_usage(v, (err_set(&e, -EINVAL, "which question? `coffer ask ls` shows them"), &e));
	r = answer(ref, &a, &e);
	return r < 0 ? say_error(&e) : 0;
}

static int cmd_approve(int argc, char **argv)
{
	return run(&verb_approve, argc, argv, true);
}

static int cmd_deny(int argc, char **argv)
{
	return run(&verb_deny, argc, argv, false);
}

const struct verb verb_approve = {
	.name = "approve",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] ID",
	.help = "allow what a sandbox asks for",
	.opts = approve_opts,
	.n_opts = ARRAY_SIZE(approve_opts),
	.run = cmd_approve,
	.text = "Answers a question that *coffer ask ls* shows. By default the request that waits is let through once, exactly as it was "
		"shown; asked a second time it waits again. If whoever asked has gone meanwhile nothing is sent, and the answer waits "
		"two minutes for the identical request. _--sandbox_, _--for_ and _--uses_ hold for the same method and path "
		"whatever the query and body.\n"
		"\n"
		"The answer is in force and in the audit log when the command returns. Who comes second is told so.",
	.examples = "coffer approve 3f9a2c-1\n"
		    "coffer approve 3f9a2c-1 --for 2h --reason 'release day'\n",
};

const struct verb verb_deny = {
	.name = "deny",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] ID",
	.help = "deny what a sandbox asks for",
	.opts = deny_opts,
	.n_opts = ARRAY_SIZE(deny_opts),
	.run = cmd_deny,
	.text = "Answers a question that *coffer ask ls* shows; one that was granted already is taken back. The sandbox is told that a person denied it, and why when a reason is "
		"given. After five denials of one rule within ten minutes it is denied without asking for ten minutes.",
	.examples = "coffer deny 3f9a2c-1 --reason 'not before Monday'\n",
};
