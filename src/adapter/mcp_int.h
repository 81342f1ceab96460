/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the server share. */
#ifndef ADAPTER_MCP_INT_H
#define ADAPTER_MCP_INT_H

#include "adapter/mcp_line.h"
#include "adapter/mcp_serve.h"
#include "adapter/mcp_version.h"

#define MCP_CALLS_MAX 64	    /* that run or wait */
#define MCP_WAITING_MAX (16u << 20) /* bytes of the lines of calls that wait */
#define MCP_OUT_STOP (8u << 20)	    /* bytes that the client has not read: past that it is not listened to */
#define MCP_OUT_NO_PROGRESS (1u << 20) /* and past that it hears no more of progress */

/* The answers to an array of messages: one line, once all are there. */
struct mcp_batch {
	unsigned open; /* answers that are still to come, and one while it is being read */
	struct buf out;
};

struct mcp_call {
	struct mcp_call *next;
	struct mcp_id id, token; /* token: MCP_ID_NONE when nobody wants progress */
	enum mcp_version version;
	const struct mcp_tool *tool;
	json_t *args;		 /* may be NULL */
	size_t size;		 /* of its line */
	struct mcp_batch *batch; /* NULL: answered by a line of its own */
	bool cancelled;
	bool answered;
};

struct mcp_server {
	const struct mcp_service *s;
	int in, out, sig;
	struct buf line; /* what was read and is no whole line */
	size_t looked;	 /* of these, bytes that have no newline */
	size_t taking;	 /* bytes of the line that is being taken */
	bool skipping;	 /* the rest of a line that was too long */
	struct buf answers;
	size_t written;
	enum mcp_version version; /* agreed on by `initialize` */
	struct mcp_call *calls;	  /* the first one runs when proc.pid is set */
	unsigned n_calls;
	size_t waiting; /* bytes */
	struct mcp_proc proc;
	bool over;
};

/* mcp_serve.c: one answer, without its newline */
void mcp_answer(struct mcp_server *sv, struct mcp_batch *b, const struct buf *text);
void mcp_batch_close(struct mcp_server *sv, struct mcp_batch *b);
/* 0 when the call was taken; the answer comes by itself. */
enum mcp_code mcp_call_add(struct mcp_server *sv, struct mcp_call *c);
void mcp_call_free(struct mcp_call *c);
void mcp_cancel(struct mcp_server *sv, const struct mcp_id *id);

/* mcp_method.c */
void mcp_take_line(struct mcp_server *sv, const char *data, size_t len);
void mcp_add_report(struct buf *out, const struct mcp_server *sv, const struct mcp_call *c,
		    const struct mcp_report *r);
void mcp_add_progress(struct buf *out, const struct mcp_call *c, const struct mcp_report *r);

#endif
