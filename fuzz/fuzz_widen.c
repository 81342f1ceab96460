/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's request for a rule: the body, the rule's text, and the rule on top of a policy. An act that the
 * policy denies stays denied, and a canonical text means itself.
 */
#include "base/str.h"
#include "config/edit/widen.h"
#include "config/policy_file.h"
#include "egress/core/access_body.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"version: 1\negress:\n  allow:\n    - domain: api.example.com\n      http:\n"
	"        - allow: GET /**\n        - deny: GET /secret/**\n  deny:\n    - domain: evil.example.com\n"
	"    - domain: \"*\"\n";

static bool allows(const struct policy *p, const char *name, uint16_t port)
{
	struct policy_target t = { .port = port };
	struct policy_verdict v;
	struct host h;

	BUG_ON(host_canon(name, strlen(name), &h, NULL) < 0);
	t.name = &h;
	policy_connect(p, &t, &v);
	return policy_allows(&v);
}

static bool allows_secret(const struct policy *p)
{
	struct policy_request q = { .method = slice_of("GET"),
				    .path = slice_of("/secret/x"),
				    .is_body_known = true };
	struct policy_target t = { .port = 443 };
	struct policy_verdict v;
	struct host h;

	BUG_ON(host_canon("api.example.com", 15, &h, NULL) < 0);
	t.name = &h;
	policy_request(p, &t, &q, &v);
	return policy_allows(&v);
}

static void on_top(struct policy_rule *r)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	struct err e = ERR_INIT;

	BUG_ON(config_policy_parse("p", text, sizeof(text) - 1, &c, &e) < 0);
	if (policy_widen_check(c.policy, r, &e) < 0)
		BUG_ON(!e.msg[0]);
	if (policy_widen(c.policy, r, 1, &e) < 0)
		return;
	BUG_ON(allows(c.policy, "evil.example.com", 443) || allows_secret(c.policy));
	BUG_ON(allows(c.policy, "127.0.0.1", 443) || allows(c.policy, "169.254.169.254", 80));
	BUG_ON(policy_widen(c.policy, NULL, 0, &e) < 0 || policy_widened(c.policy, NULL) != 0);
}

static void check_canon(const struct buf *canon)
{
	CLEANUP(policy_rule_release) struct policy_rule again = POLICY_RULE_INIT;
	autobuf struct buf twice = BUF_INIT;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < canon->len; i++)
		BUG_ON(canon->data[i] < 0x20 || canon->data[i] > 0x7e);
	BUG_ON(widen_parse(buf_cstr(canon), &again, &twice, &e) < 0);
	BUG_ON(!str_eq(buf_cstr(canon), buf_cstr(&twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	autobuf struct buf canon = BUF_INIT;
	struct access_body b;
	struct err e = ERR_INIT;

	if (access_body_parse((const char *)data, size, &b, &e) < 0) {
		BUG_ON(!e.msg[0]);
		return 0;
	}
	BUG_ON(!b.rule[0] || strlen(b.reason) > ACCESS_REASON_MAX || b.wait > ACCESS_WAIT_MAX);
	if (widen_parse(b.rule, &r, &canon, &e) < 0) {
		BUG_ON(!e.msg[0]);
		return 0;
	}
	check_canon(&canon);
	on_top(&r);
	return 0;
}
