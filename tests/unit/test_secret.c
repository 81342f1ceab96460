/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "workspace/view/secret.h"

static void test_names(void)
{
	static const struct {
		const char *parent, *name;
		bool dir, secret;
	} cases[] = {
		{ "", ".env", false, true },
		{ "", ".env.local", false, true },
		{ "", ".ENV.Production", false, true },
		{ "", ".envrc", false, true },
		{ "", ".env.example", false, false },
		{ "", ".env.prod.sample", false, false },
		{ "", ".env-template", false, false },
		{ "", ".env", true, false },
		{ "", ".ssh", true, true },
		{ "", ".ssh", false, false },
		{ "", ".aws", true, true },
		{ ".config", "gcloud", true, true },
		{ "src", "gcloud", true, false },
		{ ".docker", "config.json", false, true },
		{ "src", "config.json", false, false },
		{ "", ".npmrc", false, true },
		{ "", ".netrc", false, true },
		{ "", ".git-credentials", false, true },
		{ "", "id_rsa", false, true },
		{ "", "id_rsa.pub", false, false },
		{ "", "id_ed25519_work", false, true },
		{ "", "server.pem", false, true },
		{ "", "server.key", false, true },
		{ "", ".key", false, false },
		{ "", "store.p12", false, true },
		{ "", "terraform.tfstate", false, true },
		{ "", "terraform.tfstate.backup", false, true },
		{ "", ".vault-token", false, true },
		{ "", "main.c", false, false },
		{ "", "keys", false, false },
		{ "", "x", false, false },
		{ "", "environment.md", false, false },
		{ "", "identity.c", false, false },
		{ "", "monkey", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECKF((secret_match(cases[i].parent, cases[i].name, cases[i].dir) != NULL) ==
			       cases[i].secret,
		       "%s/%s%s %s", cases[i].parent, cases[i].name, cases[i].dir ? "/" : "",
		       cases[i].secret ? "holds credentials" : "does not");
}

static void test_paths(void)
{
	const struct secret_rule *r = NULL;

	CHECK(secret_match_path("a/.ssh/id_x/y", false, &r) == 6 && r);
	CHECK(secret_match_path(".env", false, &r) == 4);
	CHECK(secret_match_path("a/.config/gcloud", true, &r) == 16);
	CHECK(secret_match_path("a/.config/gcloud", false, &r) == 0);
	CHECK(secret_match_path("src/main.c", false, &r) == 0);
	CHECK(secret_match_path(".env/lib/x", false, &r) == 0);
}

static bool redacts(const char *in, const char *wanted)
{
	autobuf struct buf out = BUF_INIT;
	bool changed = false;

	secret_redact_git(in, strlen(in), &out, &changed);
	if (str_eq(buf_cstr(&out), wanted) && changed == !str_eq(in, wanted))
		return true;
	printf("# got %s\n", buf_cstr(&out));
	return false;
}

static void test_redact(void)
{
	CHECK(redacts("[core]\n\tbare = false\n", "[core]\n\tbare = false\n"));
	CHECK(redacts("\turl = https://user:ghp_x@github.com/a/b.git\n",
		      "\turl = https://REDACTED@github.com/a/b.git\n"));
	CHECK(redacts("\turl = https://ghp_x@github.com/a\n", "\turl = https://REDACTED@github.com/a\n"));
	CHECK(redacts("\turl = ssh://git@github.com/a\n", "\turl = ssh://git@github.com/a\n"));
	CHECK(redacts("\turl = git@github.com:a/b\n", "\turl = git@github.com:a/b\n"));
	CHECK(redacts("\turl = ftp://u:p@h/\n", "\turl = ftp://REDACTED@h/\n"));
	CHECK(redacts("\turl = https://h/a@b\n", "\turl = https://h/a@b\n"));
	CHECK(redacts("[url \"https://u:t@h/\"]\n\tinsteadOf = x\n",
		      "[url \"https://REDACTED@h/\"]\n\tinsteadOf = x\n"));
	CHECK(redacts("\textraheader = AUTHORIZATION: basic eDp5\n", "\textraheader = REDACTED\n"));
	CHECK(redacts("[http \"https://h/\"] extraHeader=Authorization: x\n",
		      "[http \"https://h/\"] extraHeader= REDACTED\n"));
	CHECK(redacts("\tEXTRAHEADER = a \\\n  more secret\n\tx = y\n",
		      "\tEXTRAHEADER = REDACTED\n\tx = y\n"));
	CHECK(redacts("\turl = https://u:\\\nsecret@h/a\nz", "\turl = https://REDACTED@h/a\nz"));
	CHECK(redacts("\turl = \"https://u:p w@h/\"\n", "\turl = \"https://REDACTED@h/\"\n"));
	CHECK(redacts("\ta = https://u:p@h/ https://v:q@i/\n",
		      "\ta = https://REDACTED@h/ https://REDACTED@i/\n"));
	CHECK(redacts("\textraheader = X: [a] b = c\n", "\textraheader = REDACTED\n"));
	CHECK(redacts("[http \"a]\\\"b\"] extraheader = c\n", "[http \"a]\\\"b\"] extraheader = REDACTED\n"));
	CHECK(redacts("[http \"https://u:p@h/\"] extraheader = c\n",
		      "[http \"https://REDACTED@h/\"] extraheader = REDACTED\n"));
	CHECK(redacts("\tsmtppass = x", "\tsmtppass = REDACTED"));
	CHECK(redacts("", "") && redacts("\\\n", "\\\n") && redacts("://@", "://@") &&
	      redacts("a=\\", "a=\\"));
}

int main(void)
{
	test_names();
	test_paths();
	test_redact();
	return tap_done();
}
