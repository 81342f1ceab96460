/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the destinations of a log were reached: the `to:` and `ca:` of the rules by which its sandboxes were started. A learned policy
 * without them would not work. From the files as they are now, for the log has no copies of them, but it has their digests: where the
 * policy is not the one that the run had, a comment says so beside what is taken from it.
 */
#ifndef CLI_NET_WAYS_H
#define CLI_NET_WAYS_H

#include "cli/net/net_event.h"
#include "config/policy_file.h"
#include "policy/replay/learn.h"

#define NET_WAYS_MAX 64 /* different policies; those of the newest runs */

struct net_ways {
	struct config_policy cp[NET_WAYS_MAX];
	bool is_other[NET_WAYS_MAX]; /* its digest is not the one of the run */
	struct strv known;	     /* which they are, as text */
	struct strv failed;	     /* "FILE: why" of those that cannot be read any more */
	size_t n;
};

#define NET_WAYS_INIT ((struct net_ways){ 0 })

int net_ways_read(struct net_ways *w, struct state *st, const struct net_range *range,
		  struct err *e) MUST_CHECK;
/* learn_opts.ways; ctx is the struct. */
void net_ways_write(void *ctx, const struct learn_dest *d, struct buf *out);
void net_ways_release(struct net_ways *w);

#endif
