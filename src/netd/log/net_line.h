/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one journal line of coffer-egress or coffer-dial: bytes from a process that talks with hostile peers
 * and may be compromised. Accepts known events and known members with their types and lengths; nothing else.
 * Pure.
 */
#ifndef NETD_NET_LINE_H
#define NETD_NET_LINE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define NET_LINE_MAX 4096 /* bytes without the newline */
#define NET_NAME_MAX 255
#define NET_PATH_MAX 1024

enum net_ev {
	NET_EV_DNS,
	NET_EV_OPEN,
	NET_EV_CLOSE,
	NET_EV_REQUEST,
	NET_EV_RESPONSE,
	NET_EV_SECRET, /* a secret was used for a request */
	NET_EV_ISSUED, /* a server issued a credential, and it was kept */
	NET_EV_DIAL,
	NET_EV_PROXY,
	NET_EV_REFUSED,
	NET_EV_ALERT,
	NET_EV_POLICY,
	NET_EV_GARBLED, /* the program could not write a line as it was */
	NET_EV_COUNT
};
const char *net_ev_name(enum net_ev ev); /* "dns", "open", … */

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
 * `len` bytes without the newline. 0: *ret is filled in and the checked members are added to *fields as JSON
 * members without braces; otherwise -EBADMSG (or -ENOMEM), and neither is changed.
 */
int net_line_parse(const char *line, size_t len, struct net_line *ret, struct buf *fields) MUST_CHECK;

/* The same with a JSON parser alone; net_line_parse() uses it for lines in another form than our programs
 * write. */
int net_line_parse_any(const char *line, size_t len, struct net_line *ret, struct buf *fields) MUST_CHECK;

#endif
