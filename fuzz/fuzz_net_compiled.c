/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of the process that compiles a policy, as the guard reads it: what is taken keeps within the limits and packs to
 * the same bytes, unless its error had to be made harmless; its bundle goes where the guard has it go.
 */
#include "base/cleanup.h"
#include "netd/plan/net_compiled.h"
#include "policy/policy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parts(const struct net_compiled *c)
{
	BUG_ON(c->files.n > NET_COMPILED_FILES_MAX || c->outcome >= NET_COMPILED_COUNT);
	BUG_ON((c->outcome == NET_COMPILED_NEW) != (c->bundle_len > 0));
	BUG_ON((c->outcome == NET_COMPILED_BROKEN) != (c->error[0] != '\0'));
	for (size_t i = 0; i < c->files.n; i++)
		BUG_ON(c->files.v[i][0] != '/');
	for (const char *p = c->error; *p; p++)
		BUG_ON((unsigned char)*p < ' ' && *p != '\n' && *p != '\t');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	CLEANUP(policy_freep) struct policy *p = NULL;
	autobuf struct buf bytes = BUF_INIT, again = BUF_INIT;

	buf_add(&bytes, data, size);
	if (net_compiled_parse(&bytes, &c, NULL) < 0)
		return 0;
	check_parts(&c);
	net_compiled_begin(&c, &again);
	buf_add(&again, net_compiled_bundle(&c), c.bundle_len);
	BUG_ON(!c.error[0] && (again.len != size || memcmp(again.data, data, size) != 0));
	if (c.bundle_len && policy_unpack(net_compiled_bundle(&c), c.bundle_len, &p, NULL) == 0)
		BUG_ON(!p);
	return 0;
}
