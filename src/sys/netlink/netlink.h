/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink: requests written one after the other into one buffer, sent in one call, acknowledged once. Nothing is allocated,
 * and no program is started: building a network must cost microseconds.
 *
 * A request that the kernel refuses is named in the error by the `what` of its nl_begin().
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
	uint32_t ack;	/* number of the last request that wants an acknowledgement */
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

/* Attributes that are put between the two calls are nested in this one. */
size_t nl_nest(struct nl *n, uint16_t attr);
void nl_unnest(struct nl *n, size_t nest);

/* Makes the kernel acknowledge the last request on success too. */
void nl_want_ack(struct nl *n);

/*
 * Sends all requests, and waits for the acknowledgement of the last one that wants it; there must be one. The kernel handles
 * requests in order and always reports a refusal; the first refusal is the error. The buffer is empty afterwards.
 */
int nl_commit(struct nl *n, struct err *e) MUST_CHECK;

#endif
