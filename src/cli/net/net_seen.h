/* SPDX-License-Identifier: Apache-2.0 */
/* A part of the audit log, added up by destination: for net learn and net drift. */
#ifndef CLI_NET_SEEN_H
#define CLI_NET_SEEN_H

#include "cli/net/net_event.h"
#include "policy/replay/learn.h"

struct net_seen {
	struct learn learn;
	uint64_t folded; /* events that the log has only as a count */
};

#define NET_SEEN_INIT ((struct net_seen){ 0 })

int cli_net_seen_gather(struct net_seen *s, struct state *st, const struct net_range *range,
			struct err *e) MUST_CHECK;
void cli_net_seen_release(struct net_seen *s);

/* Options for learn.h that use the public suffix list and this program's clock. */
struct learn_opts cli_net_seen_opts(void);

#endif
