/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority (CA) of the sandbox: created when first needed, kept in a sealed memfd for a
 * restarted egress; and a cache of the leaf certificates it has issued.
 *
 * Invariants
 *  A1  The key is in this process and in that memfd, which no other process maps; never on a disk.
 *  A2  At most CA_LEAVES_MAX leaves are cached; the least recently used is dropped first.
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
 * fd: the memfd (fds.h), -1 for none: then a restart creates another CA. A stored CA is loaded; that needs
 * pread(), so call it before the process is fenced.
 */
int ca_open(struct ca **ret, int fd, bool fenced, struct err *e) MUST_CHECK;
bool ca_is_kept(int fd);
void ca_close(struct ca *c);

/* The leaf certificate for a host; owned by the cache. */
int ca_leaf(struct ca *c, const struct host *h, X509 **ret, struct err *e) MUST_CHECK;

#endif
