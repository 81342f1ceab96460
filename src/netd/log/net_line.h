/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one journal line of coffer-egress or coffer-dial: bytes from a process that talks with hostile peers
 * and may be compromised. Accepts known events and known members with their types and lengths; nothing else.
 * Pure.
 */
#ifndef NETD_NET_LINE_H
#define NETD_NET_LINE_H

#include "base/buf.h"
#include "netd/wire/netd_event.h"

#include <stdbool.h>
#include <stdint.h>

#define NET_LINE_MAX 4096 /* bytes without the newline */

enum net_decision { NET_NO_DECISION, NET_ALLOWED, NET_DENIED, NET_ERROR, NET_DECISION_COUNT };
const char *net_decision_name(enum net_decision d); /* "", "allow", "deny", "error" */

struct net_line {
	enum net_ev ev;
	enum net_decision decision;
	char name[NET_NAME_MAX + 1];   /* subject: a name, else an address, else empty */
	uint16_t port;		       /* 0: none */
	char secret[NET_NAME_MAX + 1]; /* secret that was used; may be empty */
	char what[33];		       /* query type, method, protocol or kind of an alert; may be empty */
	char path[NET_PATH_MAX + 1];   /* whole, as the line has it */
	char why[256];
	uint64_t up, down, count;
	bool first;  /* the first of its kind that was let through (egress/account/ledger.h) */
	bool is_sum; /* a sum of many, of which only the number is known */
};

/*
 * `len` bytes without the newline. 0: *ret is filled in and the checked event is added to *event as netd_event.h packs it, its
 * members in the order of that table; otherwise -EBADMSG (or -ENOMEM), and neither is changed.
 */
int net_line_parse(const char *line, size_t len, struct net_line *ret, struct buf *event) MUST_CHECK;

/* The same with a JSON parser alone; net_line_parse() uses it for lines in another form than our programs
 * write. */
int net_line_parse_any(const char *line, size_t len, struct net_line *ret, struct buf *event) MUST_CHECK;

#endif
