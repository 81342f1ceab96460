/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which tool calls of `coffer mcp` may run: by the policy's list of tools, and by asking a person
 * where the list says so. Each decision is logged before the call runs (toolcall.T3). No call may run before
 * that.
 */
#include "approval/toolcall.h"
#include "base/fd.h"
#include "cli/mcp/mcp_tools.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_mcp_policy_open(struct mcp_box *b, struct run_args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy cp = { 0 };
	const struct config_policy_args p = { .files = &a->o.policy,
					      .n_files = a->o.policy ? 1 : 0,
					      .mode = -1 };
	struct run_opts *o = &a->o;
	int r = config_policy_load(&p, &cp, e);

	if (r < 0)
		return r;
	b->acts = cp.acts;
	cp.acts = ACTS_INIT;
	b->file = o->policy ? realpath(o->policy, NULL) : NULL;
	if (o->policy && !cp.says_egress && (!o->net || str_eq(o->net, "none")) && !o->allow.n &&
	    !o->resolvers.n && !o->secret.n) {
		o->acts_policy = o->policy;
		o->policy = NULL;
		o->has_net = false;
	}
	return 0;
}

static void report_waiting(void *ctx, const char *id)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "waiting for a person's answer (%s)", id);

	mcp_job_progress(ctx, 0, text, (size_t)n);
}

static int decide_tool_call(const struct mcp_box *b, const struct toolcall *t, const struct mcp_job *job,
			    struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	autobuf struct buf why = BUF_INIT;
	autoclose int fd = -1;
	const struct acts *acts = &b->acts;
	const struct toolcall_bound bound = { 0 };
	struct askhold h = { .st = &st,
			     .run = b->id,
			     .timeout_s = b->args->o.ask_timeout,
			     .alive = &job->alive,
			     .waits = report_waiting,
			     .ctx = (void *)job };
	struct tool_verdict v;
	bool alive;
	int r = state_open(&st, e);

	r = r < 0 ? r : audit_open(&audit, st.fd, e);
	if (r < 0)
		return r;
	fd = state_run_open(&st, b->id, &alive, e);
	if (fd < 0)
		return fd;
	h.audit = audit;
	h.run_fd = fd;
	toolcall_decide(t, &acts, 1, &v);
	r = toolcall_pass(t, &v, &bound, &h, &why, e);
	if (r > 0)
		return toolcall_log(t, &v, true, h.id, audit, b->id, e);
	return r < 0 ? r : err_set(e, -EPERM, "%s", buf_cstr(&why));
}

int cli_mcp_gate(void *ctx, const struct mcp_tool *t, const json_t *args, const struct mcp_job *job,
		 struct err *e)
{
	CLEANUP(toolcall_release) struct toolcall c = TOOLCALL_INIT;
	const struct mcp_box *b = ctx;
	int r;

	if (!b->acts.has_tools)
		return 0;
	r = toolcall_from_json(&c, t->name, args, e);
	return r < 0 ? r : decide_tool_call(b, &c, job, e);
}
