/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parsed arguments of `coffer net`, and its actions, each in a file of its own. An action returns an
 * exit code.
 */
#ifndef CLI_CMD_NET_H
#define CLI_CMD_NET_H

#include "cli/net/net_event.h"

struct net_args {
	struct net_range range;
	bool follow, json, http, denied;
	const char *baseline; /* a policy file */
	const char *output;   /* learn: the file to write; NULL: stdout */
};

int cli_net_log(struct state *st, const struct net_args *args);
int cli_net_learn(struct state *st, const struct net_args *args);
int cli_net_drift(struct state *st, const struct net_args *args);
int cli_net_metrics(struct state *st, const struct net_args *args);
int cli_net_proxies(struct state *st, const struct net_args *args);

#endif
