/* SPDX-License-Identifier: Apache-2.0 */
/* Decompresses an archive (none, gzip, zstd) as a stream, hashes and counts the bytes, and stops decompression bombs. */
#ifndef SANDBOX_UNPACK_IN_H
#define SANDBOX_UNPACK_IN_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stdint.h>

struct unpack_in {
	int fd;
	uint64_t in, out; /* bytes so far */
	uint64_t out_max, ratio_max;
	uint64_t before_in, before_out; /* of the image's layers before this one: the ratio is the image's */
	struct hash_stream hash;	/* of the decompressed bytes */
	int (*sink)(void *ctx, const uint8_t *data, size_t len, struct err *e);
	void *ctx;
};

/* Reads all of fd and passes the decompressed bytes to sink. */
int unpack_in_run(struct unpack_in *u, struct err *e) MUST_CHECK;

#endif
