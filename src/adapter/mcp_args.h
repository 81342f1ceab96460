/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a tool. One table describes them: the schema for clients is made from it, and their
 * requests are checked by it. An argument that is not in the table, has another type, is too long or out of
 * range is refused by name.
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
	MCP_WORD,    /* one of `words`, which are separated by blanks */
	MCP_INTEGER, /* from 0 to max */
	MCP_BOOL,
	MCP_LIST, /* of texts; max: number of items */
	MCP_MAP,  /* an object with text values; max: number of members */
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

/* `args` may be NULL: no arguments. */
int mcp_args_check(const struct mcp_param *p, size_t n, const json_t *args, struct err *e) MUST_CHECK;

/* These read arguments that mcp_args_check() has accepted. */
const char *mcp_text(const json_t *args, const char *name); /* NULL: not given */
uint64_t mcp_integer(const json_t *args, const char *name, uint64_t otherwise);
bool mcp_bool(const json_t *args, const char *name, bool otherwise);

#endif
