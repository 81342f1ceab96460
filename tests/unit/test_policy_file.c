/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are wrong in every way we could think of: each is refused where it is wrong, in words that help. */
#include "policytest.h"

/* `why` and `hint` are parts of the message; the position comes behind the file's name. */
static const struct wrong {
	const char *text, *at, *why, *hint;
} wrongs[] = {
	/* YAML itself */
	{ "allow: [", ":2:1: ", "not YAML", NULL },
	{ "allow:\n\t- domain: a.com\n", ":2:1: ", "not YAML", NULL },
	{ "a: &x 1\n", ":1:4: ", "anchors", NULL },
	{ "allow: *x\n", ":1:8: ", "aliases", NULL },
	{ "allow:\n  - domain: *.github.com\n", ":2:", "quotes", NULL },
	{ "allow: !!seq []\n", ":1:8: ", "tags", NULL },
	{ "allow: []\n---\nallow: []\n", ":2:1: ", "second document", NULL },
	{ "allow: []\nallow: []\n", ":2:1: ", "is a duplicate", NULL },
	{ "allow:\n  - {domain: a.com, domain: b.com}\n", ":2:21: ", "is a duplicate", NULL },
	{ "? [a]\n: b\n", ":1:3: ", "plain word", NULL },
	{ "- a\n", ":1:1: ", "a mapping", NULL },
	{ "just text\n", ":1:1: ", "a mapping", NULL },
	{ "allow: \"a\\0b\"\n", ":1:8: ", "control character", NULL },
	{ "a: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", ":1:", "too deep", NULL },
	{ "<<: {allow: []}\n", ":1:1: ", "unknown key '<<'", NULL },
	/* what a reviewer does not see */
	{ "egress: # x\xc2\x85  allow: [evil.example.com]\n", ":1:12: U+0085", "line break", NULL },
	{ "version: 1\negress: # x\xe2\x80\xa8  allow: [evil.example.com]\n", ":2:12: U+2028", "line break",
	  NULL },
	{ "egress: # x\xe2\x80\xa9  allow: [evil.example.com]\n", ":1:12: U+2029", "line break", NULL },
	{ "egress: # x\r  allow: [evil.example.com]\n", ":1:12: U+000D", "control character", NULL },
	{ "egress: {} # \xe2\x80\xaehidden\n", ":1:14: U+202E", "direction", NULL },
	{ "egress: {} # \xe2\x81\xa6hidden\n", ":1:14: U+2066", "direction", NULL },
	{ "egress: {} # b\xc3\xbc\xe2\x80\x8b\n", ":1:16: U+200B", "invisible", NULL },
	{ "egress: {} # \xef\xbb\xbf\n", ":1:14: U+FEFF", "invisible", NULL },
	{ "egress: {} # \xc2\xad\n", ":1:14: U+00AD", "invisible", NULL },
	{ "egress: {} # \xf3\xa0\x81\x81\n", ":1:14: U+E0041", "invisible", NULL },
	{ "egress: {} # \x1b[8m\n", ":1:14: U+001B", "control character", NULL },
	{ "egress: {} # \xc2\x9b\n", ":1:14: U+009B", "control character", NULL },
	{ "egress: {} # \xff\n", ":1:14: ", "not UTF-8", NULL },
	/* keys and types */
	{ "alow: []\n", ":1:1: ", "unknown key 'alow' of a policy", "allow:" },
	{ "egress:\n  alow: []\n", ":2:3: ", "' of egress; valid keys", "allow:" },
	{ "egress:\n  version: 1\n", ":2:3: ", "' of egress; valid keys", NULL },
	{ "version: 2\n", ":1:10: ", "unknown version", "version: 1" },
	{ "version: [1]\n", ":1:10: ", "unknown version", NULL },
	{ "egress: {}\nallow: []\n", ":2:1: ", "belongs under 'egress:'", NULL },
	{ "mode: enforced\n", ":1:7: ", "observe or enforce", "enforce" },
	{ "allow: github.com\n", ":1:8: ", "list of rules", NULL },
	{ "allow: {domain: a.com}\n", ":1:8: ", "list of rules", NULL },
	{ "allow:\n  - domain: [a.com]\n", ":2:13: ", "expected a domain", NULL },
	{ "allow:\n  - domian: a.com\n", ":2:5: ", "' of a rule; valid keys", "domain:" },
	{ "allow:\n  - port: 443\n", ":2:5: ", "needs a 'domain' or an 'address'", NULL },
	{ "allow:\n  - {domain: a.com, address: 8.8.8.8}\n", ":2:5: ", "not both", NULL },
	{ "allow:\n  -\n", ":2:", "a mapping", NULL },
	/* hosts */
	{ "allow: [{domain: GitHub.com}]\n", ":1:18: ", "write github.com", NULL },
	{ "allow: [{domain: github.com.}]\n", ":1:18: ", "write github.com", NULL },
	{ "allow: [{domain: \"b\xc3\xbc"
	  "cher.example\"}]\n",
	  ":1:18: ", "", "xn--bcher-kva.example" },
	{ "allow: [{domain: \"*.com\"}]\n", ":1:18: ", "public suffix", NULL },
	{ "allow: [{domain: \"*.co.uk\"}]\n", ":1:18: ", "public suffix", NULL },
	{ "allow: [{domain: \"*.github.io\"}]\n", ":1:18: ", "public suffix", NULL },
	{ "allow: [{domain: \"*\"}]\n", ":1:18: ", "every name", NULL },
	{ "ask: [{domain: \"*.com\"}]\n", ":1:16: ", "public suffix", NULL },
	{ "allow: [{domain: \"git*.com\"}]\n", ":1:18: ", "whole first label", NULL },
	{ "allow: [{domain: 10.0.0.1}]\n", ":1:18: ", "is an address", "address: 10.0.0.1" },
	{ "allow: [{domain: 127.1}]\n", ":1:18: ", "", NULL },
	{ "allow: [{domain: \"http://a.com\"}]\n", ":1:18: ", "", NULL },
	{ "allow: [{domain: coffer.internal}]\n", ":1:18: ", "coffer.internal", NULL },
	/* addresses */
	{ "allow: [{address: 10.0.0.0/8}]\n", ":1:19: ", "private address", NULL },
	{ "allow: [{address: 0.0.0.0/0}]\n", ":1:19: ", "too wide", NULL },
	{ "allow: [{address: 8.8.8.8/16}]\n", ":1:19: ", "8.8.0.0/16", NULL },
	{ "allow: [{address: 8.8.8}]\n", ":1:19: ", "", NULL },
	{ "allow: [{address: \"::ffff:10.0.0.1\"}]\n", ":1:19: ", "private address", NULL },
	{ "allow: [{domain: a.com, to: b.com}]\n", ":1:29: ", "an address", NULL },
	{ "allow: [{domain: a.com, to: 169.254.169.254}]\n", ":1:18: ", "'to:' cannot lead to", NULL },
	{ "allow: [{domain: a.com, to: 10.0.0.1:0}]\n", ":1:29: ", "an address", NULL },
	{ "deny: [{domain: a.com, to: 10.0.0.1}]\n", ":1:17: ", "a deny rule has", NULL },
	/* secrets */
	{ "allow: [{domain: a.com, secret: {env: X}}]\n", ":1:33: ", "needs its 'name'", NULL },
	{ "allow: [{domain: a.com, secret: {name: x, env: 1X}}]\n", ":1:48: ", "a variable", NULL },
	{ "allow: [{domain: a.com, secret: {name: x, nv: X}}]\n", ":1:43: ", "unknown key 'nv'", NULL },
	{ "deny: [{domain: a.com, secret: x}]\n", ":1:32: ", "a rule that allows", NULL },
	{ "allow: [{domain: a.com, secret: [x]}]\n", ":1:33: ", "", NULL },
	/* captures */
	{ "allow: [{domain: a.com, capture: POST /x}]\n", ":1:34: ", "", NULL },
	{ "allow: [{domain: a.com, capture: {name: x}}]\n", ":1:34: ", "needs an 'endpoint'", NULL },
	{ "allow: [{domain: a.com, capture: {endpiont: POST /x}}]\n", ":1:35: ", "unknown key 'endpiont'",
	  "endpoint" },
	{ "allow: [{domain: a.com, capture: {endpoint: /x}}]\n", ":1:45: ", "a method and a path", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: post /x}}]\n", ":1:45: ", "a method and a path",
	  NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST x}}]\n", ":1:45: ", "begins with /", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, json: [\"a b\"]}}]\n", ":1:61: ", "a member",
	  NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, json: [a, b], refresh: a}}]\n",
	  ":1:77: ", "named twice", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: \"POST /*/x\", refresh: a}}]\n",
	  ":1:45: ", "without '*'", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, for: \"*.b.com\"}}]\n",
	  ":1:59: ", "exact hosts", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, for: co.uk}}]\n", ":1:59: ", "public suffix",
	  NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, as: bear}}]\n", ":1:58: ", "expected bearer",
	  NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, as: ssh}}]\n", ":1:58: ", "expected bearer",
	  NULL },
	{ "allow: [{domain: \"*.a.com\", capture: {endpoint: POST /x}}]\n", ":1:38: ", "not a pattern",
	  NULL },
	{ "allow: [{domain: a.com, port: [1, 2], capture: {endpoint: POST /x}}]\n", ":1:48: ", "one port",
	  NULL },
	{ "allow: [{address: 8.8.8.8, capture: {endpoint: POST /x}}]\n", ":1:37: ", "one domain", NULL },
	{ "deny: [{domain: a.com, capture: {endpoint: POST /x}}]\n", ":1:33: ", "a rule that allows", NULL },
	{ "ask: [{domain: a.com, capture: {endpoint: POST /x}}]\n", ":1:32: ", "a rule that allows", NULL },
	{ "allow:\n - {domain: a.com, capture: {endpoint: POST /x, name: n}}\n"
	  " - {domain: b.com, capture: {endpoint: POST /x, name: n}}\n",
	  ":3:29: ", "another rule captures", NULL },
	{ "allow: [{domain: a.com, depth: peek, capture: {endpoint: POST /x}}]\n",
	  ":1:18: ", "cannot be inspected", NULL },
	/* ports */
	{ "allow: [{domain: a.com, port: 0}]\n", ":1:31: ", "a port", NULL },
	{ "allow: [{domain: a.com, port: 65536}]\n", ":1:31: ", "a port", NULL },
	{ "allow: [{domain: a.com, port: 90-80}]\n", ":1:31: ", "comes first: 80-90", NULL },
	{ "allow: [{domain: a.com, port: []}]\n", ":1:31: ", "empty", NULL },
	{ "allow: [{domain: a.com, port: https}]\n", ":1:31: ", "a port", NULL },
	{ "allow: [{domain: a.com, port: 1, ports: 2}]\n", ":1:41: ", "use one", NULL },
	/* requests */
	{ "allow: [{domain: a.com, http: [GET /x]}]\n", ":1:32: ", "allow, ask or deny", "- allow: GET /x" },
	{ "allow: [{domain: a.com, http: [{allow: /x}]}]\n", ":1:40: ", "a method and a path", "* /x" },
	{ "allow: [{domain: a.com, http: [{allow: get /x}]}]\n", ":1:40: ", "not an HTTP method", "GET" },
	{ "allow: [{domain: a.com, http: [{allow: GETT /x}]}]\n", ":1:40: ", "not an HTTP method", "GET" },
	{ "allow: [{domain: a.com, http: [{allow: GET x}]}]\n", ":1:40: ", "begins with /", NULL },
	{ "allow: [{domain: a.com, http: [{allow: GET /a/../b}]}]\n", ":1:40: ", "write /b", NULL },
	{ "allow: [{domain: a.com, http: [{allow: GET //x}]}]\n", ":1:40: ", "", NULL },
	{ "allow: [{domain: a.com, http: [{allow: \"GET /x?y\"}]}]\n", ":1:40: ", "the query after ?", NULL },
	{ "allow: [{domain: a.com, http: [{permit: GET /x}]}]\n", ":1:33: ", "' of a request; valid keys",
	  NULL },
	{ "allow: [{domain: a.com, http: []}]\n", ":1:31: ", "the list is empty", NULL },
	{ "allow: [{domain: a.com, depth: tunnel, http: [{allow: GET /x}]}]\n",
	  ":1:18: ", "cannot be inspected", NULL },
	{ "allow: [{domain: a.com, depth: deep}]\n", ":1:32: ", "tunnel, peek or inspect", NULL },
	{ "deny: [{domain: a.com, http: [{allow: GET /x}]}]\n", ":1:17: ", "only a rule under 'allow'",
	  NULL },
	{ "allow: [{domain: a.com, graphql: [{allow: mutaton x}]}]\n", ":1:43: ", "query, mutation",
	  "mutation" },
	{ "allow: [{domain: a.com, graphql: [{allow: mutation}]}]\n", ":1:43: ", "an operation", NULL },
	{ "allow: [{domain: a.com, graphql: [{allow: mutation a-b}]}]\n", ":1:18: ", "GraphQL field", NULL },
	{ "allow: [{domain: a.com, http: [{allow: GET /x, path: /y}]}]\n", ":1:54: ", "only 'graphql'",
	  NULL },
	{ "allow: [{domain: a.com, git: [{allow: pull o/r}]}]\n", ":1:39: ", "fetch OWNER/REPO", NULL },
	{ "allow: [{domain: a.com, git: [{allow: \"fetch *\"}]}]\n", ":1:39: ", "stops at /", "**" },
	{ "allow: [{domain: a.com, git: [{allow: push o/r main}]}]\n", ":1:18: ", "written whole", NULL },
	{ "allow: [{domain: a.com, git: [{allow: push o/r refs/heads/x merge}]}]\n",
	  ":1:39: ", "create, update", NULL },
	/* the rest */
	{ "limits: {bytes_up: -1}\n", ":1:20: ", "a number of bytes", NULL },
	{ "limits: {bandwith: 1M}\n", ":1:10: ", "' of limits; valid keys", "bandwidth:" },
	{ "limits: {connections: 0}\n", ":1:23: ", "a number from 1", NULL },
	{ "resolvers: [dns.example.com]\n", ":1:13: ", "a resolver's address", NULL },
	{ "resolvers: [0.0.0.0]\n", ":1:13: ", "cannot be a resolver", NULL },
	{ "resolvers: [\"224.0.0.251:5353\"]\n", ":1:13: ", "a multicast address", NULL },
	{ "synthetic: 127.0.0.0/8\n", ":1:12: ", "a loopback address", NULL },
	{ "synthetic: 11.0.0.0/24\n", ":1:12: ", "from /8 to /20", NULL },
	{ "pool: nowhere\n", "", "no proxy set 'nowhere'", NULL },
	{ "allow: [{domain: a.com, pool: fst}]\nproxies: {fast: {urls: [\"http://p.example.com:3128\"]}}\n",
	  "", "no proxy set 'fst'", "pool: fast" },
	{ "proxies: {p: {urls: [\"http://u:pw@p.example.com:3128\"]}}\n", ":1:22: ", "'secret: NAME'", NULL },
	{ "proxies: {p: {urls: [\"http://p.example.com\"], secret: a/b}}\n", ":1:55: ", "", NULL },
	{ "proxies: {p: {urls: [\"http://p.example.com\"], secret: x, credentials_file: y}}\n",
	  ":1:14: ", "not both", NULL },
	{ "proxies: {p: {urls: [\"ftp://p.example.com\"]}}\n", ":1:22: ", "socks5://", NULL },
	{ "proxies: {p: {urls: [\"http://a.example.com\", \"https://p.example.com\"]}}\n",
	  ":1:46: ", "TLS to the proxy itself", "http://HOST:PORT" },
	{ "proxies: {p: {type: connect, urls: [\"https://p.example.com\"]}}\n",
	  ":1:37: ", "TLS to the proxy itself", "stunnel" },
	{ "proxies: {p: {}}\n", ":1:14: ", "needs its 'urls'", NULL },
	{ "proxies: {p: {urls: [\"http://p.example.com\"], rotate: often}}\n",
	  ":1:55: ", "sticky, connection", NULL },
	{ "browser: yes\n", ":1:10: ", "true or false", NULL },
	{ "blocklists: [{file: nosuch.txt, category: x}]\n", ":1:21: ", "nosuch.txt", NULL },
	{ "allow: [{domain: a.com, ca: nosuch.pem}]\n", ":1:29: ", "nosuch.pem", NULL },
	{ "presets: [npmm]\n", ":1:11: ", "no preset 'npmm'", "npm" },
	{ "presets: [github-triage]\n", ":1:11: ", "needs its parameter 'repos'", NULL },
	{ "presets: [{github-triage: {repo: o/r}}]\n", ":1:28: ", "no parameter 'repo'", "repos" },
	{ "presets: [{github-triage: {repos: [\"*/*\"]}}]\n", ":1:36: ", "owner/name", NULL },
	{ "presets: [{github-triage: {repos: [o]}}]\n", ":1:36: ", "owner/name", NULL },
	{ "presets: [{github-triage: {repos: [o/..]}}]\n", ":1:36: ", "owner/name", NULL },
	{ "presets: [{github-triage: {repos: [o/r], prefix: \"**\"}}]\n", ":1:50: ", "branch's name", NULL },
	{ "allow:\n - {domain: a.com, to: 10.0.0.1}\n - {domain: a.com, to: 10.0.0.2}\n", "",
	  "differ in 'to:'", NULL },
};

static void test_wrong(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		struct policy *p = try_policy(w->text);
		bool ok = !p && strstr(last_err.msg, w->at) && strstr(last_err.msg, w->why) &&
			  (!w->hint || strstr(last_err.hint, w->hint));

		if (!CHECKF(ok, "the policy is refused with its reason: %s", w->text))
			printf("# %s (try: %s)\n", p ? "taken" : last_err.msg, last_err.hint);
		policy_free(p);
	}
}

static const struct {
	const char *text, *warning; /* NULL: none at all */
} warns[] = {
	{ "allow: [{domain: \"*.github.com\", port: 443}]\n", "does not cover github.com itself" },
	{ "allow: [{domain: \"*.github.com\"}, {domain: github.com}]\n", NULL },
	{ "deny: [{domain: b.com}]\n", "nothing allows it" },
	{ "allow: [{address: 9.9.9.9}]\ndeny: [{domain: b.com}]\n", "nothing allows it" },
	/* a.com may be an alias of b.com; aliases are judged by rules for port 443 */
	{ "allow: [{domain: a.com}]\ndeny: [{domain: b.com}]\n", NULL },
	{ "allow: [{domain: a.com, port: 80}]\ndeny: [{domain: b.com, port: 443}]\n", NULL },
	{ "allow: [{domain: \"*.a.com\"}, {domain: a.com}]\ndeny: [{domain: \"*.b.com\"}]\n", NULL },
	{ "ask: [{domain: a.com}]\ndeny: [{domain: b.com}]\n", NULL },
	{ "allow: [{domain: a.com}]\ndeny: [{domain: b.com, port: 80}]\n", "nothing allows it" },
	{ "mode: observe\ndeny: [{domain: b.com}]\n", NULL },
	{ "allow: [{domain: a.com}]\ndeny: [{domain: \"*\"}]\n", NULL },
	{ "allow: [{domain: a.com}]\ndeny: [{domain: a.com}]\n", "never allowed" },
	{ "allow: [{domain: a.com, port: 443}]\ndeny: [{domain: a.com}]\n", "still allows" },
	{ "allow: [{domain: a.com}, {domain: a.com}]\n", "is a duplicate" },
	{ "allow: [{domain: a.com, port: 22}]\n", NULL },
	{ "allow: [{domain: a.com, port: 25}]\n", "depth: tunnel" },
	{ "allow: [{domain: a.com, secret: {name: k, as: ssh}}]\n", NULL },
	{ "allow: [{domain: a.com, port: 22, depth: tunnel}]\n", NULL },
	{ "allow: [{domain: localhost, port: 80}]\n", "never be reached" },
	{ "allow: [{domain: db.internal, to: 10.0.0.1}]\n", "which is a private address" },
	{ "browser: true\nallow: [{domain: a.com}]\n", ":1:10: every site that the browser visits" },
	{ "egress:\n  allow: [{domain: a.com}]\n  browser: true\n", ":3:12: every site" },
	{ "browser: true\nrequire_pool: false\nallow: [{domain: a.com}]\n", NULL },
	{ "allow: [{domain: a.com, capture: {endpoint: POST /x, for: [b.com, \"c.com:8443/v1\"], as: header:x-key}}]\n",
	  NULL },
	{ "pool: p\nproxies: {p: {urls: [\"http://p.com\"], secret: x}}\nallow: [{domain: a.com}]\n", NULL },
	{ "pool: p\nproxies: {p: {urls: [\"http://p.com\"], credentials_file: x}}\nallow: [{domain: a.com}]\n",
	  "better kept in the vault" },
	{ "browser: true\npool: p\nproxies: {p: {urls: [\"http://p.com\"]}}\nallow: [{domain: a.com}]\n",
	  NULL },
	{ "allow: [{domain: a.com, http: [{allow: GET /x}, {deny: GET /x}]}]\n", "the stricter wins" },
	{ "presets: [npm, pypi, github-read]\n", NULL },
};

static void test_warnings(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(warns); i++) {
		struct policy *p = policy_of(warns[i].text);
		bool ok = warns[i].warning ? strstr(last_warnings, warns[i].warning) != NULL
					   : !last_warnings[0];

		if (!CHECKF(ok, "the policy gives %s: %s", warns[i].warning ? warns[i].warning : "no warning",
			    warns[i].text))
			printf("# %s\n", last_warnings);
		policy_free(p);
	}
}

static void test_owner(void)
{
	autofree char *path = write_scratch("p.yaml", "allow: [example.com]\n");
	const char *files[] = { path };
	struct config_policy_args a = { .files = files, .n_files = 1, .mode = -1 };
	struct policy *p;

	CHECK((p = load_args(&a)) != NULL);
	policy_free(p);
	CHECK(chmod(path, 0620) == 0);
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "others may write to"));
	CHECK(chmod(path, 0602) == 0);
	CHECK(load_args(&a) == NULL);
	a.for_checking = true;
	CHECK((p = load_args(&a)) != NULL && strstr(last_warnings, "others may write to"));
	policy_free(p);
	a.for_checking = false;
	CHECK(chmod(path, 0644) == 0);
	CHECK((p = load_args(&a)) != NULL);
	policy_free(p);
	files[0] = "/nonexistent/policy.yaml";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "cannot open the policy"));
	files[0] = "/tmp";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "is a directory"));
	files[0] = "/dev/zero";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "not a regular file"));
}

static size_t n_resolvers(const struct policy *p)
{
	const struct policy_resolver *r;

	return p ? policy_resolvers(p, &r) : 0;
}

/* --resolver beside resolvers: of a file. */
static void test_resolvers(void)
{
	autofree char *path = write_scratch("r.yaml", "resolvers: [9.9.9.9, \"10.0.0.53:5353\"]\n");
	const char *files[] = { path };
	const char *both[] = { "10.0.0.53:5353", "8.8.8.8", "10.0.0.53:5353" };
	const char *bad[] = { "dns.example.com", "9.9.9.9:0", "9.9.9.9:70000", "9.9.9",	       "",
			      "0.0.0.0",	 "ff02::fb",  "9.9.9.9/32",    "fe80::1%eth0", "[::1]:",
			      "1.1.1.1,9.9.9.9" };
	struct config_policy_args a = { .resolvers = both, .n_resolvers = 3, .mode = -1 };
	struct policy *p = load_args(&a);

	CHECKF(n_resolvers(p) == 2 && !last_conflicts[0],
	       "resolvers without a policy file are each used once");
	policy_free(p);
	a.files = files;
	a.n_files = 1;
	p = load_args(&a);
	CHECKF(n_resolvers(p) == 1 && strstr(last_conflicts, "--resolver 8.8.8.8: not used"),
	       "resolvers that the policy file does not name are reported and not used");
	policy_free(p);
	a.resolvers = both + 1;
	a.n_resolvers = 1;
	CHECKF(load_args(&a) == NULL && strstr(last_err.msg, "no resolver is in both lists"),
	       "a policy without a common resolver is an error");
	a.n_files = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		a.resolvers = &bad[i];
		CHECKF(load_args(&a) == NULL && strstr(last_err.msg, "--resolver"),
		       "--resolver '%s' is refused", bad[i]);
	}
}

/* A pattern of which the file allows a part has an effect; one of which it allows nothing has none. */
static void test_conflicts(void)
{
	autofree char *path = write_scratch(
		"c.yaml", "allow: [api.example.com, {domain: \"*.wide.example\", port: 8000-8100}]\n"
			  "deny: [{domain: no.wide.example, port: 8080}]\n");
	const char *files[] = { path };
	static const struct {
		const char *allow;
		bool in_vain;
	} rows[] = {
		{ "api.example.com", false },	  { "*.example.com", false },
		{ "api.example.com:80", true },	  { "*.other.example", true },
		{ "a.wide.example:8080", false }, { "no.wide.example:8080", true },
		{ "*.wide.example:8080", false }, { "*.wide.example:443", true },
		{ "api.example.com:any", false }, { "5.5.5.5", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		autostrv struct strv said = STRV_INIT;
		struct config_policy_args a = {
			.files = files, .n_files = 1, .allow = &rows[i].allow, .n_allow = 1, .mode = -1
		};

		CHECKF(config_policy_conflicts(&a, &said, &last_err) == 0 && said.n == rows[i].in_vain,
		       "the option --allow %s %s", rows[i].allow, rows[i].in_vain ? "is in vain" : "is not");
	}
}

/* --policy F --allow X: the stricter of both. */
static void test_command_line(void)
{
	autofree char *path = write_scratch("p.yaml", "mode: enforce\nallow: [a.example.com, b.example.com]\n"
						      "deny: [{domain: c.example.com}]\n");
	const char *files[] = { path };
	const char *texts[] = { "a.example.com", "c.example.com:443", "@npm", "*.d.example.com:8443" };
	struct config_policy_args a = {
		.files = files, .n_files = 1, .allow = texts, .n_allow = 4, .mode = -1
	};
	autostrv struct strv said = STRV_INIT;
	struct policy *p = load_args(&a);

	CHECK(p != NULL);
	CHECK(connect_is(p, "a.example.com:443", POLICY_ALLOW));
	CHECK(connect_is(p, "b.example.com:443", POLICY_DENY));
	CHECK(connect_is(p, "c.example.com:443", POLICY_DENY));
	CHECK(config_policy_conflicts(&a, &said, &last_err) == 0);
	CHECK(said.n == 3 && strstr(said.v[0], "c.example.com:443") && strstr(said.v[0], "stays denied") &&
	      strstr(said.v[0], "p.yaml:3"));
	policy_free(p);
	a.n_files = 0;
	p = load_args(&a);
	CHECK(p && connect_is(p, "x.d.example.com:8443", POLICY_ALLOW) &&
	      connect_is(p, "registry.npmjs.org:443", POLICY_ALLOW));
	policy_free(p);
	a.mode = POLICY_OBSERVE;
	p = load_args(&a);
	CHECK(p && policy_mode(p) == POLICY_OBSERVE);
	policy_free(p);
	a.n_files = 1;
	p = load_args(&a);
	CHECK(p && policy_mode(p) == POLICY_ENFORCE && strstr(last_conflicts, "the stricter wins"));
	policy_free(p);
	texts[0] = "@github-triage(repos=o/r,repos=o/s,prefix=me/)";
	a = (struct config_policy_args){ .allow = texts, .n_allow = 1, .mode = -1 };
	p = load_args(&a);
	CHECK(p && request_is(p, "GET", "https://api.github.com/repos/o/s/issues", POLICY_ALLOW));
	CHECK(request_is(p, "GET", "https://api.github.com/repos/o/t/issues", POLICY_DENY));
	policy_free(p);
	texts[0] = "*.com";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "public suffix"));
	texts[0] = "@github-triage";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "needs its parameter"));
	texts[0] = "@github-triage(repos=o/r";
	CHECK(load_args(&a) == NULL);
	texts[0] = "10.0.0.1:80";
	CHECK(load_args(&a) == NULL && strstr(last_err.msg, "private address"));
	a.n_allow = 0;
	p = load_args(&a);
	CHECK(p && policy_allows_nothing(p));
	policy_free(p);
}

static void test_seen(void)
{
	struct policy *p = policy_of("# gr\xc3\xbc\xc3\x9f"
				     "e \xe2\x9a\xa0\xef\xb8\x8f \xe6\x97\xa5\xe6\x9c\xac\r\n"
				     "version: 1\r\n"
				     "allow: [a.example.com]\t# x\r\n");

	CHECKF(p != NULL, "letters of any script in a comment and CR LF are accepted: %s", last_err.msg);
	policy_free(p);
}

static void test_whole(void)
{
	struct policy *p = policy_of(
		"version: 1\n"
		"egress:\n"
		"  mode: enforce\n"
		"  limits: {bytes_up: 1G, bandwidth: 10M/s, requests_per_minute: 600, connections: 50}\n"
		"  resolvers: [9.9.9.9, \"10.0.0.53:5353\", \"[2620:fe::fe]:53\"]\n"
		"  synthetic: 11.0.0.0/8\n"
		"  browser: true\n"
		"  pool: fast\n"
		"  proxies:\n"
		"    fast:\n"
		"      urls: [\"http://p1.example.com:3128\", \"socks5://p2.example.com\"]\n"
		"      credentials_file: creds\n"
		"      rotate: connection\n"
		"      sticky: 10m\n"
		"      check: example.com:443\n"
		"  allow:\n"
		"    - domain: a.example.com\n");
	const struct policy_resolver *res;
	const struct policy_proxies *sets;
	struct addr_range syn;

	CHECK(policy_limits(p).bytes_up == 1u << 30 && policy_limits(p).bandwidth == 10u << 20);
	CHECK(policy_limits(p).requests_per_minute == 600 && policy_limits(p).connections == 50);
	CHECK(policy_resolvers(p, &res) == 3 && res[1].port == 5353 && res[0].port == 53);
	CHECK(policy_synthetic(p, &syn) && addr_range_len(&syn) == 8);
	CHECK(policy_is_browser(p) && policy_needs_proxies(p));
	CHECK(policy_proxies(p, &sets) == 1 && sets[0].n_proxies == 2 && sets[0].proxies[1].port == 1080);
	CHECK(sets[0].rotate == POLICY_ROTATE_CONNECTION && sets[0].sticky_seconds == 600);
	CHECK(connect_is(p, "a.example.com:443", POLICY_ALLOW));
	CHECK_STR(last.terms.proxy_set, "fast");
	CHECK(policy_generation(p) == 7);
	policy_free(p);
	p = policy_of("require_pool: true\nallow: [a.example.com]\n");
	CHECK(connect_is(p, "a.example.com:443", POLICY_DENY) && strstr(last.why, "proxy set"));
	policy_free(p);
}

static void test_secrets(void)
{
	static const char text[] =
		"allow:\n"
		"  - {domain: a.example.com, secret: one}\n"
		"  - {domain: \"*.example.com\", ports: [443, 8443], secret: {name: two, env: MY_TOKEN, as: \"header:x-key\"}}\n";
	struct config_policy cp = { 0 };
	struct err e = ERR_INIT;

	CHECK(config_policy_parse("x", text, sizeof(text) - 1, &cp, &e) == 0 && cp.n_secrets == 2);
	if (cp.n_secrets == 2) {
		CHECK_STR(cp.secrets[0].name, "one");
		CHECK_STR(cp.secrets[0].host, "a.example.com");
		CHECK(cp.secrets[0].port == 443 && !cp.secrets[0].env[0] && !cp.secrets[0].as[0]);
		CHECK_STR(cp.secrets[1].env, "MY_TOKEN");
		CHECK_STR(cp.secrets[1].as, "header:x-key");
		CHECK(!cp.secrets[1].host[0] && cp.secrets[1].port == 0);
	}
	config_policy_release(&cp);
}

int main(void)
{
	test_wrong();
	test_warnings();
	test_owner();
	test_resolvers();
	test_conflicts();
	test_command_line();
	test_seen();
	test_whole();
	test_secrets();
	return tap_done();
}
