/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonget.h"
#include "tap.h"

int main(void)
{
	json_t *o = json_pack("{s:s,s:s,s:i,s:n}", "text", "a", "empty", "", "number", 1, "null"),
	       *list = json_array();

	CHECK_STR(jsonget_text(o, "text"), "a");
	CHECK_STR(jsonget_text(o, "empty"), "");
	CHECK_STR(jsonget_text(o, "number"), "");
	CHECK_STR(jsonget_text(o, "null"), "");
	CHECK_STR(jsonget_text(o, "missing"), "");
	CHECK_STR(jsonget_text(NULL, "text"), "");
	CHECK_STR(jsonget_text(list, "text"), "");
	CHECK_STR(jsonget_text_or_null(o, "empty"), "");
	CHECK(!jsonget_text_or_null(o, "number") && !jsonget_text_or_null(o, "missing") &&
	      !jsonget_text_or_null(NULL, "x"));
	json_object_set_new(o, "less", json_integer(-1));
	CHECK(jsonget_u64(o, "number") == 1 && jsonget_u64(o, "less") == 0 && jsonget_u64(o, "text") == 0 &&
	      jsonget_u64(o, "missing") == 0 && jsonget_u64(NULL, "number") == 0);
	CHECK(jsonget_i64(o, "number") == 1 && jsonget_i64(o, "less") == -1 && jsonget_i64(o, "text") == 0 &&
	      jsonget_i64(NULL, "number") == 0);
	json_object_set_new(o, "yes", json_true());
	json_object_set_new(o, "no", json_false());
	CHECK(jsonget_bool(o, "yes") && !jsonget_bool(o, "no") && !jsonget_bool(o, "number") &&
	      !jsonget_bool(o, "missing") && !jsonget_bool(NULL, "yes"));
	json_decref(o);
	json_decref(list);
	return tap_done();
}
