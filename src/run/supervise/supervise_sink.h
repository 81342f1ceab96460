/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output to a descriptor of the caller, of any kind, which must not be made non-blocking because other processes share
 * it. Writes never wait for a slow reader: they write what is possible and queue the rest. The queue is bounded by the
 * credit of the source.
 */
#ifndef RUN_SUPERVISE_SINK_H
#define RUN_SUPERVISE_SINK_H

#include "base/buf.h"
#include "codec/term/termsafe.h"
#include "ipc/loop.h"

#include <stdbool.h>
#include <stdint.h>

enum supervise_sink_kind { SINK_UNKNOWN, SINK_FILE, SINK_SOCKET, SINK_PIPE, SINK_OTHER };

struct supervise_sink {
	struct watch w;
	struct loop *loop;
	enum supervise_sink_kind kind;
	bool no_nowait; /* this kernel has no RWF_NOWAIT for pipes */
	bool filter;	/* towards a terminal: escape sequences are made harmless */
	bool held;	/* nothing is written for now: everything is queued */
	bool capped;	/* counts against the owner's limit: it is not a terminal */
	struct termsafe safe;
	struct buf q;
	size_t off;
	int error;		    /* negative errno: nothing is written any more, everything is dropped */
	void (*changed)(void *ctx); /* the queue is empty, or writing has failed */
	void *ctx;
};

/* fd -1: everything is dropped. */
void supervise_sink_init(struct supervise_sink *s, struct loop *l, int fd, void (*changed)(void *ctx),
			 void *ctx);
void supervise_sink_write(struct supervise_sink *s, const void *data, size_t len);
/* While held, nothing is written; output is queued, within the credit of the source. */
void supervise_sink_hold(struct supervise_sink *s, bool held);
/* The end of output: the filter releases what it holds back. The queue may not be written yet. */
void supervise_sink_finish(struct supervise_sink *s);
void supervise_sink_release(struct supervise_sink *s);

static inline bool supervise_sink_is_empty(const struct supervise_sink *s)
{
	return s->q.len == s->off;
}

#endif
