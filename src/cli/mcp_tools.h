/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of `coffer mcp`. Each runs in a process of its own (adapter/mcp_job.h); ctx is the session. */
#ifndef CLI_MCP_TOOLS_H
#define CLI_MCP_TOOLS_H

#include "adapter/mcp_job.h"
#include "cli/mcp_box.h"

extern const struct mcp_tool mcp_tool_exec, mcp_tool_read, mcp_tool_write, mcp_tool_checkpoint,
	mcp_tool_rollback, mcp_tool_diff, mcp_tool_access;

/* A path as a model names it, below the workspace or absolute in it, as one that begins nowhere: "src/main.c". NULL with the
 * reason when it leads out or is none. The caller frees it. */
char *mcp_path(const char *path, struct err *e);

/* A checkpoint of what a call left: its number, or 0 when nothing had changed; then *ret has the paths. */
struct mcp_changes {
	uint32_t number;
	struct buf list; /* a JSON array of {"path","kind"}, at most MCP_CHANGES_SHOWN */
	uint64_t n;
};

#define MCP_CHANGES_SHOWN 200

int mcp_note_changes(const struct mcp_box *b, const char *label, struct mcp_changes *ret,
		     struct err *e) MUST_CHECK;

/*
 * How somebody who may decide is asked for a rule, and what came of it. The one that is here writes the wish into the log
 * and says how a person grants it; one that waits for an answer takes its place.
 */
struct mcp_access {
	const char *rule, *reason;
	bool granted;
	char answer[1024];
};
int mcp_access_ask(const struct mcp_box *b, struct mcp_access *a, struct err *e) MUST_CHECK;

#endif
