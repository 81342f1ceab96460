/* SPDX-License-Identifier: Apache-2.0 */
/* One small message with a few descriptors over a UNIX socket that keeps message bounds (SOCK_SEQPACKET). */
#ifndef IPC_FDPASS_H
#define IPC_FDPASS_H

#include "base/err.h"

#include <stddef.h>

#define FDPASS_MAX 240 /* the kernel allows 253 */

int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t n) MUST_CHECK;

/* Exactly `len` bytes and exactly `n` descriptors, CLOEXEC, or an error: then none is left open. */
int fdpass_recv(int sock, void *data, size_t len, int *fds, size_t n) MUST_CHECK;

/* A message of up to `cap` bytes with up to `max` descriptors. Returns the number of descriptors; -EPIPE at
 * the end. */
int fdpass_recv_some(int sock, void *data, size_t cap, size_t *ret_len, int *fds, size_t max) MUST_CHECK;

/* From a stream: up to `cap` bytes, and the descriptor that came with them; *ret_fd is -1 if none did.
 * Returns the number of bytes, 0 at the end, or a negative errno. */
int fdpass_recv_stream(int sock, void *data, size_t cap, int *ret_fd) MUST_CHECK;

#endif
