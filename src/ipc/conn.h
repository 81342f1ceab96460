/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a non-blocking stream, buffered both ways. Reads and writes only when told to; the owner watches the
 * descriptor. What is queued for writing is bounded by the owner: it looks at conn_pending() before it adds.
 *
 * A failure is sticky in its direction: a peer that takes nothing any more may have left something to read. With a
 * descriptor of -1 (tests, fuzzing) bytes are fed by conn_feed() and what is written is dropped.
 */
#ifndef IPC_CONN_H
#define IPC_CONN_H

#include "base/buf.h"
#include "codec/frame.h"

#include <stdbool.h>

struct conn {
	int fd; /* borrowed */
	struct buf in;
	size_t in_off;
	struct buf out; /* frame_add() and its kin write here */
	size_t out_off;
	int in_error, out_error; /* negative errno; -EPIPE is the end */
};

#define CONN_INIT ((struct conn){ .fd = -1 })

void conn_init(struct conn *c, int fd);
void conn_release(struct conn *c);

/* Reads what is there. 1: something came, 0: nothing now, -EPIPE: the end, or another negative errno. */
int conn_fill(struct conn *c) MUST_CHECK;

/* Bytes as if they had been read. */
int conn_feed(struct conn *c, const void *data, size_t len) MUST_CHECK;

/* The next whole frame, valid until the next call to conn_next(), conn_fill() or conn_feed(). 1, 0: none, -EPROTO. */
int conn_next(struct conn *c, struct frame *ret) MUST_CHECK;

/* Writes what is queued. 0: all of it, 1: some is left, or a negative errno. */
int conn_flush(struct conn *c) MUST_CHECK;

static inline size_t conn_pending(const struct conn *c)
{
	return c->out.len - c->out_off;
}

#endif
