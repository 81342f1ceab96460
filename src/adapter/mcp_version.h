/* SPDX-License-Identifier: Apache-2.0 */
/* The revisions of the protocol that are spoken, and what is different in each. */
#ifndef ADAPTER_MCP_VERSION_H
#define ADAPTER_MCP_VERSION_H

#include <stdbool.h>

/* Oldest first: what a revision brought, all later ones have, unless it says so here. */
enum mcp_version {
	MCP_2024_11_05,
	MCP_2025_03_26, /* progress has a message; annotations of tools */
	MCP_2025_06_18, /* no batches any more; structured results, titles */
	MCP_2025_11_25, /* wrong arguments of a tool are a result of it, not an error of the protocol */
	MCP_2026_07_28, /* no handshake: each request names its revision; server/discover; no ping */
	MCP_VERSION_COUNT
};

#define MCP_VERSION_NONE MCP_VERSION_COUNT /* nothing is agreed on yet */
/* The newest that is agreed on by `initialize`; the one after it is named by each request. */
#define MCP_VERSION_HANDSHAKE MCP_2025_11_25

const char *mcp_version_name(enum mcp_version v); /* "2025-06-18" */

/* MCP_VERSION_NONE when it is not known. */
enum mcp_version mcp_version_find(const char *name);

/* What the server answers to a client that names this one in its `initialize`: the same, or our newest. */
enum mcp_version mcp_version_agree(const char *asked);

/* JSON-RPC's arrays of messages went with 2025-06-18. */
static inline bool mcp_version_has_batches(enum mcp_version v)
{
	return v == MCP_2024_11_05 || v == MCP_2025_03_26;
}

#endif
