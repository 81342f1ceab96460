/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and the synthetic addresses that stand for them: one address for each name of a sandbox, given in turn from a
 * random start, never to another name. Kept in a memory file that outlives this process, mapped whole.
 *
 * Invariants
 *  N1  An address once given stands for its name as long as the memory file lives, whatever restarts or reloads.
 *  N2  The n-th name has the n-th address: an address is found by arithmetic, a name by a hash table.
 *  N3  At most NAMES_MAX names; then names_add() is -ENOSPC. Memory is bounded by that, whatever is asked.
 *  N4  What the file holds is checked when it is loaded; a file that does not add up is refused, not mended.
 *  N5  Host numbers 0, 1 and 255 of each /24 are never given. base.0.0.1 is ours: the resolver and coffer.internal.
 */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include "codec/net/addr.h"
#include "codec/net/host.h"

#define NAMES_MAX 65536
#define NAMES_COUNTERS 1024 /* bytes_up of rules, by the hash of their text; see egress_limits.h */
#define NAMES_FILE_SIZE (24u << 20)

/* In memory of its own, so that no later start can change it under a connection. */
struct name {
	uint32_t addr; /* IPv4, host order */
	uint8_t len;
	char text[]; /* canonical, with a NUL */
};

struct names_file; /* what is mapped */

struct names {
	struct names_file *file;
	size_t used; /* bytes of records */
	const struct name **by_index;
	uint32_t *buckets; /* index + 1, by hash */
	uint32_t n, cap, mask;
	uint64_t *logged; /* when each was last written to the journal: ns, for dns_serve */
	uint32_t base, slots, start;
};

/*
 * `fd` is the memory file; -1: private memory. A new one takes the range and a random start; one that was used has its
 * own, and *range is not looked at. Maps it, so call it before confinement.
 */
int names_open(struct names *n, int fd, const struct addr_range *range, uint32_t random,
	       struct err *e) MUST_CHECK;
void names_close(struct names *n);

/* The name's entry, made when there is none: -ENOSPC, -ENOMEM. */
int names_add(struct names *n, const struct host *h, const struct name **ret) MUST_CHECK;
const struct name *names_find(const struct names *n, const struct host *h);
const struct name *names_at(const struct names *n, const struct addr *a); /* NULL: no name has it */
uint32_t names_index(const struct names *n, const struct name *name);

struct addr names_own(const struct names *n); /* of coffer.internal */
bool names_in_range(const struct names *n, const struct addr *a);

/* The next connection's number; counts on over restarts. */
uint64_t names_next_conn(struct names *n);

/* A counter that outlives this process, by key; NULL when all are taken. Key 0 is the sandbox itself. */
uint64_t *names_counter(struct names *n, uint64_t key);

#endif
