/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that may merge, as an agent sends it: a target, a Content-Type and a body, each ended by a line feed, the body by the end. No
 * call to merge passes that has no room for a commit's id, and none is a merge because of its body.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "egress/message/http_merge.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const known[] = { "/repos/o/r/pulls/7/merge", "/repos/o/r/merges",
				     "/api/v4/projects/1/merge_requests/7/merge",
				     "/api/v1/repos/o/r/pulls/7/merge" };

static struct slice cut(struct slice *rest, char end)
{
	const char *p = rest->len ? memchr(rest->p, end, rest->len) : NULL;
	struct slice s = { rest->p, p ? (size_t)(p - rest->p) : rest->len };
	size_t n = s.len + (p != NULL);

	rest->p += n;
	rest->len -= n;
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = { (const char *)data, size }, target = cut(&rest, '\n');
	struct merge_call c = { .type = cut(&rest, '\n'), .body = rest };
	const char *why;

	c.path = cut(&target, '?');
	c.query = target;
	why = merge_call_lacks(&c);
	(void)merge_is_graphql_path(c.path);
	(void)merge_is_named(c.body.p, c.body.len);
	c.query = c.type = c.body = SLICE_NONE;
	BUG_ON(why && !merge_call_lacks(&c));
	c.type = slice_of("application/json");
	c.body = rest;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		c.path = slice_of(known[i]);
		c.query = target;
		BUG_ON(!merge_call_lacks(&c) && c.query.len + c.body.len < 40);
	}
	return 0;
}
