/* SPDX-License-Identifier: Apache-2.0 */
/* A tool's call: a name, a NUL, arguments, a NUL, a policy. A verdict depends on whole
 * arguments, a question can be shown, and a policy that is kept with a run decides as it did. */
#include "approval/toolcall.h"
#include "base/cleanup.h"
#include "config/policy_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_question(const struct toolcall *t, const struct tool_verdict *v)
{
	CLEANUP(toolcall_texts_release) struct toolcall_texts x = { 0 };
	const struct toolcall_bound b = { .shown = t->args };
	struct ask_question q;
	struct err e = ERR_INIT;

	if (toolcall_question(t, v, &b, &x, &q, &e) < 0)
		return;
	BUG_ON(q.preview_len > ASK_PREVIEW_MAX || strlen(q.rule) > ASK_RULE_MAX);
	for (size_t i = 0; i < q.preview_len; i++)
		BUG_ON((unsigned char)q.preview[i] < ' ' && q.preview[i] != '\n');
}

static void decide(const struct toolcall *t, const struct config_policy *c)
{
	CLEANUP(config_policy_release) struct config_policy again = { 0 };
	autobuf struct buf text = BUF_INIT, out = BUF_INIT;
	struct tool_verdict v, w;
	struct err e = ERR_INIT;

	acts_explain_tool(&c->acts, t->name, t->v, t->n, &out, &v);
	BUG_ON(v.action == POLICY_ALLOW && v.has_opinion && (!v.rule || v.rule->action != POLICY_ALLOW));
	check_question(t, &v);
	config_acts_format(&c->acts, &text);
	BUG_ON(config_policy_parse("kept", buf_cstr(&text), text.len, &again, &e) < 0);
	acts_decide_tool(&again.acts, t->name, t->v, t->n, &w);
	BUG_ON(v.action != w.action || v.has_opinion != w.has_opinion);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(toolcall_release) struct toolcall t = TOOLCALL_INIT;
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	const char *name = (const char *)data, *args, *policy, *end = name + size;
	struct err e = ERR_INIT;

	args = memchr(name, '\0', size);
	policy = args ? memchr(args + 1, '\0', (size_t)(end - args - 1)) : NULL;
	if (!policy)
		return 0;
	args++;
	if (toolcall_parse(&t, name, *args ? args : NULL, (size_t)(policy - args), &e) < 0)
		return 0;
	BUG_ON(t.n > TOOLCALL_VALUES_MAX || !tool_name_is_valid(t.name, strlen(t.name)));
	policy++;
	if (config_policy_parse("fuzz", policy, (size_t)(end - policy), &c, &e) == 0)
		decide(&t, &c);
	return 0;
}
