/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatches one operation of the HTTP API: `coffer web-work OP name=value…`, started by cofferd for each
 * request. Prints one JSON document; a failure is exit code 3 and three lines on stderr. The arguments were
 * checked by the broker (daemon/broker/webd.h); nothing here reads from the network.
 */
#include "cli/api/web_work.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/core/say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_SAYS 3

static const struct {
	const char *name;
	web_work_fn *fn;
} works[] = {
	{ "sandboxes", web_work_sandboxes }, { "sandbox", web_work_sandbox },
	{ "policy", web_work_policy },	     { "policy.explain", web_work_explain },
	{ "audit", web_work_audit },	     { "egress", web_work_egress },
	{ "series", web_work_series },	     { "timeline", web_work_timeline },
	{ "backlog", web_work_backlog },     { "feed", web_work_feed },
	{ "asks", web_work_asks },	     { "ask", web_work_ask },
	{ "ask.answer", web_work_answer },   { "ask.revoke", web_work_revoke },
	{ "ask.submit", web_work_submit },   { "secrets", web_work_secrets },
};

const char *cli_web_arg(const struct web_args *a, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; i < a->argc; i++) {
		if (strncmp(a->argv[i], name, n) == 0 && a->argv[i][n] == '=')
			return a->argv[i] + n + 1;
	}
	return NULL;
}

uint64_t cli_web_arg_num(const struct web_args *a, const char *name, uint64_t otherwise)
{
	const char *s = cli_web_arg(a, name);
	uint64_t v;

	return s && str_to_u64(s, &v) == 0 ? v : otherwise;
}

static const char *api_code_of_errno(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENOTUNIQ:
		return "not_found";
	case -EINVAL:
	case -E2BIG:
		return "bad_request";
	case -ESRCH:
	case -ECONNREFUSED:
	case -EBUSY:
		return "conflict";
	default:
		return "failed";
	}
}

/* Prints code, message and hint on one line each; str_safe() removes line breaks from the texts. */
static int print_failure(const struct web_args *a, int r, const struct err *e)
{
	char message[600], hint[600];

	str_safe(*e->msg ? e->msg : "it failed without a message", message, sizeof(message));
	str_safe(e->hint, hint, sizeof(hint));
	fprintf(stderr, "%s\n%s\n%s\n", a->code ? a->code : api_code_of_errno(r), message, hint);
	return EXIT_SAYS;
}

static void web_args_release(struct web_args *a)
{
	state_release(&a->st);
	buf_release(&a->out);
}

int cli_web_work(int argc, char **argv)
{
	CLEANUP(web_args_release)
	struct web_args a = { .st = STATE_INIT, .argc = argc - 2, .argv = argv + 2 };
	struct err e = ERR_INIT;
	int r = -EINVAL;

	if (argc < 2)
		return EXIT_USAGE;
	err_set(&e, r, "unknown operation");
	for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
		if (!str_eq(works[i].name, argv[1]))
			continue;
		e = ERR_INIT;
		r = state_open(&a.st, &e);
		if (r == 0)
			r = works[i].fn(&a, &e);
		break;
	}
	if (r == 0 && buf_error(&a.out))
		r = err_set(&e, -ENOMEM, "out of memory");
	return r < 0 ? print_failure(&a, r, &e) : say_out(&a.out);
}
