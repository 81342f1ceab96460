/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ps --stats and coffer stats: the resource usage of sandboxes, once or live. */
#ifndef CLI_PS_STATS_H
#define CLI_PS_STATS_H

#include "cli/box/ps_filter.h"

#include <stdbool.h>

struct ps_stats_want {
	bool json, no_trunc, once;
	const struct strv *only;	/* ids of the runs to show; NULL: all that are alive */
	const struct ps_filter *filter; /* may be NULL */
};

/* Returns the exit code. */
int cli_ps_stats(const struct ps_stats_want *want);

#endif
