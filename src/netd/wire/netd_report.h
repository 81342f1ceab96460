/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run's network did, in numbers: the "network" object of the run's report. The table is a memory file that the guard
 * makes and coffer-netd fills, so that it outlives a coffer-netd. Its content is as hostile as coffer-netd: whoever formats it
 * copies it first and believes no length in it.
 */
#ifndef NETD_NETD_REPORT_H
#define NETD_NETD_REPORT_H

#include "base/json.h"
#include "netd/wire/netd_event.h"

#define NETD_REPORT_NAMES 512u /* the rest is one row */

struct netd_counts {
	uint64_t queries, connections, requests, denied, up, down;
};

struct netd_report_row {
	char name[NET_NAME_MAX + 1];
	struct netd_counts n;
};

struct netd_report {
	uint64_t seen[NET_FROM_COUNT]; /* lines of each journal up to these offsets are counted here */
	struct netd_counts total, rest;
	uint64_t refused, alerts, garbled;
	uint32_t n_names, reserved;
	struct netd_report_row names[NETD_REPORT_NAMES];
};

/* A memory file of zeros with room for one, which nobody can make shorter or longer. */
int netd_report_make(struct err *e) MUST_CHECK;

/* The members of the report's "network" object. */
void netd_report_format(const struct netd_report *r, struct json *j);

#endif
