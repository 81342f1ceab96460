/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool request_access. An agent cannot widen its own policy: a person is asked (kind "widen"), and a
 * granted rule is stored in the session's file (approval/list/granted.h), which each call is started with.
 * The run is claimed meanwhile, as by any other call, so that only this process can be its ask server.
 */
#include "approval/list/granted.h"
#include "approval/server/askhold.h"
#include "audit/audit.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/mcp/mcp_tools.h"
#include "config/edit/widen.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdio.h>

#define RULE_MAX 300
#define REASON_MAX 1000
#define WAIT_DEFAULT 50 /* s: clients give up after a minute */
#define WAIT_MAX 300

/* A rule that --allow would not accept is refused before a person has to read it. */
static int check_wanted_rule(const char *rule, struct err *e)
{
	const struct config_policy_args a = { .allow = &rule, .n_allow = 1, .mode = -1 };
	struct config_policy cp = { 0 };
	int r = config_policy_load(&a, &cp, e);

	config_policy_release(&cp);
	return r;
}

static int log_access_request(const struct mcp_box *b, const struct mcp_access *a, struct err *e)
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

/* With --net none nobody is asked: logs the request, and tells the agent how a person can grant it. */
static int refuse_and_log_request(const struct mcp_box *b, struct mcp_access *a, struct err *e)
{
	const struct run_opts *o = &b->args->o;
	char rule[RULE_MAX * 4 + 8];
	int r = check_wanted_rule(a->rule, e);

	if (r == 0)
		r = log_access_request(b, a, e);
	if (r < 0)
		return r;
	str_safe(a->rule, rule, sizeof(rule));
	a->granted = false;
	snprintf(
		a->answer, sizeof(a->answer),
		"Written into the audit log; nothing is open. The server was started with --net none, so nobody is asked: a person "
		"must start it with coffer mcp --allow '%.400s'%s. Until then do without it.",
		rule, o->policy ? ", and allows it in the policy file too" : "");
	return 0;
}

struct asking {
	const struct mcp_box *b;
	int run_fd;
	struct audit *log;
	struct config_policy cp;
};

static int load_session_policy(struct asking *x, struct err *e)
{
	const struct run_opts *o = &x->b->args->o;
	const struct config_policy_args a = {
		.files = (const char *const *)&o->policy,
		.n_files = o->policy ? 1 : 0,
		.allow = (const char *const *)o->allow.v,
		.n_allow = o->allow.n,
		/*
		 * Without an option about the network nothing is allowed, but a rule can be granted
		 * (mcp_box.X8).
		 */
		.mode = !o->net && o->has_net		      ? -1
			: o->net && str_eq(o->net, "observe") ? POLICY_OBSERVE
							      : POLICY_ENFORCE,
	};

	return config_policy_load(&a, &x->cp, e);
}

static int check_widen_rule(void *ctx, const char *rule, struct buf *canon, struct err *e)
{
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	const struct asking *x = ctx;
	int n = widen_parse(rule, &r, canon, e);

	if (n < 0)
		return n;
	if (r.n_entries && r.ports[0].lo != 80 && !x->b->args->o.policy && !policy_needs_ca(x->cp.policy))
		return err_set(
			e, -EINVAL,
			"TLS is not inspected in this session, so single requests cannot be granted: ask for the host");
	return policy_widen_check(x->cp.policy, &r, e);
}

static int log_access_grant(const struct asking *x, const struct ask_view *v, struct err *e)
{
	autobuf struct buf f = BUF_INIT;
	struct json j = JSON_INIT(&f);

	json_str(&j, "rule", v->q.what);
	json_str(&j, "ask", v->id);
	json_str(&j, "scope", ask_scope_name(v->answer.scope));
	if (v->answer.scope == ASK_FOR)
		json_u64(&j, "seconds", v->answer.seconds);
	return buf_error(&f) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(x->log, "access.grant", x->b->id, &f, e);
}

static bool is_kept_grant(const struct asks *have, const char *id)
{
	return have && asks_find(have, id);
}

/*
 * Logs each new grant. Afterwards the ask server writes it to the file that the next call reads (asks.A8).
 * Grants already in that file were logged by the process that wrote them.
 */
static int on_access_widened(void *ctx, const struct asks *l, struct err *e)
{
	struct asking *x = ctx;
	struct err ignored = ERR_INIT;
	CLEANUP(asks_freep) struct asks *have = granted_open_list(x->run_fd, x->b->id, &ignored);
	const struct ask *a = NULL;
	int r = 0;

	while (r == 0 && (a = asks_next(l, a)) != NULL) {
		struct ask_view v;

		ask_view(l, a, &v);
		if (v.q.kind == ASK_WIDEN && v.state == ASK_GRANTED && !is_kept_grant(have, v.id))
			r = log_access_grant(x, &v, e);
	}
	return r;
}

static int ask_for_rule(struct asking *x, struct state *st, struct mcp_access *a, struct err *e)
{
	const struct ask_question q = { .kind = ASK_WIDEN,
					.host = "",
					.method = "",
					.path = "",
					.what = a->rule,
					.type = "",
					.rule = "",
					.reason = a->reason,
					.preview = "" };
	struct askhold h = { .st = st,
			     .run_fd = x->run_fd,
			     .run = x->b->id,
			     .claimed = true,
			     .audit = x->log,
			     .timeout_s = a->wait ? a->wait : 1,
			     .alive = a->alive,
			     .ctx = x,
			     .widened = on_access_widened,
			     .check_widen = check_widen_rule };
	autobuf struct buf why = BUF_INIT;
	int r = askhold(&h, &q, &why, e);

	if (r < 0)
		return r;
	a->granted = r == 1;
	if (a->granted)
		snprintf(a->answer, sizeof(a->answer),
			 "A person granted it (question %s): it is open for the calls that follow.", h.id);
	else
		snprintf(a->answer, sizeof(a->answer), "Not granted%s%s: %.400s. Do without it.",
			 h.id[0] ? ", question " : "", h.id, buf_cstr(&why));
	return 0;
}

int cli_mcp_access_ask(const struct mcp_box *b, struct mcp_access *a, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *log = NULL;
	struct asking x = { .b = b, .run_fd = -1 };
	int r;

	if (b->args->o.net && str_eq(b->args->o.net, "none"))
		return refuse_and_log_request(b, a, e);
	r = state_open(&st, e);
	if (r == 0)
		r = audit_open(&log, st.fd, e);
	if (r == 0)
		r = load_session_policy(&x, e);
	x.log = log;
	if (r == 0)
		r = x.run_fd = cli_mcp_box_claim(&st, b->id, e);
	if (r >= 0)
		r = ask_for_rule(&x, &st, a, e);
	fd_close(x.run_fd);
	config_policy_release(&x.cp);
	return r;
}

static int tool_request_access(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
			       struct err *e)
{
	struct mcp_access a = { .rule = mcp_text(args, "rule"),
				.reason = mcp_text(args, "reason"),
				.wait = (unsigned)mcp_integer(args, "wait", WAIT_DEFAULT),
				.alive = &job->alive };
	struct json j = JSON_INIT(result);
	int r = cli_mcp_access_ask(ctx, &a, e);

	if (r < 0)
		return r;
	json_obj(&j, NULL);
	json_bool(&j, "granted", a.granted);
	json_str(&j, "answer", a.answer);
	json_end_obj(&j);
	return 0;
}

static const struct mcp_param access_params[] = {
	{ "rule", MCP_TEXT, true, RULE_MAX,
	  "The destination: DOMAIN, DOMAIN:PORT or METHOD https://DOMAIN/PATH.", NULL },
	{ "reason", MCP_TEXT, true, REASON_MAX, "The reason, for the person who decides.", NULL },
	{ "wait", MCP_INTEGER, false, WAIT_MAX, "Seconds to wait for the answer; 50 by default.", NULL },
};

const struct mcp_tool mcp_tool_access = {
	.name = "request_access",
	.title = "Ask for network access",
	.help = "Asks a person to open the network to a destination, and waits for the answer. It opens nothing by itself.",
	.params = access_params,
	.n_params = ARRAY_SIZE(access_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"granted\":{\"type\":\"boolean\"},\"answer\":{\"type\":\"string\"}},"
		"\"required\":[\"granted\",\"answer\"]}",
	.run = tool_request_access,
};
