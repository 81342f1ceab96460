/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/inject.h"

#include "tap.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define PH_A "ghp_AAAAbbbbCCCCddddEEEEffff"
#define PH_B "123456:BBBBccccDDDDeeeeFFFFgggg"
#define REAL_A "ghp_real+secret/value=\"x\"&y"
#define REAL_B "654321:real-bot-token_value-123"

static struct vault_grants grants;

static void add(uint32_t handle, const char *name, const char *ph, const char *const *bind,
		const char *const *as, const char *user, size_t n)
{
	struct vault_grant *g = grants_add(&grants);
	struct err e = ERR_INIT;

	if (!g)
		abort();
	g->handle = handle;
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->placeholder_len = strlen(ph);
	memcpy(g->placeholder, ph, g->placeholder_len + 1);
	for (size_t i = 0; i < n; i++) {
		struct binding *b = &g->bindings[g->n_bindings++];

		if (binding_parse_host(bind[i], strlen(bind[i]), 0, b, &e) < 0 ||
		    binding_parse_as(as[i], strlen(as[i]), b, &e) < 0 ||
		    (user && b->as == BINDING_AS_BASIC && binding_set_user(b, user, &e) < 0)) {
			printf("# %s\n", e.msg);
			abort();
		}
	}
}

static void set_up(void)
{
	static const char *const a_bind[] = { "api.example.com/v1", "git.example.com", "git.example.com",
					      "q.example.com",	    "c.example.com",   "h.example.com",
					      "b.example.com" };
	static const char *const a_as[] = { "bearer",		"basic", "bearer", "query:key", "cookie:sid",
					    "header:X-Api-Key", "body" };
	static const char *const b_bind[] = { "bot.example.com", "u.example.com", "b.example.com" };
	static const char *const b_as[] = { "path", "basic", "bearer" };

	add(7, "github", PH_A, a_bind, a_as, NULL, 7);
	add(9, "bot", PH_B, b_bind, b_as, "robot", 3);
}

struct ask {
	const char *host, *target;
	const char *name, *value; /* one field */
	const char *body, *type;
	bool plain;
	const char *rule;
};

static void fill(struct http_req *q, const struct ask *a)
{
	struct err e = ERR_INIT;

	memset(q, 0, sizeof(*q));
	if (urlpath_canon(a->target, strlen(a->target), URLPATH_KEEP_SLASH, &q->target, &q->url, &e) < 0 ||
	    http_fields_add(&q->fields, slice_of("accept-encoding"), slice_of("gzip")) < 0 ||
	    (a->name && http_fields_add(&q->fields, slice_of(a->name), slice_of(a->value)) < 0) ||
	    (a->type && http_fields_add(&q->fields, slice_of("Content-Type"), slice_of(a->type)) < 0))
		abort();
	q->has_body = a->body != NULL;
}

static void empty(struct http_req *q)
{
	buf_release(&q->target);
	http_fields_release(&q->fields);
}

static struct inject_dest dest(const struct ask *a)
{
	return (struct inject_dest){
		.host = a->host, .port = 443, .tls = !a->plain, .rule_secret = a->rule, .by_line = ~0ull
	};
}

static struct inject_refusal no;

static int finds(const struct ask *a, struct inject_plan *p)
{
	struct inject_dest d = dest(a);
	struct http_req *q = calloc(1, sizeof(*q));
	int r;

	fill(q, a);
	no = (struct inject_refusal){ 0 };
	r = inject_find(&grants, &d, q, a->body ? slice_of(a->body) : SLICE_NONE, p, &no);
	empty(q);
	free(q);
	return r < 0 ? r : (int)p->n;
}

/* The expected request: target, the field, the body. NULL: not looked at. */
static bool renders(const struct ask *a, const char *target, const char *value, const char *body)
{
	struct inject_dest d = dest(a);
	struct http_req *q = calloc(1, sizeof(*q));
	struct inject_out *out = calloc(1, sizeof(*out));
	struct slice v[INJECT_MAX], in = a->body ? slice_of(a->body) : SLICE_NONE;
	struct inject_plan p;
	bool ok;

	fill(q, a);
	ok = inject_find(&grants, &d, q, in, &p, &no) == 0;
	for (unsigned i = 0; i < p.n; i++)
		v[i] = slice_of(p.grant[i] == 0 ? REAL_A : REAL_B);
	ok = ok && inject_render(&grants, &d, q, in, &p, v, out) == 0;
	ok = ok && (!target || strcmp(buf_cstr(&out->target), target) == 0);
	ok = ok && (!value || slice_eq(http_fields_get(&out->fields, a->name), value));
	ok = ok && (!body || strcmp(buf_cstr(&out->body), body) == 0);
	ok = ok && slice_eq(http_fields_get(&out->fields, "accept-encoding"), "identity");
	if (!ok)
		printf("# %s | %s\n", buf_cstr(&out->target), buf_cstr(&out->fields.text));
	inject_out_release(out);
	empty(q);
	free(out);
	free(q);
	return ok;
}

static const char *basic(const char *pair)
{
	static char text[512];

	snprintf(text, sizeof(text), "Basic ");
	sodium_bin2base64(text + 6, sizeof(text) - 6, (const unsigned char *)pair, strlen(pair),
			  sodium_base64_VARIANT_ORIGINAL);
	return text;
}

static void test_places(void)
{
	struct inject_plan p;
	char sent[512];

	CHECK(finds(&(struct ask){ "api.example.com", "/v1/x", "Authorization", "Bearer " PH_A }, &p) == 1 &&
	      p.grant[0] == 0);
	CHECK(finds(&(struct ask){ "api.example.com", "/v1", "Authorization", "token " PH_A }, &p) == 1);
	CHECK(finds(&(struct ask){ "api.example.com", "/v1/x", "X-Other", "nothing" }, &p) == 0);
	CHECK(renders(&(struct ask){ "api.example.com", "/v1/x?a=b", "Authorization", "Bearer " PH_A },
		      "/v1/x?a=b", "Bearer " REAL_A, NULL));
	snprintf(sent, sizeof(sent), "%s", basic("me:" PH_A));
	CHECK(renders(&(struct ask){ "git.example.com", "/", "authorization", sent }, NULL,
		      basic("me:" REAL_A), NULL));
	snprintf(sent, sizeof(sent), "%s", basic("anybody:" PH_B));
	CHECKF(renders(&(struct ask){ "u.example.com", "/", "authorization", sent }, NULL,
		       basic("robot:" REAL_B), NULL),
	       "a Basic credential gets the user that the binding names");
	CHECK(renders(&(struct ask){ "q.example.com", "/s?x=1&key=" PH_A "&y=2", "a", "b" },
		      "/s?x=1&key=ghp_real%2Bsecret%2Fvalue%3D%22x%22%26y&y=2", NULL, NULL));
	CHECK(renders(&(struct ask){ "bot.example.com", "/bot" PH_B "/getMe?q=%3A", "a", "b" },
		      "/bot654321%3Areal-bot-token_value-123/getMe?q=%3A", NULL, NULL));
	CHECKF(renders(&(struct ask){ "bot.example.com", "/bot123456%3ABBBBccccDDDDeeeeFFFFgggg/a%3Ab", "a",
				      "b" },
		       "/bot654321%3Areal-bot-token_value-123/a%3Ab", NULL, NULL),
	       "a placeholder with an encoded colon in the path is replaced");
	CHECK(renders(&(struct ask){ "h.example.com", "/", "x-api-key", PH_A }, "/", REAL_A, NULL));
	CHECKF(!renders(&(struct ask){ "c.example.com", "/", "Cookie", "a=b; sid=" PH_A "; c=d" }, NULL,
			"a=b; sid=" REAL_A "; c=e", NULL),
	       "control: a rendered cookie that differs is detected");
	CHECK(renders(&(struct ask){ "c.example.com", "/", "Cookie", "a=b; sid=" PH_A "; c=d" }, NULL,
		      "a=b; sid=" REAL_A "; c=d", NULL));
}

static void test_body(void)
{
	struct ask json = { "b.example.com",	"/",   NULL, NULL, "{\"k\":\"" PH_A "\"}",
			    "application/json", false, NULL };
	struct ask form = {
		"b.example.com", "/", NULL, NULL, "a=1&k=" PH_A, "application/x-www-form-urlencoded",
		false,		 NULL
	};
	struct ask other = { "h.example.com",	 "/",	NULL, NULL, "{\"k\":\"" PH_A "\"}",
			     "application/json", false, NULL };
	struct ask both = { "b.example.com",
			    "/",
			    "Authorization",
			    "Bearer " PH_B,
			    "{\"k\":\"" PH_A "\",\"x\":\"" PH_B "\"}",
			    "application/json",
			    false,
			    NULL };
	struct ask packed = json;
	struct inject_plan p;

	CHECK(renders(&json, NULL, NULL, "{\"k\":\"ghp_real+secret/value=\\\"x\\\"&y\"}"));
	CHECK(renders(&form, NULL, NULL, "a=1&k=ghp_real%2Bsecret%2Fvalue%3D%22x%22%26y"));
	CHECKF(finds(&other, &p) == 0 && !p.in_body,
	       "a placeholder in a body stays where no binding allows a body");
	CHECKF(renders(&both, NULL, "Bearer " REAL_B,
		       "{\"k\":\"ghp_real+secret/value=\\\"x\\\"&y\",\"x\":\"" PH_B "\"}"),
	       "a header's placeholder stays in a body that another binding allows");
	packed.name = "Content-Encoding";
	packed.value = "gzip";
	CHECK(finds(&packed, &p) == 0);
}

static void test_refused(void)
{
	static const struct {
		struct ask a;
		const char *why;
	} cases[] = {
		{ { "evil.example.com", "/", "Authorization", "Bearer " PH_A }, "evil.example.com:443" },
		{ { "api.example.com", "/v2", "Authorization", "Bearer " PH_A }, "bound to" },
		{ { "api.example.com", "/v10", "Authorization", "Bearer " PH_A }, "bound to" },
		{ { "api.example.com", "/v1", "X-Api-Key", PH_A }, "x-api-key" },
		{ { "api.example.com", "/v1", "Authorization", "Bearer x" PH_A }, "authorization" },
		{ { "api.example.com", "/v1?key=" PH_A, "a", "b" }, "query" },
		{ { "api.example.com", "/v1/" PH_A, "a", "b" }, "path" },
		{ { "api.example.com", "/v1", "Cookie", "sid=" PH_A }, "cookie" },
		{ { "q.example.com", "/?key=x" PH_A, "a", "b" }, "query" },
		{ { "q.example.com", "/?" PH_A "=key", "a", "b" }, "query" },
		{ { "q.example.com", "/?other=" PH_A, "a", "b" }, "query" },
		{ { "c.example.com", "/", "Cookie", "other=" PH_A }, "cookie" },
		{ { "h.example.com", "/", PH_A, "x" }, "name" },
		{ { "bot.example.com", "/", "Authorization", "Bearer " PH_A }, "bot.example.com" },
		{ { .host = "api.example.com",
		    .target = "/v1",
		    .name = "Authorization",
		    .value = "Bearer " PH_A,
		    .plain = true },
		  "without TLS" },
		{ { .host = "api.example.com",
		    .target = "/v1",
		    .name = "Authorization",
		    .value = "Bearer " PH_A,
		    .rule = "other" },
		  "another secret" },
	};
	struct inject_plan p;
	char sent[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = finds(&cases[i].a, &p);

		CHECKF(r == -EACCES && strstr(no.why, cases[i].why) && strstr(no.why, "'github'"),
		       "the placeholder is refused at %s%s: %s", cases[i].a.host, cases[i].a.target, no.why);
	}
	snprintf(sent, sizeof(sent), "%s", basic("me:" PH_A));
	CHECKF(finds(&(struct ask){ "evil.example.com", "/", "Authorization", sent }, &p) == -EACCES,
	       "a placeholder in a Basic credential is refused at another host");
}

static void test_value(void)
{
	struct ask a = { "h.example.com", "/", "x-api-key", PH_A, NULL, NULL, false, NULL };
	struct inject_dest d = dest(&a);
	struct http_req *q = calloc(1, sizeof(*q));
	struct inject_out *out = calloc(1, sizeof(*out));
	struct slice v = slice_of("one\r\nHost: other");
	struct inject_plan p;

	fill(q, &a);
	CHECK(inject_find(&grants, &d, q, SLICE_NONE, &p, &no) == 0);
	CHECKF(inject_render(&grants, &d, q, SLICE_NONE, &p, &v, out) == -EINVAL,
	       "a secret with a line break is not rendered in a header");
	inject_out_release(out);
	empty(q);
	free(q);
	free(out);
}

static bool ours(const char *name, const char *value)
{
	return inject_is_ours(&grants, slice_of(name), slice_of(value));
}

static void test_ours(void)
{
	char text[512];

	CHECK(ours("Authorization", "Bearer " PH_A) && ours("authorization", PH_A) &&
	      ours("x-api-key", PH_A));
	CHECK(!ours("Authorization", "Bearer x") && !ours("Authorization", "Bearer " PH_A " x"));
	snprintf(text, sizeof(text), "%s", basic("me:" PH_A));
	CHECK(ours("Authorization", text));
	snprintf(text, sizeof(text), "%s", basic(PH_B ":"));
	CHECK(ours("Authorization", text));
	snprintf(text, sizeof(text), "%s", basic("me:other"));
	CHECK(!ours("Authorization", text));
	snprintf(text, sizeof(text), "%s", basic("ghp_abcdefghijABCDEFGHIJ0123456789abcdef:" PH_A));
	CHECKF(!ours("Authorization", text), "a foreign token as the user of a Basic credential is detected");
	snprintf(text, sizeof(text), "%s", basic("0123456789abcdefghij:" PH_A));
	CHECKF(!ours("Authorization", text), "a user name that may be a foreign key is detected");
	snprintf(text, sizeof(text), "%s", basic("0123456789abcdefghij:" PH_B));
	CHECKF(ours("Authorization", text),
	       "a foreign user is accepted where the binding's user replaces it");
	snprintf(text, sizeof(text), "%s", basic("x-access-token:" PH_A));
	CHECK(ours("Authorization", text));
	CHECK(ours("Cookie", "a=" PH_A "; b=" PH_B) && !ours("Cookie", "a=" PH_A "; s=x"));
	CHECK(inject_is_ours_param(&grants, slice_of(PH_B)) &&
	      !inject_is_ours_param(&grants, slice_of("x" PH_B)));
	CHECK(inject_is_bound(&grants, "bot.example.com", 443) &&
	      !inject_is_bound(&grants, "bot.example.com", 80) &&
	      !inject_is_bound(&grants, "example.com", 443));
}

int main(void)
{
	set_up();
	test_places();
	test_body();
	test_refused();
	test_value();
	test_ours();
	grants_release(&grants);
	return tap_done();
}
