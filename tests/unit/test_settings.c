/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's settings without credentials: names and values that are left out, and those that are not. */
#include "base/cleanup.h"
#include "tap.h"
#include "vault/client/settings.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name, *text, *want; /* NULL: left out as a whole */
	size_t left_out;
} files[] = {
	{ "a.json", "{\"model\": \"m\", \"apiKey\": \"x\"}", "{\n  \"model\": \"m\"\n}\n", 1 },
	{ "a.json", "{\"maxTokens\": 5, \"token\": null}", "{\n  \"maxTokens\": 5,\n  \"token\": null\n}\n",
	  0 },
	{ "a.json", "{\"token\": \"${NAME}\"}", "{\n  \"token\": \"${NAME}\"\n}\n", 0 },
	{ "a.json", "{\"token\": \"${NAME}x1234567\"}", "{}\n", 1 },
	{ "a.json", "[\"--api-key\", \"x\", \"y\", \"--password=z\"]", "[\n  \"y\"\n]\n", 2 },
	{ "a.json", "{\"a\": {\"b\": [{\"CLIENT_SECRET\": \"x\"}]}}",
	  "{\n  \"a\": {\n    \"b\": [\n      {}\n    ]\n  }\n}\n", 1 },
	{ "a.json", "{\"note\": \"send Bearer abcdefgh12345 there\"}", "{}\n", 1 },
	{ "a.json", "{\"note\": \"the bearer of bad news arrives\"}",
	  "{\n  \"note\": \"the bearer of bad news arrives\"\n}\n", 0 },
	{ "a.json",
	  "{\"DB_PASS\": \"hunter\", \"smtpPass\": \"x\", \"storageKey\": \"x\", \"X-Auth\": \"x\", \"DB_PWD\": \"x\"}",
	  "{}\n", 5 },
	{ "a.json", "{\"compass\": \"n\", \"monkey\": \"m\", \"PWD\": \"/x\"}",
	  "{\n  \"compass\": \"n\",\n  \"monkey\": \"m\",\n  \"PWD\": \"/x\"\n}\n", 0 },
	{ "a.json", "[\"-e\", \"DB_PASSWORD=hunter\", \"-e\", \"API_TOKEN=${T}\", \"MODE=fast\"]",
	  "[\n  \"-e\",\n  \"-e\",\n  \"API_TOKEN=${T}\",\n  \"MODE=fast\"\n]\n", 1 },
	{ "a.json", "[\"mcp-remote\", \"--header\", \"X-Team: abc\", \"y\"]",
	  "[\n  \"mcp-remote\",\n  \"y\"\n]\n", 1 },
	{ "a.json",
	  "{\"headers\": {\"x-team\": \"abcdefghij12345\", \"X-Kind\": \"plain\", \"beta\": \"more-2025-08-07\"}}",
	  "{\n  \"headers\": {\n    \"X-Kind\": \"plain\",\n    \"beta\": \"more-2025-08-07\"\n  }\n}\n", 1 },
	{ "a.json", "{\"OTEL_EXPORTER_OTLP_HEADERS\": \"x-team=abcdefghij12345\"}", "{}\n", 1 },
	{ "a.json",
	  "{\"url\": \"https://x.example/mcp?key=abcdefg1\", \"c\": \"AccountName=a;AccountKey=abcdefg1==\"}",
	  "{}\n", 2 },
	{ "a.json", "{\"a\": 1, \"a\": 2}", NULL, 0 },
	{ "a.json", "{\"a\": 1} x", NULL, 0 },
	{ "a.json", "", NULL, 0 },
	{ "a.toml", "model = 'm' # sk-x\napi_key = 'x'\n", "model = 'm' \n", 1 },
	{ "a.toml", "max_tokens = 5\nenv_key = 'OPENAI_API_KEY'\n",
	  "max_tokens = 5\nenv_key = 'OPENAI_API_KEY'\n", 0 },
	{ "a.toml", "a.'api-key'.b = 'x'\nb = { Authorization = 'x' }\nc = { \"my-token\" = 1 }\n", "", 3 },
	{ "a.toml", "[a]\nx = 1\n[oauth.b]\ny = 'x'\nz = 'x'\n[c]\nw = 2\n", "[a]\nx = 1\n[c]\nw = 2\n", 1 },
	{ "a.toml", "args = [\n '--token',\n 'x' ]\nb = 1", "b = 1\n", 1 },
	{ "a.toml", "a = '''\nx = # no comment\n'''\n", "a = '''\nx = # no comment\n'''\n", 0 },
	{ "a.toml", "a = 'x\nb = 1\n", NULL, 0 },
	{ "a.toml", "a = [1\n", NULL, 0 },
	{ "a.toml", "a = 1 ]\n", NULL, 0 },
	{ "a.toml", "a = \"x\\", NULL, 0 },
	{ "a.toml", "just words\n", NULL, 0 },
	{ "a.toml",
	  "http_headers = { X-Team = 'abcdefghij12345' }\n[m.http_headers]\nTeam = 'abcdefghij12345'\nKind = 'plain'\n",
	  "[m.http_headers]\nKind = 'plain'\n", 2 },
	{ "a.toml", "[m.\"my server\".http_headers]\nTeam = 'abcdefghij12345'\nKind = 'plain'\n",
	  "[m.\"my server\".http_headers]\nKind = 'plain'\n", 1 },
	{ "a.toml", "'a b'.\"http_headers\" = { Team = 'abcdefghij12345' }\n", "", 1 },
	{ "a.toml", "env_http_headers = { X-Team = 'TEAM_ABCDEFGH_1' }\n",
	  "env_http_headers = { X-Team = 'TEAM_ABCDEFGH_1' }\n", 0 },
	{ "a.sh", "export SERVICE_TOKEN=abcdefghijk0123456789\n", NULL, 0 },
	{ "a.yaml", "api_key: \"abcdefghijk0123456789\"\n", NULL, 0 },
	{ "a.md", "The token is taken from TOKEN_2. Authorization: Bearer <token>. See secrets: doc/a.md\n",
	  "The token is taken from TOKEN_2. Authorization: Bearer <token>. See secrets: doc/a.md\n", 0 },
	{ "a.md", "be brief\n", "be brief\n", 0 },
	{ "a.md", "use ghp_Ab3dEf6hIj9lMn2pQr5tUv8xYz1Bc4De7Gh0\n", NULL, 0 },
};

static void test_files(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		autobuf struct buf out = BUF_INIT;
		struct err e = ERR_INIT;
		size_t left_out = 0;
		int r = settings_clean(files[i].name, files[i].text, strlen(files[i].text), &out, &left_out,
				       &e);
		bool good = files[i].want ? r == 0 && strcmp(buf_cstr(&out), files[i].want) == 0 &&
						    left_out == files[i].left_out
					  : r < 0 && e.msg[0];

		if (!CHECKF(good, "settings %zu of the list are cleaned as wanted", i))
			printf("# %s: %zu left out, %s: %s\n", files[i].text, left_out, e.msg,
			       buf_cstr(&out));
	}
}

/* Each word might begin a value that goes on to the end: looking at all of them takes no time that anybody notices. */
static void test_many_words(void)
{
	autobuf struct buf text = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	size_t left_out = 0;

	buf_adds(&text, "{\"a\": \"");
	for (int i = 0; i < 25000; i++)
		buf_adds(&text, "token=pwd");
	buf_adds(&text, "\"}");
	CHECKF(settings_clean("a.json", buf_cstr(&text), text.len, &out, &left_out, &e) == 0 && left_out == 0,
	       "settings with nothing to keep leave nothing");
}

static void test_names(void)
{
	static const char *const never[] = { "auth.json",  ".credentials.json", "oauth_creds.json",
					     ".env",	   ".ENV.local",	"x.pem",
					     "id_ed25519", "Auth.JSON" };
	static const char *const fine[] = { "settings.json", "config.toml", "AGENTS.md", "author.md" };

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		CHECKF(settings_is_credential_file(never[i]), "the file %s is never taken", never[i]);
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		CHECKF(!settings_is_credential_file(fine[i]), "the file %s is taken", fine[i]);
}

int main(void)
{
	test_files();
	test_names();
	test_many_words();
	return tap_done();
}
