/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the files of the MCP server: its state, its calls, and its limits. */
#ifndef ADAPTER_MCP_INT_H
#define ADAPTER_MCP_INT_H

#include "adapter/mcp_line.h"
#include "adapter/mcp_serve.h"
#include "adapter/mcp_version.h"

#define MCP_CALLS_MAX 64	       /* running or waiting */
#define MCP_WAITING_MAX (16u << 20)    /* bytes of request lines of waiting calls */
#define MCP_OUT_STOP (8u << 20)	       /* unread response bytes past which no more input is read */
#define MCP_OUT_NO_PROGRESS (1u << 20) /* unread response bytes past which no progress is sent */

/* The responses to a batch (an array of messages): one line, written once all are there. */
struct mcp_batch {
	unsigned open; /* responses still to come, plus one while the batch is being read */
	struct buf out;
};

struct mcp_call {
	struct mcp_call *next;
	struct mcp_id id, token; /* token: MCP_ID_NONE if the client wants no progress */
	enum mcp_version version;
	const struct mcp_tool *tool;
	json_t *args;		 /* may be NULL */
	size_t size;		 /* of its request line */
	struct mcp_batch *batch; /* NULL: its response is a line of its own */
	bool cancelled;
	bool answered;
};

struct mcp_server {
	const struct mcp_service *s;
	int in, out, sig;
	struct buf line; /* input that is not a whole line yet */
	size_t looked;	 /* bytes of it already searched for a newline */
	size_t taking;	 /* length of the line being handled */
	bool skipping;	 /* dropping the rest of a line that was too long */
	struct buf answers;
	size_t written;
	enum mcp_version version; /* agreed on by `initialize` */
	struct mcp_call *calls;	  /* in order; the first one runs if proc.pid is set */
	unsigned n_calls;
	size_t waiting; /* bytes */
	struct mcp_proc proc;
	bool over;
};

/* mcp_serve.c: queues one response, given without its newline. */
void mcp_answer(struct mcp_server *sv, struct mcp_batch *b, const struct buf *text);
void mcp_batch_close(struct mcp_server *sv, struct mcp_batch *b);
/* Queues a call. 0: queued, and its response follows later; else the error code to respond with. */
enum mcp_code mcp_call_add(struct mcp_server *sv, struct mcp_call *c);
void mcp_call_free(struct mcp_call *c);
void mcp_cancel(struct mcp_server *sv, const struct mcp_id *id);

/* mcp_method.c */
void mcp_take_line(struct mcp_server *sv, const char *data, size_t len);
void mcp_add_report(struct buf *out, const struct mcp_server *sv, const struct mcp_call *c,
		    const struct mcp_report *r);
void mcp_add_progress(struct buf *out, const struct mcp_call *c, const struct mcp_report *r);

#endif
