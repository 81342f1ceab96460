/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the destinations in a log were reached: the `to:` and `ca:` of the rules that their sandboxes were
 * started with. A learned policy without them would not work. The log has no copies of the policy files,
 * only their digests, so the files are read as they are now; where a policy is not the one that the run
 * had, a comment in the output says so.
 */
#ifndef CLI_NET_WAYS_H
#define CLI_NET_WAYS_H

#include "cli/net/net_event.h"
#include "config/policy_file.h"
#include "policy/replay/learn.h"

#define NET_WAYS_MAX 64 /* different policies, of the newest runs */

struct net_ways {
	struct config_policy cp[NET_WAYS_MAX];
	bool is_other[NET_WAYS_MAX]; /* its digest is not the one in the log */
	struct strv known;	     /* keys of the policies loaded: file and --allow texts */
	struct strv failed;	     /* "FILE: why" of policies that cannot be loaded any more */
	size_t n;
	size_t looks; /* destinations that cli_net_ways_write() marked with LOOK */
};

#define NET_WAYS_INIT ((struct net_ways){ 0 })

int cli_net_ways_read(struct net_ways *w, struct state *st, const struct net_range *range,
		      struct err *e) MUST_CHECK;
/* For learn_opts.ways; ctx is the struct net_ways. */
void cli_net_ways_write(void *ctx, const struct learn_dest *d, struct buf *out);
void cli_net_ways_release(struct net_ways *w);

#endif
