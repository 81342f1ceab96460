/* SPDX-License-Identifier: Apache-2.0 */
/* Wiping a layer, and that a failure is never taken for a wipe. */
#include "overlay.h"
#include "workspace/wipe.h"

#include <errno.h>

static void test_plain(void)
{
	struct err e = ERR_INIT;
	struct tree t;
	uint64_t n = 0;

	CHECK(tree_init(&t) && put(t.upper, "a", "a") && mkdirat(t.upper, "d", 0) == 0 &&
	      symlinkat("../outside", t.upper, "l") == 0 && put(t.outside, "kept", "x"));
	CHECK(workspace_wipe(t.base, "upper", -1, &n, &e) == 0 && n == 4 && !there(t.base, "upper"));
	CHECK(there(t.outside, "kept"));
	CHECK(workspace_wipe(t.base, "upper", -1, &n, &e) == 0 && n == 0);
	CHECK(tree_release(&t));
}

/* A directory of somebody else's, without subordinate ids that could be his: it stays, and that is said. */
static bool foreign_as_user(void)
{
	struct err e = ERR_INIT;
	uint64_t n = 0;
	int base = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return workspace_wipe(base, "sys", -1, &n, &e) < 0 && strstr(e.msg, "not wiped") &&
	       there(base, "sys/kernel");
}

int main(void)
{
	test_plain();
	CHECKF(as_user(foreign_as_user), "a file that cannot be removed is an error");
	return tap_done();
}
