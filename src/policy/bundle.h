/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a bundle. For bundle_pack.c, bundle_unpack.c and their fuzz target. */
#ifndef POLICY_BUNDLE_H
#define POLICY_BUNDLE_H

#include "policy/policy_int.h"

#define BUNDLE_MAGIC "cofferP1"
#define BUNDLE_VERSION 3u
#define BUNDLE_MAX (1u << 30)

struct bundle_head {
	char magic[8];
	uint32_t version;
	uint32_t generation;
	uint64_t body_len;
	unsigned char digest[POLICY_DIGEST_LEN]; /* BLAKE2b of the body */
};

#endif
