/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that were granted on top of a policy: where they speak, where they do not, and what may be asked for. */
#include "config/edit/widen.h"
#include "policytest.h"

static const char base[] =
	"version: 1\negress:\n  allow:\n    - domain: api.example.com\n      http:\n"
	"        - allow: GET /**\n        - deny: GET /secret/**\n        - ask: PUT /asked\n"
	"      graphql:\n        - allow: query *\n"
	"    - domain: plain.example.com\n  ask:\n    - domain: asked.example.com\n"
	"  deny:\n    - domain: evil.example.com\n    - domain: \"*.bad.example.org\"\n"
	"    - domain: \"*\"\n      port: 22\n";

/* The policy with these on top, through a bundle. Released by nobody: a test is short. */
/* Until the end: what is looked up points into them. */
static struct policy *all[256];
static size_t n_all;

static struct policy *kept(struct policy *p)
{
	if (n_all == sizeof(all) / sizeof(all[0]))
		exit(99);
	all[n_all++] = p;
	return p;
}

static struct policy *with(struct policy *p, const char *const *rules, size_t n)
{
	static struct buf bundles[64];
	static size_t at;
	struct policy_rule r[8];
	struct policy *ret = NULL;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < n; i++) {
		r[i] = POLICY_RULE_INIT;
		if (widen_parse(rules[i], &r[i], NULL, &e) < 0) {
			fprintf(stderr, "%s: %s\n", rules[i], e.msg);
			exit(99);
		}
		snprintf(r[i].source, sizeof(r[i].source), "question 1-%zu", i + 1);
	}
	if (policy_widen(p, r, n, &e) < 0 || policy_pack(p, &bundles[at], &e) < 0 ||
	    policy_unpack(bundles[at].data, bundles[at].len, &ret, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(99);
	}
	at++;
	return kept(ret);
}

#define WITH(p, ...)                                  \
	with(p, (const char *const[]){ __VA_ARGS__ }, \
	     sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static bool request(const struct policy *p, const char *method, const char *url, enum policy_action want)
{
	struct policy_request r = { .is_body_known = true };

	ask_request(p, method, url, &r);
	return answered(url, want);
}

static void test_connect(const char *text)
{
	struct policy *p = kept(policy_of(text)), *w;

	w = WITH(p, "new.example.org", "new.example.org:8443", "*.below.example.net", "93.184.216.7:5432");
	CHECK(connect_is(w, "new.example.org:443", POLICY_ALLOW) && strstr(last.rule_text, "question 1-1"));
	CHECK(connect_is(w, "new.example.org:8443", POLICY_ALLOW));
	CHECK(connect_is(w, "new.example.org:80", POLICY_DENY));
	CHECK(connect_is(w, "x.below.example.net:443", POLICY_ALLOW));
	CHECK(connect_is(w, "below.example.net:443", POLICY_DENY));
	CHECK(connect_is(w, "93.184.216.7:5432", POLICY_ALLOW));
	CHECK(connect_is(w, "93.184.216.8:5432", POLICY_DENY));
	CHECK(connect_is(w, "other.example.org:443", POLICY_DENY));
	CHECK(name_is(w, "new.example.org", true) && name_is(w, "other.example.org", false));
	/* The destination of a name is as it was. */
	CHECK(address_is(w, "new.example.org:443", "10.0.0.1", POLICY_DENY));
	CHECK(address_is(w, "new.example.org:443", "93.184.216.9", POLICY_ALLOW));
	/* Taken out again. */
	w = with(p, NULL, 0);
	CHECK(connect_is(w, "new.example.org:443", POLICY_DENY) && name_is(w, "new.example.org", false));
}

/* Every verdict of the policy about a target stays as it is, also against a rule that is more specific. */
static void test_stricter(void)
{
	struct policy *w =
		WITH(kept(policy_of(base)), "evil.example.com", "x.bad.example.org:8443", "asked.example.com",
		     "new.example.org:22", "api.example.com", "GET https://api.example.com/secret/**",
		     "PUT https://api.example.com/asked", "POST https://api.example.com/graphql");
	struct policy_request r = { .is_body_known = true };

	CHECK(connect_is(w, "evil.example.com:443", POLICY_DENY));
	CHECK(connect_is(w, "x.bad.example.org:8443", POLICY_DENY));
	CHECK(connect_is(w, "asked.example.com:443", POLICY_ASK));
	CHECK(connect_is(w, "new.example.org:22",
			 POLICY_DENY)); /* every name, on this port: said on purpose */
	CHECK(request(w, "GET", "https://api.example.com/secret/x", POLICY_DENY));
	CHECK(request(w, "PUT", "https://api.example.com/asked", POLICY_ASK));
	CHECK(request(w, "DELETE", "https://api.example.com/x",
		      POLICY_DENY)); /* a host does not open what is listed */
	ask_request(w, "POST", "https://api.example.com/graphql", &r);
	CHECK(answered("graphql", POLICY_DENY)); /* nor does a path what graphql: decides */
}

static void test_requests(void)
{
	struct policy *w = WITH(kept(policy_of(base)), "POST https://api.example.com/v1/**",
				"GET https://fresh.example.org/a/*", "GET http://old.example.org/x");

	CHECK(request(w, "POST", "https://api.example.com/v1/a/b", POLICY_ALLOW) &&
	      strstr(last.rule_text, "question"));
	CHECK(request(w, "POST", "https://api.example.com/v2", POLICY_DENY));
	CHECK(request(w, "GET", "https://api.example.com/x", POLICY_ALLOW));
	CHECK(connect_is(w, "fresh.example.org:443", POLICY_ALLOW) && last.depth == POLICY_INSPECT);
	CHECK(request(w, "GET", "https://fresh.example.org/a/b", POLICY_ALLOW));
	CHECK(request(w, "GET", "https://fresh.example.org/a/b/c", POLICY_DENY));
	CHECK(request(w, "POST", "https://fresh.example.org/a/b", POLICY_DENY));
	CHECK(connect_is(w, "old.example.org:80", POLICY_ALLOW) &&
	      connect_is(w, "old.example.org:443", POLICY_DENY));
	CHECK(policy_needs_ca(w) && policy_is_widened_by(w, "question 1-2") &&
	      !policy_is_widened_by(w, "question 9"));
}

static bool no_higher(uint64_t limit, uint64_t of)
{
	return !of || (limit && limit <= of);
}

/* Is `t` at least as strict as `of`? */
static bool no_looser(const struct policy_terms *t, const struct policy_terms *of)
{
	return no_higher(t->limits.bytes_up, of->limits.bytes_up) &&
	       no_higher(t->limits.bandwidth, of->limits.bandwidth) &&
	       no_higher(t->limits.requests_per_minute, of->limits.requests_per_minute) &&
	       no_higher(t->limits.connections, of->limits.connections) && t->has_pin == of->has_pin &&
	       (!of->has_pin || (addr_eq(&t->pin, &of->pin) && t->pin_port == of->pin_port)) &&
	       (!of->proxy_set || (t->proxy_set && str_eq(t->proxy_set, of->proxy_set))) &&
	       (!of->secret || (t->secret && str_eq(t->secret, of->secret))) &&
	       (!of->capture || t->capture) && t->secret_ask >= of->secret_ask &&
	       t->credentials_only >= of->credentials_only;
}

static void add_random_rule(struct buf *b, const char *entry, unsigned *seed, bool first)
{
	static const char *const terms[] = { "      credentials: only\n",
					     "      limits: {requests_per_minute: 3, connections: 2}\n",
					     "      limits: {bytes_up: 4k, bandwidth: 2k}\n" };
	unsigned bits = (unsigned)rand_r(seed);

	buf_adds(b, "    - domain: api.sec.test\n      pool: p\n");
	if (first && bits & 1)
		buf_adds(b, "      secret: {name: github, ask: true}\n");
	else if (first && bits & 2)
		buf_adds(b, "      secret: github\n");
	if (bits & 4)
		buf_adds(b, "      capture: {endpoint: POST /token}\n");
	if (bits & 8)
		buf_adds(b, terms[0]);
	if (bits & 16)
		buf_adds(b, terms[1 + !(bits & 32)]);
	buf_addf(b, "      http:\n        - allow: %s\n", entry);
}

/* The terms of a rule beside its list of requests hold for those that were granted on top of it. */
static void test_terms(void)
{
	struct policy_terms of;
	struct policy *w = WITH(
		kept(policy_of(
			"version: 1\negress:\n  allow:\n    - domain: api.sec.test\n"
			"      secret: {name: github, ask: true}\n      credentials: only\n"
			"      to: 93.184.216.7:8443\n      capture: {endpoint: POST /token}\n"
			"      limits: {requests_per_minute: 3, connections: 2, bytes_up: 4k, bandwidth: 2k}\n"
			"      http:\n        - allow: GET /**\n")),
		"POST https://api.sec.test/unlisted");

	CHECK(request(w, "GET", "https://api.sec.test/x", POLICY_ALLOW));
	of = last.terms;
	CHECK(of.secret && of.secret_ask && of.credentials_only && of.has_pin && of.capture &&
	      of.limits.requests_per_minute == 3);
	CHECK(request(w, "POST", "https://api.sec.test/unlisted", POLICY_ALLOW) &&
	      strstr(last.rule_text, "question"));
	CHECK(no_looser(&last.terms, &of));
	CHECK(request(w, "POST", "https://api.sec.test/other", POLICY_DENY));
}

static void test_terms_random(void)
{
	unsigned seed = 20;
	bool good = true;

	for (int i = 0; i < 40; i++) {
		autobuf struct buf b = BUF_INIT;
		struct policy_terms of[2];
		struct policy *w;

		buf_adds(&b, "version: 1\negress:\n  proxies: {p: {urls: [\"socks5://93.184.216.9:1080\"]}}\n"
			     "  allow:\n");
		add_random_rule(&b, "GET /a", &seed, true);
		add_random_rule(&b, "GET /b", &seed, false);
		w = WITH(kept(policy_of(buf_cstr(&b))), "POST https://api.sec.test/unlisted");
		good = request(w, "GET", "https://api.sec.test/a", POLICY_ALLOW) && good;
		of[0] = last.terms;
		good = request(w, "GET", "https://api.sec.test/b", POLICY_ALLOW) && good;
		of[1] = last.terms;
		good = request(w, "POST", "https://api.sec.test/unlisted", POLICY_ALLOW) && good;
		if (!good || !no_looser(&last.terms, &of[0]) || !no_looser(&last.terms, &of[1])) {
			printf("# %s", buf_cstr(&b));
			good = false;
			break;
		}
	}
	CHECK(good);
}

/* All layers have to let it through, and have nothing to say; blocklists and proxy sets hold. */
static void test_layers(void)
{
	struct policy *w = WITH(kept(policy_of2("allow:\n  - a.example.com\n",
						"allow:\n  - b.example.com\ndeny:\n  - c.example.com\n")),
				"new.example.org", "c.example.com");
	struct policy *none = NULL;
	struct err e = ERR_INIT;

	CHECK(connect_is(w, "new.example.org:443", POLICY_ALLOW) &&
	      connect_is(w, "c.example.com:443", POLICY_DENY));
	CHECK(connect_is(w, "a.example.com:443", POLICY_DENY));
	/* A policy without a word: the rules on top are all there is. */
	CHECK(policy_new(POLICY_ENFORCE, &none, &e) == 0 && policy_seal(none, &e) == 0);
	w = WITH(kept(none), "new.example.org", "GET https://fresh.example.org/a");
	CHECK(connect_is(w, "new.example.org:443", POLICY_ALLOW) &&
	      connect_is(w, "x.example.org:443", POLICY_DENY));
	CHECK(request(w, "GET", "https://fresh.example.org/a", POLICY_ALLOW));
	CHECK(request(w, "GET", "https://fresh.example.org/b", POLICY_DENY));
}

static void test_digest(void)
{
	struct policy *p = kept(policy_of(base));
	unsigned char a[POLICY_DIGEST_LEN], b[POLICY_DIGEST_LEN];

	policy_digest(p, a);
	WITH(p, "new.example.org");
	policy_digest(p, b);
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	with(p, NULL, 0);
	policy_digest(p, b);
	CHECK(memcmp(a, b, sizeof(a)) == 0);
}

static int check(const struct policy *p, const char *text)
{
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	int x;

	last_err = ERR_INIT;
	x = widen_parse(text, &r, NULL, &last_err);
	return x < 0 ? x : policy_widen_check(p, &r, &last_err);
}

static void test_check(void)
{
	static const struct {
		const char *text;
		int r;
	} v[] = {
		{ "new.example.org", 0 },
		{ "*.example.net:8443", 0 },
		{ "93.184.216.7", 0 },
		{ "POST https://api.example.com/v1", 0 },
		{ "plain.example.com", -EEXIST },
		{ "GET https://plain.example.com/x", -EEXIST },
		{ "GET https://api.example.com/x", -EEXIST },
		{ "PUT https://api.example.com/asked", -EEXIST },
		{ "asked.example.com", -EEXIST },
		{ "api.example.com", -EPERM },
		{ "GET https://api.example.com/secret/**", -EPERM },
		{ "evil.example.com", -EPERM },
		{ "*.bad.example.org", -EPERM },
		{ "new.example.org:22", -EPERM },
		{ "*", -EINVAL },
		{ "*.com", -EINVAL },
		{ "*.co.uk", -EINVAL },
		{ "127.0.0.1:80", -EINVAL },
		{ "10.0.0.0/8", -EINVAL },
		{ "[::1]:443", -EINVAL },
		{ "[fd00::1]:443", -EINVAL },
		{ "localhost", -EINVAL },
		{ "nas.local", -EINVAL },
		{ "*.home.arpa", -EINVAL },
		{ "home.arpa", -EINVAL },
		{ "*.local", -EINVAL },
		{ "*.x.internal", -EINVAL },
		{ "POST https://x.example.org:80/up", -EINVAL },
		{ "GET http://x.example.org:443/up", -EINVAL },
		{ "GET http://x.example.org:8443/up", 0 },
		{ "a b", -EINVAL },
		{ "GET https://x.example.org", -EINVAL },
		{ "GET https://x.example.org/a?b", -EINVAL },
		{ "GET https://x.example.org:any/a", -EINVAL },
		{ "GET  https://x.example.org/a", -EINVAL },
		{ "get https://x.example.org/a", -EINVAL },
		{ "x.example.org:0", -EINVAL },
		{ "x.example.org:", -EINVAL },
		{ "", -EINVAL },
		{ "@npm", -EINVAL },
		{ "2130706433", -EINVAL },
	};
	struct policy *p = kept(policy_of(base));

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		int r = check(p, v[i].text);

		if (r != v[i].r)
			printf("# %s: %d, %s\n", v[i].text, r, last_err.msg);
		CHECK(r == v[i].r && (r == 0 || last_err.msg[0]));
	}
	p = kept(policy_of("mode: observe\nallow: []\n"));
	CHECK(check(p, "new.example.org") == -EEXIST);
}

static void test_canon(void)
{
	static const char *const v[][2] = {
		{ "NEW.example.org", NULL },
		{ "new.example.org", "new.example.org:443" },
		{ "new.example.org:8443", "new.example.org:8443" },
		{ "new.example.org:any", "new.example.org:any" },
		{ "2606:4700::0001", "[2606:4700::1]:443" },
		{ "GET https://x.example.org:443/a/**", "GET https://x.example.org/a/**" },
		{ "POST,GET http://x.example.org:8080/a", "GET,POST http(s)://x.example.org:8080/a" },
		{ "GET https://x.example.org:8443/a", "GET http(s)://x.example.org:8443/a" },
		{ "GET http(s)://x.example.org:8443/a", "GET http(s)://x.example.org:8443/a" },
		{ "GET http(s)://x.example.org:443/a", NULL },
		{ "GET http(s)://x.example.org:80/a", NULL },
		{ "GET http(s)://x.example.org/a", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
		autobuf struct buf canon = BUF_INIT;
		int x = widen_parse(v[i][0], &r, &canon, &last_err);

		if (v[i][1] && (x < 0 || !str_eq(buf_cstr(&canon), v[i][1])))
			printf("# %s: %s\n", v[i][0], x < 0 ? last_err.msg : buf_cstr(&canon));
		CHECK(v[i][1] ? x == 0 && str_eq(buf_cstr(&canon), v[i][1]) : x < 0);
	}
}

static void test_places(void)
{
	autofree char *path = write_scratch("team.yaml", "deny: [{domain: bad.example.com}]\n");
	const char *files[] = { path };
	struct config_policy_args a = { .files = files, .n_files = 1, .mode = -1 };
	CLEANUP(config_policy_release) struct config_policy cp = { 0 };
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	autobuf struct buf canon = BUF_INIT;
	struct err e = ERR_INIT;

	CHECK(config_policy_load(&a, &cp, &e) == 0 && widen_parse("bad.example.com", &r, &canon, &e) == 0);
	CHECK(policy_widen_check(cp.policy, &r, &e) == -EPERM);
	CHECKF(strstr(e.msg, "(team.yaml:1)") && !strstr(e.msg, scratch()),
	       "a denied agent is not told where the policy is: %s", e.msg);
}

int main(void)
{
	test_places();
	test_connect(base);
	test_connect("allow:\n  - plain.example.com\ndeny:\n  - \"*\"\n");
	test_stricter();
	test_requests();
	test_terms();
	test_terms_random();
	test_layers();
	test_digest();
	test_check();
	test_canon();
	while (n_all)
		policy_free(all[--n_all]);
	return tap_done();
}
