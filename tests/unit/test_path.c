/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "workspace/tree/path.h"

#include <errno.h>

static bool normal(const char *typed, const char *wanted)
{
	autofree char *got = NULL;
	struct err e = ERR_INIT;
	int r = path_normalise(typed, &got, &e);

	return wanted ? r == 0 && str_eq(got, wanted) : r == -EINVAL && e.msg[0];
}

static void test_normalise(void)
{
	CHECK(normal("a", "a"));
	CHECK(normal("./a//b/", "a/b"));
	CHECK(normal(".", ""));
	CHECK(normal("", ""));
	CHECK(normal("/workspace/a/./b", "a/b"));
	CHECK(normal("/workspace", ""));
	CHECK(normal("/workspaces/a", NULL));
	CHECK(normal("/etc/passwd", NULL));
	CHECK(normal("../a", NULL));
	CHECK(normal("a/../../b", NULL));
	CHECK(normal("a..b/...", "a..b/..."));
	CHECK(normal("new\nline", "new\nline"));
}

static void test_covers(void)
{
	CHECK(path_covers("a", "a") && path_covers("a", "a/b") && path_covers("", "a"));
	CHECK(!path_covers("a", "ab") && !path_covers("a/b", "a"));
	CHECK(path_cmp("a", "a/b") < 0 && path_cmp("a/b", "a.c") < 0 && path_cmp("a.c", "a/b") > 0);
	CHECK(path_cmp("a", "a") == 0 && path_cmp("a/b", "b") < 0 && path_cmp("a/\xff", "b") < 0);
	CHECK(path_cmp("a\x01", "a/b") > 0);
}

static void test_links(void)
{
	CHECK(path_link_leaves("l", "/etc/passwd"));
	CHECK(path_link_leaves("l", "/workspace/x"));
	CHECK(path_link_leaves("l", ".."));
	CHECK(path_link_leaves("a/l", "../.."));
	CHECK(path_link_leaves("a/l", "..//../x"));
	CHECK(path_link_leaves("a/b/l", "x/../../../../y"));
	CHECK(path_link_leaves("a/l", "x/../y"));
	CHECK(!path_link_leaves("l", "x"));
	CHECK(!path_link_leaves("l", "./x/y"));
	CHECK(!path_link_leaves("a/l", "../x"));
	CHECK(!path_link_leaves("a/b/l", "../../x"));
	CHECK(!path_link_leaves("a/l", ".."));
	CHECK(!path_link_leaves("l", "..x/y.."));
}

int main(void)
{
	test_normalise();
	test_covers();
	test_links();
	return tap_done();
}
