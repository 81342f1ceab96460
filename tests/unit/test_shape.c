/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "vault/shape.h"

#define BODY "1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"

static const uint8_t seed_a[SHAPE_SEED_LEN] = { 1, 2, 3 }, seed_b[SHAPE_SEED_LEN] = { 4, 5, 6 };

/* How many places of two texts have the same character behind the first `from`. */
static size_t same(const char *a, const char *b, size_t from)
{
	size_t n = 0;

	for (size_t i = from; a[i] && b[i]; i++)
		n += a[i] == b[i];
	return n;
}

static void one(const char *secret, const char *prefix, size_t want_len)
{
	char a[SHAPE_MAX + 1], b[SHAPE_MAX + 1];
	size_t n = shape_placeholder(secret, strlen(secret), seed_a, a);

	CHECKF(n == want_len && strlen(a) == n, "%s: %zu long", a, want_len);
	CHECKF(str_starts(a, prefix), "%s begins with '%s'", a, prefix);
	CHECKF(same(a, secret, strlen(prefix)) < 12, "and has nothing else of it");
	shape_placeholder(secret, strlen(secret), seed_b, b);
	CHECKF(same(a, b, strlen(prefix)) < 14, "another seed gives another: %s", b);
}

static void test_placeholder(void)
{
	char out[SHAPE_MAX + 1], longest[3000];

	one("ghp_" BODY, "ghp_", 40);
	one("github_pat_" BODY BODY, "github_pat_", 83);
	one("sk-ant-api03-" BODY BODY, "sk-ant-api03-", 85);
	one("sk-proj-" BODY, "sk-proj-", 44);
	one("AIza" BODY, "AIza", 40);
	one("xoxb-" BODY, "xoxb-", 41);
	one("short", "", SHAPE_MIN);
	one("sk-ant-oat01-", "sk-ant-oat01-", 29);
	one(BODY, "", 36);
	memset(longest, 'x', sizeof(longest));
	CHECKF(shape_placeholder(longest, sizeof(longest), seed_a, out) == SHAPE_MAX, "a long one is cut");
	shape_placeholder("0123456789abcdef0123456789abcdef", 32, seed_a, out);
	CHECKF(strspn(out, "0123456789abcdef") == 32, "hex stays hex: %s", out);
	shape_placeholder("12345678901234567890", 20, seed_a, out);
	CHECKF(strspn(out, "0123456789") == 24, "digits stay digits: %s", out);
	shape_placeholder("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", 45, seed_a, out);
	CHECKF(strspn(out, "0123456789") == 9 && out[9] == ':' && strlen(out) == 45, "a bot's token: %s",
	       out);
	shape_placeholder("01234567-89ab-cdef-0123-456789abcdef", 36, seed_a, out);
	CHECKF(out[8] == '-' && out[23] == '-' && strlen(out) == 36, "a UUID: %s", out);
	shape_placeholder("a secret with spaces \x01\xff and more", 33, seed_a, out);
	CHECKF(strspn(out, "abcdefghijklmnopqrstuvwxyz") == 33, "only what a header takes: %s", out);
}

static const char *finds(const char *text)
{
	struct shape_hit h;

	return shape_find(text, strlen(text), 0, &h) ? h.shape->what : "nothing";
}

static void test_find(void)
{
	struct shape_hit h;
	const char *two = "a=ghp_" BODY "\nb=\"sk-proj-" BODY "\"";

	CHECK_STR(finds("token: ghp_" BODY), "a GitHub token");
	CHECK_STR(finds("x=sk-ant-api03-" BODY), "an Anthropic key");
	CHECK_STR(finds("AKIAQ3EGRVJ7ZUH2K5WB"), "an AWS access key");
	CHECK_STR(finds("-----BEGIN OPENSSH PRIVATE KEY-----\n"), "a private key");
	CHECK_STR(finds("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw_x"), "nothing");
	CHECK_STR(finds("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw_"), "a Telegram bot's token");
	CHECK_STR(finds("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
		  "a signed token (JWT)");
	CHECK_STR(finds("-----BEGIN CERTIFICATE-----\n"), "nothing");
	CHECK_STR(finds("-----BEGIN PUBLIC KEY-----\n"), "nothing");
	CHECK_STR(finds("AKIAIOSFODNN7EXAMPLE"), "nothing");
	CHECK_STR(finds("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "nothing");
	CHECK_STR(finds("ghp_short"), "nothing");
	CHECK_STR(finds("aghp_" BODY), "nothing");
	CHECK_STR(finds("the risk-free sk-eleton"), "nothing");
	CHECK_STR(finds(""), "nothing");
	CHECK(shape_find(two, strlen(two), 0, &h) && h.at == 2 && h.len == 40);
	CHECK(shape_find(two, strlen(two), h.at + h.len, &h) && h.at == 46 && h.len == 44);
	CHECK(!shape_find(two, strlen(two), h.at + h.len, &h));
	CHECK(shape_of("ghp_" BODY, 40) && str_eq(shape_of("ghp_" BODY, 40)->env, "GITHUB_TOKEN"));
	CHECK(!shape_of("plain", 5));
}

int main(void)
{
	test_placeholder();
	test_find();
	return tap_done();
}
