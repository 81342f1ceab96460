/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Model Context Protocol server over two descriptors.
 *
 * Invariants
 *  S1  Only whole lines of the protocol are written to the client.
 *  S2  Every request gets exactly one response, in any order, except for a cancelled one, which gets none.
 *  S3  Tool calls run one after the other, in the order of their requests, because they share one
 *      workspace. All other requests are answered at once, even while a call runs.
 *  S4  Memory is bounded: a line, the waiting calls, and unread responses. Beyond the limits no more input
 *      is read.
 *  S5  When the client is gone (end of input, or nobody reads the output) or a signal arrives, the running
 *      call is ended, waiting calls are dropped, and serving is over once no call runs.
 */
#ifndef ADAPTER_MCP_SERVE_H
#define ADAPTER_MCP_SERVE_H

#include "adapter/mcp_job.h"

struct mcp_service {
	const char *name, *title, *version;
	const char *instructions; /* for a model to read */
	const struct mcp_tool *tools;
	size_t n_tools;
	void *ctx; /* passed to the tools */
};

/*
 * Serves until the client is gone or SIGTERM, SIGINT or SIGHUP arrives. These signals are blocked, and stay
 * so.
 */
int mcp_serve(const struct mcp_service *s, int in, int out, struct err *e) MUST_CHECK;

#endif
