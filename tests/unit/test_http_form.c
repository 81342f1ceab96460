/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/http/http_form.h"
#include "tap.h"

static int get(const char *form, const char *name, const char *wanted)
{
	autobuf struct buf out = BUF_INIT;
	int r = http_form_get(slice_of(form), name, &out);

	if (r == 1 && strcmp(buf_cstr(&out), wanted) != 0)
		return -1000;
	return r;
}

int main(void)
{
	static const char *const names[] = { "query", "variables" };

	CHECK(get("query=%7Bx%7D&a=b", "query", "{x}") == 1);
	CHECK(get("a=b&query=a+b", "query", "a b") == 1);
	CHECK(get("query=", "query", "") == 1);
	CHECK(get("a=b", "query", "") == 0);
	CHECK(get("", "query", "") == 0);
	CHECK(get("query=a&query=b", "query", "") == -EBADMSG);
	CHECK(get("query=a&Query=b", "query", "") == -EBADMSG);
	CHECK(get("query=a&query[]=b", "query", "") == -EBADMSG);
	CHECK(get("query=a&%71uery=b", "query", "") == -EBADMSG);
	CHECK(get("%71uery=b", "query", "") == -EBADMSG);
	CHECK(get("query=a;query=b", "query", "") == -EBADMSG);
	CHECK(get("query=%zz", "query", "") == -EBADMSG);
	CHECK(get("query=%4", "query", "") == -EBADMSG);
	CHECK(get("query=%", "query", "") == -EBADMSG);
	CHECK(get("%=a&query=x", "query", "") == -EBADMSG);
	CHECK(get("queryx=a", "query", "") == 0);
	CHECK(http_form_has(slice_of("a=1&query=x"), "query"));
	CHECK(http_form_has(slice_of("a=1&%51UERY=x"), "query"));
	CHECK(http_form_has(slice_of("query"), "query"));
	CHECK(http_form_has(slice_of("%zz=1"), "query"));
	CHECK(!http_form_has(slice_of("queries=1&x=query"), "query"));
	CHECK(!http_form_has(SLICE_NONE, "query"));
	CHECK(http_form_has(slice_of("a=1&_method=DELETE"), "_method"));
	CHECK(http_form_has(slice_of("%5fmeth%6Fd=DELETE"), "_method"));
	CHECK(http_form_has(slice_of("a=1;_method=DELETE"), "_method"));
	CHECK(http_form_has(slice_of(".method=DELETE"), "_method"));
	CHECK(http_form_has(slice_of("+_method=DELETE"), "_method"));
	CHECK(http_form_has(slice_of("_method%00x=DELETE"), "_method"));
	CHECK(!http_form_has(slice_of("a=_method&payment_method=card&_methods=1"), "_method"));
	CHECK(!http_form_has_other(slice_of("query=1&variables=2"), names, 2));
	CHECK(!http_form_has_other(SLICE_NONE, names, 2) &&
	      !http_form_has_other(slice_of("query=1&"), names, 2));
	CHECK(http_form_has_other(slice_of("query=1&id=2"), names, 2));
	CHECK(http_form_has_other(slice_of("query=1&Query=2"), names, 2));
	CHECK(http_form_has_other(slice_of("query=1&quer%79=2"), names, 2));
	return tap_done();
}
