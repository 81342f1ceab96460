/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's certificate authority in this process: made when it is first needed, kept in a sealed memfd for a
 * restarted egress, and the leaves that were minted lately.
 *
 * Invariants
 *  A1  The key is in this process and in that memfd, which nobody else maps; never on a disk.
 *  A2  At most CA_LEAVES_MAX leaves are kept; the one that was not used for longest goes first.
 */
#ifndef EGRESS_CA_H
#define EGRESS_CA_H

#include "codec/net/host.h"
#include "crypto/mint.h"

#define CA_LEAVES_MAX 1024
#define CA_BUCKETS 512
#define CA_DAYS 30

struct ca_leaf;

struct ca {
	struct mint *mint;
	struct ca_leaf *buckets[CA_BUCKETS];
	struct ca_leaf *newest, *oldest;
	unsigned n;
	uint64_t minted;
};

/*
 * fd: the memfd (fds.h), -1 for none: then a restart makes another authority. One that is kept there is taken; that wants
 * pread(), so it is done before the process is fenced in.
 */
int ca_open(struct ca **ret, int fd, bool fenced, struct err *e) MUST_CHECK;
bool ca_is_kept(int fd);
void ca_close(struct ca *c);

/* The leaf for a host; stays the cache's. */
int ca_leaf(struct ca *c, const struct host *h, X509 **ret, struct err *e) MUST_CHECK;

#endif
