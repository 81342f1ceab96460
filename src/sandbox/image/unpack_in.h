/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an archive without their compression (none, gzip, zstd), hashed and counted on the way. */
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
	struct hash_stream hash;	/* of what comes out */
	int (*sink)(void *ctx, const uint8_t *data, size_t len, struct err *e);
	void *ctx;
};

/* Reads all of fd and gives it to sink. */
int unpack_in_run(struct unpack_in *u, struct err *e) MUST_CHECK;

#endif
