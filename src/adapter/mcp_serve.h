/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the Model Context Protocol over two descriptors.
 *
 * Invariants
 *  S1  Nothing is written to the client but whole lines of the protocol.
 *  S2  Every request gets one answer, in whatever order, but for one that was cancelled, which gets none.
 *  S3  Calls of tools run one after the other, in the order in which they came: they share one workspace. All else is
 *      answered at once, also while a call runs.
 *  S4  Memory is bounded: a line, the calls that wait, and what a client does not read. Past that nothing more is read.
 *  S5  When the client is gone (end of input, nobody reads) or a signal says so, what runs is ended, what waits is forgotten,
 *      and serving is over once nothing runs any more.
 */
#ifndef ADAPTER_MCP_SERVE_H
#define ADAPTER_MCP_SERVE_H

#include "adapter/mcp_job.h"

struct mcp_service {
	const char *name, *title, *version;
	const char *instructions; /* for a model to read */
	const struct mcp_tool *tools;
	size_t n_tools;
	void *ctx; /* for the tools */
};

/* Until the client is gone or SIGTERM, SIGINT or SIGHUP came; these are blocked meanwhile, and left so. */
int mcp_serve(const struct mcp_service *s, int in, int out, struct err *e) MUST_CHECK;

#endif
