/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of CONNECT through an HTTP proxy (RFC 9110, 9.3.6): the request, and a strict reader of the head of
 * the response. Pure, incremental. Takes no byte after the head: those belong to the tunnel.
 */
#ifndef CODEC_CONNECT_H
#define CODEC_CONNECT_H

#include "base/buf.h"
#include "codec/net/host.h"

#define CONNECT_REPLY_MAX (16u << 10)
#define CONNECT_CREDENTIAL_MAX 1024

/*
 * Adds the request, without Proxy-Authorization when user is NULL. -EINVAL when the user name contains a colon, or
 * when it or the password contains a control byte or is longer than CONNECT_CREDENTIAL_MAX; -ENOMEM. With a user,
 * `out` contains the password afterwards: the caller must wipe it.
 */
int connect_add_request(struct buf *out, const struct host *h, uint16_t port, const char *user,
			const char *password, struct err *e) MUST_CHECK;

struct connect_reply {
	unsigned status; /* once the head is complete */
	size_t scanned;	 /* this and line: private to connect.c */
	size_t line;
};

#define CONNECT_REPLY_INIT ((struct connect_reply){ 0 })

/*
 * `data` is all that the proxy has sent, from its first byte. Returns the length of the head for a status of 2xx, 0
 * when it needs more bytes, -EACCES for 407, -ECONNREFUSED for another status, -EBADMSG when it is no HTTP/1 response
 * or longer than CONNECT_REPLY_MAX. An interim response (1xx) is -EBADMSG too: the request gave no reason for one.
 */
long connect_parse_reply(struct connect_reply *c, const char *data, size_t len, struct err *e) MUST_CHECK;

#endif
