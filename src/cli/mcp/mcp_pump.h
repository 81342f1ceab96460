/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call from its start to its end: what it prints is read to the last byte, so that it never waits for us, and kept as far as
 * somebody will read it: of each stream a beginning and an end.
 */
#ifndef CLI_MCP_PUMP_H
#define CLI_MCP_PUMP_H

#include "adapter/mcp_job.h"
#include "cli/mcp/mcp_box.h"

#define MCP_KEEP_HEAD (48u << 10)
#define MCP_KEEP_TAIL (16u << 10)

struct mcp_stream {
	int fd; /* -1: ended */
	size_t keep_head;
	struct buf head;
	char tail[MCP_KEEP_TAIL]; /* a ring */
	uint64_t bytes;
};

struct mcp_pump {
	struct mcp_stream out, err;
	int in;		   /* -1: all is written */
	const char *input; /* NULL: none */
	size_t left;
	struct buf fresh; /* since the last progress */
	uint64_t told_at, told;
	const struct mcp_job *job; /* who hears of progress; NULL: nobody */
};

/* `input`, `left`, `job` and each keep_head are the caller's to set. */
int mcp_pump_run(struct mcp_pump *p, const struct mcp_box *b, struct mcp_box_cmd *c, struct mcp_box_end *ret,
		 struct err *e) MUST_CHECK;

/* All that is kept, with a notice where something is not. Returns how many bytes are not. */
uint64_t mcp_stream_add(const struct mcp_stream *s, struct buf *out);

#endif
