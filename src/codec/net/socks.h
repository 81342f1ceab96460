/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of SOCKS5 (RFC 1928, 1929): greeting, user and password where the server wants them, CONNECT by name
 * (the proxy resolves) or by address. Pure, incremental: it writes the bytes to send and reads the bytes that came.
 *
 * The server is not trusted: a method that was not offered, a wrong version or a malformed reply is -EBADMSG. No byte
 * after the reply is taken: those belong to the tunnel.
 */
#ifndef CODEC_SOCKS_H
#define CODEC_SOCKS_H

#include "base/buf.h"
#include "codec/net/host.h"

#define SOCKS_CREDENTIAL_MAX 255

struct socks {
	const struct host *host; /* host and credentials stay the caller's, and must live until the end */
	uint16_t port;
	const char *user, *password; /* NULL: none are offered */

	int state;	 /* private to socks.c */
	bool wants_auth; /* the server asked for user and password */
	unsigned reply;	 /* the server's code once it refused: socks_reply_text() */
};

#define SOCKS_INIT(h, p, u, pw) ((struct socks){ .host = (h), .port = (p), .user = (u), .password = (pw) })

/* Adds the greeting to out. -EINVAL when a credential is empty or over SOCKS_CREDENTIAL_MAX bytes. */
int socks_start(struct socks *s, struct buf *out, struct err *e) MUST_CHECK;

/*
 * Reads bytes of the server and adds the bytes to send to out. Takes *ret_used bytes; the caller passes the rest
 * again, followed by new bytes. Returns 1 when connected, 0 when it needs more bytes, -EACCES when the server wants
 * credentials or rejects them, -ECONNREFUSED when it refuses the connection (s->reply), -EBADMSG when it does not
 * speak SOCKS5, -ENOMEM. `out` may contain the password: the caller must wipe it.
 */
int socks_feed(struct socks *s, const uint8_t *data, size_t len, size_t *ret_used, struct buf *out,
	       struct err *e) MUST_CHECK;

const char *socks_reply_text(unsigned code);

#endif
