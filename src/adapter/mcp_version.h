/* SPDX-License-Identifier: Apache-2.0 */
/* The supported revisions of the protocol, and what differs between them. */
#ifndef ADAPTER_MCP_VERSION_H
#define ADAPTER_MCP_VERSION_H

#include <stdbool.h>

/* Oldest first. A feature that a revision introduced is in all later ones, unless noted here. */
enum mcp_version {
	MCP_2024_11_05,
	MCP_2025_03_26, /* progress has a message; annotations of tools */
	MCP_2025_06_18, /* batches removed; structured results, titles */
	MCP_2025_11_25, /* wrong arguments of a tool are a tool result, not a protocol error */
	MCP_2026_07_28, /* no handshake: each request names its revision; server/discover; no ping */
	MCP_VERSION_COUNT
};

#define MCP_VERSION_NONE MCP_VERSION_COUNT /* no revision is agreed on yet */
/* The newest revision that `initialize` can agree on; later ones are named in each request. */
#define MCP_VERSION_HANDSHAKE MCP_2025_11_25

const char *mcp_version_name(enum mcp_version v); /* "2025-06-18" */

/* MCP_VERSION_NONE: unknown. */
enum mcp_version mcp_version_find(const char *name);

/* The server's choice for a client that names this revision in `initialize`: the same, or our newest. */
enum mcp_version mcp_version_agree(const char *asked);

/* JSON-RPC's batches were removed with 2025-06-18. */
static inline bool mcp_version_has_batches(enum mcp_version v)
{
	return v == MCP_2024_11_05 || v == MCP_2025_03_26;
}

#endif
