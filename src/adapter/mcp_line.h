/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON-RPC 2.0, as the Model Context Protocol uses them on stdio. Pure: no I/O, no clock.
 *
 * Invariants
 *  L1  A line has at most MCP_LINE_MAX bytes and MCP_DEPTH_MAX levels; both are checked before it is
 *      parsed.
 *  L2  A line is strict UTF-8 and JSON: no duplicate key, no number that does not fit, no NUL in a string.
 *  L3  A message is a request, a notification or a response. Anything else is a fault with JSON-RPC's code
 *      for it, and with the id if one could be read.
 *  L4  Each message is written as one line: no byte of a text becomes a newline on the wire.
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
#define MCP_ID_MAX 256 /* bytes of a text id or progress token */
#define MCP_BATCH_MAX 64

enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_NO_METHOD = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL = -32603,
	MCP_BUSY = -32000, /* server-defined: too many calls wait */
	MCP_BAD_VERSION = -32022,
};

/* A request's id, or a progress token: a number or a text. */
struct mcp_id {
	enum { MCP_ID_NONE, MCP_ID_NUMBER, MCP_ID_TEXT } kind;
	int64_t number;
	char *text;
};

int mcp_id_read(const json_t *v, struct mcp_id *ret) MUST_CHECK; /* -EINVAL: neither number nor text */
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
	json_t *root;	    /* owns both */
};

void mcp_msg_release(struct mcp_msg *m);

/* Why a line, or one message of a batch, is invalid. */
struct mcp_fault {
	enum mcp_code code;
	struct mcp_id id; /* MCP_ID_NONE: it could not be read */
	char text[200];
};

void mcp_fault_release(struct mcp_fault *f);

/* Parses a line, without its newline, as JSON. The caller releases *ret with json_decref(). */
int mcp_line_parse(const char *data, size_t len, json_t **ret, struct mcp_fault *f) MUST_CHECK;

/* Reads one message from it; takes a reference of its own. */
int mcp_msg_read(json_t *v, struct mcp_msg *ret, struct mcp_fault *f) MUST_CHECK;

/* Begins {"jsonrpc":"2.0","id":…,"result":{ … }}, without a newline; the caller adds the members. */
void mcp_result_begin(struct json *j, const struct mcp_id *id);
void mcp_result_end(struct json *j);

/* `data` is a JSON value, or NULL. */
void mcp_add_error(struct buf *out, const struct mcp_id *id, enum mcp_code code, const char *text,
		   const char *data);

#endif
