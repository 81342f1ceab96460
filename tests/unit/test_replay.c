/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/replay/replay.h"

#include "policytest.h"

static const char forge[] = "version: 1\n"
			    "allow:\n"
			    "- domain: api.forge.example\n"
			    "  http:\n"
			    "  - allow: GET /**\n"
			    "  - ask: PUT /repos/*/*/pulls/*/merge\n"
			    "  - deny: DELETE /**\n"
			    "  graphql:\n"
			    "  - allow: query *\n"
			    "  - ask: mutation mergePullRequest\n"
			    "- domain: git.forge.example\n"
			    "  git:\n"
			    "  - allow: fetch o/r\n"
			    "  - allow: push o/r refs/heads/bot/* create\n"
			    "- domain: plain.example\n"
			    "- domain: db.example\n"
			    "  port: 5432\n"
			    "  depth: tunnel\n";

static struct replay *re;
static const char *why;

static struct replay_seen request(const char *host, const char *method, const char *path, const char *act)
{
	return (struct replay_seen){ .kind = REPLAY_REQUEST,
				     .was = POLICY_ALLOW,
				     .host = host,
				     .port = 443,
				     .rule = "allow x (old.yaml:1)",
				     .method = method,
				     .path = path,
				     .act = act,
				     .count = 1 };
}

static enum replay_now decide(struct replay_seen s)
{
	why = "";
	return replay_decide(re, &s, &last, &why);
}

static enum replay_now api(const char *method, const char *path, const char *act)
{
	return decide(request("api.forge.example", method, path, act));
}

static enum replay_now git(const char *path, const char *act)
{
	return decide(request("git.forge.example", "POST", path, act));
}

static void test_requests(void)
{
	CHECK(api("GET", "/repos/o/r", NULL) == REPLAY_ALLOW);
	CHECK(api("GET", "/repos/o/r?page=#01234567", NULL) == REPLAY_ALLOW);
	CHECK(api("PUT", "/repos/o/r/pulls/7/merge", NULL) == REPLAY_ASK);
	CHECK(api("DELETE", "/repos/o/r", NULL) == REPLAY_DENY);
	CHECK(strstr(last.rule_text, "DELETE") != NULL);
	CHECK(api("POST", "/repos/o/r/issues", NULL) == REPLAY_DENY);
	CHECK(api("OPTIONS", "*", NULL) == REPLAY_DENY);
	/* A second reading of the path is judged too. */
	CHECK(api("GET", "/a%2Fb", NULL) == REPLAY_ALLOW);
	CHECK(decide(request("other.example", "GET", "/", NULL)) == REPLAY_DENY);
	CHECK(decide(request("plain.example", "DELETE", "/x", NULL)) == REPLAY_ALLOW);
}

static void test_acts(void)
{
	CHECK(api("POST", "/graphql", NULL) == REPLAY_UNKNOWN);
	CHECK(strstr(why, "GraphQL") != NULL);
	CHECK(api("POST", "/graphql", "query:viewer") == REPLAY_ALLOW);
	CHECK(api("POST", "/graphql", "mutation:mergePullRequest") == REPLAY_ASK);
	CHECK(api("POST", "/graphql", "mutation:deleteRepository") == REPLAY_DENY);
	CHECK(api("POST", "/graphql", "query:viewer mutation:deleteRepository") == REPLAY_DENY);
	CHECK(api("POST", "/graphql", "query:viewer ...") == REPLAY_UNKNOWN);
	CHECK(api("POST", "/graphql", "query: nonsense") == REPLAY_UNKNOWN);
	CHECK(api("POST", "/graphql", "force:refs/heads/main") == REPLAY_UNKNOWN);

	CHECK(git("/o/r.git/git-receive-pack", NULL) == REPLAY_UNKNOWN);
	CHECK(strstr(why, "refs of the push") != NULL);
	CHECK(git("/o/r.git/git-receive-pack", "create:refs/heads/bot/x") == REPLAY_ALLOW);
	CHECK(git("/o/r.git/git-receive-pack", "create:refs/heads/bot/x force:refs/heads/main") ==
	      REPLAY_DENY);
	CHECK(git("/o/r.git/git-receive-pack", "push:none") == REPLAY_ALLOW);
	CHECK(git("/o/r.git/git-upload-pack", NULL) == REPLAY_ALLOW);
	CHECK(git("/x/y.git/git-upload-pack", NULL) == REPLAY_DENY);
	CHECK(git("/o/r.git/info/refs?service=#0123abcd", "refs:fetch") == REPLAY_ALLOW);
	CHECK(git("/x/y.git/info/refs?service=#0123abcd", "refs:push") == REPLAY_DENY);

	/* A header that copies from elsewhere. */
	CHECK(api("GET", "/a", "also:GET:/b") == REPLAY_ALLOW);
	CHECK(api("GET", "/a", "also:DELETE:/b") == REPLAY_DENY);
	CHECK(api("GET", "/a", "also:nonsense") == REPLAY_UNKNOWN);
}

static void test_service_of_an_old_log(void)
{
	CLEANUP(policy_freep)
	struct policy *p =
		policy_of("version: 1\nallow:\n- domain: git.forge.example\n  git:\n  - allow: fetch o/r\n");
	struct replay *all = re;

	BUG_ON(replay_new(&re, p, NULL, NULL) < 0);
	CHECK(git("/o/r.git/info/refs?service=#0123abcd", NULL) == REPLAY_UNKNOWN);
	CHECK(git("/x/y.git/info/refs?service=#0123abcd", NULL) == REPLAY_DENY);
	CHECK(git("/o/r.git/info/refs?service=#0123abcd", "refs:push") == REPLAY_DENY);
	CHECK(git("/o/r.git/info/refs?service=#0123abcd", "refs:fetch") == REPLAY_ALLOW);
	replay_free(re);
	re = all;
}

static enum replay_now open_was(enum policy_action was, const char *host, uint16_t port, const char *depth,
				const char *rule)
{
	struct replay_seen s = { .kind = REPLAY_CONNECT,
				 .was = was,
				 .host = host,
				 .port = port,
				 .depth = depth,
				 .rule = rule,
				 .count = 1 };

	return decide(s);
}

static void test_connections(void)
{
	CHECK(open_was(POLICY_ALLOW, "plain.example", 443, "peek", "allow plain.example:443") ==
	      REPLAY_ALLOW);
	CHECK(open_was(POLICY_ALLOW, "plain.example", 80, "peek", "allow plain.example:80") == REPLAY_DENY);
	CHECK(open_was(POLICY_ALLOW, "db.example", 5432, "tunnel", "x") == REPLAY_ALLOW);
	CHECK(open_was(POLICY_ALLOW, "plain.example", 443, "tunnel", "x") == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_ALLOW, "api.forge.example", 443, "inspect", "x") == REPLAY_ALLOW);
	CHECK(open_was(POLICY_ALLOW, "api.forge.example", 443, "peek", "x") == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_DENY, "plain.example", 443, NULL, "default") == REPLAY_ALLOW);
	/* A limit, or nothing that a rule said. */
	CHECK(open_was(POLICY_DENY, "plain.example", 443, NULL, "allow plain.example:443") == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_DENY, "plain.example", 443, NULL, NULL) == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_DENY, "other.example", 443, NULL, NULL) == REPLAY_DENY);
	CHECK(open_was(POLICY_ALLOW, "93.184.216.34", 443, "peek", "x") == REPLAY_DENY);
	CHECK(open_was(POLICY_ALLOW, "plain.example", 0, "peek", "x") == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_ALLOW, "not a name", 443, "peek", "x") == REPLAY_UNKNOWN);
	CHECK(open_was(POLICY_ALLOW, NULL, 443, "peek", "x") == REPLAY_UNKNOWN);
}

static void test_lookups_and_addresses(void)
{
	struct replay_seen s = {
		.kind = REPLAY_LOOKUP, .was = POLICY_ALLOW, .host = "db.example", .count = 1
	};

	CHECK(decide(s) == REPLAY_ALLOW);
	s.host = "evil.example";
	CHECK(decide(s) == REPLAY_DENY);
	s = (struct replay_seen){ .kind = REPLAY_ADDRESS,
				  .was = POLICY_ALLOW,
				  .host = "plain.example",
				  .port = 443,
				  .addr = "93.184.216.34",
				  .count = 1 };
	CHECK(decide(s) == REPLAY_ALLOW);
	s.was = POLICY_DENY;
	s.addr = "10.0.0.1";
	CHECK(decide(s) == REPLAY_DENY);
	/* Refused though global: this host's own, or one that only the resolver of then knew. */
	s.addr = "93.184.216.34";
	CHECK(decide(s) == REPLAY_UNKNOWN);
	s.addr = "nonsense";
	CHECK(decide(s) == REPLAY_DENY);
}

static void test_what_was_only_counted(void)
{
	CHECK(decide(request("plain.example", NULL, NULL, NULL)) == REPLAY_ALLOW);
	CHECK(decide(request("other.example", NULL, NULL, NULL)) == REPLAY_DENY);
	CHECK(decide(request("api.forge.example", NULL, NULL, NULL)) == REPLAY_UNKNOWN);
	CHECK(strstr(why, "counted") != NULL);
}

static void test_long_paths(void)
{
	char path[801];

	memset(path, 'a', 800);
	path[0] = '/';
	path[800] = 0;
	CHECK(api("GET", path, NULL) == REPLAY_UNKNOWN);
	path[699] = 0;
	CHECK(api("GET", path, NULL) == REPLAY_ALLOW);
	CHECK(decide(request("other.example", "GET", path, NULL)) == REPLAY_DENY);
	CHECK(api("GET", "/../x", NULL) == REPLAY_UNKNOWN);
	/* The middle was left out of the log, and its digest stands there. */
	CHECK(api("GET", "/aaaa...#01234567...bbbb", NULL) == REPLAY_UNKNOWN);
	CHECK(api("GET", "/aaaa...01234567...bbbb?x=#01234567", NULL) == REPLAY_ALLOW);
}

static void test_credentials(void)
{
	CLEANUP(policy_freep)
	struct policy *p = policy_of("version: 1\nallow:\n- domain: plain.example\n  credentials: only\n");
	struct replay_seen s = request("plain.example", "GET", "/", NULL);
	struct replay *all = re;

	BUG_ON(replay_new(&re, p, NULL, NULL) < 0);
	CHECK(decide(s) == REPLAY_UNKNOWN);
	s.secrets = "key";
	CHECK(decide(s) == REPLAY_ALLOW);
	replay_free(re);
	re = all;
}

/* Requests that the policy has a person asked about, and answers of a person on top of it. */
static void test_asked(void)
{
	CLEANUP(policy_freep)
	struct policy *p = policy_of("version: 1\n"
				     "allow:\n"
				     "- domain: plain.example\n"
				     "  secret: {name: key, ask: true}\n"
				     "- domain: listed.example\n"
				     "  http: [{allow: GET /}]\n"
				     "ask:\n"
				     "- domain: later.example\n"
				     "deny:\n"
				     "- domain: evil.example\n");
	struct replay_seen s = request("plain.example", "GET", "/", NULL);
	struct replay *all = re;

	BUG_ON(replay_new(&re, p, NULL, NULL) < 0);
	CHECK(decide(s) == REPLAY_ALLOW);
	s.secrets = "other,key";
	CHECK(decide(s) == REPLAY_ASK);
	s.secrets = "keys";
	CHECK(decide(s) == REPLAY_ALLOW);
	s = (struct replay_seen){
		.kind = REPLAY_SECRET, .was = POLICY_ASK, .host = "plain.example", .port = 443
	};
	s.what = "key";
	CHECK(decide(s) == REPLAY_ASK);
	s.what = "other";
	CHECK(decide(s) == REPLAY_UNKNOWN);

	/* The name may be looked up, the connection is asked about. */
	s = (struct replay_seen){ .kind = REPLAY_LOOKUP, .was = POLICY_ALLOW, .host = "later.example" };
	CHECK(decide(s) == REPLAY_ALLOW);
	CHECK(open_was(POLICY_ASK, "later.example", 443, "peek", "ask later.example:443") == REPLAY_ASK);

	s = (struct replay_seen){
		.kind = REPLAY_CONNECT, .was = POLICY_ALLOW, .host = "new.example", .port = 443
	};
	CHECK(decide(s) == REPLAY_DENY);
	s.granted = true;
	CHECK(decide(s) == REPLAY_ALLOW);
	s.host = "evil.example";
	CHECK(decide(s) == REPLAY_DENY);
	s = request("listed.example", "POST", "/x", NULL);
	s.granted = true;
	CHECK(decide(s) == REPLAY_ALLOW);

	/* Let through by the policy, refused all the same. */
	s = request("plain.example", "GET", "/", NULL);
	s.was = POLICY_DENY;
	s.refused = true;
	CHECK(decide(s) == REPLAY_UNKNOWN);
	replay_free(re);
	re = all;
}

static struct tool_rule tool(enum policy_action a, const char *name, struct tool_when *w)
{
	struct tool_rule r = { .action = a, .when = w, .n_when = w != NULL, .line = 3 };

	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.source, sizeof(r.source), "new.yaml");
	return r;
}

static void test_tools(void)
{
	struct tool_when when = { "env", "production" };
	const struct tool_rule rules[] = { tool(POLICY_ALLOW, "list_*", NULL),
					   tool(POLICY_ASK, "deploy", NULL),
					   tool(POLICY_DENY, "deploy", &when), tool(POLICY_ASK, "ship", NULL),
					   tool(POLICY_ASK, "ship", &when) };
	struct replay_seen s = { .kind = REPLAY_TOOL, .was = POLICY_ALLOW, .what = "list_x", .count = 1 };
	struct acts a = ACTS_INIT;
	char list[ACTS_DIGEST_LEN + 1];
	struct replay *all = re;

	a.has_tools = true;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		BUG_ON(acts_add_rule(&a, &rules[i], NULL) < 0);
	acts_digest(&a, list);
	CHECK(decide(s) == REPLAY_ALLOW);
	BUG_ON(replay_new(&re, NULL, &a, NULL) < 0);
	CHECK(decide(s) == REPLAY_ALLOW);
	s.what = "other";
	CHECK(decide(s) == REPLAY_DENY);
	CHECK_STR(last.why, "no rule on tools covers it");
	s.what = "deploy";
	CHECK(decide(s) == REPLAY_UNKNOWN);
	CHECK(strstr(why, "arguments") != NULL);
	s.what = "ship";
	CHECK(decide(s) == REPLAY_ASK);
	CHECK_STR(last.rule_text, "ask: ship (new.yaml:3)");
	/* The list of then. */
	s.what = "deploy";
	s.list = list;
	s.was = POLICY_DENY;
	CHECK(decide(s) == REPLAY_DENY);
	s.was = POLICY_ASK;
	CHECK(decide(s) == REPLAY_ASK);
	s = (struct replay_seen){ .kind = REPLAY_APPLY, .was = POLICY_ASK, .count = 1 };
	CHECK(decide(s) == REPLAY_ALLOW);
	a.has_apply = true;
	CHECK(decide(s) == REPLAY_DENY);
	acts_release(&a);
	replay_free(re);
	re = all;
}

/* Events that were counted without a name and are like one that has a name. */
static void test_again(void)
{
	CLEANUP(policy_freep) struct policy *p = policy_of("version: 1\nallow: [plain.example]\n");
	struct replay_seen s = {
		.kind = REPLAY_LOOKUP, .was = POLICY_ALLOW, .host = "plain.example", .count = 1
	};
	struct replay *all = re;

	BUG_ON(replay_new(&re, p, NULL, NULL) < 0);
	BUG_ON(replay_add(re, &s) < 0);
	replay_add_again(re, &s, 5);
	BUG_ON(replay_settle(re) < 0);
	CHECK(replay_sums(re).decisions == 6 && replay_sums(re).same == 6);
	s.host = "other.example";
	BUG_ON(replay_add(re, &s) < 0);
	replay_add_again(re, &s, 5);
	BUG_ON(replay_settle(re) < 0);
	CHECK(replay_sums(re).decisions == 12 && replay_sums(re).to[REPLAY_UNKNOWN] == 5);
	replay_free(re);
	re = all;
}

static void test_rows(void)
{
	const struct replay_row *rows = NULL;
	struct replay_seen s;
	struct replay_sums n;
	char path[32];

	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "/repos/%d", i);
		s = request("api.forge.example", "DELETE", path, NULL);
		BUG_ON(replay_add(re, &s) < 0);
		s = request("api.forge.example", "GET", path, NULL);
		BUG_ON(replay_add(re, &s) < 0);
	}
	s = request("api.forge.example", "PUT", "/repos/o/r/pulls/7/merge", NULL);
	s.count = 3;
	BUG_ON(replay_add(re, &s) < 0);
	s = request("api.forge.example", "POST", "/graphql", NULL);
	BUG_ON(replay_add(re, &s) < 0);
	s = (struct replay_seen){ .kind = REPLAY_LOOKUP,
				  .was = POLICY_DENY,
				  .rule = "default",
				  .host = "plain.example",
				  .count = 2 };
	BUG_ON(replay_add(re, &s) < 0);
	n = replay_sums(re);
	CHECK(n.decisions == 26 && n.same == 10 && n.others == 0);
	CHECK(n.to[REPLAY_DENY] == 10 && n.to[REPLAY_ASK] == 3 && n.to[REPLAY_ALLOW] == 2 &&
	      n.to[REPLAY_UNKNOWN] == 1);
	CHECK(replay_rows(re, &rows) == 4);
	CHECK(rows[0].now == REPLAY_DENY && rows[0].count == 10 && rows[0].n_paths == REPLAY_EXAMPLES &&
	      rows[0].more_paths);
	CHECK_STR(rows[0].method, "DELETE");
	CHECK(rows[1].now == REPLAY_ASK && rows[1].count == 3 && !rows[1].more_paths);
	CHECK(rows[2].now == REPLAY_ALLOW && rows[2].kind == REPLAY_LOOKUP && rows[2].count == 2);
	CHECK(rows[3].now == REPLAY_UNKNOWN);
}

/* A sandbox can ask for any number of names: rows are capped, and the rest is counted. */
static void test_flood(void)
{
	const struct replay_row *rows = NULL;
	struct replay_sums n;
	char name[64];

	for (int i = 0; i < 2 * REPLAY_ROWS_MAX; i++) {
		struct replay_seen s = {
			.kind = REPLAY_LOOKUP, .was = POLICY_ALLOW, .host = name, .count = 1
		};

		snprintf(name, sizeof(name), "n%d.evil.example", i);
		BUG_ON(replay_add(re, &s) < 0);
	}
	n = replay_sums(re);
	CHECK(replay_rows(re, &rows) == REPLAY_ROWS_MAX);
	CHECK(n.others > 0 && n.others <= 2ul * REPLAY_ROWS_MAX);
}

int main(void)
{
	CLEANUP(policy_freep) struct policy *p = policy_of(forge);

	if (!p) {
		printf("Bail out! %s\n", last_err.msg);
		return 99;
	}
	BUG_ON(replay_new(&re, p, NULL, NULL) < 0);
	test_requests();
	test_acts();
	test_service_of_an_old_log();
	test_connections();
	test_lookups_and_addresses();
	test_what_was_only_counted();
	test_long_paths();
	test_credentials();
	test_asked();
	test_tools();
	test_again();
	test_rows();
	test_flood();
	replay_free(re);
	return tap_done();
}
