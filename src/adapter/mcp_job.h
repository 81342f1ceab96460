/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of a tool, in a child process of its own: the loop never waits for a tool, and what a tool breaks is broken in the
 * child. The child reports over a pipe: progress, then how it ended. It has no way to the client: its stdout is our stderr.
 *
 * A second pipe is held open by the server alone. Its end of file, by cancelling or by the server's death however that came
 * about, is what ends a sandbox that the call has made: the launcher watches it (run_io.alive_fd).
 */
#ifndef ADAPTER_MCP_JOB_H
#define ADAPTER_MCP_JOB_H

#include "adapter/mcp_args.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the child has. */
struct mcp_job {
	int out;       /* to the server */
	int alive;     /* end of file there: nobody wants it any more */
	bool progress; /* somebody listens */
};

struct mcp_tool {
	const char *name, *title;
	const char *help; /* for a model to read: short and exact */
	const struct mcp_param *params;
	size_t n_params;
	const char *output; /* the schema of its results: JSON */
	bool read_only, destructive, open_world;
	/* In the child, before run(): may it be called? 0; negative: no, and *e tells. May take its time, and ends with
	 * job->alive. NULL: it may. */
	int (*gate)(void *ctx, const struct mcp_tool *t, const json_t *args, const struct mcp_job *job,
		    struct err *e);
	/*
	 * In the child. *result gets one JSON object. 0; 1: the object tells of a failure of the tool; negative: there is none,
	 * and *e tells.
	 */
	int (*run)(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
		   struct err *e);
};

/* So many bytes so far, and what is new since the last time. Nothing where nobody listens. */
void mcp_job_progress(const struct mcp_job *job, uint64_t bytes, const char *text, size_t len);

/* What the server has. */
struct mcp_proc {
	pid_t pid;     /* -1: none */
	int pipe;      /* what it reports */
	int alive;     /* see above; -1: it was told to end */
	struct buf in; /* a report that is not whole */
	size_t taken;  /* of these, what the last report had */
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
	const char *data; /* until the next one is taken */
	size_t len;
	uint64_t bytes;
};

int mcp_proc_start(struct mcp_proc *p, const struct mcp_tool *t, void *ctx, const json_t *args, bool progress,
		   struct err *e) MUST_CHECK;
/* Reads what is there. 0: there may be more later; -EPIPE: that was all. */
int mcp_proc_read(struct mcp_proc *p) MUST_CHECK;
/* 1 and a report that is whole, or 0. */
int mcp_proc_next(struct mcp_proc *p, struct mcp_report *ret) MUST_CHECK;
/* Nobody wants it any more. */
void mcp_proc_end(struct mcp_proc *p);
/* Waits until it is gone. */
void mcp_proc_reap(struct mcp_proc *p);

#endif
