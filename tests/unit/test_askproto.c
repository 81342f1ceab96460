/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the socket of a run's questions, good and bad. */
#include "approval/wire/askproto.h"
#include "base/str.h"
#include "tap.h"

static void test_proto(void)
{
	static const struct {
		enum askp_type type;
		const char *text;
		bool good;
	} v[] = {
		{ ASKP_LIST, "{}", true },
		{ ASKP_LIST, "{\"all\":true}", true },
		{ ASKP_LIST, "{\"all\":1}", false },
		{ ASKP_LIST, "[]", false },
		{ ASKP_LIST, "{\"all\":true,\"all\":false}", false },
		{ ASKP_SHOW, "{}", false },
		{ ASKP_SHOW, "{\"id\":\"1\"}", true },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\"}", true },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"via\":\"cli\"}", false },
		{ ASKP_ANSWER,
		  "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"scop\":\"once\"}", false },
		{ ASKP_ANSWER,
		  "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"scope\":\"ever\"}",
		  false },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"uses\":-1}",
		  false },
		{ ASKP_SUBMIT, "{\"kind\":\"question\",\"what\":\"w\"}", true },
		{ ASKP_SUBMIT, "{\"kind\":\"request\",\"what\":\"w\"}", false },
		{ ASKP_ASK, "{}", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct frame f = { .type = (uint8_t)v[i].type,
				   .data = (const uint8_t *)v[i].text,
				   .len = (uint32_t)strlen(v[i].text) };
		struct askp_request q;
		struct err e = ERR_INIT;
		int r = askp_request_parse(&f, &q, &e);

		tap_ok((r == 0) == v[i].good, __FILE__, __LINE__, "the request is accepted or refused: %s",
		       v[i].text);
		if (r == 0)
			askp_request_release(&q);
	}
}

int main(void)
{
	test_proto();
	return tap_done();
}
