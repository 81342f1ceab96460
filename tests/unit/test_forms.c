/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "vault/common/forms.h"

#include <errno.h>
#include <stdlib.h>

static struct forms forms;
static void *mem;

static void make(const char *secret)
{
	size_t len = strlen(secret);

	free(mem);
	mem = malloc(forms_size(len));
	BUG_ON(!mem || forms_make(&forms, secret, len, mem, forms_size(len)) < 0);
}

static bool found(const char *text, enum form_kind kind)
{
	const struct form *f = NULL;

	return forms_find(&forms, text, strlen(text), &f) >= 0 && f->kind == kind;
}

static void test_known(void)
{
	make("p@ss/w\"rd<long>");
	CHECK(found("x p@ss/w\"rd<long> y", FORM_RAW));
	CHECK(found("cEBzcy93InJkPGxvbmc+", FORM_BASE64_0));
	CHECK(found("eHBAc3MvdyJyZDxsb25nPnk=", FORM_BASE64_1)); /* x before, y behind */
	CHECK(found("eHhwQHNzL3cicmQ8bG9uZz54", FORM_BASE64_2));
	CHECK(found("cEBzcy93InJkPGxvbmc-", FORM_BASE64URL_0));
	CHECK(found("a=p%40ss%2Fw%22rd%3Clong%3E&", FORM_PERCENT) &&
	      found("p%40ss%2fw%22rd%3clong%3e", FORM_PERCENT_LOWER));
	CHECK(found("p%40ss/w%22rd%3Clong%3E", FORM_PATH));
	CHECK(found("{\"a\":\"p@ss/w\\\"rd<long>\"}", FORM_JSON) &&
	      found("p@ss\\/w\\\"rd<long>", FORM_JSON_SLASH));
	CHECK(found("p@ss/w\\\"rd\\u003clong\\u003e", FORM_JSON_HTML));
	CHECK(found("704073732f772272643c6c6f6e673e", FORM_HEX) &&
	      found("704073732F772272643C6C6F6E673E", FORM_HEX_UPPER));
	CHECK(found("%70%40%73%73%2F%77%22%72%64%3C%6C%6F%6E%67%3E", FORM_PERCENT_ALL));
	CHECK(forms_find(&forms, "p@ss/w\"rd<lon", 13, NULL) < 0);
}

static void test_text(void)
{
	make("h\xc3\xa9llo w\xf0\x9f\x98\x80rld");
	CHECK(found("h\\u00e9llo w\\ud83d\\ude00rld", FORM_JSON_ASCII));
	CHECK(found("h%C3%A9llo+w%F0%9F%98%80rld", FORM_FORM) &&
	      found("h%C3%A9llo%20w%F0%9F%98%80rld", FORM_PERCENT));
	make("not \xff utf8 at all");
	for (size_t i = 0; i < forms.n; i++)
		CHECKF(forms.v[i].kind != FORM_JSON_ASCII, "an empty text has no form of kind %s",
		       form_name(forms.v[i].kind));
}

static void test_set(void)
{
	make("abcdefghijklmnop");
	for (size_t i = 0; i < forms.n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (forms.v[i].len == forms.v[k].len &&
			    !memcmp(forms.v[i].bytes, forms.v[k].bytes, forms.v[i].len))
				CHECKF(false, "no two forms of a secret are the same");
		}
		CHECK(forms.v[i].len >= FORMS_SHORTEST && forms.v[i].len <= forms.longest);
	}
	CHECKF(forms.n < 14, "a secret of letters has no escaped forms: %zu forms", forms.n);
	CHECK(forms_make(&forms, "", 0, mem, 100) == -EINVAL &&
	      forms_make(&forms, "abcdefgh", 8, mem, 10) == -ENOSPC);
	CHECK(forms_make(&forms, mem, FORMS_SECRET_MAX + 1, mem, 10) == -EINVAL);
}

static void test_render(void)
{
	char out[64];

	CHECK(forms_render(FORM_HEX, "ab", 2, out, sizeof(out)) == 4 && memcmp(out, "6162", 4) == 0);
	CHECK(forms_render(FORM_HEX, "ab", 2, out, 3) == -ENOSPC);
	CHECK(forms_render(FORM_BASE64_0, "abc", 3, out, sizeof(out)) == 4 && memcmp(out, "YWJj", 4) == 0);
	CHECKF(forms_render(FORM_BASE64_1, "abc", 3, out, sizeof(out)) == 3 && memcmp(out, "FiY", 3) == 0,
	       "a base64 form has only digits that the secret alone decides");
}

int main(void)
{
	test_known();
	test_text();
	test_set();
	test_render();
	free(mem);
	return tap_done();
}
