/* SPDX-License-Identifier: Apache-2.0 */
/* One more rule in a file: every other byte stays, or nothing is done. */
#include "base/cleanup.h"
#include "base/str.h"
#include "config/edit/policy_edit.h"
#include "config/policy_file.h"
#include "tap.h"

#include <errno.h>

static struct err last;

/* "" and the words in `last` when it is refused. */
static const char *edited(const char *text, const struct policy_edit *ed)
{
	static struct buf out;
	int r;

	buf_clear(&out);
	last = ERR_INIT;
	r = config_edit_policy("p.yaml", text, strlen(text), ed, &out, &last);
	return r < 0 ? "" : buf_cstr(&out);
}

static bool is(const char *text, const struct policy_edit *ed, const char *wanted)
{
	const char *got = edited(text, ed);

	if (str_eq(got, wanted))
		return true;
	printf("# %s\n", last.msg);
	for (const char *p = got; *p;) {
		size_t n = strcspn(p, "\n");

		printf("# %.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	return false;
}

static bool refused(const char *text, const struct policy_edit *ed, const char *words)
{
	const char *got = edited(text, ed);

	if (!*got && last.code == -EOPNOTSUPP && strstr(last.msg, words))
		return true;
	printf("# %s, not '%s'\n", *got ? got : last.msg, words);
	return false;
}

#define HTTP(line, at, text)                                                                    \
	(&(struct policy_edit){ POLICY_EDIT_ADD_ENTRY, .rule_line = (line), .entry_line = (at), \
				.list = "http", .entry = (text) })
#define TURN(line, at, name)                                                                     \
	(&(struct policy_edit){ POLICY_EDIT_TURN_ENTRY, .rule_line = (line), .entry_line = (at), \
				.list = (name) })
#define RULE(name, number) (&(struct policy_edit){ POLICY_EDIT_ADD_RULE, .host = (name), .port = (number) })
#define MOVE(line) (&(struct policy_edit){ POLICY_EDIT_MOVE_RULE, .rule_line = (line) })

static void test_entries(void)
{
	static const char file[] = "# team\n"
				   "version: 1\n"
				   "egress:   # what may leave\n"
				   "  allow:\n"
				   "\n"
				   "    - domain: api.github.com   # code\n"
				   "      http:\n"
				   "        - allow: GET /**\n"
				   "        # merges are looked at\n"
				   "        -   ask:   PUT /r/*/merge  # always\n"
				   "        # and the rest\n"
				   "        - ask: [POST /a,\n"
				   "                POST /b]\n"
				   "      graphql:\n"
				   "        - ask: mutation *\n"
				   "          path: /api/gql\n"
				   "  # the end\n";
	struct policy_edit gql = { POLICY_EDIT_ADD_ENTRY, .rule_line = 6, .entry_line = 15, .list = "graphql",
				   .entry = "mutation addComment" };
	const char *got;

	got = edited(file, HTTP(6, 10, "PUT /r/7/merge"));
	CHECKF(strstr(got,
		      "ask:   PUT /r/*/merge  # always\n        -   allow: PUT /r/7/merge\n        # and the rest\n"),
	       "a new entry stands behind the one that asks, with its margin");
	CHECK(strlen(got) == strlen(file) + strlen("        -   allow: PUT /r/7/merge\n"));
	got = edited(file, HTTP(6, 12, "POST /a"));
	CHECKF(strstr(got, "                POST /b]\n        - allow: POST /a\n      graphql:\n"),
	       "a new entry stands behind the last line of a list");
	got = edited(file, HTTP(6, 13, "POST /b/%3A:x"));
	CHECKF(strstr(got, "\n        - allow: \"POST /b/%3A:x\"\n"),
	       "an entry that YAML would read otherwise is quoted");
	got = edited(file, &gql);
	CHECKF(strstr(got,
		      "          path: /api/gql\n        - allow: mutation addComment\n          path: \"/api/gql\"\n  # the end\n"),
	       "a new GraphQL entry gets the path of its endpoint");
	CHECK(refused(file, HTTP(6, 9, "PUT /x"), "no entry"));
	CHECK(refused(file, HTTP(7, 10, "PUT /x"), "no rule"));
	CHECKF(refused(file, HTTP(6, 10, "PUT /**"), "pattern"),
	       "a star in a path of the sandbox makes no pattern");
	CHECKF(refused(file, HTTP(6, 10, "PUT /a\n- allow: GET /x"), "character"),
	       "a line break in a path makes no new line");
	CHECK(refused(file, HTTP(6, 10, "PUT /\"a"), "character"));
	CHECK(refused(file, HTTP(6, 10, "PUT /\xc3\xa9"), "character"));
	got = edited(file, HTTP(6, 10, "PUT /a #x: y"));
	CHECKF(strstr(got, "allow: \"PUT /a #x: y\"\n"), "a hash in a path makes no comment");
}

static void test_turn(void)
{
	CHECK(is("allow:\n- domain: a.com\n  graphql:\n  - ask: mutation merge # m\n", TURN(2, 4, "graphql"),
		 "allow:\n- domain: a.com\n  graphql:\n  - allow: mutation merge # m\n"));
	CHECKF(is("allow:\r\n- domain: a.com\r\n  http:\r\n  - ask: PUT /x", TURN(2, 4, "http"),
		  "allow:\r\n- domain: a.com\r\n  http:\r\n  - allow: PUT /x"),
	       "a file with CR LF and no line break at its end keeps both");
	CHECK(is("allow:\n- domain: a.com\n  graphql:\n  - path: /g\n    ask: mutation merge\n",
		 TURN(2, 5, "graphql"),
		 "allow:\n- domain: a.com\n  graphql:\n  - path: /g\n    allow: mutation merge\n"));
	CHECK(refused("allow:\n- domain: a.com\n  graphql:\n  - ask: mutation a,b\n", TURN(2, 4, "graphql"),
		      "several"));
	CHECK(refused("allow:\n- domain: a.com\n  http:\n  - ask: [PUT /x]\n", TURN(2, 4, "http"),
		      "more than one"));
	CHECK(is("allow:\n- domain: a.com\n  http:\n  - {ask: PUT /x}\n", TURN(2, 4, "http"),
		 "allow:\n- domain: a.com\n  http:\n  - {allow: PUT /x}\n"));
	CHECK(is("allow:\n- domain: a.com\n  http:\n  - \"ask\": PUT /x\n", TURN(2, 4, "http"),
		 "allow:\n- domain: a.com\n  http:\n  - \"allow\": PUT /x\n"));
	CHECK(is("allow:\n- domain: a.com\n  http:\n  - ask : PUT /x\n", TURN(2, 4, "http"),
		 "allow:\n- domain: a.com\n  http:\n  - allow : PUT /x\n"));
	CHECKF(refused("allow:\n- domain: a.com\n  http:\n  - \"\\x61sk\": PUT /x\n", TURN(2, 4, "http"),
		       "expected"),
	       "a word that is escaped in quotes is not replaced");
	CHECK(refused("allow:\n- domain: a.com\n  http:\n  - ask: PUT /x\n    deny: PUT /y\n",
		      TURN(2, 4, "http"), "more than one"));
}

static void test_rules(void)
{
	CHECK(is(
		"egress:\n  allow:\n    - b.com # x\n  ask:\n    - domain: \"*.a.com\"\n",
		RULE("x.a.com", 443),
		"egress:\n  allow:\n    - b.com # x\n    - domain: x.a.com\n      port: 443\n  ask:\n    - domain: \"*.a.com\"\n"));
	CHECKF(is("ask:\n- domain: \"*.a.com\"\n  port: 443\n# end", RULE("x.a.com", 443),
		  "ask:\n- domain: \"*.a.com\"\n  port: 443\nallow:\n  - domain: x.a.com\n    port: 443\n# end"),
	       "an added rule makes 'allow:' where there is none");
	CHECKF(is("ask: [\"*.a.com\"]\nallow:\nmode: enforce\n", RULE("x.a.com", 8443),
		  "ask: [\"*.a.com\"]\nallow:\n  - domain: x.a.com\n    port: 8443\nmode: enforce\n"),
	       "an added rule fills an empty 'allow:'");
	CHECKF(is("allow:\n  - b.com", RULE("x.a.com", 443),
		  "allow:\n  - b.com\n  - domain: x.a.com\n    port: 443"),
	       "a rule is added to a file without a line break at its end");
	CHECK(is("allow:\r\n- b.com\r\n\r\n", RULE("9.9.9.9", 53),
		 "allow:\r\n- b.com\r\n- address: \"9.9.9.9\"\r\n  port: 53\r\n\r\n"));
	CHECK(is("allow:\n- b.com\n",
		 (&(struct policy_edit){ POLICY_EDIT_ADD_RULE, .host = "a.com", .port = 443,
					 .http = "GET /x" }),
		 "allow:\n- b.com\n- domain: a.com\n  port: 443\n  http:\n    - allow: GET /x\n"));
	CHECK(refused("allow: [b.com]\n", RULE("a.com", 443), "brackets"));
	CHECK(refused("allow: []\nask: [b.com]\n", RULE("a.com", 443), "brackets"));
	CHECK(refused("{allow: , ask: [b.com]}\n", RULE("a.com", 443), "brackets"));
	CHECK(refused("# nothing\n", RULE("a.com", 443), "no 'allow:'"));
	CHECK(refused("allow:\n- b.com\n", RULE("a.com\n- evil.com", 443), "host name"));
	CHECK(refused("allow:\n- b.com\n", RULE("*.com", 443), "host name"));
	CHECKF(!*edited("allow:\n- b.com\r- c.com\n", RULE("a.com", 443)) && last.code == -EINVAL &&
		       strstr(last.msg, "U+000D"),
	       "a line break that only YAML sees is refused: %s", last.msg);
	CHECK(refused("\xef\xbb\xbf"
		      "allow:\n",
		      RULE("a.com", 443), "byte order mark"));
}

static void test_move(void)
{
	CHECK(is(
		"egress:\n  allow:\n    - b.com\n  ask:\n    - c.com\n    # it\n    - domain: a.com # t\n      # its port\n      port: 443\n    - d.com\n",
		MOVE(7),
		"egress:\n  allow:\n    - b.com\n    - domain: a.com # t\n      # its port\n      port: 443\n  ask:\n    - c.com\n    # it\n    - d.com\n"));
	CHECKF(is("allow:\n  - b.com\nask:\n- domain: a.com\n  port: 443\n", MOVE(4),
		  "allow:\n  - b.com\n  - domain: a.com\n    port: 443\nask:\n"),
	       "a moved rule is indented as its new neighbours, and 'ask:' stays empty");
	CHECKF(is("ask:\n- a.com:443\n", MOVE(2), "ask:\nallow:\n  - a.com:443\n"),
	       "a moved rule makes 'allow:' where there is none");
	CHECKF(is("ask:\n- a.com:443", MOVE(2), "ask:\nallow:\n  - a.com:443\n"),
	       "a rule is moved in a file without a line break at its end");
	CHECK(refused("ask: [\"a.com:443\"]\n", MOVE(1), "brackets"));
	CHECK(refused("ask:\n- {domain: a.com, port: 443}\n", MOVE(2), "braces"));
	CHECK(refused("allow:\n- a.com\n", MOVE(2), "not under 'ask:'"));
	CHECK(refused("ask:\n- a.com\n", MOVE(3), "no rule"));
}

/* Lists in brackets: one more element in front of the one that asks. */
static void test_flow(void)
{
	struct policy_edit gql = { POLICY_EDIT_ADD_ENTRY, .rule_line = 2, .entry_line = 3, .list = "graphql",
				   .entry = "mutation a" };

	CHECK(is(
		"allow:\n- domain: a.com\n  http: [{allow: GET /**}, {ask: PUT /x/*}] # c\n",
		HTTP(2, 3, "PUT /x/1"),
		"allow:\n- domain: a.com\n  http: [{allow: GET /**}, {allow: \"PUT /x/1\"}, {ask: PUT /x/*}] # c\n"));
	CHECKF(is("allow: [{domain: a.com, # \u00fc\n  http: [\n   ask: PUT /x/*]}]\n",
		  HTTP(1, 3, "PUT /x/1"),
		  "allow: [{domain: a.com, # \u00fc\n  http: [\n   {allow: \"PUT /x/1\"}, ask: PUT /x/*]}]\n"),
	       "an entry is added to rules in braces and to pairs without");
	CHECKF(is("allow:\n- domain: a.com\n  http: [{deny: PUT /\u00fc}, {ask: PUT /x/*}]\n",
		  HTTP(2, 3, "PUT /x/1"),
		  "allow:\n- domain: a.com\n  http: [{deny: PUT /\u00fc}, {allow: \"PUT /x/1\"}, {ask: PUT /x/*}]\n"),
	       "letters of several bytes before an entry do not shift it");
	CHECK(is(
		"allow:\n- domain: a.com\n  graphql: [{ask: mutation *, path: /g}]\n", &gql,
		"allow:\n- domain: a.com\n  graphql: [{allow: \"mutation a\", path: \"/g\"}, {ask: mutation *, path: /g}]\n"));
	CHECK(is("allow:\n- domain: a.com\n  http: [{allow: GET /**}, {ask: PUT /x}]\n", TURN(2, 3, "http"),
		 "allow:\n- domain: a.com\n  http: [{allow: GET /**}, {allow: PUT /x}]\n"));
	CHECK(refused("allow:\n- domain: a.com\n  http: [{ask: PUT /x/*}, {ask: PUT /y}]\n",
		      HTTP(2, 3, "PUT /x/1"), "several are in that line"));
	CHECK(refused(
		"allow: [{domain: a.com, http: [{ask: PUT /x}]}, {domain: b.com, http: [{ask: PUT /x}]}]\n",
		TURN(1, 1, "http"), "several are in that line"));
	CHECK(refused("allow:\n- domain: a.com\n  http: [{ask: PUT /x/*}]\n",
		      HTTP(2, 3, "PUT /x/\"}, {allow: *"), "character"));
	CHECK(refused("allow:\n- domain: a.com\n  http: [{ask: PUT /x/*}]\n", HTTP(2, 3, "PUT /x/\"}, {a: b"),
		      "character"));
}

#define COPY(line, at, name, number, text)                                                      \
	(&(struct policy_edit){ POLICY_EDIT_COPY_RULE, .rule_line = (line), .entry_line = (at), \
				.list = "http", .entry = (text), .host = (name), .port = (number) })

static void test_copy(void)
{
	static const char many[] =
		"allow:\n  - domain: \"*.a.com\" # many\n    depth: inspect\n    http:\n"
		"      - allow: GET /**\n      - ask: PUT /x/* # them\n      - deny: GET /y\n  - b.com\n";
	static const char ports[] =
		"allow:\n- port: [443, 8443] # p\n  domain: a.com\n  http:\n  - ask: PUT /x\n";
	struct policy_edit turn = *COPY(2, 5, "a.com", 443, "PUT /x");

	CHECK(is(
		many, COPY(2, 6, "x.a.com", 443, "PUT /x/1"),
		"allow:\n  - domain: \"*.a.com\" # many\n    depth: inspect\n    http:\n"
		"      - allow: GET /**\n      - ask: PUT /x/* # them\n      - deny: GET /y\n"
		"  - domain: x.a.com # many\n    port: 443\n    depth: inspect\n    http:\n"
		"      - allow: GET /**\n      - ask: PUT /x/* # them\n      - allow: PUT /x/1\n      - deny: GET /y\n"
		"  - b.com\n"));
	turn.turn = true;
	CHECK(is(ports, &turn,
		 "allow:\n- port: [443, 8443] # p\n  domain: a.com\n  http:\n  - ask: PUT /x\n"
		 "- port: 443 # p\n  domain: a.com\n  http:\n  - allow: PUT /x\n"));
	CHECK(is(
		"allow:\r\n- domain: '*.a.com'\r\n  http:\r\n  - ask: PUT /**\r\n",
		COPY(2, 4, "b.a.com", 80, "PUT /x:y"),
		"allow:\r\n- domain: '*.a.com'\r\n  http:\r\n  - ask: PUT /**\r\n"
		"- domain: b.a.com\r\n  port: 80\r\n  http:\r\n  - ask: PUT /**\r\n  - allow: \"PUT /x:y\"\r\n"));
	CHECK(refused(many, COPY(2, 6, "x.a.com", 443, "PUT /x/*"), "pattern"));
	CHECK(refused(many, COPY(2, 6, "*.a.com", 443, "PUT /x/1"), "host name"));
	CHECK(refused("allow:\n- {domain: \"*.a.com\", http: [{ask: PUT /**}]}\n",
		      COPY(2, 2, "b.a.com", 80, "PUT /x"), "braces"));
	CHECK(refused("allow:\n- domain: \"*.a.com\"\n  http: [{ask: PUT /**}]\n",
		      COPY(2, 3, "b.a.com", 80, "PUT /x"), "brackets"));
	CHECK(refused("allow:\n- domain: \"*.a.com\"\n  ports:\n  - 80\n  - 443\n  http:\n  - ask: PUT /**\n",
		      COPY(2, 7, "b.a.com", 80, "PUT /x"), "position cannot be determined"));
	CHECK(refused("allow:\n- domain: \"*.a.com\"\n  http:\n  - ask: PUT /**",
		      COPY(2, 4, "b.a.com", 80, "PUT /x"), "does not end"));
}

static void test_secret(void)
{
	struct policy_edit at2 = { POLICY_EDIT_TURN_SECRET, .rule_line = 2 },
			   at1 = { POLICY_EDIT_TURN_SECRET, .rule_line = 1 };

	CHECK(is("allow:\n- domain: a.com\n  secret: {name: x, ask: true} # first\n", &at2,
		 "allow:\n- domain: a.com\n  secret: {name: x, ask: false} # first\n"));
	CHECK(is("allow:\n- domain: a.com\n  secret:\n    ask: \"true\"\n    name: true\n", &at2,
		 "allow:\n- domain: a.com\n  secret:\n    ask: \"false\"\n    name: true\n"));
	CHECK(is("allow: [{domain: a.com, secret: {ask: true, name: x}}]\n", &at1,
		 "allow: [{domain: a.com, secret: {ask: false, name: x}}]\n"));
	CHECK(refused("allow:\n- domain: a.com\n  secret: {name: x, ask: false}\n", &at2, "does not ask"));
	CHECK(refused("allow:\n- domain: a.com\n  secret: x\n", &at2, "does not ask"));
	CHECK(refused("allow:\n- domain: a.com\n", &at2, "does not ask"));
}

#define TOOL(at, rule, tool) \
	(&(struct policy_edit){ POLICY_EDIT_ADD_TOOL, .entry_line = (at), .name = (rule), .entry = (tool) })
#define TURN_TOOL(at, tool) \
	(&(struct policy_edit){ POLICY_EDIT_TURN_TOOL, .entry_line = (at), .name = (tool), .entry = (tool) })

static void test_tools(void)
{
	static const char file[] = "# t\n"
				   "tools:\n"
				   "  - allow: x\n"
				   "  -  ask: deploy   # d\n"
				   "     when: {env: prod*, \"n\": 1}\n"
				   "  - ask: [a, \"rm_*\", 'b.c', c] # many\n"
				   "    when:\n"
				   "      k: v\n"
				   "  - ask:\n"
				   "      - d\n"
				   "      # about e\n"
				   "      - e\n"
				   "apply: allow\n";
	const char *got = edited(file, TURN_TOOL(4, "deploy"));

	CHECKF(strstr(got, "\n  -  allow: deploy   # d\n     when: {env: prod*, \"n\": 1}\n") &&
		       strlen(got) == strlen(file) + 2,
	       "a tool rule is changed in one word");
	got = edited(file, TOOL(4, "deploy", "deploy_x"));
	CHECKF(strstr(got,
		      "1}\n  -  allow: deploy_x\n     when: {\"env\": \"prod*\", \"n\": \"1\"}\n  - ask: ["),
	       "a new tool rule stands behind its model, with the conditions");
	got = edited(file, TOOL(6, "rm_*", "rm_tmp"));
	CHECK(strstr(got, "      k: v\n  - allow: rm_tmp\n    when: {\"k\": \"v\"}\n  - ask:\n"));
	got = edited(file, TURN_TOOL(6, "a"));
	CHECK(strstr(
		got,
		"  - ask: [\"rm_*\", 'b.c', c] # many\n    when:\n      k: v\n  - allow: a\n    when: {"));
	got = edited(file, TURN_TOOL(6, "b.c"));
	CHECK(strstr(got, "  - ask: [a, \"rm_*\", c] # many\n") && strstr(got, "  - allow: b.c\n"));
	got = edited(file, TURN_TOOL(6, "c"));
	CHECKF(strstr(got, "  - ask: [a, \"rm_*\", 'b.c'] # many\n") && strstr(got, "  - allow: c\n"),
	       "the last tool of a list is moved out of it");
	got = edited(file, TURN_TOOL(10, "d"));
	CHECK(strstr(got, "  - ask:\n      # about e\n      - e\n  - allow: d\napply:"));
	got = edited(file, TURN_TOOL(12, "e"));
	CHECK(strstr(got, "  - ask:\n      - d\n      # about e\n  - allow: e\napply:"));
	CHECK(is("tools: [{ask: [a]}, {ask: [b, c], when: {x: 1}}]\n", TURN_TOOL(1, "c"),
		 "tools: [{ask: [a]}, {allow: \"c\", when: {\"x\": \"1\"}}, {ask: [b], when: {x: 1}}]\n"));
	CHECK(is("tools: [{ask: [a]}, {ask: [b, c]}]\n", TURN_TOOL(1, "a"),
		 "tools: [{allow: [a]}, {ask: [b, c]}]\n"));
	CHECK(is("tools:\r\n- {ask: \"d*\"}", TOOL(2, "d*", "d:1"),
		 "tools:\r\n- {ask: \"d*\"}\r\n- allow: \"d:1\""));
	CHECK(refused("tools: [{ask: a}, {ask: a, when: {x: 1}}]\n", TURN_TOOL(1, "a"), "more than once"));
	CHECK(refused("tools:\n- ask: [a,\n    b]\n", TURN_TOOL(3, "b"), "one line"));
	CHECK(refused(file, TURN_TOOL(3, "x"), "no rule on tools"));
	CHECK(refused(file, TURN_TOOL(4, "a"), "no rule on tools"));
	CHECK(refused(file, TOOL(6, "rm_*", "rm_*"), "pattern"));
	CHECK(refused(file, TOOL(6, "rm_*", "x\n- allow: y"), "character"));
	CHECK(refused("tools:\n- ask: \"d*\"\n  when: {a: \"x\\\"y\"}\n", TOOL(2, "d*", "d1"), "character"));
	CHECK(refused("egress: {}\n", TURN_TOOL(1, "a"), "no rule on tools"));
}

static void test_apply(void)
{
	struct policy_edit apply = { POLICY_EDIT_TURN_APPLY };

	CHECK(is("egress: {}\napply:   ask # a person\n", &apply, "egress: {}\napply:   allow # a person\n"));
	CHECK(is("{\"tools\": [], \"apply\": \"ask\"}", &apply, "{\"tools\": [], \"apply\": \"allow\"}"));
	CHECK(refused("apply: deny\n", &apply, "does not contain"));
	CHECK(refused("egress: {allow: []}\n", &apply, "does not contain"));
	CHECK(refused("apply: |\n  ask\n", &apply, "does not contain"));
	CHECK(refused("apply: |-\n  ask\n", &apply, "expected"));
}

int main(void)
{
	struct policy_edit tabs = { POLICY_EDIT_ADD_RULE, .host = "a.com", .port = 443 };

	test_entries();
	test_turn();
	test_rules();
	test_move();
	test_flow();
	test_copy();
	test_secret();
	test_tools();
	test_apply();
	CHECKF(!*edited("allow:\n\t- b.com\n", &tabs) && last.code == -EINVAL,
	       "a file that YAML cannot read is refused");
	CHECKF(is("allow:\n  -\tb.com\n", &tabs, "") && last.code < 0,
	       "a rule with a tab behind its dash is refused");
	return tap_done();
}
