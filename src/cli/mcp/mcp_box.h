/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of `coffer mcp`: one run, whose layer every call works on and which is started once for each
 * call.
 *
 * Invariants (doc/adr/0016, whose X5 to X7 concern other files)
 *  X1  Each call has a sandbox of its own: new namespaces, new processes, an empty /tmp and home. Nothing
 *      of a call remains for the next except its writes to the workspace (and to the layer of an image's
 *      root), and rules that a person granted to the session (approval/list/granted.h).
 *  X2  One call at a time has the layer, by the run's own lock; a call waits for any other holder of the
 *      lock.
 *  X3  A call ends with its client's interest in it: end of file on `alive` kills the sandbox, whether the
 *      call was cancelled or the server died.
 *  X4  Between two calls there is no process, mount or control group of a sandbox.
 *  X8  A session started without an option about the network has no network except for rules that a person
 *      granted to it; with --net none nobody is asked.
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
	bool usage; /* cli_mcp_box_open() failed because of a wrong command line */
	const struct run_args *args;
	char id[RUN_ID_LEN + 1];
	uint64_t timeout; /* ns; the limit of each call, unless the call names a shorter one */
	bool wipe;	  /* remove the layer at the end of the session */
	bool has_original;
	struct acts acts; /* the policy's rules for tools, as of the session's start */
	int session; /* held open while the session lives: its grants are in force (approval/list/granted.h) */
	char *file;  /* the policy's real path; NULL: none */
};

#define MCP_BOX_INIT ((struct mcp_box){ .session = -1 })

/* The command of a call. */
struct mcp_box_cmd {
	char *const *argv;
	bool builtin;	   /* a function of coffer-init (sandbox/init/init_file.c) */
	const char *cwd;   /* NULL: /workspace */
	const json_t *env; /* an object of strings; NULL: none */
	uint64_t timeout;  /* ns; 0: the session's limit */
	int in, out, err;  /* -1: none */
	int ours[3];	   /* the server's ends of these pipes, which the launcher must close; -1: none */
	int alive;	   /* mcp_box.X3: end of file there ends the call */
	const char *path;  /* builtin: the file that it reads or writes, relative; NULL: none */
};

#define MCP_BOX_NOTES 4096

/* How a call ended. */
struct mcp_box_end {
	int code; /* 0; negative: it did not run, and msg tells why */
	char id[RUN_ID_LEN + 1];
	int cause; /* enum run_cause */
	int exit_code, signal;
	uint64_t wall_ns;
	bool output_cut;
	bool usage;		   /* it did not run because the command line of coffer mcp is wrong */
	bool hidden;		   /* `path` is masked: the sandbox sees it as empty */
	bool empty;		   /* the workspace began empty (--ephemeral) */
	char msg[1024], hint[512]; /* the error, if there was one */
	char notes[MCP_BOX_NOTES]; /* messages of the guard, one per line: coffer's, not the command's */
};

/* A running call: its launcher, and the pipe on which struct mcp_box_end arrives at the end. */
struct mcp_box_run {
	pid_t pid;
	int end;
};

/* Starts a call. `first`: the run does not exist yet; prints what a person should know to stderr. */
int cli_mcp_box_start(const struct mcp_box *b, const struct mcp_box_cmd *c, bool first,
		      struct mcp_box_run *ret, struct err *e) MUST_CHECK;
int cli_mcp_box_wait(struct mcp_box_run *r, struct mcp_box_end *ret, struct err *e) MUST_CHECK;

/* Creates the run, with a sandbox that does nothing, and its first checkpoint. */
int cli_mcp_box_open(struct mcp_box *b, struct err *e) MUST_CHECK;

/* Ends the session: its grants lapse. cli_mcp_box_close() then reports what is left, or removes it. */
int cli_mcp_box_end_session(struct mcp_box *b, struct err *e) MUST_CHECK;
int cli_mcp_box_close(const struct mcp_box *b, struct err *e) MUST_CHECK;
/* Blocks until the MCP server process exits, for any reason. */
void cli_mcp_box_outlive(const struct mcp_box *b);

/* Claims the run (mcp_box.X2): returns its directory, with its lock held. */
int cli_mcp_box_claim(struct state *st, const char *id, struct err *e) MUST_CHECK;

/* Waits until no process holds the run's lock any more. */
int cli_mcp_box_settle(const struct mcp_box *b, struct err *e) MUST_CHECK;

#endif
