/* SPDX-License-Identifier: Apache-2.0 */
/* coffer call --tool: the decision of the policies about a tool's call, before any part of its sandbox is
 * made. */
#ifndef CLI_CALL_TOOL_H
#define CLI_CALL_TOOL_H

#include "approval/toolcall.h"
#include "cli/common/changed.h"
#include "cli/run/session.h"

struct call_tool {
	bool usage;		 /* cli_call_tool_open() failed because of the command line */
	const char *name, *args; /* as typed; without a name no tool is decided about */
	struct toolcall t;
	struct acts own, of; /* the rules of --policy, and those of the run that the call is made for */
	char *file;	     /* the real path of --policy; NULL: none */
	struct tool_verdict v;
	uint64_t timeout_s;
	char ask[ASK_ID_MAX]; /* id of the question; "" if nobody was asked */
};

#define CALL_TOOL_INIT ((struct call_tool){ .t = TOOLCALL_INIT })

/* Reads the policies and decides. `policy` is as typed or NULL, `from` the run that the call is made for or
 * NULL. *ret_egress: the policy also has rules for the network. */
int cli_call_tool_open(struct call_tool *c, const char *policy, const struct changed *from, bool *ret_egress,
		       struct err *e) MUST_CHECK;
/* Asks a person if the verdict says so. Returns 0 if the call may run, else an exit code after printing the
 * reason. `argv` is the whole command line: an approval holds for no other. */
int cli_call_tool_pass(struct call_tool *c, struct session *s, const struct changed *from, char **argv);
/* Writes the decision to the audit log, immediately before the call runs as `run`. */
int cli_call_tool_log(const struct call_tool *c, struct session *s, const char *run,
		      struct err *e) MUST_CHECK;
void cli_call_tool_release(struct call_tool *c);

#endif
