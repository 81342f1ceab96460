/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy that a domain keeps, and until when: a small bounded table, in which the oldest of a few neighbours
 * is replaced. The time counts from the choice, not from the last use: nothing is kept for ever. Pure.
 */
#ifndef DIAL_PROXY_STICKY_H
#define DIAL_PROXY_STICKY_H

#include <stddef.h>
#include <stdint.h>

#define STICKY_SETS 128
#define STICKY_WAYS 8
#define STICKY_NONE SIZE_MAX

struct sticky_slot {
	uint64_t key; /* hash of the domain; 0: empty */
	uint64_t until;
	size_t member;
};

struct sticky {
	struct sticky_slot slot[STICKY_SETS][STICKY_WAYS];
};

size_t sticky_find(const struct sticky *s, uint64_t key, uint64_t now);
void sticky_keep(struct sticky *s, uint64_t key, size_t member, uint64_t until);
void sticky_drop(struct sticky *s, uint64_t key);

#endif
