/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/blocklist.h"

#include "policy/build.h"
#include "policytest.h"

#include <errno.h>
#include <stdlib.h>

static bool has(const struct blocklist *b, const char *name)
{
	struct host h;

	return host_canon(name, strlen(name), &h, NULL) == 0 && blocklist_has(b, &h);
}

static void test_lines(void)
{
	static const char text[] = "# a comment\n"
				   "! another\n"
				   "0.0.0.0 ads.example.com tracker.example.com # both\n"
				   "127.0.0.1\tlocalhost\n"
				   "::1 ip6-localhost\r\n"
				   "Evil.Example.ORG\n"
				   "*.wild.example.net\n"
				   "com\n"
				   "not a name/\n"
				   "last.example.com";
	struct blocklist b = BLOCKLIST_INIT;

	CHECK(blocklist_add_lines(&b, text, sizeof(text) - 1, NULL) == 0);
	blocklist_finish(&b);
	CHECK(b.n == 5);
	CHECK(has(&b, "ads.example.com") && has(&b, "tracker.example.com") && has(&b, "last.example.com"));
	CHECK(has(&b, "evil.example.org") && has(&b, "deep.below.evil.example.org"));
	CHECK(has(&b, "wild.example.net") && has(&b, "x.wild.example.net"));
	CHECK(!has(&b, "example.com") && !has(&b, "example.org") && !has(&b, "anything.com"));
	CHECK(!has(&b, "notevil.example.org.com") && !has(&b, "127.0.0.1"));
	blocklist_release(&b);
}

static void test_limit(void)
{
	static const char two[] = "a.example.com\nb.example.com\n";
	struct blocklist b = BLOCKLIST_INIT;

	/* As it is after growing: with room for more than there may be. */
	b.room = POLICY_BLOCKED_MAX + POLICY_BLOCKED_MAX / 2;
	b.own = calloc(b.room, sizeof(*b.own));
	b.n = POLICY_BLOCKED_MAX - 1;
	CHECKF(b.own && blocklist_add_lines(&b, two, sizeof(two) - 1, NULL) == -E2BIG &&
		       b.n == POLICY_BLOCKED_MAX,
	       "a blocklist takes no name more than its limit, however much room it has");
	blocklist_release(&b);
}

static void test_million(void)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct blocklist b = BLOCKLIST_INIT;
	bool all = true, none = false;

	for (unsigned i = 0; i < 1000000; i++)
		buf_addf(&text, "host%u.example%u.com\n", i, i % 977);
	CHECK(blocklist_add_lines(&b, text.data, text.len, NULL) == 0);
	blocklist_finish(&b);
	CHECK(b.n == 1000000);
	CHECK(b.room * sizeof(uint64_t) <= 12u << 20);
	for (unsigned i = 0; i < 1000000; i += 997) {
		char name[64];

		snprintf(name, sizeof(name), "host%u.example%u.com", i, i % 977);
		all = all && has(&b, name);
		snprintf(name, sizeof(name), "other%u.example%u.com", i, i % 977);
		none = none || has(&b, name);
	}
	CHECK(all && !none);
	blocklist_release(&b);
}

static void test_in_policy(void)
{
	autofree char *list = write_scratch("list.txt", "ads.example.com\n0.0.0.0 bad.example.org\n");
	struct policy *p = policy_of("blocklists:\n"
				     "  - {category: ads, file: list.txt}\n"
				     "allow:\n"
				     "  - {domain: ads.example.com, port: 443}\n"
				     "  - {domain: good.example.com}\n");

	CHECK(strstr(last_warnings, "is on the blocklist 'ads'") != NULL);
	CHECK(connect_is(p, "ads.example.com:443", POLICY_DENY) && strstr(last.why, "blocklist 'ads'"));
	CHECK_STR(last.rule_text, "blocklist ads");
	CHECK(name_is(p, "ads.example.com", false) && name_is(p, "x.bad.example.org", false));
	CHECK(connect_is(p, "good.example.com:443", POLICY_ALLOW));
	policy_free(p);
	p = policy_of("mode: observe\nblocklists: [{category: ads, file: list.txt}]\n");
	CHECK(connect_is(p, "x.ads.example.com:80", POLICY_DENY));
	CHECK(connect_is(p, "other.example.com:80", POLICY_ALLOW));
	policy_free(p);
}

int main(void)
{
	test_lines();
	test_limit();
	test_million();
	test_in_policy();
	return tap_done();
}
