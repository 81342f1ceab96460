/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the protocol, by a table, and the results of tools in the shape that each protocol
 * revision requires. A request is checked here for its revision and arguments before anything runs. It must
 * not run a tool: a call is queued.
 */
#include "adapter/mcp_int.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CLIENT "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER "io.modelcontextprotocol/serverInfo"
#define LIST_TTL_MS 60000 /* how long a client may cache the list of tools */

struct request {
	struct mcp_server *sv;
	const struct mcp_msg *m;
	struct mcp_batch *batch;
	enum mcp_version version;
};

/* --- responses -------------------------------------------------------------------------------------- */

static void refuse_request(const struct request *q, enum mcp_code code, const char *text)
{
	autobuf struct buf b = BUF_INIT;

	mcp_add_error(&b, &q->m->id, code, text, NULL);
	mcp_answer(q->sv, q->batch, &b);
}

static void add_server_info(struct json *j, const char *key, const struct mcp_service *s)
{
	json_obj(j, key);
	json_str(j, "name", s->name);
	json_str(j, "title", s->title);
	json_str(j, "version", s->version);
	json_end_obj(j);
}

/* Members that every result has in the revisions without a handshake. */
static void add_modern_members(struct json *j, const struct mcp_service *s, enum mcp_version v)
{
	if (v < MCP_2026_07_28)
		return;
	json_str(j, "resultType", "complete");
	json_obj(j, "_meta");
	add_server_info(j, META_SERVER, s);
	json_end_obj(j);
}

static void add_cache_hint(struct json *j, enum mcp_version v)
{
	if (v < MCP_2026_07_28)
		return;
	json_u64(j, "ttlMs", LIST_TTL_MS);
	json_str(j, "cacheScope", "private");
}

static void add_capabilities(struct json *j)
{
	json_obj(j, "capabilities");
	json_obj(j, "tools");
	json_end_obj(j);
	json_end_obj(j);
}

static void add_version_list(struct json *j, const char *key)
{
	json_arr(j, key);
	for (int v = MCP_VERSION_COUNT - 1; v >= 0; v--)
		json_str(j, NULL, mcp_version_name((enum mcp_version)v));
	json_end_arr(j);
}

/* --- methods ------------------------------------------------------------------------------------------------------------ */

static void method_initialize(const struct request *q)
{
	const char *asked = jsonget_text_or_null(q->m->params, "protocolVersion");
	const struct mcp_service *s = q->sv->s;
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (q->batch) {
		refuse_request(q, MCP_INVALID_REQUEST, "initialize is not allowed in a batch");
		return;
	}
	if (q->sv->version != MCP_VERSION_NONE) {
		refuse_request(q, MCP_INVALID_REQUEST, "initialize was called already");
		return;
	}
	if (!asked) {
		refuse_request(q, MCP_INVALID_PARAMS, "protocolVersion is missing");
		return;
	}
	q->sv->version = mcp_version_agree(asked);
	mcp_result_begin(&j, &q->m->id);
	json_str(&j, "protocolVersion", mcp_version_name(q->sv->version));
	add_capabilities(&j);
	add_server_info(&j, "serverInfo", s);
	json_str(&j, "instructions", s->instructions);
	mcp_result_end(&j);
	mcp_answer(q->sv, q->batch, &b);
}

static void method_discover(const struct request *q)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	mcp_result_begin(&j, &q->m->id);
	add_modern_members(&j, q->sv->s, q->version);
	add_version_list(&j, "supportedVersions");
	add_capabilities(&j);
	json_str(&j, "instructions", q->sv->s->instructions);
	add_cache_hint(&j, q->version);
	mcp_result_end(&j);
	mcp_answer(q->sv, q->batch, &b);
}

static void method_ping(const struct request *q)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	mcp_result_begin(&j, &q->m->id);
	mcp_result_end(&j);
	mcp_answer(q->sv, q->batch, &b);
}

static void add_tool_json(struct json *j, const struct mcp_tool *t, enum mcp_version v)
{
	json_obj(j, NULL);
	json_str(j, "name", t->name);
	if (v >= MCP_2025_06_18)
		json_str(j, "title", t->title);
	json_str(j, "description", t->help);
	json_obj(j, "inputSchema");
	mcp_schema(t->params, t->n_params, j);
	json_end_obj(j);
	if (v >= MCP_2025_06_18)
		buf_addf(j->out, ",\"outputSchema\":%s", t->output);
	if (v >= MCP_2025_03_26) {
		json_obj(j, "annotations");
		json_bool(j, "readOnlyHint", t->read_only);
		json_bool(j, "destructiveHint", t->destructive);
		json_bool(j, "openWorldHint", t->open_world);
		json_end_obj(j);
	}
	json_end_obj(j);
}

static void method_tools_list(const struct request *q)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	/* All tools are on the first page, so no valid cursor exists. */
	if (json_object_get(q->m->params, "cursor")) {
		refuse_request(q, MCP_INVALID_PARAMS, "there is no such cursor");
		return;
	}
	mcp_result_begin(&j, &q->m->id);
	add_modern_members(&j, q->sv->s, q->version);
	json_arr(&j, "tools");
	for (size_t i = 0; i < q->sv->s->n_tools; i++)
		add_tool_json(&j, &q->sv->s->tools[i], q->version);
	json_end_arr(&j);
	add_cache_hint(&j, q->version);
	mcp_result_end(&j);
	mcp_answer(q->sv, q->batch, &b);
}

static const struct mcp_tool *find_tool(const struct mcp_service *s, const char *name)
{
	for (size_t i = 0; i < s->n_tools; i++) {
		if (str_eq(s->tools[i].name, name))
			return &s->tools[i];
	}
	return NULL;
}

/* Since 2025-11-25, wrong arguments are a tool result, so that the model can read the error. */
static void refuse_args(const struct request *q, const char *text)
{
	autobuf struct buf b = BUF_INIT;
	struct mcp_call c = { .id = q->m->id, .version = q->version };

	if (q->version < MCP_2025_11_25) {
		refuse_request(q, MCP_INVALID_PARAMS, text);
		return;
	}
	mcp_add_report(&b, q->sv, &c, &(struct mcp_report){ MCP_REPORT_ERROR, text, strlen(text), 0 });
	mcp_answer(q->sv, q->batch, &b);
}

static struct mcp_call *new_call(const struct request *q, const struct mcp_tool *t, const json_t *token)
{
	struct mcp_call *c = calloc(1, sizeof(*c));

	if (!c || mcp_id_copy(&q->m->id, &c->id) < 0 || (token && mcp_id_read(token, &c->token) < 0)) {
		mcp_call_free(c);
		return NULL;
	}
	c->version = q->version;
	c->tool = t;
	c->args = json_incref(json_object_get(q->m->params, "arguments"));
	c->batch = q->batch;
	return c;
}

static void queue_call(const struct request *q, const struct mcp_tool *t, const json_t *token)
{
	struct mcp_call *c = new_call(q, t, token);
	enum mcp_code code;

	if (!c) {
		refuse_request(q, MCP_INTERNAL, "out of memory");
		return;
	}
	c->size = q->sv->taking;
	code = mcp_call_add(q->sv, c);
	if (code == 0) {
		if (c->batch)
			c->batch->open++;
		return;
	}
	refuse_request(q, code,
		       code == MCP_BUSY ? "too many calls wait" : "a call with this id is not over yet");
	mcp_call_free(c);
}

static void method_tools_call(const struct request *q)
{
	const char *name = jsonget_text_or_null(q->m->params, "name");
	const json_t *token = json_object_get(json_object_get(q->m->params, "_meta"), "progressToken");
	const struct mcp_tool *t = name ? find_tool(q->sv->s, name) : NULL;
	struct mcp_id probe = { 0 };
	struct err e = ERR_INIT;
	char text[160], safe[80];

	if (!t) {
		snprintf(text, sizeof(text), "Unknown tool: %s",
			 str_safe(name ? name : "", safe, sizeof(safe)));
		refuse_request(q, MCP_INVALID_PARAMS, name ? text : "name is missing");
		return;
	}
	if (token && mcp_id_read(token, &probe) < 0) {
		refuse_request(q, MCP_INVALID_PARAMS, "progressToken is neither a whole number nor a text");
		return;
	}
	mcp_id_release(&probe);
	if (mcp_args_check(t->params, t->n_params, json_object_get(q->m->params, "arguments"), &e) < 0)
		refuse_args(q, e.msg);
	else
		queue_call(q, t, token);
}

enum {
	M_EARLY = 1,  /* allowed before a revision is agreed on */
	M_SHAKEN = 2, /* only in revisions with a handshake */
	M_MODERN = 4, /* only in revisions without one */
};

static const struct method {
	const char *name;
	unsigned flags;
	void (*run)(const struct request *q);
} methods[] = {
	{ "initialize", M_EARLY | M_SHAKEN, method_initialize },
	{ "ping", M_EARLY | M_SHAKEN, method_ping },
	{ "server/discover", M_MODERN, method_discover },
	{ "tools/list", 0, method_tools_list },
	{ "tools/call", 0, method_tools_call },
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (str_eq(methods[i].name, name))
			return &methods[i];
	}
	return NULL;
}

/* --- requests ----------------------------------------------------------------------------------------------------------- */

static void refuse_version(const struct request *q, const char *asked)
{
	autobuf struct buf b = BUF_INIT, data = BUF_INIT;
	struct json j = JSON_INIT(&data);

	json_obj(&j, NULL);
	add_version_list(&j, "supported");
	json_str(&j, "requested", asked);
	json_end_obj(&j);
	mcp_add_error(&b, &q->m->id, MCP_BAD_VERSION, "Unsupported protocol version", buf_cstr(&data));
	mcp_answer(q->sv, q->batch, &b);
}

/* Determines the revision of a request; false: the request was refused. */
static bool find_request_version(struct request *q)
{
	const json_t *meta = json_object_get(q->m->params, "_meta");
	const json_t *named = json_object_get(meta, META_VERSION);

	if (!named) {
		q->version = q->sv->version;
		return true;
	}
	if (!json_is_string(named)) {
		refuse_request(q, MCP_INVALID_PARAMS, META_VERSION " must be a text");
		return false;
	}
	q->version = mcp_version_find(json_string_value(named));
	if (q->version != MCP_2026_07_28) {
		refuse_version(q, json_string_value(named));
		return false;
	}
	if (!json_is_object(json_object_get(meta, META_CLIENT))) {
		refuse_request(q, MCP_INVALID_PARAMS, META_CLIENT " is missing");
		return false;
	}
	return true;
}

static void take_rpc_request(struct request *q)
{
	const struct method *m = find_method(q->m->method);
	bool modern;

	if (!find_request_version(q))
		return;
	modern = q->version == MCP_2026_07_28;
	/* A client that has not named a revision is told that, rather than that the method is unknown. */
	if (!m || (m->flags & M_SHAKEN && modern) ||
	    (m->flags & M_MODERN && !modern && q->version != MCP_VERSION_NONE))
		refuse_request(q, MCP_NO_METHOD, "Method not found");
	else if (m->flags & M_MODERN && !modern)
		refuse_request(q, MCP_INVALID_PARAMS, META_VERSION " is missing");
	else if (q->version == MCP_VERSION_NONE && !(m->flags & M_EARLY))
		refuse_request(q, MCP_INVALID_REQUEST,
			       "initialize first, or name the protocol's version in _meta");
	else
		m->run(q);
}

static void take_rpc_notification(struct mcp_server *sv, const struct mcp_msg *m)
{
	struct mcp_id id = { 0 };

	/* The other notifications, notifications/initialized among them, have no effect. */
	if (!str_eq(m->method, "notifications/cancelled"))
		return;
	if (mcp_id_read(json_object_get(m->params, "requestId"), &id) == 0)
		mcp_cancel(sv, &id);
	mcp_id_release(&id);
}

static void answer_fault(struct mcp_server *sv, struct mcp_batch *b, struct mcp_fault *f)
{
	autobuf struct buf text = BUF_INIT;

	mcp_add_error(&text, &f->id, f->code, f->text, NULL);
	mcp_answer(sv, b, &text);
	mcp_fault_release(f);
}

static void take_rpc_message(struct mcp_server *sv, json_t *v, struct mcp_batch *b)
{
	struct mcp_fault f = { 0 };
	struct mcp_msg m = { 0 };

	if (mcp_msg_read(v, &m, &f) < 0) {
		answer_fault(sv, b, &f);
		return;
	}
	if (m.kind == MCP_REQUEST)
		take_rpc_request(&(struct request){ .sv = sv, .m = &m, .batch = b });
	else if (m.kind == MCP_NOTIFICATION)
		take_rpc_notification(sv, &m);
	mcp_msg_release(&m);
}

static void take_rpc_batch(struct mcp_server *sv, json_t *v)
{
	struct mcp_fault f = { .code = MCP_INVALID_REQUEST };
	struct mcp_batch *b;

	if (!mcp_version_has_batches(sv->version))
		snprintf(f.text, sizeof(f.text), "this revision of the protocol has no batches");
	else if (json_array_size(v) == 0 || json_array_size(v) > MCP_BATCH_MAX)
		snprintf(f.text, sizeof(f.text), "a batch has 1 to %d messages", MCP_BATCH_MAX);
	if (f.text[0]) {
		answer_fault(sv, NULL, &f);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		sv->over = true;
		return;
	}
	b->open = 1;
	for (size_t i = 0; i < json_array_size(v); i++)
		take_rpc_message(sv, json_array_get(v, i), b);
	mcp_batch_close(sv, b);
}

void mcp_take_line(struct mcp_server *sv, const char *data, size_t len)
{
	struct mcp_fault f = { 0 };
	json_t *v = NULL;

	sv->taking = len;
	if (mcp_line_parse(data, len, &v, &f) < 0) {
		answer_fault(sv, NULL, &f);
		return;
	}
	if (json_is_array(v))
		take_rpc_batch(sv, v);
	else
		take_rpc_message(sv, v, NULL);
	json_decref(v);
}

/* --- results of tools ----------------------------------------------------------------------------------------------------- */

static void add_text_content(struct json *j, const char *text, size_t len)
{
	json_arr(j, "content");
	json_obj(j, NULL);
	json_str(j, "type", "text");
	json_strn(j, "text", text, len);
	json_end_obj(j);
	json_end_arr(j);
}

/*
 * A tool's result object is sent to the model as JSON text: a command's output is a value inside of it, and
 * cannot pass for a statement of the server.
 */
void mcp_add_report(struct buf *out, const struct mcp_server *sv, const struct mcp_call *c,
		    const struct mcp_report *r)
{
	struct json j = JSON_INIT(out);

	mcp_result_begin(&j, &c->id);
	add_modern_members(&j, sv->s, c->version);
	add_text_content(&j, r->data, r->len);
	if (r->type != MCP_REPORT_ERROR && c->version >= MCP_2025_06_18) {
		buf_adds(out, ",\"structuredContent\":");
		buf_add(out, r->data, r->len);
	}
	json_bool(&j, "isError", r->type != MCP_REPORT_RESULT);
	mcp_result_end(&j);
}

void mcp_add_progress(struct buf *out, const struct mcp_call *c, const struct mcp_report *r)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "method", "notifications/progress");
	json_obj(&j, "params");
	mcp_id_json(&j, "progressToken", &c->token);
	json_u64(&j, "progress", r->bytes);
	if (c->version >= MCP_2025_03_26)
		json_strn(&j, "message", r->data, r->len);
	json_end_obj(&j);
	json_end_obj(&j);
}
