/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "vault/common/grants.h"

#include <errno.h>

static void fill(struct vault_grant *v, uint32_t handle, const char *name, const char *placeholder)
{
	v->handle = handle;
	snprintf(v->name, sizeof(v->name), "%s", name);
	v->placeholder_len = strlen(placeholder);
	memcpy(v->placeholder, placeholder, v->placeholder_len + 1);
	v->n_bindings = 1;
	v->bindings[0] = (struct binding){ .host = "api.example.com",
					   .port = 443,
					   .as = BINDING_AS_HEADER,
					   .path = "/v1",
					   .word = "x-api-key" };
}

#define ONE "ghp_AAAAAAAAAAAAAAAAAAAAAAAA"
#define TWO "ghp_BBBBBBBBBBBBBBBBBBBBBBBB"

static bool packs(const struct vault_grants *g)
{
	autobuf struct buf b = BUF_INIT;

	return grants_pack(g, GRANTS_GRANTED, &b) == 0;
}

static void test_round(void)
{
	autogrants struct vault_grants g = GRANTS_INIT, back = GRANTS_INIT;
	autobuf struct buf b = BUF_INIT;
	unsigned opened = 0;

	fill(grants_add(&g), 1, "github", ONE);
	fill(grants_add(&g), 7, "other", TWO);
	memcpy(g.v[0].env, "GITHUB_TOKEN", 13);
	CHECK(grants_pack(&g, GRANTS_GRANTED, &b) == 0);
	CHECK(grants_unpack(&back, GRANTS_GRANTED, b.data, b.len) == 0 && back.n == 2);
	CHECK(back.v[1].handle == 7 && str_eq(back.v[0].env, "GITHUB_TOKEN") &&
	      str_eq(back.v[1].placeholder, TWO) && binding_eq(&back.v[1].bindings[0], &g.v[1].bindings[0]));
	for (size_t n = 0; n < b.len; n++) {
		struct vault_grants no = GRANTS_INIT;

		opened += grants_unpack(&no, GRANTS_GRANTED, b.data, n) == 0;
	}
	CHECKF(opened == 0, "packed grants that are cut at any place are refused");
	buf_addc(&b, '\0');
	grants_release(&back);
	CHECKF(grants_unpack(&back, GRANTS_GRANTED, b.data, b.len) == -EBADMSG,
	       "packed grants with a byte more are refused");
	CHECKF(grants_unpack(&back, GRANTS_ASKED, b.data, b.len - 1) == -EBADMSG,
	       "packed grants of the other kind are refused");
	CHECK(grants_by_handle(&g, 7) == &g.v[1] && !grants_by_handle(&g, 2) &&
	      grants_by_name(&g, "github") == &g.v[0]);
}

static void test_refused(void)
{
	autogrants struct vault_grants g = GRANTS_INIT;

	fill(grants_add(&g), 1, "github", ONE);
	CHECK(packs(&g));
	g.v[0].handle = 0;
	CHECKF(!packs(&g), "a grant without a handle is not packed");
	fill(&g.v[0], 1, "github", "too-short");
	CHECKF(!packs(&g), "a grant with a short placeholder is not packed");
	fill(&g.v[0], 1, "github", "ghp AAAAAAAAAAAAAAAAAAAAAAAA");
	CHECKF(!packs(&g), "a grant whose placeholder fits no header is not packed");
	fill(&g.v[0], 1, "git hub", ONE);
	CHECKF(!packs(&g), "a grant without a name is not packed");
	fill(&g.v[0], 1, "github", ONE);
	g.v[0].n_bindings = 0;
	CHECKF(!packs(&g), "a grant without a binding is not packed");
	fill(&g.v[0], 1, "github", ONE);
	memcpy(g.v[0].bindings[0].host, "API.example.com", 15);
	CHECKF(!packs(&g), "a grant for a host that is not canonical is not packed");
	fill(&g.v[0], 1, "github", ONE);
	memcpy(g.v[0].env, "1A", 3);
	CHECKF(!packs(&g), "a grant without a variable is not packed");
	g.v[0].env[0] = '\0';
	fill(grants_add(&g), 1, "b", TWO);
	CHECKF(!packs(&g), "two grants with one handle are not packed");
	fill(&g.v[1], 2, "b", ONE "x");
	CHECKF(!packs(&g), "a placeholder that contains another is not packed");
	fill(&g.v[1], 2, "b", TWO);
	CHECK(packs(&g));
	while (g.n < GRANTS_MAX)
		BUG_ON(!grants_add(&g));
	CHECKF(!grants_add(&g), "a grant beyond the limit is not added");
}

static void test_find(void)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	const char *text = "a " TWO " b " ONE;
	const struct vault_grant *found;
	size_t at = 99;

	fill(grants_add(&g), 1, "github", ONE);
	fill(grants_add(&g), 2, "other", TWO);
	found = grants_find_placeholder(&g, text, strlen(text), &at);
	CHECK(found == &g.v[1] && at == 2);
	CHECK(grants_find_placeholder(&g, text + 3, strlen(text) - 3, &at) == &g.v[0]);
	CHECK(!grants_find_placeholder(&g, ONE, strlen(ONE) - 1, &at) &&
	      !grants_find_placeholder(&g, "", 0, &at));
	CHECK(grants_binding(&g.v[0], "api.example.com", 443, slice_of("/v1/x"), BINDING_AS_HEADER,
			     "x-api-key"));
	CHECK(!grants_binding(&g.v[0], "api.example.com", 443, slice_of("/v1/x"), BINDING_AS_HEADER,
			      "x-other"));
	CHECK(!grants_binding(&g.v[0], "api.example.com", 443, slice_of("/v1/x"), BINDING_AS_BEARER, NULL));
	CHECK(grants_binding(&g.v[0], "api.example.com", 443, slice_of("/v1/x"), BINDING_AS_ANY, NULL));
	CHECK(!grants_binding(&g.v[0], "api.example.com", 443, slice_of("/v2"), BINDING_AS_ANY, NULL));
}

static void test_eq(void)
{
	static struct vault_grant a, b;

	fill(&a, 1, "github", ONE);
	b = a;
	b.handle = 2;
	memcpy(b.placeholder, TWO, sizeof(TWO));
	memcpy(b.env, "TOKEN", 6);
	b.expires = 5;
	CHECKF(grants_eq(&a, &b), "equal grants may differ in handle, placeholder, variable and expiry");
	b.kind = GRANT_ISSUER;
	CHECKF(!grants_eq(&a, &b), "a different kind is a different grant");
	b.kind = a.kind;
	b.name[0] = 'x';
	CHECKF(!grants_eq(&a, &b), "a different name is a different grant");
	b.name[0] = a.name[0];
	b.issue[0] = 'x';
	CHECKF(!grants_eq(&a, &b), "a different issue is a different grant");
	b.issue[0] = '\0';
	b.bindings[0].port = 444;
	CHECKF(!grants_eq(&a, &b), "a different binding is a different grant");
	b.bindings[0].port = a.bindings[0].port;
	b.bindings[b.n_bindings++] = a.bindings[0];
	CHECKF(!grants_eq(&a, &b) && !grants_eq(&b, &a), "an additional binding is a different grant");
}

int main(void)
{
	test_round();
	test_refused();
	test_find();
	test_eq();
	return tap_done();
}
