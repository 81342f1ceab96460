/* SPDX-License-Identifier: Apache-2.0 */
#include "adapter/mcp_args.h"
#include "adapter/mcp_line.h"
#include "adapter/mcp_version.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>

static int read_text(const char *text, struct mcp_msg *m, struct mcp_fault *f)
{
	json_t *v = NULL;
	int r = mcp_line_parse(text, strlen(text), &v, f);

	*m = (struct mcp_msg){ 0 };
	if (r == 0)
		r = mcp_msg_read(v, m, f);
	json_decref(v);
	return r;
}

static void check_fault(const char *text, enum mcp_code code, bool has_id)
{
	struct mcp_fault f = { 0 };
	struct mcp_msg m;

	CHECKF(read_text(text, &m, &f) < 0 && f.code == code && (f.id.kind != MCP_ID_NONE) == has_id,
	       "a fault has its code: %.60s is %d", text, code);
	mcp_fault_release(&f);
}

static void test_messages(void)
{
	struct mcp_fault f = { 0 };
	struct mcp_msg m;

	CHECK(read_text("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{\"x\":1}}", &m,
			&f) == 0);
	CHECK(m.kind == MCP_REQUEST && m.id.kind == MCP_ID_TEXT && str_eq(m.id.text, "a"));
	CHECK(str_eq(m.method, "ping") && json_object_size(m.params) == 1);
	mcp_msg_release(&m);
	CHECK(read_text(" {\"jsonrpc\":\"2.0\",\"id\":-9007199254740993,\"method\":\"x\"} ", &m, &f) == 0);
	CHECK(m.id.kind == MCP_ID_NUMBER && m.id.number == -9007199254740993 && !m.params);
	mcp_msg_release(&m);
	CHECK(read_text("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", &m, &f) == 0 && m.kind == MCP_NOTIFICATION);
	mcp_msg_release(&m);
	CHECK(read_text("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", &m, &f) == 0 &&
	      m.kind == MCP_RESPONSE);
	mcp_msg_release(&m);
	check_fault("", MCP_PARSE_ERROR, false);
	check_fault("{\"a\":1,\"a\":2}", MCP_PARSE_ERROR, false);
	check_fault("{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"x\"}", MCP_PARSE_ERROR,
		    false);
	check_fault("[]", MCP_INVALID_REQUEST, false);
	check_fault("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"x\"}", MCP_INVALID_REQUEST, false);
	check_fault("{\"jsonrpc\":2,\"id\":1,\"method\":\"x\"}", MCP_INVALID_REQUEST, true);
	check_fault("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":null}", MCP_INVALID_PARAMS,
		    true);
}

static void test_depth(void)
{
	autobuf struct buf b = BUF_INIT;
	struct mcp_fault f = { 0 };
	json_t *v = NULL;

	for (int i = 0; i < MCP_DEPTH_MAX; i++)
		buf_addc(&b, '[');
	for (int i = 0; i < MCP_DEPTH_MAX; i++)
		buf_addc(&b, ']');
	CHECK(mcp_line_parse(b.data, b.len, &v, &f) == 0);
	json_decref(v);
	buf_addc(&b, ']');
	memmove(b.data + 1, b.data, b.len - 1);
	b.data[0] = '[';
	CHECK(mcp_line_parse(b.data, b.len, &v, &f) < 0 && f.code == MCP_PARSE_ERROR);
	CHECK(mcp_line_parse("\"[[[\\\"[[[\"", 10, &v, &f) == 0);
	json_decref(v);
}

/* L4: whatever a text has, an answer is one line and JSON again. */
static void test_answers(void)
{
	autobuf struct buf b = BUF_INIT;
	struct mcp_id id = { .kind = MCP_ID_TEXT, .text = (char *)"a\"\n\xff" };
	json_t *v;

	mcp_add_error(&b, &id, MCP_INTERNAL, "line\nline\x1b[0m\xc3", "{\"x\":1}");
	CHECK(!memchr(b.data, '\n', b.len));
	v = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_integer_value(json_object_get(json_object_get(v, "error"), "code")) == -32603);
	CHECK(json_is_object(json_object_get(json_object_get(v, "error"), "data")));
	json_decref(v);
}

static void test_versions(void)
{
	CHECK(mcp_version_agree("2025-03-26") == MCP_2025_03_26);
	CHECK(mcp_version_agree("2026-07-28") == MCP_2025_11_25 && mcp_version_agree("x") == MCP_2025_11_25);
	CHECK(mcp_version_find("2026-07-28") == MCP_2026_07_28 && mcp_version_find("") == MCP_VERSION_NONE);
	CHECK(mcp_version_has_batches(MCP_2025_03_26) && !mcp_version_has_batches(MCP_2025_06_18) &&
	      !mcp_version_has_batches(MCP_VERSION_NONE));
}

static const struct mcp_param params[] = {
	{ "t", MCP_TEXT, true, 4, "", NULL },	   { "w", MCP_WORD, false, 0, "", "one two" },
	{ "i", MCP_INTEGER, false, 10, "", NULL }, { "b", MCP_BOOL, false, 0, "", NULL },
	{ "l", MCP_LIST, false, 2, "", NULL },	   { "m", MCP_MAP, false, 1, "", NULL },
};

static void check_args(const char *text, bool good)
{
	json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
	struct err e = ERR_INIT;

	CHECKF((mcp_args_check(params, ARRAY_SIZE(params), v, &e) == 0) == good && (good || e.msg[0]),
	       "the arguments %s are %s", text, good ? "taken" : "refused");
	json_decref(v);
}

static void test_args(void)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	json_t *v;

	check_args(
		"{\"t\":\"abcd\",\"w\":\"two\",\"i\":10,\"b\":true,\"l\":[\"x\",\"\"],\"m\":{\"k\":\"v\"}}",
		true);
	check_args("{\"t\":\"\"}", true);
	check_args("{}", false);
	check_args("[]", false);
	check_args("{\"t\":\"abcde\"}", false);
	check_args("{\"t\":null}", false);
	check_args("{\"t\":\"\",\"w\":\"one two\"}", false);
	check_args("{\"t\":\"\",\"w\":\"on\"}", false);
	check_args("{\"t\":\"\",\"i\":11}", false);
	check_args("{\"t\":\"\",\"i\":-1}", false);
	check_args("{\"t\":\"\",\"i\":1.0}", false);
	check_args("{\"t\":\"\",\"b\":0}", false);
	check_args("{\"t\":\"\",\"l\":[\"a\",\"b\",\"c\"]}", false);
	check_args("{\"t\":\"\",\"l\":[1]}", false);
	check_args("{\"t\":\"\",\"m\":{\"a\":\"\",\"b\":\"\"}}", false);
	check_args("{\"t\":\"\",\"m\":{\"a\":1}}", false);
	check_args("{\"t\":\"\",\"x\":1}", false);
	json_obj(&j, NULL);
	mcp_schema(params, ARRAY_SIZE(params), &j);
	json_end_obj(&j);
	v = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_object_size(json_object_get(v, "properties")) == ARRAY_SIZE(params));
	CHECK(json_array_size(json_object_get(v, "required")) == 1);
	json_decref(v);
}

int main(void)
{
	test_messages();
	test_depth();
	test_answers();
	test_versions();
	test_args();
	return tap_done();
}
