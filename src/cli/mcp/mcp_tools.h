/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of `coffer mcp`. Each runs in a process of its own (adapter/mcp_job.h); ctx is the session. */
#ifndef CLI_MCP_TOOLS_H
#define CLI_MCP_TOOLS_H

#include "adapter/mcp_job.h"
#include "cli/mcp/mcp_box.h"

extern const struct mcp_tool mcp_tool_exec, mcp_tool_read, mcp_tool_write, mcp_tool_checkpoint,
	mcp_tool_rollback, mcp_tool_diff, mcp_tool_access;

/* The policy's list of tools, read once; one that speaks of nothing else gives no network. Then for each call: may it be
 * made? A person is asked where the list says so, and the client hears of it as progress. */
int mcp_policy_open(struct mcp_box *b, struct run_args *a, struct err *e) MUST_CHECK;
int mcp_gate(void *ctx, const struct mcp_tool *t, const json_t *args, const struct mcp_job *job,
	     struct err *e) MUST_CHECK;

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
 * How somebody who may decide is asked for a rule, and what came of it. It waits for the answer, and a grant holds for the rest of the
 * session. With --net none it writes the wish into the log, and says how a person grants it.
 */
struct mcp_access {
	const char *rule, *reason;
	unsigned wait;	  /* s */
	const int *alive; /* as struct mcp_job has it */
	bool granted;
	char answer[1024];
};
int mcp_access_ask(const struct mcp_box *b, struct mcp_access *a, struct err *e) MUST_CHECK;

#endif
