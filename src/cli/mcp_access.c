/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool request_access. An agent cannot widen its own policy: what it wants, and why it says so, goes into the log, and a
 * person decides. Nothing here changes what is allowed.
 */
#include "audit/audit.h"
#include "base/str.h"
#include "cli/mcp_tools.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdio.h>

#define RULE_MAX 300
#define REASON_MAX 1000

/* A rule that nobody could type is refused before anybody has to read it. */
static int check_rule(const char *rule, struct err *e)
{
	const struct config_policy_args a = { .allow = &rule, .n_allow = 1, .mode = -1 };
	struct config_policy cp = { 0 };
	int r = config_policy_load(&a, &cp, e);

	config_policy_release(&cp);
	return r;
}

static int log_wish(const struct mcp_box *b, const struct mcp_access *a, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *log = NULL;
	autobuf struct buf f = BUF_INIT;
	struct json j = JSON_INIT(&f);
	int r = state_open(&st, e);

	if (r == 0)
		r = audit_open(&log, st.fd, e);
	if (r < 0)
		return r;
	json_str(&j, "rule", a->rule);
	json_str(&j, "reason", a->reason);
	return buf_error(&f) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(log, "access.request", b->id, &f, e);
}

int mcp_access_ask(const struct mcp_box *b, struct mcp_access *a, struct err *e)
{
	const struct run_opts *o = &b->args->o;
	char rule[RULE_MAX * 4 + 8];
	int r = check_rule(a->rule, e);

	if (r == 0)
		r = log_wish(b, a, e);
	if (r < 0)
		return r;
	str_safe(a->rule, rule, sizeof(rule));
	a->granted = false;
	snprintf(
		a->answer, sizeof(a->answer),
		"Written into the audit log; nothing is open yet. A person must decide, and starts the server with: "
		"coffer mcp --allow '%.400s'%s. Until then do without it.",
		rule, o->policy ? ", and allows it in the policy file too" : "");
	return 0;
}

static int access_run(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
		      struct err *e)
{
	struct mcp_access a = { .rule = mcp_text(args, "rule"), .reason = mcp_text(args, "reason") };
	struct json j = JSON_INIT(result);
	int r = mcp_access_ask(ctx, &a, e);

	(void)job;
	if (r < 0)
		return r;
	json_obj(&j, NULL);
	json_bool(&j, "granted", a.granted);
	json_str(&j, "answer", a.answer);
	json_end_obj(&j);
	return 0;
}

static const struct mcp_param access_params[] = {
	{ "rule", MCP_TEXT, true, RULE_MAX, "What should be reachable: DOMAIN, DOMAIN:PORT or @PRESET.",
	  NULL },
	{ "reason", MCP_TEXT, true, REASON_MAX, "Why, for the person who decides.", NULL },
};

const struct mcp_tool mcp_tool_access = {
	.name = "request_access",
	.title = "Ask for network access",
	.help = "Asks the operator to open the network to a destination. It opens nothing by itself.",
	.params = access_params,
	.n_params = ARRAY_SIZE(access_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"granted\":{\"type\":\"boolean\"},\"answer\":{\"type\":\"string\"}},"
		"\"required\":[\"granted\",\"answer\"]}",
	.run = access_run,
};
