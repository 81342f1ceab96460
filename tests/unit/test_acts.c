/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a policy for tools and apply: which rule decides, what is refused, and that what is kept with a run
 * says the same. */
#include "approval/toolcall.h"
#include "policytest.h"

#include <errno.h>

static struct config_policy cp;

static bool parse(const char *text)
{
	config_policy_release(&cp);
	last_err = ERR_INIT;
	return config_policy_parse("t.yaml", text, strlen(text), &cp, &last_err) == 0;
}

/* "allow", "ask", "deny"; "!": the call itself is refused. */
static const char *says(const char *name, const char *args)
{
	CLEANUP(toolcall_release) struct toolcall t = TOOLCALL_INIT;
	struct tool_verdict v;

	last_err = ERR_INIT;
	if (toolcall_parse(&t, name, args, args ? strlen(args) : 0, &last_err) < 0)
		return "!";
	acts_decide_tool(&cp.acts, t.name, t.v, t.n, &v);
	return policy_action_name(v.action);
}

static const char rules[] = "version: 1\n"
			    "tools:\n"
			    "  - allow: [read_file, \"list_*\"]\n"
			    "  - allow: deploy\n"
			    "  - ask: deploy\n"
			    "    when: {env: production}\n"
			    "  - deny: deploy\n"
			    "    when: {env: production, force: true}\n"
			    "  - deny: \"shell_*\"\n"
			    "  - ask: shell_ls\n"
			    "  - allow: query\n"
			    "    when: {db.name: \"test*\"}\n"
			    "  - ask: \"list_s*\"\n"
			    "  - deny: \"list_*t\"\n";

static void test_decide(void)
{
	CHECKF(parse(rules), "the rules can be parsed %s", last_err.msg);
	CHECK_STR(says("read_file", NULL), "allow");
	CHECK_STR(says("READ_FILE", NULL), "deny"); /* an allow is to the letter */
	CHECK_STR(says("other", NULL), "deny");
	CHECK_STR(says("list_x", NULL), "allow");
	CHECK_STR(says("shell_x", NULL), "deny");
	CHECK_STR(says("Shell_X", NULL), "deny");
	CHECK_STR(says("shell_ls", NULL), "ask"); /* the more specific */
	CHECK_STR(says("list_sx", NULL), "ask");
	CHECK_STR(says("list_st", NULL), "deny"); /* neither contains the other: the stricter */
	/* conditions */
	CHECK_STR(says("deploy", NULL), "allow");
	CHECK_STR(says("deploy", "{\"env\":\"staging\"}"), "allow");
	CHECK_STR(says("deploy", "{\"env\":\"production\"}"), "ask");
	CHECK_STR(says("deploy", "{\"ENV\":\"Production\"}"), "ask"); /* an ask is generous */
	CHECK_STR(says("deploy", "{\"env\":[\"staging\",\"production\"]}"), "ask");
	CHECK_STR(says("deploy", "{\"env\":\"production\",\"force\":true}"), "deny");
	CHECK_STR(says("deploy", "{\"env\":\"production\",\"force\":\"true\"}"), "deny");
	CHECK_STR(says("deploy", "{\"env\":\"production\",\"force\":false}"), "ask");
	CHECK_STR(says("query", "{\"db\":{\"name\":\"test1\"}}"), "allow");
	CHECK_STR(says("query", "{\"db\":{\"name\":\"live\"}}"), "deny");
	CHECK_STR(says("query", NULL), "deny");
	/* an allow wants all of several, and another way to write the same key is a second one */
	CHECK_STR(says("query", "{\"db\":{\"name\":[\"test1\",\"live\"]}}"), "deny");
	CHECK_STR(says("query", "{\"db\":{\"name\":\"test1\"},\"db.name\":\"live\"}"), "deny");
	CHECK_STR(says("query", "{\"db\":{\"name\":{\"x\":\"test1\"}}}"), "deny");
}

static void test_lists(void)
{
	struct tool_verdict a = { .action = POLICY_ALLOW }, deny = { .has_opinion = true },
			    none = { .action = POLICY_ALLOW };
	struct tool_verdict ask = { .action = POLICY_ASK, .has_opinion = true },
			    allow = { .action = POLICY_ALLOW, .has_opinion = true };

	CHECK(parse("version: 1\negress: {}\n") && !cp.acts.has_tools);
	CHECK_STR(says("anything", NULL), "allow"); /* no list, no opinion */
	CHECK(parse("tools: []\n") && cp.acts.has_tools);
	CHECK_STR(says("anything", NULL), "deny");
	CHECK(parse("tools:\n") && cp.acts.has_tools);
	CHECK_STR(says("anything", NULL), "deny");
	CHECK(parse("version: 1\negress:\n  allow: [a.example.com]\ntools: [{allow: x}]\napply: deny\n"));
	CHECK(cp.says_egress && cp.acts.has_apply && cp.acts.apply == POLICY_DENY);
	CHECK(parse("tools: [{allow: x}]\n") && !cp.says_egress);
	CHECK(parse("apply: ask\n") && cp.acts.apply == POLICY_ASK && !cp.acts.has_tools);
	tool_verdict_stricter(&a, &none);
	CHECK(a.action == POLICY_ALLOW && !a.has_opinion);
	tool_verdict_stricter(&a, &allow);
	tool_verdict_stricter(&a, &ask);
	CHECK(a.action == POLICY_ASK);
	tool_verdict_stricter(&a, &none);
	tool_verdict_stricter(&a, &allow);
	CHECK(a.action == POLICY_ASK);
	tool_verdict_stricter(&a, &deny);
	CHECK(a.action == POLICY_DENY);
	a = (struct tool_verdict){ 0 };
	CHECK(a.action == POLICY_DENY);
}

/* --- for good --- */

static unsigned seed = 1;

static unsigned pick(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % n;
}

/* All calls of a small world: two names and a third spelling, each argument in several ways. */
static unsigned make_call(unsigned i, const char **name, struct tool_arg *args)
{
	static const char *const names[] = { "dy", "dey", "dEy", "x" };
	static const char *const env[] = { NULL, "a", "b", "A" };
	unsigned n = 0;

	*name = names[i % 4];
	i /= 4;
	if (env[i % 4])
		args[n++] = (struct tool_arg){ "env", env[i % 4] };
	i /= 4;
	if (i & 1)
		args[n++] = (struct tool_arg){ "env", "b" };
	if (i & 2)
		args[n++] = (struct tool_arg){ "ENV", "b" };
	if (i & 4)
		args[n++] = (struct tool_arg){ "k", "1" };
	return n;
}
#define CALLS (4 * 4 * 8)

static void make_rules(struct acts *a)
{
	static const char *const names[] = { "*", "d*", "de*", "*y", "d*y", "dy", "dey" };
	static const struct {
		struct tool_when w[2];
		size_t n;
	} conds[] = { { { { "", "" } }, 0 },	 { { { "env", "a" } }, 1 },
		      { { { "env", "b" } }, 1 }, { { { "env", "*" } }, 1 },
		      { { { "k", "1" } }, 1 },	 { { { "env", "a" }, { "k", "1" } }, 2 } };

	a->has_tools = true;
	for (unsigned i = 2 + pick(4); i; i--) {
		unsigned c = pick(ARRAY_SIZE(conds));
		struct tool_rule r = { .action = pick(3),
				       .when = (struct tool_when *)conds[c].w,
				       .n_when = conds[c].n };

		snprintf(r.name, sizeof(r.name), "%s", names[pick(ARRAY_SIZE(names))]);
		if (acts_add_rule(a, &r, &last_err) < 0)
			printf("# %s\n", last_err.msg);
	}
}

static bool same_what(const struct tool_rule *a, const struct tool_rule *b, const char *name)
{
	autobuf struct buf x = BUF_INIT, y = BUF_INIT;

	tool_rule_what(a, name, &x);
	tool_rule_what(b, name, &y);
	return strcmp(buf_cstr(&x), buf_cstr(&y)) == 0;
}

/* Is every call decided as before, but for those that are asked about in the words of this rule? */
static bool decides_as_before(const struct acts *old, const struct acts *now, const struct tool_rule *ask,
			      const char *tool)
{
	for (unsigned i = 0; i < CALLS; i++) {
		struct tool_verdict a, b;
		struct tool_arg args[8];
		const char *name;
		unsigned n = make_call(i, &name, args);

		acts_decide_tool(old, name, args, n, &a);
		acts_decide_tool(now, name, args, n, &b);
		if (a.action != b.action && !(strcmp(name, tool) == 0 && a.action == POLICY_ASK &&
					      b.action == POLICY_ALLOW && same_what(a.rule, ask, tool)))
			return false;
	}
	return true;
}

/* Against all calls there are: what acts_overruled() lets pass changes nothing else, and what it stops mostly would. */
static void test_for_good(void)
{
	unsigned passed = 0, wrong = 0, stopped = 0, needlessly = 0;

	for (unsigned round = 0; round < 4000; round++) {
		struct acts old = ACTS_INIT, now = ACTS_INIT;
		unsigned was = seed;

		make_rules(&old);
		seed = was;
		make_rules(&now);
		for (size_t i = 0; i < old.n_rules; i++) {
			const struct tool_rule *r = &old.rules[i];
			struct tool_rule n = {
				.action = POLICY_ALLOW, .name = "dey", .when = r->when, .n_when = r->n_when
			};
			bool as_before, may;

			if (r->action != POLICY_ASK || !strchr(r->name, '*') || !tool_rule_covers(r, "dey"))
				continue;
			may = !acts_overruled(&old, r, "dey");
			if (acts_add_rule(&now, &n, &last_err) < 0)
				break;
			as_before = decides_as_before(&old, &now, r, "dey");
			free(now.rules[--now.n_rules].when);
			passed += may;
			wrong += may && !as_before;
			stopped += !may;
			needlessly += !may && as_before;
		}
		acts_release(&old);
		acts_release(&now);
	}
	CHECKF(wrong == 0, "no added rule changes other decisions: %u of %u do", wrong, passed);
	CHECKF(passed > 500 && stopped > 500 && needlessly < stopped / 2,
	       "enough added rules pass and few are stopped needlessly: %u passed, %u stopped, %u needlessly",
	       passed, stopped, needlessly);
}

static void test_wrong(void)
{
	static const struct {
		const char *text, *at, *why, *hint;
	} wrongs[] = {
		{ "tools: [{alow: x}]\n", ":1:10: ", "' of a rule on tools; valid keys", "allow:" },
		{ "tools: [{allow: x, ask: y}]\n", ":1:25: ", "one of", NULL },
		{ "tools: [{when: {a: b}}]\n", ":1:9: ", "names one", NULL },
		{ "tools: [{allow: []}]\n", ":1:9: ", "names one", NULL },
		{ "tools: [{allow: }]\n", ":1:9: ", "names one", NULL },
		{ "tools: {allow: x}\n", ":1:8: ", "list of rules", NULL },
		{ "tools: x\n", ":1:8: ", "list of rules", NULL },
		{ "tools: [{allow: \"a b\"}]\n", ":1:17: ", "letters, digits", NULL },
		{ "tools: [{allow: \"a\\e[1m\"}]\n", ":1:", "", NULL },
		{ "tools: [{allow: {a: b}}]\n", ":1:17: ", "the name of a tool", NULL },
		{ "tools: [{allow: x, when: {}}]\n", ":1:26: ", "arguments", NULL },
		{ "tools: [{allow: x, when: y}]\n", ":1:26: ", "arguments", NULL },
		{ "tools: [{allow: x, when: {a: [b]}}]\n", ":1:30: ", "value of an argument", NULL },
		{ "tools: [{allow: x, when: {a: b, a: c}}]\n", ":1:33: ", "is a duplicate", NULL },
		{ "tools: [{allow: x, when: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}}]\n",
		  ":1:", "at most 8", NULL },
		{ "apply: maybe\n", ":1:8: ", "deny, ask or allow", NULL },
		{ "apply: alow\n", ":1:8: ", "deny, ask or allow", "allow" },
		{ "egress:\n  tools: []\n", ":2:3: ", "' of egress; valid keys", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		char at[64];
		bool ok = parse(wrongs[i].text);

		snprintf(at, sizeof(at), "t.yaml%s", wrongs[i].at);
		CHECKF(!ok && strstr(last_err.msg, at) && strstr(last_err.msg, wrongs[i].why) &&
			       (!wrongs[i].hint || strcmp(last_err.hint, wrongs[i].hint) == 0),
		       "the rule is refused with its reason: %s -> %s / %s", wrongs[i].text, last_err.msg,
		       last_err.hint);
	}
}

static void test_many(void)
{
	autobuf struct buf b = BUF_INIT;

	buf_adds(&b, "tools:\n");
	for (int i = 0; i < TOOL_RULES_MAX; i++)
		buf_addf(&b, "- allow: t%d\n", i);
	CHECK(parse(buf_cstr(&b)));
	CHECK_STR(says("t255", NULL), "allow");
	buf_adds(&b, "- allow: more\n");
	CHECK(!parse(buf_cstr(&b)) && strstr(last_err.msg, "at most 256"));
}

static void test_args(void)
{
	static char big[1 << 20];
	static const char *const bad[] = {
		"",
		"[]",
		"1",
		"null",
		"{",
		"{\"a\":1}x",
		"{\"a\":1,\"a\":2}",
		"{\"a\":{\"b\":1,\"b\":2}}",
		"{\"a\":\"\\u0000\"}",
		"{\"a\":\"\xff\"}",
		"{'a':1}",
	};
	autobuf struct buf deep = BUF_INIT;

	CHECK(parse(rules));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(strcmp(says("read_file", bad[i]), "!") == 0, "the arguments are refused: %s -> %s",
		       bad[i], last_err.msg);
	/* names */
	CHECK_STR(says("", NULL), "!");
	CHECK_STR(says("read_file ", NULL), "!");
	CHECK_STR(says("read\033[2Jfile", NULL), "!");
	CHECK_STR(says("read\xe2\x80\xae"
		       "file",
		       NULL),
		  "!");
	CHECK(!strchr(last_err.msg, '\xae'));
	CHECK_STR(says("*", NULL), "!"); /* a pattern is a rule's */
	memset(big, 'a', sizeof(big) - 1);
	CHECK_STR(says(big, NULL), "!");
	CHECK(strlen(last_err.msg) < 300);
	big[TOOL_NAME_MAX] = '\0';
	CHECK_STR(says(big, NULL), "deny");
	/* arguments */
	memset(big, ' ', sizeof(big) - 1);
	big[0] = '{';
	big[sizeof(big) - 2] = '}';
	CHECK_STR(says("read_file", big), "!");
	CHECK(strstr(last_err.msg, "64 KiB") != NULL);
	for (int i = 0; i < 31; i++)
		buf_adds(&deep, "{\"a\":");
	buf_adds(&deep, "1");
	for (int i = 0; i < 31; i++)
		buf_adds(&deep, "}");
	CHECK_STR(says("read_file", buf_cstr(&deep)), "allow");
	buf_clear(&deep);
	buf_adds(&deep, "{\"x\":");
	for (int i = 0; i < 2000; i++)
		buf_adds(&deep, "[");
	for (int i = 0; i < 2000; i++)
		buf_adds(&deep, "]");
	buf_adds(&deep, "}");
	CHECK_STR(says("read_file", buf_cstr(&deep)), "!");
	CHECK(strstr(last_err.msg, "nested deeper") != NULL);
	buf_clear(&deep);
	buf_adds(&deep, "{\"x\":[0");
	for (int i = 0; i < 20000; i++)
		buf_adds(&deep, ",0");
	buf_adds(&deep, "]}");
	CHECK_STR(says("read_file", buf_cstr(&deep)), "!");
	CHECK(strstr(last_err.msg, "16384 values") != NULL);
}

/* The rules that a run keeps decide as the file did. */
static void test_kept(void)
{
	autoclose int dir = open(scratch(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct run_meta m = { .id = "3f9a2c0011aa", .engine = (char *)"ns", .command = (char *)"x" };
	struct acts kept = ACTS_INIT;
	struct err e = ERR_INIT;

	CHECK(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) == 0 && !acts_says_something(&kept));
	CHECK(parse(
		"tools:\n- {ask: \"d*\", when: {\"a.b\": \"x \\\" \\\\ \xc3\xbc*\", c: \"1\"}}\n- deny: e\napply: deny\n"));
	CHECKF(toolcall_write_acts(dir, &cp.acts, &e) == 0, "the acts of a call are written %s", e.msg);
	CHECKF(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) == 0,
	       "the written acts of a call are read %s", e.msg);
	CHECK(kept.has_tools && kept.n_rules == 2 && kept.has_apply && kept.apply == POLICY_DENY);
	CHECK(kept.n_rules == 2 && kept.rules[0].action == POLICY_ASK && kept.rules[0].n_when == 2 &&
	      kept.rules[1].action == POLICY_DENY);
	CHECK_STR(kept.rules[0].when[0].key, cp.acts.rules[0].when[0].key);
	CHECK_STR(kept.rules[0].when[0].value, cp.acts.rules[0].when[0].value);
	CHECK_STR(kept.rules[0].source, "the policy of 3f9a2c0011aa");
	acts_release(&kept);
	/* An empty list denies everything still. */
	CHECK(parse("tools: []\n") && toolcall_write_acts(dir, &cp.acts, &e) == 0);
	CHECK(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) == 0 && kept.has_tools);
	acts_release(&kept);
	/* A kept policy that cannot be read is no permission. */
	free(write_scratch(TOOLCALL_FILE, "tools: [{alow: x}]\n"));
	CHECK(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) < 0);
	CHECK(parse("egress: {}\n") && toolcall_write_acts(dir, &cp.acts, &e) == 0);
	CHECK(faccessat(dir, TOOLCALL_FILE, F_OK, 0) < 0);
	/* A kept policy that is gone is no permission. */
	CHECK(state_meta_write(dir, &m, &e) == 0);
	CHECK(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) == 0 && !acts_says_something(&kept));
	m.acts = true;
	CHECK(state_meta_write(dir, &m, &e) == 0);
	CHECK(toolcall_read_acts(dir, "3f9a2c0011aa", &kept, &e) == -EBADMSG && strstr(e.msg, "is missing"));
	unlinkat(dir, "meta.json", 0);
}

/* The digest binds all of it; what is shown is bounded and harmless. */
static void test_question(void)
{
	CLEANUP(toolcall_release) struct toolcall t = TOOLCALL_INIT, same = TOOLCALL_INIT;
	CLEANUP(toolcall_texts_release) struct toolcall_texts x = { 0 }, y = { 0 };
	autostrv struct strv all = STRV_INIT;
	struct toolcall_bound b = { .shown = "deploy\033[2J", .all = &all };
	static const char one[] = "{\"z\":\"\xe2\x80\xae\",\"env\":\"production\"}",
			  other[] = "{ \"env\":\"production\" , \"z\":\"\xe2\x80\xae\"}";
	static char big[40000];
	struct ask_question q, q2;
	struct tool_verdict v;
	char why[ASK_WHY_MAX];
	struct err e = ERR_INIT;

	CHECK(parse(rules));
	CHECK(strv_add(&all, "deploy") == 0);
	CHECK(toolcall_parse(&t, "deploy", one, strlen(one), &e) == 0);
	acts_decide_tool(&cp.acts, t.name, t.v, t.n, &v);
	CHECK(toolcall_question(&t, &v, &b, &x, &q, &e) == 0);
	CHECK(ask_question_check(&q, why) == 0 && q.kind == ASK_TOOL);
	CHECK_STR(q.what, "deploy when env=production");
	CHECK_STR(q.preview, "$ deploy\\x1b[2J\n{\"env\":\"production\",\"z\":\"\\u202E\"}");
	CHECK(q.body_len == q.preview_len);
	/* Arguments in another order are the same call, another word of the command is not. */
	CHECK(toolcall_parse(&same, "deploy", other, strlen(other), &e) == 0);
	CHECK(toolcall_question(&same, &v, &b, &y, &q2, &e) == 0 && memcmp(q.body, q2.body, HASH_LEN) == 0);
	toolcall_texts_release(&y);
	y = (struct toolcall_texts){ 0 };
	CHECK(strv_add(&all, "--quietly") == 0);
	CHECK(toolcall_question(&same, &v, &b, &y, &q2, &e) == 0 && memcmp(q.body, q2.body, HASH_LEN) != 0);
	toolcall_release(&same);
	toolcall_texts_release(&y);
	y = (struct toolcall_texts){ 0 };
	snprintf(big, sizeof(big), "{\"a\":\"%038000d\"}", 0);
	b.shown = big;
	CHECK(toolcall_parse(&same, "deploy", big, strlen(big), &e) == 0);
	CHECK(toolcall_question(&same, &v, &b, &y, &q2, &e) == 0 && ask_question_check(&q2, why) == 0);
	CHECK(q2.preview_len <= ASK_PREVIEW_MAX && q2.body_len > q2.preview_len &&
	      strstr(q2.preview, "…\n{\"a\""));
}

int main(void)
{
	test_decide();
	test_lists();
	test_wrong();
	test_for_good();
	test_many();
	test_args();
	test_kept();
	test_question();
	config_policy_release(&cp);
	return tap_done();
}
