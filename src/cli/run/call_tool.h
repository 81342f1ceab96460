/* SPDX-License-Identifier: Apache-2.0 */
/* coffer call --tool: what the policies say of a tool's call, before anything of its sandbox is made. */
#ifndef CLI_CALL_TOOL_H
#define CLI_CALL_TOOL_H

#include "approval/toolcall.h"
#include "cli/common/changed.h"
#include "cli/run/session.h"

struct call_tool {
	bool usage;		 /* call_tool_open() failed because of the command line */
	const char *name, *args; /* as typed; name NULL: no tool is named, and nothing is decided */
	struct toolcall t;
	struct acts own, of; /* of --policy, and of the run that the call is made for */
	char *file;	     /* of --policy, its real path; NULL: none */
	struct tool_verdict v;
	uint64_t timeout_s;
	char ask[ASK_ID_MAX]; /* what was asked, "" when nothing was */
};

#define CALL_TOOL_INIT ((struct call_tool){ .t = TOOLCALL_INIT })

/* Reads and decides: `policy` as typed or NULL, `from` the run that it is for or NULL. *ret_egress: the policy has a word on
 * the network too. */
int call_tool_open(struct call_tool *c, const char *policy, const struct changed *from, bool *ret_egress,
		   struct err *e) MUST_CHECK;
/* 0: it may run. Otherwise said, and the exit code. `argv` is all of the command line: the answer holds for no other. */
int call_tool_pass(struct call_tool *c, struct session *s, const struct changed *from, char **argv);
/* The last word before it runs as `run`. */
int call_tool_log(const struct call_tool *c, struct session *s, const char *run, struct err *e) MUST_CHECK;
void call_tool_release(struct call_tool *c);

#endif
