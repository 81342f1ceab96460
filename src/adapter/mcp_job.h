/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool call in a child process of its own: the server's loop never waits for a tool, and a tool that
 * crashes takes only the child with it. The child reports over a pipe: progress, then its result. It cannot
 * write to the client: its stdout is the server's stderr.
 *
 * A second pipe is held open by the server alone. Its end of file, because the call was cancelled or the
 * server died, ends a sandbox that the call has started: the launcher watches it (run_io.alive_fd).
 */
#ifndef ADAPTER_MCP_JOB_H
#define ADAPTER_MCP_JOB_H

#include "adapter/mcp_args.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The child's side. */
struct mcp_job {
	int out;       /* reports to the server */
	int alive;     /* end of file: the call was cancelled, or the server died */
	bool progress; /* the client wants progress */
};

struct mcp_tool {
	const char *name, *title;
	const char *help; /* for a model to read: short and exact */
	const struct mcp_param *params;
	size_t n_params;
	const char *output; /* JSON schema of its results */
	bool read_only, destructive, open_world;
	/*
	 * Called in the child before run(): may the tool be called? 0: yes; negative: no, and *e tells why.
	 * It may block, and must end when job->alive does. NULL: always allowed.
	 */
	int (*gate)(void *ctx, const struct mcp_tool *t, const json_t *args, const struct mcp_job *job,
		    struct err *e);
	/*
	 * Called in the child. *result gets one JSON object. 0: success; 1: the object describes a failure of
	 * the tool; negative: there is no object, and *e tells why.
	 */
	int (*run)(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
		   struct err *e);
};

/*
 * Reports progress: bytes of output so far, and the output since the last report. Does nothing if the
 * client wants no progress.
 */
void mcp_job_progress(const struct mcp_job *job, uint64_t bytes, const char *text, size_t len);

/* The server's side. */
struct mcp_proc {
	pid_t pid;     /* -1: none */
	int pipe;      /* the child's reports */
	int alive;     /* see above; -1: the call was told to end */
	struct buf in; /* reports that were read and not taken yet */
	size_t taken;  /* bytes of `in` that the last report used */
};

#define MCP_PROC_INIT ((struct mcp_proc){ .pid = -1, .pipe = -1, .alive = -1 })

enum mcp_report_type {
	MCP_REPORT_PROGRESS, /* u64 bytes, then a text */
	MCP_REPORT_RESULT,   /* JSON */
	MCP_REPORT_FAILED,   /* JSON, of a failure */
	MCP_REPORT_ERROR,    /* a text */
	MCP_REPORT_COUNT
};

struct mcp_report {
	enum mcp_report_type type;
	const char *data; /* valid until the next mcp_proc_next() */
	size_t len;
	uint64_t bytes;
};

int mcp_proc_start(struct mcp_proc *p, const struct mcp_tool *t, void *ctx, const json_t *args, bool progress,
		   struct err *e) MUST_CHECK;
/* Reads available data. 0: there may be more later; -EPIPE: end of the reports. */
int mcp_proc_read(struct mcp_proc *p) MUST_CHECK;
/* 1 and a whole report, or 0. */
int mcp_proc_next(struct mcp_proc *p, struct mcp_report *ret) MUST_CHECK;
/* Tells the call to end, by closing `alive`. */
void mcp_proc_end(struct mcp_proc *p);
/* Waits for the child's exit and releases everything. */
void mcp_proc_reap(struct mcp_proc *p);

#endif
