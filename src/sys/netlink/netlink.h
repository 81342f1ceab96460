/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink: requests written one behind the other into one buffer, sent in one call, answered once. Nothing is allocated,
 * and no program is started: building a network must cost microseconds.
 *
 * A request that the kernel refuses is named in the error by the words it was begun with.
 */
#ifndef SYS_NETLINK_H
#define SYS_NETLINK_H

#include "base/err.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NL_BYTES 4096
#define NL_REQUESTS 48

struct nl {
	int fd;		/* CLOEXEC; the caller closes it */
	uint32_t first; /* number of the first request in the buffer */
	uint32_t n;	/* requests in the buffer */
	size_t len;	/* bytes in the buffer */
	size_t at;	/* where the last request begins */
	uint32_t ack;	/* the last request that is answered */
	bool failed;	/* did not fit: sending it is an error */
	const char *what[NL_REQUESTS];
	alignas(8) char buf[NL_BYTES];
};

/* `protocol`: NETLINK_ROUTE, NETLINK_NETFILTER */
int nl_open(struct nl *n, int protocol, struct err *e) MUST_CHECK;

/* Begins a request, with its fixed head; `what` lives as long as n. */
void nl_begin(struct nl *n, const char *what, uint16_t type, uint16_t flags, const void *head, size_t len);
void nl_put(struct nl *n, uint16_t attr, const void *data, size_t len);
void nl_put_u8(struct nl *n, uint16_t attr, uint8_t v);
void nl_put_u32(struct nl *n, uint16_t attr, uint32_t v);
void nl_put_be32(struct nl *n, uint16_t attr, uint32_t v);
void nl_put_str(struct nl *n, uint16_t attr, const char *s); /* with its NUL */

void nl_append(struct nl *n, const void *data, size_t len); /* as it is, where a request has a second head */

/* What is put between the two is inside the attribute. */
size_t nl_nest(struct nl *n, uint16_t attr);
void nl_unnest(struct nl *n, size_t nest);

/* The last request is one that is answered also when it succeeds. */
void nl_want_ack(struct nl *n);

/*
 * Sends all requests, and waits for the answer to the last one that wants one: there must be such a one. The kernel works
 * on them in order, and answers a refused one in any case; the first of those is the error. The buffer is empty
 * afterwards.
 */
int nl_commit(struct nl *n, struct err *e) MUST_CHECK;

#endif
