/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and their synthetic addresses: each name of a sandbox gets one address, in sequence from a random
 * start, which no other name ever gets. Stored in a memory file that survives this process, mapped whole.
 *
 * Invariants
 *  N1  An address once given belongs to its name as long as the memory file exists, across restarts and
 *      reloads.
 *  N2  The n-th name has the n-th address: an address is found by arithmetic, a name by a hash table.
 *  N3  At most EGRESS_NAMES_MAX names; then egress_names_add() is -ENOSPC. That bounds memory, whatever names are
 *      requested.
 *  N4  The file is checked when it is loaded; an inconsistent file is refused, not repaired.
 *  N5  Host numbers 0, 1 and 255 of each /24 are never given. base.0.0.1 is ours: the resolver and
 *      coffer.internal.
 */
#ifndef EGRESS_EGRESS_NAMES_H
#define EGRESS_EGRESS_NAMES_H

#include "codec/net/addr.h"
#include "codec/net/host.h"

#define EGRESS_NAMES_MAX 65536
#define EGRESS_NAMES_COUNTERS 1024 /* bytes_up of rules, by the hash of their text; see egress_limits.h */
#define EGRESS_NAMES_FILE_SIZE (24u << 20)

/* Allocated outside the file, so that no later process can change it under a connection. */
struct egress_name {
	uint32_t addr; /* IPv4, host order */
	uint8_t len;
	char text[]; /* canonical, with a NUL */
};

struct egress_names_file; /* the mapped file */

struct egress_names {
	struct egress_names_file *file;
	size_t used; /* bytes of records */
	const struct egress_name **by_index;
	uint32_t *buckets; /* index + 1, by hash */
	uint32_t n, cap, mask;
	uint64_t *logged; /* when each name was last written to the journal: ns, for dns_serve */
	uint32_t base, slots, start;
};

/*
 * `fd` is the memory file; -1: private memory. A new file takes the range and a random start; a used one has
 * its own, and *range is ignored. Maps the file, so call it before confinement.
 */
int egress_names_open(struct egress_names *n, int fd, const struct addr_range *range, uint32_t random,
		      struct err *e) MUST_CHECK;
void egress_names_close(struct egress_names *n);

/* The name's entry, created if necessary: -ENOSPC, -ENOMEM. */
int egress_names_add(struct egress_names *n, const struct host *h, const struct egress_name **ret) MUST_CHECK;
const struct egress_name *egress_names_find(const struct egress_names *n, const struct host *h);
/* NULL: no name has this address. */
const struct egress_name *egress_names_at(const struct egress_names *n, const struct addr *a);
uint32_t egress_names_index(const struct egress_names *n, const struct egress_name *name);

struct addr egress_names_own(const struct egress_names *n); /* of coffer.internal */
bool egress_names_in_range(const struct egress_names *n, const struct addr *a);

/* The next connection's number; continues over restarts. */
uint64_t egress_names_next_conn(struct egress_names *n);

/* A counter that survives this process, by key; NULL when all are in use. Key 0 is the sandbox itself. */
uint64_t *egress_names_counter(struct egress_names *n, uint64_t key);

#endif
