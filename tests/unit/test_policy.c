/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions, as a file gives them: each policy is text, each question a line. */
#include "policytest.h"

static void test_hosts(void)
{
	struct policy *p = policy_of("version: 1\n"
				     "egress:\n"
				     "  allow:\n"
				     "    - domain: \"*.github.com\"\n"
				     "      port: 443\n"
				     "    - domain: api.openai.com\n"
				     "    - domain: plain.example.com\n"
				     "      port: [80, 8000-8100]\n"
				     "  deny:\n"
				     "    - domain: \"*\"\n");

	CHECK(connect_is(p, "api.github.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "a.b.c.github.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "github.com:443", POLICY_DENY));
	CHECK(connect_is(p, "evilgithub.com:443", POLICY_DENY));
	CHECK(connect_is(p, "github.com.evil.org:443", POLICY_DENY));
	CHECK(connect_is(p, "api.github.com:80", POLICY_DENY));
	CHECK(connect_is(p, "API.GitHub.com.:443", POLICY_ALLOW));
	CHECK(connect_is(p, "api.openai.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "api.openai.com:8443", POLICY_DENY));
	CHECK(connect_is(p, "plain.example.com:80", POLICY_ALLOW));
	CHECK(connect_is(p, "plain.example.com:8100", POLICY_ALLOW));
	CHECK(connect_is(p, "plain.example.com:8101", POLICY_DENY));
	CHECK(connect_is(p, "plain.example.com:443", POLICY_DENY));
	CHECK(connect_is(p, "140.82.121.3:443", POLICY_DENY));
	CHECK(name_is(p, "api.github.com", true));
	CHECK(name_is(p, "plain.example.com", true));
	CHECK(name_is(p, "other.example.com", false));
	CHECK(name_is(p, "github.com", false));
	CHECK(!policy_needs_ca(p) && !policy_allows_nothing(p));
	policy_free(p);
}

static void test_precedence(void)
{
	struct policy *p = policy_of("allow:\n"
				     "  - domain: \"*.example.com\"\n"
				     "    port: any\n"
				     "  - domain: a.b.example.com\n"
				     "    port: 443\n"
				     "  - domain: same.example.com\n"
				     "  - domain: named.example.com\n"
				     "    port: 443\n"
				     "  - domain: ports.example.com\n"
				     "    port: [1000-2000, 1500]\n"
				     "deny:\n"
				     "  - domain: \"*.b.example.com\"\n"
				     "  - domain: same.example.com\n"
				     "  - domain: named.example.com\n"
				     "  - domain: ports.example.com\n"
				     "    port: 1400-1600\n"
				     "  - domain: x.example.com\n"
				     "    port: 22\n");

	CHECK(connect_is(p, "c.example.com:9", POLICY_ALLOW));
	CHECK(connect_is(p, "c.b.example.com:443", POLICY_DENY));
	CHECK(connect_is(p, "a.b.example.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "a.b.example.com:80", POLICY_DENY));
	/* Rules without a port are equal, and deny wins. */
	CHECK(connect_is(p, "same.example.com:443", POLICY_DENY));
	/* A rule with a port is the more specific. */
	CHECK(connect_is(p, "named.example.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "named.example.com:80", POLICY_DENY));
	CHECK(connect_is(p, "ports.example.com:1300", POLICY_ALLOW));
	CHECK(connect_is(p, "ports.example.com:1450", POLICY_DENY));
	CHECK(connect_is(p, "ports.example.com:1500", POLICY_ALLOW));
	CHECK(connect_is(p, "x.example.com:22", POLICY_DENY));
	CHECK(connect_is(p, "x.example.com:23", POLICY_ALLOW));
	CHECK(name_is(p, "x.example.com", true));
	CHECK(name_is(p, "same.example.com", false));
	CHECK(name_is(p, "c.b.example.com", false));
	policy_free(p);
}

static void test_addresses(void)
{
	struct policy *p = policy_of("allow:\n"
				     "  - address: 8.8.0.0/16\n"
				     "    port: [53, 443]\n"
				     "  - address: 2a00:1450::/32\n"
				     "  - domain: pinned.example.com\n"
				     "    to: 10.1.2.3:8443\n"
				     "  - domain: free.example.com\n"
				     "deny:\n"
				     "  - address: 8.8.4.0/24\n"
				     "  - address: 9.9.9.9\n");

	CHECK(connect_is(p, "8.8.8.8:443", POLICY_ALLOW));
	CHECK(connect_is(p, "[::ffff:8.8.8.8]:443", POLICY_ALLOW));
	CHECK(connect_is(p, "8.8.4.4:443", POLICY_DENY));
	CHECK(connect_is(p, "8.8.8.8:80", POLICY_DENY));
	CHECK(connect_is(p, "1.1.1.1:443", POLICY_DENY));
	CHECK(connect_is(p, "[2a00:1450:4001::1]:443", POLICY_ALLOW));
	CHECK(connect_is(p, "[2a00:1451::1]:443", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "1.1.1.1", POLICY_ALLOW));
	CHECK(address_is(p, "free.example.com:443", "9.9.9.9", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "8.8.4.4", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "10.1.2.3", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "169.254.169.254", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "::ffff:127.0.0.1", POLICY_DENY));
	CHECK(address_is(p, "free.example.com:443", "64:ff9b::a00:1", POLICY_DENY));
	CHECK(address_is(p, "pinned.example.com:443", "10.1.2.3", POLICY_ALLOW));
	CHECK(address_is(p, "pinned.example.com:443", "10.1.2.4", POLICY_DENY));
	CHECK(address_is(p, "pinned.example.com:443", "1.1.1.1", POLICY_DENY));
	CHECK(address_is(p, "other.example.com:443", "1.1.1.1", POLICY_DENY));
	CHECK(last.terms.has_pin == false);
	CHECK(connect_is(p, "pinned.example.com:443", POLICY_ALLOW) && last.terms.pin_port == 8443);
	policy_free(p);
}

static void test_observe(void)
{
	struct policy *p = policy_of("mode: observe\n"
				     "allow:\n"
				     "  - domain: known.example.com\n"
				     "    http:\n"
				     "      - allow: GET /**\n"
				     "      - deny: GET /never\n"
				     "deny:\n"
				     "  - domain: evil.example.com\n");

	CHECK(connect_is(p, "any.example.org:22", POLICY_ALLOW) && last.would_deny && last.is_default);
	CHECK(connect_is(p, "evil.example.com:443", POLICY_DENY));
	CHECK(connect_is(p, "8.8.8.8:443", POLICY_ALLOW));
	CHECK(connect_is(p, "10.0.0.1:443", POLICY_DENY));
	CHECK(connect_is(p, "169.254.169.254:80", POLICY_DENY));
	CHECK(connect_is(p, "127.0.0.1:80", POLICY_DENY));
	CHECK(address_is(p, "any.example.org:443", "192.168.1.1", POLICY_DENY));
	CHECK(name_is(p, "any.example.org", true));
	CHECK(name_is(p, "evil.example.com", false));
	CHECK(request_is(p, "GET", "https://known.example.com/x", POLICY_ALLOW) && !last.would_deny);
	CHECK(request_is(p, "PUT", "https://known.example.com/x", POLICY_ALLOW) && last.would_deny);
	CHECK(request_is(p, "GET", "https://known.example.com/never", POLICY_DENY));
	policy_free(p);
}

static void test_depth(void)
{
	struct policy *p = policy_of("allow:\n"
				     "  - domain: plain.example.com\n"
				     "  - {domain: ssh.example.com, port: 22, depth: tunnel}\n"
				     "  - {domain: look.example.com, depth: inspect}\n"
				     "  - {domain: http.example.com, http: [{allow: GET /**}]}\n"
				     "  - {domain: own.example.com, credentials: only}\n"
				     "  - {domain: secret.example.com, secret: token}\n"
				     "  - {domain: asked.example.com, secret: {name: token, ask: true}}\n"
				     "  - {domain: mixed.example.com}\n"
				     "deny:\n"
				     "  - {domain: mixed.example.com, port: 443, http: [DELETE /**]}\n");
	struct policy *other;

	CHECK(connect_is(p, "plain.example.com:443", POLICY_ALLOW) && last.depth == POLICY_PEEK);
	CHECK(connect_is(p, "ssh.example.com:22", POLICY_ALLOW) && last.depth == POLICY_TUNNEL);
	CHECK(connect_is(p, "look.example.com:443", POLICY_ALLOW) && last.depth == POLICY_INSPECT);
	CHECK(connect_is(p, "http.example.com:443", POLICY_ALLOW) && last.depth == POLICY_INSPECT);
	CHECK(connect_is(p, "own.example.com:443", POLICY_ALLOW) && last.terms.credentials_only);
	CHECK(connect_is(p, "secret.example.com:443", POLICY_ALLOW) &&
	      strcmp(last.terms.secret, "token") == 0 && last.depth == POLICY_INSPECT &&
	      !last.terms.secret_ask);
	CHECK(connect_is(p, "asked.example.com:443", POLICY_ALLOW) && last.terms.secret_ask);
	CHECK(!try_policy("allow:\n  - {domain: a.example.com, secret: {name: t, ask: perhaps}}\n"));
	CHECK(!try_policy("allow:\n  - {domain: a.example.com, secret: {ask: true}}\n"));
	other = try_policy("allow:\n  - {domain: a.example.com, secret: {name: t, as: ssh, ask: true}}\n");
	CHECK(other);
	policy_free(other);
	/* Single requests denied, the rest as the other rule says. */
	CHECK(connect_is(p, "mixed.example.com:443", POLICY_ALLOW) && last.depth == POLICY_INSPECT);
	CHECK(request_is(p, "GET", "https://mixed.example.com/x", POLICY_ALLOW));
	CHECK(request_is(p, "DELETE", "https://mixed.example.com/x", POLICY_DENY));
	CHECK(policy_needs_ca(p));
	policy_free(p);
}

static void test_requests(void)
{
	struct policy *p = policy_of("allow:\n"
				     "  - domain: api.example.com\n"
				     "    http:\n"
				     "      - allow: GET /**\n"
				     "      - allow: POST /items/*/notes\n"
				     "      - ask: PUT /repos/*/*/pulls/*/merge\n"
				     "      - allow: PUT /repos/o/r/**\n"
				     "      - deny: DELETE /**\n"
				     "      - deny: GET /admin/**\n"
				     "      - allow: GET /admin/health\n"
				     "      - deny: \"* /both\"\n"
				     "      - allow: GET /both\n");

	CHECK(request_is(p, "GET", "https://api.example.com/", POLICY_ALLOW));
	CHECK(request_is(p, "HEAD", "https://api.example.com/x", POLICY_ALLOW));
	CHECK(request_is(p, "get", "https://api.example.com/x", POLICY_DENY));
	CHECK(request_is(p, "POST", "https://api.example.com/items/1/notes", POLICY_ALLOW));
	CHECK(request_is(p, "POST", "https://api.example.com/items/1/2/notes", POLICY_DENY));
	CHECK(request_is(p, "POST", "https://api.example.com/x", POLICY_DENY));
	CHECK(strstr(last.why, "does not list POST /x") != NULL);
	CHECK(request_is(p, "PUT", "https://api.example.com/repos/o/r/topics", POLICY_ALLOW));
	/* The two paths do not contain each other: the stricter holds. */
	CHECK(request_is(p, "PUT", "https://api.example.com/repos/o/r/pulls/1/merge", POLICY_ASK));
	CHECK(strstr(last.why, "a person has to allow it") != NULL);
	CHECK(request_is(p, "DELETE", "https://api.example.com/x", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/admin/users", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/admin/health", POLICY_ALLOW));
	/* Path decides before method; the paths are equal, so the method does. */
	CHECK(request_is(p, "GET", "https://api.example.com/both", POLICY_ALLOW));
	CHECK(request_is(p, "POST", "https://api.example.com/both", POLICY_DENY));
	/* A path that servers may take for a denied one is denied with it. */
	CHECK(request_is(p, "GET", "https://api.example.com/ADMIN/users", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/admin;x=1/users", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/a/../admin/users", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/%61dmin/users", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://api.example.com/admin%2Fusers", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://other.example.com/", POLICY_DENY));
	policy_free(p);
}

static void test_layers(void)
{
	struct policy *p = policy_of2("allow:\n"
				      "  - {domain: a.example.com, limits: {bytes_up: 1M, connections: 4}}\n"
				      "  - {domain: b.example.com}\n",
				      "allow:\n"
				      "  - {domain: a.example.com, limits: {bytes_up: 5M, bandwidth: 1k}}\n"
				      "  - {domain: c.example.com}\n");

	CHECK(connect_is(p, "a.example.com:443", POLICY_ALLOW));
	CHECK(last.terms.limits.bytes_up == 1 << 20 && last.terms.limits.connections == 4 &&
	      last.terms.limits.bandwidth == 1024);
	CHECK(connect_is(p, "b.example.com:443", POLICY_DENY));
	CHECK(connect_is(p, "c.example.com:443", POLICY_DENY));
	CHECK(name_is(p, "a.example.com", true) && name_is(p, "b.example.com", false));
	policy_free(p);
}

static void test_nothing(void)
{
	struct policy *p = policy_of("");

	CHECK(connect_is(p, "example.com:443", POLICY_DENY));
	CHECK(strstr(last.why, "no rule allows example.com:443") != NULL);
	CHECK(policy_allows_nothing(p) && policy_mode(p) == POLICY_ENFORCE);
	policy_free(p);
	p = policy_of("allow: [\"*.github.com\", \"example.com:8443\", 8.8.8.8]\n");
	CHECK(connect_is(p, "github.com:443", POLICY_DENY) &&
	      strstr(last.why, "does not cover github.com itself"));
	CHECK(connect_is(p, "example.com:443", POLICY_DENY) && strstr(last.why, "other ports"));
	CHECK(connect_is(p, "example.com:8443", POLICY_ALLOW));
	CHECK(connect_is(p, "8.8.8.8:443", POLICY_ALLOW));
	policy_free(p);
}

/* One repository may be denied while its neighbours are not, under whatever name a server still finds it. */
static void test_repositories(void)
{
	CLEANUP(policy_freep)
	struct policy *p = policy_of("allow:\n"
				     "    - domain: git.example.com\n"
				     "      http: [{allow: \"* /**\"}]\n"
				     "      git:\n"
				     "        - allow: fetch **\n"
				     "        - allow: push o/* refs/heads/** create,update,force\n"
				     "        - deny: push o/r ** create,update,force,delete\n");
	static const char *const names[] = { "o/r",	  "o/r.git", "o/R",  "o/r.GIT",
					     "o/r.git;x", "o/r;x",   "o/r.", "o/r.git." };

	CHECK(push_is(p, "https://git.example.com/o/s/git-receive-pack", "refs/heads/x", POLICY_PUSH_CREATE,
		      POLICY_ALLOW));
	CHECK(push_is(p, "https://git.example.com/o/s.git/git-receive-pack", "refs/heads/x",
		      POLICY_PUSH_CREATE, POLICY_ALLOW));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char url[128];

		snprintf(url, sizeof(url), "https://git.example.com/%s/git-receive-pack", names[i]);
		CHECKF(push_is(p, url, "refs/heads/x", POLICY_PUSH_CREATE, POLICY_DENY),
		       "a push to %s is denied as one to o/r", names[i]);
	}
	/* A grant of `http:` does not allow the push either. */
	CHECK(push_is(p, "https://git.example.com/o/r/git-receive-pack/", "refs/heads/x", POLICY_PUSH_CREATE,
		      POLICY_DENY));
	CHECK(push_is(p, "https://git.example.com/o/r/git-receive-pack;x", "refs/heads/x", POLICY_PUSH_CREATE,
		      POLICY_DENY));
	CHECK(request_is(p, "POST", "https://git.example.com/o/r/issues", POLICY_ALLOW));
}

/* A path that a server takes for a denied one when it decodes twice, or folds letters before it compares, is denied
 * with it. */
static void test_lookalikes(void)
{
	CLEANUP(policy_freep)
	struct policy *p = policy_of("allow:\n"
				     "  - domain: api.example.com\n"
				     "    http:\n"
				     "      - allow: GET /**\n"
				     "      - allow: POST /list/a%2520b\n"
				     "      - allow: POST /list/%F0%9D%92%B3\n"
				     "      - deny: GET /admin/**\n"
				     "      - deny: GET /office\n"
				     "      - ask: GET /keys\n"
				     "    graphql:\n"
				     "      - allow: query *\n");
	static const char *const bad[] = {
		"/adm%C4%B1n/x",			     /* a dotless i */
		"/ADM%C4%B0N/x",			     /* an I with a dot */
		"/%F0%9D%90%9A%F0%9D%90%9D%F0%9D%90%A6in/x", /* mathematical letters */
		"/%EF%BC%A1dmin/x",			     /* full width */
		"/%E2%93%90dmin/x",			     /* a letter in a circle */
		"/ad%C2%ADmin/x",			     /* a soft hyphen, which is dropped */
		"/adm%E2%81%B1n/x",			     /* a superscript */
		"/o%EF%AC%83ce",			     /* a ligature of three */
		"/office%253Bx",			     /* parameters, encoded twice */
		"/office%2520",				     /* a space at the end, encoded twice */
		"/%25EF%25BD%2581dmin/x",		     /* full width, encoded twice */
		"/admin%25EF%25BC%258Fx",		     /* a slash in full width, encoded twice */
		"/%2561dmin/x",				     /* a letter, encoded twice */
	};
	static const char *const good[] = {
		"/caf%C3%A9",
		"/%E6%97%A5%E6%9C%AC",
		"/stra%C3%9Fe",
		"/%F0%9D%92%B3",
		"/%E2%9D%A4%EF%B8%8F/x",
		"/a%2520b",
		"/100%25",
		"/a%253Bb",
		"/%C4%B1rmak",
		"/officers",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char url[128];

		snprintf(url, sizeof(url), "https://api.example.com%s", bad[i]);
		CHECKF(request_is(p, "GET", url, POLICY_DENY), "a deny covers the look-alike %s", bad[i]);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char url[128];

		snprintf(url, sizeof(url), "https://api.example.com%s", good[i]);
		CHECKF(request_is(p, "GET", url, POLICY_ALLOW), "no deny is about %s, which is allowed",
		       good[i]);
	}
	CHECKF(request_is(p, "GET", "https://api.example.com/%E2%84%AAeys", POLICY_ASK),
	       "the Kelvin sign is a k for a rule that asks");
	CHECKF(request_is(p, "POST", "https://api.example.com/list/a%2520b", POLICY_ALLOW) &&
		       request_is(p, "POST", "https://api.example.com/list/%F0%9D%92%B3", POLICY_ALLOW),
	       "a path that is allowed to the letter need not be listed in its other reading");
	CHECKF(request_is(p, "POST", "https://api.example.com/list/x", POLICY_DENY),
	       "a path that only resembles a listed one is not allowed");
	CHECKF(request_is(p, "GET", "https://api.example.com/grap%CA%B0ql", POLICY_DENY),
	       "a look-alike of the GraphQL endpoint is judged as that endpoint");
}

int main(void)
{
	test_hosts();
	test_precedence();
	test_addresses();
	test_observe();
	test_depth();
	test_requests();
	test_layers();
	test_nothing();
	test_repositories();
	test_lookalikes();
	return tap_done();
}
