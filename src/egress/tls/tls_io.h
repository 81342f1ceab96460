/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte stream to a hostile peer, with TLS or without, that never blocks: reads into what its owner has room for,
 * writes what it was given as the peer takes it.
 *
 * The owner's run() is called, as a task, whenever something may have changed; it reads, parses, answers and ends with
 * io_arm(). Invariants
 *  I1  Bytes are read only while the owner says that it wants them: the kernel's window is what holds a peer back.
 *  I2  What waits to be written is bounded by the owner, who looks at io_backlog() before it makes more.
 *  I3  A TLS stream that ends without close_notify is io->cut: a body that goes on until the end is not whole then.
 */
#ifndef EGRESS_TLS_IO_H
#define EGRESS_TLS_IO_H

#include "base/buf.h"
#include "ipc/runq.h"

#include <openssl/ssl.h>

#define IO_BACKLOG_MAX (128u << 10) /* owners stop making more at this */

struct io {
	struct runq *q;
	struct task task;
	void (*run)(struct io *io);
	void *owner;
	struct watch w;
	SSL *ssl;	/* NULL: in the clear */
	struct buf pre; /* read from the descriptor before it was ours */
	size_t pre_at;
	struct buf out;
	size_t out_at;
	bool wipe;     /* nothing of what went through it is left in memory of ours */
	bool borrowed; /* the descriptor is somebody else's to close */
	bool want_in;  /* by the owner */
	bool drained;  /* the kernel had no more when it was last asked */
	bool tls_in;   /* TLS itself waits for the peer */
	bool blocked;  /* the peer does not take what we have */
	bool shaken;   /* handshake done, or none needed */
	bool eof, cut;
	bool closing;	 /* our side has ended */
	int error;	 /* negative errno; sticky */
	char why[200];	 /* of the error, in words */
	uint64_t rx, tx; /* bytes of the connection */
};

/* Takes the descriptor. ssl may be NULL; taken too. */
int io_open(struct io *io, struct runq *q, int fd, SSL *ssl, void (*run)(struct io *io),
	    void *owner) MUST_CHECK;
void io_close(struct io *io);
void io_set_wipe(struct io *io);

/* Bytes that somebody read from the descriptor before. */
void io_unread(struct io *io, const void *data, size_t len);

/* 1 done, 0 not yet, negative: io->why. */
int io_handshake(struct io *io) MUST_CHECK;

/* Bytes into `data`; 0 when there is nothing now, at the end (io->eof) or after an error (io->error). */
size_t io_read(struct io *io, void *data, size_t len);

/* Appends up to `cap` bytes in all to b. True when something came. */
bool io_fill(struct io *io, struct buf *b, size_t cap);

/* Writes what is in io->out. Negative when the connection is broken. */
int io_flush(struct io *io);
size_t io_backlog(const struct io *io);

/* Ends our direction once all is written: close_notify and FIN. */
void io_finish(struct io *io);

/* As the last act of run(): waits for what is wanted now. */
void io_arm(struct io *io);
void io_kick(struct io *io);

#endif
