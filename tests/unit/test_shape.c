/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "vault/common/shape.h"

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

	CHECKF(n == want_len && strlen(a) == n, "the placeholder %s has %zu bytes", a, want_len);
	CHECKF(str_starts(a, prefix), "the placeholder %s begins with '%s'", a, prefix);
	CHECKF(same(a, secret, strlen(prefix)) < 12, "a placeholder shares only its prefix with the secret");
	shape_placeholder(secret, strlen(secret), seed_b, b);
	CHECKF(same(a, b, strlen(prefix)) < 14, "a different seed gives a different placeholder: %s", b);
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
	CHECKF(shape_placeholder(longest, sizeof(longest), seed_a, out) == SHAPE_MAX,
	       "the placeholder of a long secret is cut");
	shape_placeholder("0123456789abcdef0123456789abcdef", 32, seed_a, out);
	CHECKF(strspn(out, "0123456789abcdef") == 32, "the placeholder of hex is hex: %s", out);
	shape_placeholder("12345678901234567890", 20, seed_a, out);
	CHECKF(strspn(out, "0123456789") == 24, "the placeholder of digits is digits: %s", out);
	shape_placeholder("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", 45, seed_a, out);
	CHECKF(strspn(out, "0123456789") == 9 && out[9] == ':' && strlen(out) == 45,
	       "the placeholder of a bot's token has its shape: %s", out);
	shape_placeholder("01234567-89ab-cdef-0123-456789abcdef", 36, seed_a, out);
	CHECKF(out[8] == '-' && out[23] == '-' && strlen(out) == 36,
	       "the placeholder of a UUID has its shape: %s", out);
	shape_placeholder("a secret with spaces \x01\xff and more", 33, seed_a, out);
	CHECKF(strspn(out, "abcdefghijklmnopqrstuvwxyz") == 33,
	       "the placeholder has only characters that a header takes: %s", out);
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

#define AWS "wJ4lrXUtnFzM1+K7MDrNGzbPx/fiCYq8pQ2wKe9v"
#define AZURE "Zr3vKq8LmP1xWc7TnY5bJd2HgFs9QaEu4RoXi6kVtBwNy0ClMhDzGpSfUjIeA3q8Zr3vKq8LmP1xWc7TnY5b+/"

/* Those that have no beginning of their own. */
static void test_text(void)
{
	struct shape_hit h;
	const char *url = "DB=postgres://app:hX7-kq2LmZ@db.internal/x";

	CHECK_STR(finds("aws_secret_access_key = " AWS "\n"), "an AWS secret key");
	CHECK_STR(finds("export AWS_SECRET_ACCESS_KEY='" AWS "'"), "an AWS secret key");
	CHECK_STR(finds("{\"SecretAccessKey\": \"" AWS "\"}"), "an AWS secret key");
	CHECK_STR(finds("aws_secret_access_key = " AWS "x"), "nothing");
	CHECK_STR(finds("aws_secret_access_key " AWS), "nothing");
	CHECK_STR(finds("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "nothing");
	CHECK_STR(finds("checksum = " AWS), "nothing");
	CHECK_STR(finds("AccountName=x;AccountKey=" AZURE "==;EndpointSuffix=core"), "an Azure storage key");
	CHECK_STR(finds("AccountKey=" AZURE ";"), "nothing");
	CHECK_STR(finds("AccountKey=short=="), "nothing");
	CHECK_STR(finds("dapi3f9c1a7e5b2d8046c9e1f7a3b5d20864"), "a Databricks token");
	CHECK_STR(finds("dapi3f9c1a7e5b2d8046c9e1f7a3b5d2086"), "nothing");
	CHECK_STR(finds("dapinterface_of_some_length_or_other"), "nothing");
	CHECK_STR(finds("t=MTE4MzQ1OTg3NjU0MzIxMDk4Nw.GkT2bq.xW9vLm3QpZs7RfYc1NhJd5KtUe8BgAoXi2Vw4M"),
		  "a Discord bot's token");
	CHECK_STR(finds("t=MTE4MzQ1OTg3NjU0MzIxMDk4Nw.GkT2bqz.xW9vLm3QpZs7RfYc1NhJd5KtUe8BgAoXi2Vw4M"),
		  "nothing");
	CHECK_STR(finds("t=Module_with_a_long_name__.helper.another_name_that_is_quite_long"), "nothing");
	CHECK_STR(finds("glcbt-64_" BODY), "a GitLab job's token");
	CHECK_STR(finds("glcbt-64_short"), "nothing");
	CHECK_STR(finds("https://hooks.slack.com/services/T02A7BQ9X/B05K3MZ81/"
			"hX7kq2LmZ9vB4nC6tR1yW8eP"),
		  "a Slack webhook");
	CHECK_STR(finds("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"),
		  "nothing");
	CHECK_STR(finds("https://hooks.slack.com/services/T02A7BQ9X/B05K3MZ81"), "nothing");
	CHECK_STR(finds("VAULT_TOKEN=hvs.CAESIJ3fKq8LmP1xWc7TnY5bJd2HgFs9"), "a HashiCorp Vault token");
	CHECK_STR(finds("hvs.short"), "nothing");
	CHECK_STR(finds(url), "a password in a URL");
	CHECK(shape_find(url, strlen(url), 0, &h) && h.at == 14 && h.len == 14);
	CHECK_STR(finds("https://:hX7-kq2LmZ@git.internal"), "a password in a URL");
	CHECK_STR(finds("https://user@host/x:longpassword9@y"), "nothing");
	CHECK_STR(finds("https://host:8443/a@b"), "nothing");
	CHECK_STR(finds("postgres://user:password123@db"), "nothing");
	CHECK_STR(finds("postgres://user:${DB_PASS_9x}@db"), "nothing");
	CHECK_STR(finds("postgres://user:<your-pass-9>@db"), "nothing");
	CHECK_STR(finds("ftp://u:hX7-kq2LmZ@example.com"), "nothing");
	CHECK_STR(finds("ftp://u:short@db.internal"), "nothing");
	CHECK_STR(finds("a ://u:hX7-kq2LmZ@db.internal"), "nothing");
}

int main(void)
{
	test_placeholder();
	test_find();
	test_text();
	return tap_done();
}
