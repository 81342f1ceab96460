/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/replay/learn.h"

#include "base/cleanup.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>

static size_t n_asked;

/* The last two labels: enough here, where no name has a longer suffix. */
static const char *registrable(const char *name)
{
	const char *dot = strrchr(name, '.');

	n_asked++;
	while (dot && dot > name && dot[-1] != '.')
		dot--;
	return dot;
}

static void format_time(uint64_t t, char *out)
{
	snprintf(out, 32, "t%llu", (unsigned long long)t);
}

static const struct learn_opts opts = { .source = "a test\n- domain: \"*\"",
					.registrable = registrable,
					.format_time = format_time };

static void see(struct learn *l, enum learn_kind kind, const char *name, uint16_t port, uint64_t up,
		uint64_t down, uint64_t t)
{
	struct learn_seen s = { .kind = kind, .name = name, .port = port, .up = up, .down = down, .t = t };

	if (learn_add(l, &s, NULL) < 0)
		abort();
}

static void ask(struct learn *l, const char *name, const char *method, const char *path)
{
	struct learn_seen s = {
		.kind = LEARN_REQUEST, .name = name, .port = 443, .method = method, .path = path
	};

	if (learn_add(l, &s, NULL) < 0)
		abort();
}

static bool has(const struct buf *b, const char *text)
{
	return strstr(buf_cstr(b), text) != NULL;
}

static void test_plain(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT;

	see(&l, LEARN_LOOKUP, "github.com", 0, 0, 0, 1);
	see(&l, LEARN_OPEN, "github.com", 443, 0, 0, 2);
	see(&l, LEARN_CLOSE, "github.com", 443, 1024, 2048, 5);
	see(&l, LEARN_OPEN, "api.github.com", 443, 0, 0, 3);
	see(&l, LEARN_OPEN, "example.org", 8443, 0, 0, 3);
	see(&l, LEARN_LOOKUP, "never.example", 0, 0, 0, 4);
	see(&l, LEARN_DENIED, "evil.example", 443, 0, 0, 4);
	see(&l, LEARN_DENIED, "dns.evil.example", 0, 0, 0, 4);
	learn_write(&l, &opts, &out);
	CHECK(has(&out, "version: 1\negress:\n  mode: enforce\n  allow:\n"));
	CHECK(has(
		&out,
		"    # 1 connection, 1.0 KiB up, 2.0 KiB down, t2 to t5\n    - domain: \"github.com\"\n      port: 443\n"));
	CHECK(has(&out, "    # --- github.com: 2 destinations\n"));
	CHECK(has(&out, "    # LOOK: an uncommon port\n    - domain: \"example.org\"\n      port: 8443\n"));
	CHECK(has(&out, "#   never.example  looked up, never connected to\n"));
	CHECK(has(&out, "#   evil.example:443  denied 1 time\n"));
	CHECK(has(&out, "#   dns.evil.example  denied 1 time\n"));
	CHECKF(!has(&out, "domain: \"evil.example\"") && !has(&out, "domain: \"never.example\""),
	       "a denied name does not become a rule");
	CHECKF(!has(&out, "\n- domain"), "the name of the source cannot add a rule");
	CHECKF(strstr(buf_cstr(&out), "\"api.github.com\"") < strstr(buf_cstr(&out), "\"github.com\""),
	       "the names of one domain stand together");
}

static void test_empty(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT;

	learn_write(&l, &opts, &out);
	CHECK(has(&out, "  allow: []\n"));
}

static void test_odd(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT;
	struct learn_seen literal = { .kind = LEARN_OPEN, .name = "5.5.5.5", .port = 443, .literal = true };
	struct learn_seen ssh = { .kind = LEARN_OPEN, .name = "git.example", .port = 22, .tunnel = true };

	see(&l, LEARN_OPEN, "mzxw6ytboi4dqnrygq3tcmbv.tunnel.example", 443, 0, 0, 1);
	see(&l, LEARN_OPEN, "drop.example", 443, 0, 0, 1);
	see(&l, LEARN_CLOSE, "drop.example", 443, 5u << 20, 100, 1);
	see(&l, LEARN_OPEN, "registry.npmjs.example", 443, 0, 0, 1);
	CHECK(learn_add(&l, &literal, NULL) == 0);
	CHECK(learn_add(&l, &ssh, NULL) == 0);
	learn_write(&l, &opts, &out);
	CHECK(has(&out, "LOOK: a label that looks like encoded data\n    - domain: \"mzxw6"));
	CHECK(has(&out, "LOOK: hardly used, and much was sent there\n    - domain: \"drop.example\""));
	CHECK(has(&out,
		  "LOOK: an address instead of a name: its owner is unknown\n    - address: \"5.5.5.5\""));
	CHECK(has(&out, "port: 22\n      depth: tunnel\n"));
	CHECKF(has(&out, "0 B down\n    - domain: \"registry.npmjs.example\"") ||
		       has(&out, "t1\n    - domain: \"registry.npmjs.example\""),
	       "an ordinary name is not marked as odd");
}

static void test_many(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT;
	char name[64];

	for (int i = 0; i < LEARN_MAX + 10; i++) {
		snprintf(name, sizeof(name), "n%d.bulk.example", i);
		see(&l, LEARN_OPEN, name, 443, 0, 0, 1);
	}
	CHECK(l.n == LEARN_MAX && l.others == 10);
	see(&l, LEARN_OPEN, "n7.bulk.example", 443, 0, 0, 9);
	CHECKF(l.dests[7].opens == 2, "a name is found among all names");
	learn_write(&l, &opts, &out);
	CHECK(has(&out, "LOOK: one of very many names below one domain"));
	snprintf(name, sizeof(name), "and 10 events of destinations past the first %d", LEARN_MAX);
	CHECK(has(&out, name));
}

static void test_different(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT;
	char name[64];

	for (unsigned i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "host%u.test", i);
		see(&l, LEARN_OPEN, name, 443, 1, 1, 1);
	}
	n_asked = 0;
	learn_write(&l, &opts, &out);
	CHECKF(n_asked < 400000, "the work grows with the number of domains, not with its square: %zu",
	       n_asked);
	CHECK(!has(&out, "one of very many"));
}

static const char *long_path(void)
{
	static char path[400];

	memset(path, 'l', sizeof(path) - 1);
	path[0] = '/';
	return path;
}

static void test_http(void)
{
	CLEANUP(learn_release) struct learn l = LEARN_INIT;
	autobuf struct buf out = BUF_INIT, plain = BUF_INIT;
	const struct learn_seen silent = {
		.kind = LEARN_OPEN, .name = "silent.example", .port = 443, .inspected = true
	};
	struct learn_opts with = opts;
	char path[64];

	with.http = true;
	see(&l, LEARN_OPEN, "api.example", 443, 0, 0, 1);
	ask(&l, "api.example", "POST", "/v1/messages");
	ask(&l, "api.example", "POST", "/v1/messages");
	ask(&l, "api.example", "PUT", "/x/*/y");
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/repos/o/r/issues/%d", i);
		ask(&l, "api.example", "GET", path);
	}
	ask(&l, "api.example", "PUT", "/x/1");
	ask(&l, "api.example", "*", "/m");
	ask(&l, "api.example", "X-Y", "/odd");
	ask(&l, "api.example", "WEBSOCKET", "/live");
	ask(&l, "api.example", "GET", long_path());
	see(&l, LEARN_OPEN, "only-odd.example", 443, 0, 0, 1);
	ask(&l, "only-odd.example", "X-Y", "/odd");
	see(&l, LEARN_OPEN, "unseen.example", 443, 0, 0, 1);
	CHECK(learn_add(&l, &silent, NULL) == 0);
	learn_write(&l, &with, &out);
	CHECKF(has(&out,
		   "- domain: \"silent.example\"\n      port: 443\n      http:\n        # no request was logged: the "
		   "connection is allowed, and nothing in it\n        - deny: \"*,WEBSOCKET /**\"\n"),
	       "a host that was inspected without a request gets no allowed request: %s", buf_cstr(&out));
	CHECKF(has(&out,
		   "    # LOOK: its connections were not inspected, so no request is known and this rule allows any: "
		   "add http:, or run with depth: inspect and learn again\n    - domain: \"unseen.example\"\n"),
	       "a rule that allows more than was seen is marked");
	CHECK(has(&out, "        - allow: \"GET /repos/o/r/issues/**\" # 40 paths\n"));
	CHECK(has(&out, "        - allow: \"POST /v1/messages\"\n"));
	CHECKF(has(&out, "        # left out: PUT /x/*/y (") &&
		       has(&out, "        - allow: \"PUT /x/1\"\n") && !has(&out, "PUT /**"),
	       "a path with a star becomes no rule, and widens no other: %s", buf_cstr(&out));
	CHECKF(has(&out, "# left out: * /m (") && !has(&out, "\"* /m\""),
	       "the method '*' does not become every method");
	CHECKF(has(&out, "# left out: X-Y /odd (") && !has(&out, "\"X-Y"),
	       "a method that no rule can name is left out");
	CHECKF(has(&out, "        - allow: \"WEBSOCKET /live\"\n"), "a websocket is learned as WEBSOCKET");
	CHECKF(has(&out, "# left out: GET /lll") && !has(&out, "\"GET /lll"),
	       "a path that is too long for a rule is left out");
	CHECKF(has(&out,
		   "        # left out: X-Y /odd (rules do not support that method)\n        - deny: \"*,WEBSOCKET /**\"\n"),
	       "a host without a request that a rule can name is denied all requests");
	learn_write(&l, &opts, &plain);
	CHECKF(!has(&plain, "http:") && !has(&plain, "not inspected"),
	       "a policy learned without --http has no paths");
}

int main(void)
{
	test_plain();
	test_empty();
	test_odd();
	test_many();
	test_different();
	test_http();
	return tap_done();
}
