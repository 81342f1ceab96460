/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call from its start to its end. Its output is read to the last byte, so that the command never blocks
 * on us, but only a beginning and an end of each stream are kept.
 */
#ifndef CLI_MCP_PUMP_H
#define CLI_MCP_PUMP_H

#include "adapter/mcp_job.h"
#include "cli/mcp/mcp_box.h"

#define MCP_KEEP_HEAD (48u << 10)
#define MCP_KEEP_TAIL (16u << 10)

struct mcp_stream {
	int fd; /* -1: at its end */
	size_t keep_head;
	struct buf head;
	char tail[MCP_KEEP_TAIL]; /* ring buffer */
	uint64_t bytes;
};

struct mcp_pump {
	struct mcp_stream out, err;
	int in;		   /* -1: all input is written */
	const char *input; /* NULL: none */
	size_t left;
	struct buf fresh; /* output since the last progress report */
	uint64_t told_at, told;
	const struct mcp_job *job; /* receives progress reports; NULL: nobody */
};

/* The caller sets `input`, `left`, `job` and each keep_head. */
int cli_mcp_pump_run(struct mcp_pump *p, const struct mcp_box *b, struct mcp_box_cmd *c,
		     struct mcp_box_end *ret, struct err *e) MUST_CHECK;

/* Adds the kept output, with a notice where bytes were left out. Returns the number of bytes left out. */
uint64_t cli_mcp_stream_add(const struct mcp_stream *s, struct buf *out);

#endif
