/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools of `coffer mcp`. Each call of one runs in a process of its own (adapter/mcp_job.h); ctx is the
 * session.
 */
#ifndef CLI_MCP_TOOLS_H
#define CLI_MCP_TOOLS_H

#include "adapter/mcp_job.h"
#include "cli/mcp/mcp_box.h"

extern const struct mcp_tool mcp_tool_exec, mcp_tool_read, mcp_tool_write, mcp_tool_checkpoint,
	mcp_tool_rollback, mcp_tool_diff, mcp_tool_access;

/*
 * cli_mcp_policy_open() reads the policy's list of tools once; a policy with nothing else gives no network.
 * cli_mcp_gate() then decides about each call; where the list says so, it asks a person, and the client sees
 * that as progress.
 */
int cli_mcp_policy_open(struct mcp_box *b, struct run_args *a, struct err *e) MUST_CHECK;
int cli_mcp_gate(void *ctx, const struct mcp_tool *t, const json_t *args, const struct mcp_job *job,
		 struct err *e) MUST_CHECK;

/*
 * Converts a path from a model, relative to the workspace or absolute in it, to a relative one:
 * "src/main.c". NULL and an error if it leads out of the workspace or is invalid. The caller frees it.
 */
char *cli_mcp_path(const char *path, struct err *e);

/* Makes a checkpoint after a call: its number, or 0 if nothing has changed, and the changed paths. */
struct mcp_changes {
	uint32_t number;
	struct buf list; /* a JSON array of {"path","kind"}, at most MCP_CHANGES_SHOWN */
	uint64_t n;
};

#define MCP_CHANGES_SHOWN 200

int cli_mcp_note_changes(const struct mcp_box *b, const char *label, struct mcp_changes *ret,
			 struct err *e) MUST_CHECK;

/*
 * Asks a person for a rule and waits for the answer; a grant holds for the rest of the session. With --net
 * none it only logs the request and says how a person can grant it.
 */
struct mcp_access {
	const char *rule, *reason;
	unsigned wait;	  /* s */
	const int *alive; /* as in struct mcp_job */
	bool granted;
	char answer[1024];
};
int cli_mcp_access_ask(const struct mcp_box *b, struct mcp_access *a, struct err *e) MUST_CHECK;

#endif
