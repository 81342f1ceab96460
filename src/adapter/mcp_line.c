/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses lines of JSON-RPC 2.0 into messages, and formats responses. Pure: no I/O, no clock. The lines come
 * from a client that is not trusted; see mcp_line.h for the limits that hold before and after parsing.
 */
#include "adapter/mcp_line.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>

/* --- ids ------------------------------------------------------------------------------------------------------------ */

int mcp_id_read(const json_t *v, struct mcp_id *ret)
{
	if (json_is_integer(v)) {
		*ret = (struct mcp_id){ .kind = MCP_ID_NUMBER, .number = json_integer_value(v) };
		return 0;
	}
	if (!json_is_string(v) || json_string_length(v) > MCP_ID_MAX)
		return -EINVAL;
	*ret = (struct mcp_id){ .kind = MCP_ID_TEXT, .text = strdup(json_string_value(v)) };
	return ret->text ? 0 : -ENOMEM;
}

int mcp_id_copy(const struct mcp_id *id, struct mcp_id *ret)
{
	struct mcp_id copy = *id;

	if (id->text) {
		copy.text = strdup(id->text);
		if (!copy.text)
			return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

bool mcp_id_is(const struct mcp_id *a, const struct mcp_id *b)
{
	if (a->kind != b->kind || a->kind == MCP_ID_NONE)
		return false;
	return a->kind == MCP_ID_NUMBER ? a->number == b->number : str_eq(a->text, b->text);
}

void mcp_id_json(struct json *j, const char *key, const struct mcp_id *id)
{
	if (id->kind == MCP_ID_NUMBER)
		json_i64(j, key, id->number);
	else if (id->kind == MCP_ID_TEXT)
		json_str(j, key, id->text);
	else
		json_none(j, key);
}

void mcp_id_release(struct mcp_id *id)
{
	free(id->text);
	*id = (struct mcp_id){ 0 };
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

void mcp_msg_release(struct mcp_msg *m)
{
	mcp_id_release(&m->id);
	json_decref(m->root);
	*m = (struct mcp_msg){ 0 };
}

void mcp_fault_release(struct mcp_fault *f)
{
	mcp_id_release(&f->id);
}

static int set_fault(struct mcp_fault *f, enum mcp_code code, const char *text)
{
	f->code = code;
	snprintf(f->text, sizeof(f->text), "%s", text);
	return -EBADMSG;
}

/*
 * mcp_line.L1: counts brackets outside of strings before the recursive parser sees them. Invalid JSON is
 * left to the parser.
 */
static bool is_too_deep(const char *data, size_t len)
{
	unsigned depth = 0;
	bool text = false;

	for (size_t i = 0; i < len; i++) {
		if (text && data[i] == '\\')
			i++;
		else if (data[i] == '"')
			text = !text;
		else if (!text && (data[i] == '{' || data[i] == '['))
			depth++;
		else if (!text && (data[i] == '}' || data[i] == ']'))
			depth -= depth > 0;
		if (depth > MCP_DEPTH_MAX)
			return true;
	}
	return false;
}

int mcp_line_parse(const char *data, size_t len, json_t **ret, struct mcp_fault *f)
{
	json_error_t why;
	json_t *v;

	if (len > MCP_LINE_MAX)
		return set_fault(f, MCP_PARSE_ERROR, "the line is longer than 4 MiB");
	if (is_too_deep(data, len))
		return set_fault(f, MCP_PARSE_ERROR, "the line has more than 64 levels");
	v = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!v) {
		/* The parser's message quotes the input, which must not be echoed to the client. */
		set_fault(f, MCP_PARSE_ERROR, "");
		snprintf(f->text, sizeof(f->text), "the line is not valid JSON (at byte %d)", why.position);
		return -EBADMSG;
	}
	*ret = v;
	return 0;
}

/* Is it a response? This server sends no requests, so nothing more of a response is checked. */
static bool is_response(const json_t *v)
{
	return !json_object_get(v, "method") && (json_object_get(v, "result") || json_object_get(v, "error"));
}

static int read_rpc_head(json_t *v, struct mcp_msg *m, struct mcp_fault *f)
{
	const json_t *id = json_object_get(v, "id"), *rpc = json_object_get(v, "jsonrpc");
	const json_t *method = json_object_get(v, "method");

	if (id && mcp_id_read(id, &m->id) < 0)
		return set_fault(f, MCP_INVALID_REQUEST,
				 "the id is neither a whole number nor a text of at most 256 bytes");
	if (!json_is_string(rpc) || !str_eq(json_string_value(rpc), "2.0"))
		return set_fault(f, MCP_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
	if (is_response(v)) {
		m->kind = MCP_RESPONSE;
		return 0;
	}
	if (!json_is_string(method))
		return set_fault(f, MCP_INVALID_REQUEST, "method must be a text");
	m->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
	m->method = json_string_value(method);
	m->params = json_object_get(v, "params");
	if (m->params && !json_is_object(m->params))
		return set_fault(f, MCP_INVALID_PARAMS, "params must be an object");
	return 0;
}

int mcp_msg_read(json_t *v, struct mcp_msg *ret, struct mcp_fault *f)
{
	struct mcp_msg m = { .root = json_incref(v) };
	int r = json_is_object(v) ? read_rpc_head(v, &m, f)
				  : set_fault(f, MCP_INVALID_REQUEST, "a message must be an object");

	if (r < 0) {
		f->id = m.id;
		m.id = (struct mcp_id){ 0 };
		mcp_msg_release(&m);
		return r;
	}
	*ret = m;
	return 0;
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

void mcp_result_begin(struct json *j, const struct mcp_id *id)
{
	json_obj(j, NULL);
	json_str(j, "jsonrpc", "2.0");
	mcp_id_json(j, "id", id);
	json_obj(j, "result");
}

void mcp_result_end(struct json *j)
{
	json_end_obj(j);
	json_end_obj(j);
}

void mcp_add_error(struct buf *out, const struct mcp_id *id, enum mcp_code code, const char *text,
		   const char *data)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "jsonrpc", "2.0");
	mcp_id_json(&j, "id", id);
	json_obj(&j, "error");
	json_i64(&j, "code", code);
	json_str(&j, "message", text);
	if (data)
		buf_addf(out, ",\"data\":%s", data);
	json_end_obj(&j);
	json_end_obj(&j);
}
