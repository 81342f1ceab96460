/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/foreign_cred.h"

#include "tap.h"

#include <stdlib.h>

#define PH "ghp_AAAAbbbbCCCCddddEEEEffff11112222"
#define BOT "123456789:AAbbbbCCCCddddEEEEffff1111222233xyz"
#define OTHER "ghp_Zq7xW3eR5tY8uI2oP4aS6dF9gH1jK0lM"

static struct vault_grants grants;
static struct foreign_cred t;

static void add(const char *name, const char *ph, const char *host, const char *as)
{
	struct vault_grant *g = grants_add(&grants);
	struct err e = ERR_INIT;

	if (!g || binding_parse_host(host, strlen(host), 0, &g->bindings[0], &e) < 0 ||
	    binding_parse_as(as, strlen(as), &g->bindings[0], &e) < 0)
		abort();
	g->handle = (uint32_t)grants.n;
	g->n_bindings = 1;
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->placeholder_len = strlen(ph);
	memcpy(g->placeholder, ph, g->placeholder_len + 1);
}

struct ask {
	const char *target, *name, *value, *type, *body;
};

static bool has(const char *host, const struct ask *a)
{
	struct http_req *q = calloc(1, sizeof(*q));
	struct err e = ERR_INIT;
	bool r;

	if (!q ||
	    urlpath_canon(a->target, strlen(a->target), URLPATH_KEEP_SLASH, &q->target, &q->url, &e) < 0 ||
	    (a->name && http_fields_add(&q->fields, slice_of(a->name), slice_of(a->value)) < 0) ||
	    (a->type && http_fields_add(&q->fields, slice_of("Content-Type"), slice_of(a->type)) < 0))
		abort();
	q->has_body = a->body != NULL;
	t = (struct foreign_cred){ .ours = &grants, .host = host, .port = 443 };
	r = foreign_cred_in_head(&t, q);
	if (!r && a->body && foreign_cred_wants_body(q))
		r = foreign_cred_in_body(&t, q, slice_of(a->body));
	buf_release(&q->target);
	http_fields_release(&q->fields);
	free(q);
	return r;
}

#define TARGET(x) has("a.test", &(struct ask){ .target = (x) })
#define FIELD(n, v) has("a.test", &(struct ask){ .target = "/", .name = (n), .value = (v) })
#define BODY(ct, b) has("a.test", &(struct ask){ .target = "/", .type = (ct), .body = (b) })
#define FORM "application/x-www-form-urlencoded"
#define JS "application/json; charset=utf-8"
#define MULTI "multipart/form-data; boundary=b"
#define PART(n, v) "--b\r\nContent-Disposition: form-data; " n "\r\n\r\n" v "\r\n--b--\r\n"

static void test_head(void)
{
	CHECK(FIELD("Authorization", "Bearer x") && strcmp(t.what, "the header Authorization") == 0);
	CHECK(FIELD("X_Api_Key", "x") && strcmp(t.what, "the header X_Api_Key") == 0);
	CHECK(!FIELD("Authorization", "Bearer " PH) && !FIELD("X-Api-Key", PH) && !FIELD("X-Fine", "x"));
	CHECKF(FIELD("X-Foo", OTHER) && strstr(t.what, "X-Foo: a GitHub token"),
	       "a token in any header is found: %s", t.what);
	CHECK(FIELD("X-Foo", PH " " OTHER) && !FIELD("X-Foo", "a " PH " b"));
	CHECK(TARGET("/?token=x") && strcmp(t.what, "the parameter token") == 0);
	CHECK(TARGET("/?q=" OTHER) && TARGET("/?" OTHER) &&
	      TARGET("/?q=%67hp%5FZq7xW3eR5tY8uI2oP4aS6dF9gH1jK0lM"));
	CHECK(!TARGET("/?token=" PH) && !TARGET("/?q=" PH) && !TARGET("/?q=ghp_short&page=2"));
	CHECK(TARGET("/a/" OTHER "/b") && !TARGET("/a/" PH "/b"));
	CHECK(TARGET("/bot987654321:AAbbxxCCCCddddEEEEffff1111222233xyz/getMe"));
}

static void test_path(void)
{
	static const struct {
		const char *target;
		bool is;
	} v[] = {
		{ "/", false },
		{ "/bot" BOT "/getMe", false },
		{ "/bot123456789%3AAAbbbbCCCCddddEEEEffff1111222233xyz/getMe", false },
		{ "/file/bot" BOT "/a", false },
		{ "/botwhatever/getMe", true },
		{ "/getMe", true },
		{ "/botsomebody-elses" BOT "/getMe", true },
		{ "/bot" BOT "/" OTHER, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		CHECKF(has("bot.test", &(struct ask){ .target = v[i].target }) == v[i].is,
		       "a token in the path is judged: %s: %s", v[i].target, t.what);
	CHECKF(!has("bot.test:444", &(struct ask){ .target = "/getMe" }),
	       "a path of another port is not a bot's path");
}

static void test_body(void)
{
	CHECK(BODY(FORM, "a=1&token=x") && strcmp(t.what, "the body's token") == 0);
	CHECK(BODY(FORM, "user%5Bpass%77ord%5D=x") && BODY(FORM, "q=" OTHER) && BODY(FORM, OTHER "=1"));
	CHECK(BODY(NULL, "API-Key=x") && !BODY(FORM, "token=&a=100%") && !BODY(FORM, "token=" PH "&q=" PH));
	CHECK(BODY(FORM, "t=" BOT "&a=" OTHER) &&
	      !BODY(FORM, "token=123456789%3AAAbbbbCCCCddddEEEEffff1111222233xyz"));
	CHECK(BODY(JS, "{\"a\":[{\"accessToken\":\"x\"}]}") && strcmp(t.what, "the body's accessToken") == 0);
	CHECK(BODY(JS, "{\"password\":7}") && BODY(JS, "[\"" OTHER "\"]") && BODY(JS, "{\"" OTHER "\":1}"));
	CHECK(!BODY(JS, "{\"password\":null,\"token\":\"\",\"max_tokens\":7}"));
	CHECK(!BODY(JS, "{\"token\":\"Bearer " PH "\",\"q\":\"see " PH "\"}") && !BODY(JS, ""));
	CHECK(BODY(JS, "{\"token\":\"x\",\"token\":\"" PH "\"}") && BODY(JS, "{\"a\":1} b"));
	CHECK(BODY("application/x-ndjson", "{\"a\":1}\n{\"secret\":\"x\"}\n") &&
	      !BODY("application/x-ndjson", "{\"a\":1}\n{\"b\":\"x\"}\n"));
	CHECK(BODY("text/plain", "{\"api_key\":\"x\"}") && !BODY("text/plain", "token=x {") &&
	      BODY("text/plain", "see " OTHER "."));
	CHECK(BODY(MULTI, PART("name=\"token\"", "x")) && BODY(MULTI, PART("name=Client_Secret", "x")));
	CHECK(!BODY(MULTI, PART("name=\"token\"", PH)) &&
	      !BODY(MULTI, PART("name=\"a\"; filename=\"token\"", "x")));
	CHECK(BODY("application/octet-stream", "\x01\x02-----BEGIN RSA PRIVATE KEY-----\n"));
}

static void test_git(void)
{
	struct ask a = { .target = "/o/r/git-upload-pack",
			 .type = "application/x-git-upload-pack-request",
			 .body = "0032 " OTHER };

	CHECKF(!has("a.test", &a), "a request of git's own protocol has no place for a credential");
	a.type = FORM;
	CHECK(has("a.test", &a));
	a.type = "application/x-git-upload-pack-request";
	a.target = "/elsewhere";
	CHECK(has("a.test", &a));
}

int main(void)
{
	add("github", PH, "a.test", "bearer");
	add("bot", BOT, "bot.test", "path");
	test_head();
	test_path();
	test_body();
	test_git();
	grants_release(&grants);
	return tap_done();
}
