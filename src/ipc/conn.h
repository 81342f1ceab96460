/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a non-blocking stream, buffered in both directions. Reads and writes only when called; the owner watches the
 * descriptor. The owner also bounds the output queue: it checks conn_pending() before it adds a frame.
 *
 * An error is sticky in its direction only: a peer that no longer reads may have sent something before. With a
 * descriptor of -1 (tests, fuzzing) input comes from conn_feed() and output is dropped.
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
	struct buf out; /* frame_add() and related functions append here */
	size_t out_off;
	int in_error, out_error; /* negative errno; -EPIPE is the end of the stream */
};

#define CONN_INIT ((struct conn){ .fd = -1 })

void conn_init(struct conn *c, int fd);
void conn_release(struct conn *c);

/* Reads the bytes that are available. 1: some came, 0: none now, -EPIPE: end of the stream, or another
 * negative errno. */
int conn_fill(struct conn *c) MUST_CHECK;

/* Adds bytes as if they had been read. */
int conn_feed(struct conn *c, const void *data, size_t len) MUST_CHECK;

/* The next whole frame, valid until the next conn_next(), conn_fill() or conn_feed(). 1: a frame, 0: none
 * yet, -EPROTO. */
int conn_next(struct conn *c, struct frame *ret) MUST_CHECK;

/* Writes queued bytes. 0: all were written, 1: some are left, or a negative errno. */
int conn_flush(struct conn *c) MUST_CHECK;

static inline size_t conn_pending(const struct conn *c)
{
	return c->out.len - c->out_off;
}

#endif
