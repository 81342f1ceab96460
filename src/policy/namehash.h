/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit hash of a host name, for sorted tables of names (blocklists, public suffixes). tools/gen-psl has the same. Not
 * keyed: a collision only makes a name that is refused or taken for a suffix, so an attacker gains nothing.
 */
#ifndef POLICY_NAMEHASH_H
#define POLICY_NAMEHASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t namehash(const char *s, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

#endif
