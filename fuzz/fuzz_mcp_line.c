/* SPDX-License-Identifier: Apache-2.0 */
/* Any line of a client is a message or a fault; and the answer to it is one line of JSON with the same id. */
#include "adapter/mcp_args.h"
#include "adapter/mcp_line.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct mcp_param params[] = {
	{ "command", MCP_TEXT, true, 64, "", NULL },
	{ "encoding", MCP_WORD, false, 0, "", "utf-8 base64" },
	{ "timeout_s", MCP_INTEGER, false, 10, "", NULL },
	{ "flag", MCP_BOOL, false, 0, "", NULL },
	{ "argv", MCP_LIST, false, 2, "", NULL },
	{ "env", MCP_MAP, false, 2, "", NULL },
};

static void check_answer(const struct buf *b, const struct mcp_id *id)
{
	json_t *v;
	struct mcp_id back = { 0 };

	if (buf_error(b) || memchr(b->data, '\n', b->len))
		abort();
	v = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, NULL);
	if (!v)
		abort();
	if (id->kind != MCP_ID_NONE &&
	    (mcp_id_read(json_object_get(v, "id"), &back) < 0 || !mcp_id_is(&back, id)))
		abort();
	mcp_id_release(&back);
	json_decref(v);
}

static void check_args(const json_t *args)
{
	struct err e = ERR_INIT;
	const char *text;

	if (mcp_args_check(params, ARRAY_SIZE(params), args, &e) < 0) {
		if (!e.msg[0])
			abort();
		return;
	}
	text = mcp_text(args, "command");
	if (!text || strlen(text) > 64 || mcp_integer(args, "timeout_s", 0) > 10)
		abort();
}

static void take(json_t *v)
{
	autobuf struct buf out = BUF_INIT;
	struct mcp_fault f = { 0 };
	struct mcp_msg m = { 0 };
	struct json j = JSON_INIT(&out);

	if (mcp_msg_read(v, &m, &f) < 0) {
		if (!f.text[0] || f.code == 0)
			abort();
		mcp_add_error(&out, &f.id, f.code, f.text, NULL);
		check_answer(&out, &f.id);
		mcp_fault_release(&f);
		return;
	}
	if ((m.kind == MCP_REQUEST) != (m.method && m.id.kind != MCP_ID_NONE))
		abort();
	check_args(json_object_get(m.params, "arguments"));
	mcp_result_begin(&j, &m.id);
	json_str(&j, "echo", m.method);
	mcp_result_end(&j);
	check_answer(&out, &m.id);
	mcp_msg_release(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mcp_fault f = { 0 };
	json_t *v = NULL;

	if (mcp_line_parse((const char *)data, size, &v, &f) < 0) {
		if (f.code != MCP_PARSE_ERROR || !f.text[0])
			abort();
		return 0;
	}
	take(v);
	for (size_t i = 0; i < json_array_size(v); i++)
		take(json_array_get(v, i));
	json_decref(v);
	return 0;
}
