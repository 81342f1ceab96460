/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of CONNECT through an HTTP proxy (RFC 9110, 9.3.6): the request, and a strict reader of the reply's
 * head. Pure, incremental. Nothing behind the head is taken: those bytes belong to the tunnel.
 */
#ifndef CODEC_CONNECT_H
#define CODEC_CONNECT_H

#include "base/buf.h"
#include "codec/net/host.h"

#define CONNECT_REPLY_MAX (16u << 10)
#define CONNECT_CREDENTIAL_MAX 1024

/*
 * Adds the request. user NULL: no Proxy-Authorization. -EINVAL when the user has a colon, or either has a control byte or is
 * over CONNECT_CREDENTIAL_MAX bytes; -ENOMEM. `out` holds the password then: wipe it.
 */
int connect_add_request(struct buf *out, const struct host *h, uint16_t port, const char *user,
			const char *password, struct err *e) MUST_CHECK;

struct connect_reply {
	unsigned status; /* once the head is whole */
	size_t scanned;	 /* its own */
	size_t line;
};

#define CONNECT_REPLY_INIT ((struct connect_reply){ 0 })

/*
 * `data` is what the proxy sent from its first byte. The length of the head when it said 2xx; 0: more is needed;
 * -EACCES: 407; -ECONNREFUSED: another status; -EBADMSG: no HTTP/1 reply, or over CONNECT_REPLY_MAX. A 1xx
 * before the answer is refused too: none was asked for.
 */
long connect_parse_reply(struct connect_reply *c, const char *data, size_t len, struct err *e) MUST_CHECK;

#endif
