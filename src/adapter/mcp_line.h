/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON-RPC 2.0 as the Model Context Protocol has them on stdio. Pure: no I/O, no clock.
 *
 * Invariants
 *  L1  A line has at most MCP_LINE_MAX bytes and MCP_DEPTH_MAX levels; both are looked at before it is parsed.
 *  L2  It is UTF-8 and JSON to the letter: no key twice, no number that does not fit, no NUL in a text.
 *  L3  A message is a request, a notification or a response. Whatever else comes is a fault with the code that JSON-RPC has
 *      for it, and the id where one could be read.
 *  L4  What is written is one line: whatever bytes a text has, none of them is a newline on the wire.
 */
#ifndef ADAPTER_MCP_LINE_H
#define ADAPTER_MCP_LINE_H

#include "base/buf.h"
#include "base/json.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define MCP_LINE_MAX (4u << 20)
#define MCP_DEPTH_MAX 64
#define MCP_ID_MAX 256 /* bytes of an id, or of a progress token, that is a text */
#define MCP_BATCH_MAX 64

enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_NO_METHOD = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL = -32603,
	MCP_BUSY = -32000, /* of those that are the server's own: too many calls wait */
	MCP_BAD_VERSION = -32022,
};

/* A request's id, or a progress token: a number or a text. */
struct mcp_id {
	enum { MCP_ID_NONE, MCP_ID_NUMBER, MCP_ID_TEXT } kind;
	int64_t number;
	char *text;
};

int mcp_id_read(const json_t *v, struct mcp_id *ret) MUST_CHECK; /* -EINVAL when it cannot be one */
int mcp_id_copy(const struct mcp_id *id, struct mcp_id *ret) MUST_CHECK;
bool mcp_id_is(const struct mcp_id *a, const struct mcp_id *b);
void mcp_id_json(struct json *j, const char *key, const struct mcp_id *id);
void mcp_id_release(struct mcp_id *id);

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE };

struct mcp_msg {
	enum mcp_kind kind;
	struct mcp_id id;
	const char *method; /* NULL for a response */
	json_t *params;	    /* an object, or NULL */
	json_t *root;	    /* holds both */
};

void mcp_msg_release(struct mcp_msg *m);

/* Why a line, or one message of a batch, is none. */
struct mcp_fault {
	enum mcp_code code;
	struct mcp_id id; /* MCP_ID_NONE: it could not be read */
	char text[200];
};

void mcp_fault_release(struct mcp_fault *f);

/* A line without its newline, to JSON. *ret is to be given back with json_decref(). */
int mcp_line_parse(const char *data, size_t len, json_t **ret, struct mcp_fault *f) MUST_CHECK;

/* One message of it: takes a reference of its own. */
int mcp_msg_read(json_t *v, struct mcp_msg *ret, struct mcp_fault *f) MUST_CHECK;

/* {"jsonrpc":"2.0","id":…,"result":{ … what the caller adds … }}: without a newline. */
void mcp_result_begin(struct json *j, const struct mcp_id *id);
void mcp_result_end(struct json *j);

/* `data` is a JSON value, or NULL. */
void mcp_add_error(struct buf *out, const struct mcp_id *id, enum mcp_code code, const char *text,
		   const char *data);

#endif
