/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy file's text: refused with a position, or a policy that goes through a bundle and back unchanged and answers
 * questions the same way.
 */
#include "config/policy_file.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_requests(const struct policy *a, const struct policy *b, const struct policy_target *t)
{
	static const char *const paths[] = { "/", "/a/b", "/graphql", "/o/r.git/git-receive-pack" };
	struct policy_verdict x, y;

	for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
		struct policy_request r = { .method = slice_of("POST"), .path = slice_of(paths[k]) };

		policy_request(a, t, &r, &x);
		policy_request(b, t, &r, &y);
		BUG_ON(x.action != y.action || x.need != y.need || strcmp(x.why, y.why) != 0);
		BUG_ON(x.need && policy_allows(&x));
	}
}

static void ask_both(const struct policy *a, const struct policy *b, const char *target, bool special)
{
	struct policy_target t = { 0 };
	struct policy_verdict x, y;
	struct host h;

	BUG_ON(host_port_parse(target, strlen(target), 0, &h, &t.port, NULL) < 0);
	t.name = &h;
	policy_connect(a, &t, &x);
	policy_connect(b, &t, &y);
	BUG_ON(x.action != y.action || x.depth != y.depth || strcmp(x.why, y.why) != 0);
	BUG_ON(special && policy_allows(&x)); /* whatever a file says */
	ask_requests(a, b, &t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const targets[] = { "a.example.com:443", "api.github.com:443", "x.com:80",
					       "8.8.8.8:53",	    "[2a00:1450::1]:443", "10.0.0.1:443" };
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	CLEANUP(policy_freep) struct policy *again = NULL;
	autobuf struct buf b1 = BUF_INIT;
	autobuf struct buf b2 = BUF_INIT;
	autobuf struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	if (config_policy_parse("f", (const char *)data, size, &c, &e) < 0) {
		BUG_ON(e.msg[0] == '\0');
		return 0;
	}
	BUG_ON(policy_pack(c.policy, &b1, &e) < 0);
	BUG_ON(policy_unpack(b1.data, b1.len, &again, &e) < 0);
	BUG_ON(policy_pack(again, &b2, &e) < 0);
	BUG_ON(b1.len != b2.len || memcmp(b1.data, b2.data, b1.len) != 0);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		ask_both(c.policy, again, targets[i], i == ARRAY_SIZE(targets) - 1);
	policy_describe(again, &text);
	policy_describe_json(again, true, &text);
	return 0;
}
