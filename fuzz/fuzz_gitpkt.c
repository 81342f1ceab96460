/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a push, at once and in pieces; the same bytes as a fetch and as a path. */
#include "codec/body/gitpkt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gitpkt_push *g, size_t size)
{
	BUG_ON(g->size > size || g->n_commands > GITPKT_COMMANDS_MAX);
	for (unsigned i = 0; i < g->n_commands; i++) {
		struct slice ref = g->commands[i].ref;

		BUG_ON(ref.len < 6 || ref.len > GITPKT_REF_MAX || memcmp(ref.p, "refs/", 5) != 0);
		BUG_ON(memchr(ref.p, 0, ref.len) || memchr(ref.p, '\n', ref.len) ||
		       memmem(ref.p, ref.len, "..", 2));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(gitpkt_push_release) struct gitpkt_push a = GITPKT_PUSH_INIT, b = GITPKT_PUSH_INIT;
	const char *s = (const char *)data;
	size_t step = size ? data[size - 1] % 101 + 1 : 1, half = size / 2;
	int whole = gitpkt_push_feed(&a, s, size), pieces = 0;
	struct slice repo;

	for (size_t n = step; pieces == 0 && n < size + step; n += step)
		pieces = gitpkt_push_feed(&b, s, n < size ? n : size);
	BUG_ON(whole != pieces || (whole == -EBADMSG && !a.why));
	if (whole == 1) {
		BUG_ON(a.size != b.size || a.n_commands != b.n_commands);
		check(&a, size);
		check(&b, size);
	}
	BUG_ON(gitpkt_fetch_kind(s, size) > (int)GITPKT_FETCH_NOTHING);
	gitpkt_service((struct slice){ s, half }, (struct slice){ s + half, size - half }, &repo);
	BUG_ON(repo.len > half);
	return 0;
}
