/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte stream to a hostile peer, with or without TLS, that never blocks: it reads as much as its owner has
 * room for and writes as the peer accepts it.
 *
 * The owner's run() is called, as a task, whenever the state may have changed; it reads, parses, responds and
 * ends with io_arm().
 *
 * Invariants
 *  I1  Bytes are read only while the owner wants them: TCP flow control holds the peer back.
 *  I2  The owner bounds the unwritten bytes: it checks io_backlog() before it produces more.
 *  I3  A TLS stream that ends without close_notify is io->cut: a body that lasts until the end of the stream
 *      is truncated then.
 */
#ifndef EGRESS_TLS_IO_H
#define EGRESS_TLS_IO_H

#include "base/buf.h"
#include "ipc/runq.h"

#include <openssl/ssl.h>

#define IO_BACKLOG_MAX (128u << 10) /* owners stop producing at this size */

struct io {
	struct runq *q;
	struct task task;
	void (*run)(struct io *io);
	void *owner;
	struct watch w;
	SSL *ssl;	/* NULL: no TLS */
	struct buf pre; /* read from the descriptor before io_open() */
	size_t pre_at;
	struct buf out;
	size_t out_at;
	bool wipe;     /* zero all copies of the data in this process */
	bool borrowed; /* another owner closes the descriptor */
	bool want_in;  /* set by the owner */
	bool drained;  /* the last read emptied the socket */
	bool tls_in;   /* TLS itself waits for input */
	bool blocked;  /* the peer does not accept more for now */
	bool shaken;   /* the handshake is done, or not needed */
	bool eof, cut;
	bool closing;	 /* our direction has ended */
	int error;	 /* negative errno; sticky */
	char why[200];	 /* of the error, for people */
	uint64_t rx, tx; /* bytes on the wire */
};

/* Takes the descriptor and ssl, which may be NULL. */
int io_open(struct io *io, struct runq *q, int fd, SSL *ssl, void (*run)(struct io *io),
	    void *owner) MUST_CHECK;
void io_close(struct io *io);
void io_set_wipe(struct io *io);

/* Returns bytes that were read from the descriptor before io_open(). */
void io_unread(struct io *io, const void *data, size_t len);

/* 1 done, 0 not yet, negative: failed, see io->why. */
int io_handshake(struct io *io) MUST_CHECK;

/* Reads into `data`; 0 when nothing is there now, at the end (io->eof) or after an error (io->error). */
size_t io_read(struct io *io, void *data, size_t len);

/* Fills b up to `cap` bytes in all. True when it read any. */
bool io_fill(struct io *io, struct buf *b, size_t cap);

/* Writes the content of io->out. Negative when the connection is broken. */
int io_flush(struct io *io);
size_t io_backlog(const struct io *io);

/* Ends our direction once everything is written: close_notify and FIN. */
void io_finish(struct io *io);

/* The last call of run(): waits for the events that are wanted now. */
void io_arm(struct io *io);
void io_kick(struct io *io);

#endif
