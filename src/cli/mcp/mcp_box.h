/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of `coffer mcp`: one run, whose layer every call works on, and which is started once for each call.
 *
 * Invariants (doc/adr/0016)
 *  X1  Each call has a sandbox of its own: new namespaces, new processes, an empty /tmp and home. Of one call nothing is left
 *      for the next but what it wrote to the workspace (and to the layer of an image's root), and what a
 *      person granted to the session (X7; approval/list/granted.h).
 *  X2  One call at a time has the layer, by the run's own lock; whoever else holds it just then is waited for.
 *  X3  A call ends with whoever wanted it: end of file on `alive` kills the sandbox, however it came about.
 *  X4  Between two calls there is no process, mount or control group of a sandbox.
 *  X8  A session that was started without a word about the network has none but what a person granted it; with --net none
 *      nobody is asked.
 */
#ifndef CLI_MCP_BOX_H
#define CLI_MCP_BOX_H

#include "cli/run/run_args.h"
#include "cli/run/session.h"
#include "policy/acts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mcp_box {
	bool usage; /* mcp_box_open() failed because of the command line */
	const struct run_args *args;
	char id[RUN_ID_LEN + 1];
	uint64_t timeout; /* ns; what a call may take at most, and does unless it says less */
	bool wipe;	  /* nothing is left of it at its end */
	bool has_original;
	struct acts acts; /* what the policy says of tools, as it was when the session began */
	int session; /* while it is open there is one, and what was granted to it holds (approval/list/granted.h) */
	char *file; /* the policy's real path; NULL: none */
};

#define MCP_BOX_INIT ((struct mcp_box){ .session = -1 })

/* What a call runs. */
struct mcp_box_cmd {
	char *const *argv;
	bool builtin;	   /* a function of coffer-init (sandbox/init/init_file.c) */
	const char *cwd;   /* NULL: /workspace */
	const json_t *env; /* texts by name; NULL: none */
	uint64_t timeout;  /* ns; 0: the session's */
	int in, out, err;  /* -1: nothing */
	int ours[3];	   /* the other ends of these, which its launcher must not hold; -1: none */
	int alive;	   /* X3 */
	const char *path;  /* builtin: the file it is about, relative; NULL: none */
};

#define MCP_BOX_NOTES 4096

/* How it ended. */
struct mcp_box_end {
	int code; /* 0, or negative: it did not run, and msg tells */
	char id[RUN_ID_LEN + 1];
	int cause; /* enum run_cause */
	int exit_code, signal;
	uint64_t wall_ns;
	bool output_cut;
	bool usage;		   /* it did not run because the command line of coffer mcp is wrong */
	bool hidden;		   /* `path` is of those that are shown empty */
	bool empty;		   /* the workspace is nobody's directory */
	char msg[1024], hint[512]; /* what went wrong, where something did */
	char notes[MCP_BOX_NOTES]; /* what the network's guard said, line by line: ours, not the command's */
};

/* A call on its way: its launcher, and a pipe from which struct mcp_box_end comes once it is over. */
struct mcp_box_run {
	pid_t pid;
	int end;
};

/* `first`: there is no run yet; says on stderr what a person should know. */
int mcp_box_start(const struct mcp_box *b, const struct mcp_box_cmd *c, bool first, struct mcp_box_run *ret,
		  struct err *e) MUST_CHECK;
int mcp_box_wait(struct mcp_box_run *r, struct mcp_box_end *ret, struct err *e) MUST_CHECK;

/* Makes the run, by a sandbox that does nothing, and its first checkpoint. */
int mcp_box_open(struct mcp_box *b, struct err *e) MUST_CHECK;

/* The end of the session: what was granted to it lapses. Then mcp_box_close() says what is left, or leaves
 * nothing. */
int mcp_box_end_session(struct mcp_box *b, struct err *e) MUST_CHECK;
int mcp_box_close(const struct mcp_box *b, struct err *e) MUST_CHECK;
/* For a process that waits for the session's server to die, of whatever: until it has. */
void mcp_box_outlive(const struct mcp_box *b);

/* X2: the run's directory, with its lock. */
int mcp_box_claim(struct state *st, const char *id, struct err *e) MUST_CHECK;

/* Waits until nobody holds the run any more. */
int mcp_box_settle(const struct mcp_box *b, struct err *e) MUST_CHECK;

#endif
