/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a tool. One table says what there is: the schema that clients are shown is made from it, and what they send
 * is read by it. An argument that is not in the table, of another type, too long or out of range is refused with its name.
 */
#ifndef ADAPTER_MCP_ARGS_H
#define ADAPTER_MCP_ARGS_H

#include "base/err.h"
#include "base/json.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum mcp_type {
	MCP_TEXT,    /* max: bytes */
	MCP_WORD,    /* one of those in `words`, with blanks between */
	MCP_INTEGER, /* from 0 on; max: the greatest */
	MCP_BOOL,
	MCP_LIST, /* of texts; max: how many */
	MCP_MAP,  /* of texts by name; max: how many */
};

struct mcp_param {
	const char *name;
	enum mcp_type type;
	bool required;
	uint64_t max;
	const char *help;
	const char *words;
};

#define MCP_TEXT_IN_LIST (1u << 20) /* bytes of one text in a list or a map */

/* Members "type", "properties", "required" and "additionalProperties". */
void mcp_schema(const struct mcp_param *p, size_t n, struct json *j);

/* `args` may be NULL: none. */
int mcp_args_check(const struct mcp_param *p, size_t n, const json_t *args, struct err *e) MUST_CHECK;

/* Of arguments that were checked. */
const char *mcp_text(const json_t *args, const char *name); /* NULL: not given */
uint64_t mcp_integer(const json_t *args, const char *name, uint64_t otherwise);
bool mcp_bool(const json_t *args, const char *name, bool otherwise);

#endif
