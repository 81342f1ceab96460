/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "workspace/view/secret.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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
		{ "", ".dev.vars", false, true },
		{ "", ".dev.vars.production", false, true },
		{ "", ".dev.vars.example", false, false },
		{ "", "prod.env", false, true },
		{ "", "example.env", false, false },
		{ "", "prod.sample.env", false, false },
		{ "", "prod.env.example", false, false },
		{ ".hg", "hgrc", false, true },
		{ "", "hgrc", false, false },
		{ "", "auth.json", false, true },
		{ ".opencode", "auth.json", false, true },
		{ "", "rclone.conf", false, true },
		{ "", ".sentryclirc", false, true },
		{ ".pulumi", "credentials.json", false, true },
		{ ".huggingface", "token", false, true },
		{ "src", "token", false, false },
		{ ".kaggle", "kaggle.json", false, true },
		{ ".supabase", "access-token", false, true },
		{ "", "terraform.tfvars", false, true },
		{ ".claude", "settings.local.json", false, true },
		{ ".claude", "settings.json", false, false },
		{ "", ".bash_history", false, true },
		{ "", ".zsh_history", false, true },
		{ "", ".psql_history", false, true },
		{ "fish", "fish_history", false, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECKF((secret_match(cases[i].parent, cases[i].name, cases[i].dir) != NULL) ==
			       cases[i].secret,
		       "the path %s/%s%s %s", cases[i].parent, cases[i].name, cases[i].dir ? "/" : "",
		       cases[i].secret ? "holds credentials" : "does not");
}

/* Does a file of this name and content count? */
static bool looks_secret(const char *parent, const char *name, const char *text)
{
	const struct secret_rule *r = secret_match(parent, name, false);
	char dir[] = "/tmp/coffer-secret-XXXXXX";
	bool found = false;
	int d, fd;

	if (!r || !secret_needs_look(r) || !mkdtemp(dir))
		return r && !secret_needs_look(r);
	d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(d, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text))
		found = secret_look(r, d, name);
	close(fd);
	unlinkat(d, name, 0);
	close(d);
	rmdir(dir);
	return found;
}

static void test_looks(void)
{
	CHECK(looks_secret("", "prod.env", "A=1\nDB_PASSWORD=hunter22\n") &&
	      looks_secret("", "prod.env", "URL=postgres://u:p@db/x\n") &&
	      looks_secret("", "prod.env", "export API_KEY='abcdefgh'"));
	CHECK(!looks_secret(
		"", "build.env",
		"GO_VERSION=1.24.1\nTOKEN=\nUSE_TOKEN=true\nAUTHOR=somebody\nAPI_KEY=${API_KEY}\n"));
	CHECK(looks_secret("", "terraform.tfvars", "db_password = \"hunter22\"\n") &&
	      !looks_secret("", "terraform.tfvars", "region = \"eu-central-1\"\n"));
	CHECK(looks_secret(".hg", "hgrc", "[auth]\nx.password = hunter22\n") &&
	      looks_secret(".hg", "hgrc", "[paths]\ndefault = https://u:p@h/x\n") &&
	      !looks_secret(".hg", "hgrc", "[paths]\ndefault = https://h/x\n"));
	CHECK(looks_secret("", "auth.json", "{\"http-basic\": {\"h\": {\"password\": \"x\"}}}") &&
	      !looks_secret("en", "auth.json", "{\"password\": \"The password is wrong.\"}"));
	CHECK(looks_secret("", ".sentryclirc", "[auth]\ntoken=sntrys_abc\n") &&
	      !looks_secret("", ".sentryclirc", "[defaults]\norg = x\n"));
	CHECK(looks_secret(".claude", "settings.local.json",
			   "{\"env\": {\"ANTHROPIC_API_KEY\": \"sk-ant-x\"}}") &&
	      !looks_secret(".claude", "settings.local.json",
			    "{\"permissions\": {\"allow\": [\"Bash(gh auth token:*)\"]}}"));
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
	test_looks();
	test_paths();
	test_redact();
	return tap_done();
}
