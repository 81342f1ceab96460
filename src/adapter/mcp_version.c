/* SPDX-License-Identifier: Apache-2.0 */
/* The table of protocol revisions: names, lookup, and the choice that `initialize` makes. Pure. */
#include "adapter/mcp_version.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <assert.h>

static const char *const names[] = {
	[MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26", [MCP_2025_06_18] = "2025-06-18",
	[MCP_2025_11_25] = "2025-11-25", [MCP_2026_07_28] = "2026-07-28",
};
static_assert(ARRAY_SIZE(names) == MCP_VERSION_COUNT, "a name for each revision");

const char *mcp_version_name(enum mcp_version v)
{
	BUG_ON(v >= MCP_VERSION_COUNT);
	return names[v];
}

enum mcp_version mcp_version_find(const char *name)
{
	for (int v = 0; v < MCP_VERSION_COUNT; v++) {
		if (str_eq(names[v], name))
			return (enum mcp_version)v;
	}
	return MCP_VERSION_NONE;
}

enum mcp_version mcp_version_agree(const char *asked)
{
	enum mcp_version v = mcp_version_find(asked);

	return v <= MCP_VERSION_HANDSHAKE ? v : MCP_VERSION_HANDSHAKE;
}
