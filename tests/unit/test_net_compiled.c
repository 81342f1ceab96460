/* SPDX-License-Identifier: Apache-2.0 */
/* The result of the process that compiles a policy: what the guard takes, and what it refuses. */
#include "base/cleanup.h"
#include "netd/plan/net_compiled.h"
#include "tap.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static struct net_compiled example(enum net_compiled_outcome outcome, const char *bundle)
{
	struct net_compiled c = { .outcome = outcome, .bundle_len = strlen(bundle) };

	if (outcome == NET_COMPILED_BROKEN)
		snprintf(c.error, sizeof(c.error), "p.yaml:1:1: it is broken");
	else if (strv_add(&c.files, "/etc/p.yaml") < 0 || strv_add(&c.files, "/etc/ads.txt") < 0)
		abort();
	return c;
}

/* The bytes of such a result, with this head. */
static void pack_example(struct net_compiled *c, const char *bundle, const struct net_compiled_head *head,
			 struct buf *out)
{
	net_compiled_begin(c, out);
	buf_adds(out, bundle);
	if (head)
		memcpy(out->data, head, sizeof(*head));
	net_compiled_release(c);
}

static void test_taken(void)
{
	for (int i = 0; i < NET_COMPILED_COUNT; i++) {
		CLEANUP(net_compiled_release) struct net_compiled got = NET_COMPILED_INIT;
		const char *bundle = i == NET_COMPILED_NEW ? "the bundle" : "";
		struct net_compiled c = example((enum net_compiled_outcome)i, bundle);
		autobuf struct buf b = BUF_INIT;
		struct err e = ERR_INIT;

		pack_example(&c, bundle, NULL, &b);
		CHECKF(net_compiled_parse(&b, &got, &e) == 0 && (int)got.outcome == i && !b.data,
		       "a result of outcome %d is taken %s", i, e.msg);
		CHECKF(got.bundle_len == strlen(bundle) &&
			       memcmp(net_compiled_bundle(&got), bundle, strlen(bundle)) == 0,
		       "the bundle of outcome %d is the end of the result", i);
		if (i == NET_COMPILED_BROKEN)
			CHECKF(str_eq(got.error, "p.yaml:1:1: it is broken") && !got.files.n,
			       "the error is taken: %s", got.error);
		else
			CHECKF(got.files.n == 2 && str_eq(got.files.v[0], "/etc/p.yaml") &&
				       str_eq(got.files.v[1], "/etc/ads.txt"),
			       "the paths of outcome %d are both taken", i);
	}
}

static void refuse(const struct buf *b, const char *what)
{
	CLEANUP(net_compiled_release) struct net_compiled got = NET_COMPILED_INIT;
	autobuf struct buf copy = BUF_INIT;
	struct err e = ERR_INIT;

	buf_add(&copy, b->data, b->len);
	CHECKF(net_compiled_parse(&copy, &got, &e) == -EBADMSG && e.msg[0] && !got.files.n &&
		       copy.len == b->len,
	       "a result is refused %s", what);
}

static void test_cut(void)
{
	struct net_compiled c = example(NET_COMPILED_NEW, "the bundle");
	autobuf struct buf b = BUF_INIT;
	size_t whole, refused = 0;

	pack_example(&c, "the bundle", NULL, &b);
	whole = b.len;
	for (b.len = 0; b.len < whole; b.len++) {
		CLEANUP(net_compiled_release) struct net_compiled got = NET_COMPILED_INIT;
		autobuf struct buf copy = BUF_INIT;

		buf_add(&copy, b.data, b.len);
		refused += net_compiled_parse(&copy, &got, NULL) == -EBADMSG;
	}
	CHECKF(refused == whole, "a result that is cut is refused: %zu of %zu", refused, whole);
	buf_adds(&b, "x");
	refuse(&b, "with a byte too many");
}

static void test_heads(void)
{
	static const struct net_compiled_head good = { .magic = { 'c', 'o', 'f', 'f', 'e', 'r', 'C', '1' },
						       .outcome = NET_COMPILED_NEW,
						       .n_files = 2,
						       .paths_len = 25,
						       .bundle_len = 10 };
	struct net_compiled_head h[] = { good, good, good, good, good, good, good, good, good, good };
	static const char *const what[] = {
		"without its magic",
		"of an unknown outcome",
		"with too many files",
		"with lengths that overflow",
		"with a bundle beyond the limit",
		"of the same policy with a bundle",
		"of a broken policy with files",
		"with fewer paths than bytes of them",
		"with more paths than bytes of them",
		"with a path that has no end",
	};

	h[0].magic[7] = '2';
	h[1].outcome = NET_COMPILED_COUNT;
	h[2].n_files = NET_COMPILED_FILES_MAX + 1;
	h[3].paths_len = UINT64_MAX - 5;
	h[3].bundle_len = 41;
	h[4].bundle_len = (uint64_t)NET_COMPILED_BUNDLE_MAX + 1;
	h[5].outcome = NET_COMPILED_SAME;
	h[6].outcome = NET_COMPILED_BROKEN;
	h[7].n_files = 1;
	h[8].n_files = 3;
	h[9].paths_len = 24;
	h[9].bundle_len = 11;
	for (size_t i = 0; i < ARRAY_SIZE(h); i++) {
		struct net_compiled c = example(NET_COMPILED_NEW, "the bundle");
		autobuf struct buf b = BUF_INIT;

		pack_example(&c, "the bundle", &h[i], &b);
		refuse(&b, what[i]);
	}
}

static void test_paths(void)
{
	static char lots[PATH_MAX + 1];
	const char *const paths[] = { "etc/p.yaml", "", lots };

	memset(lots, 'a', sizeof(lots) - 1);
	lots[0] = '/';
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct net_compiled c = { .outcome = NET_COMPILED_SAME };
		autobuf struct buf b = BUF_INIT;

		CHECK(strv_add(&c.files, paths[i]) == 0);
		pack_example(&c, "", NULL, &b);
		refuse(&b, i == 0   ? "with a relative path"
			   : i == 1 ? "with an empty path"
				    : "with a path that is too long");
	}
}

static void test_error_is_harmless(void)
{
	CLEANUP(net_compiled_release) struct net_compiled got = NET_COMPILED_INIT;
	struct net_compiled c = { .outcome = NET_COMPILED_BROKEN };
	autobuf struct buf b = BUF_INIT;

	memset(c.error, '\x1b', NET_COMPILED_ERROR_MAX);
	pack_example(&c, "", NULL, &b);
	CHECKF(net_compiled_parse(&b, &got, NULL) == 0 && str_starts(got.error, "\\x1b\\x1b") &&
		       strlen(got.error) == NET_COMPILED_ERROR_MAX,
	       "control bytes of an error are made visible: %.20s", got.error);
}

int main(void)
{
	test_taken();
	test_cut();
	test_heads();
	test_paths();
	test_error_is_harmless();
	return tap_done();
}
