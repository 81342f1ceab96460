/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of SOCKS5 (RFC 1928, 1929): greeting, user and password where the server wants them, CONNECT by name
 * (the proxy resolves) or by address. Pure, incremental: it says what to send and reads what came.
 *
 * The server is not trusted: a method that was not offered, a wrong version, a reply that does not end where it says
 * are -EBADMSG. Nothing behind the reply is taken: those bytes belong to the tunnel.
 */
#ifndef CODEC_SOCKS_H
#define CODEC_SOCKS_H

#include "base/buf.h"
#include "codec/net/host.h"

#define SOCKS_CREDENTIAL_MAX 255

struct socks {
	const struct host *host; /* the caller's, as are the credentials, until it is done */
	uint16_t port;
	const char *user, *password; /* NULL: none are offered */

	int state;	 /* its own */
	bool wants_auth; /* the server asked for user and password */
	unsigned reply;	 /* the server's code once it refused: socks_reply_text() */
};

#define SOCKS_INIT(h, p, u, pw) ((struct socks){ .host = (h), .port = (p), .user = (u), .password = (pw) })

/* The greeting. -EINVAL when a credential is empty or over SOCKS_CREDENTIAL_MAX bytes. */
int socks_start(struct socks *s, struct buf *out, struct err *e) MUST_CHECK;

/*
 * What came from the server; *ret_used bytes of it were taken, the rest is to be given again with more behind it. What is to be
 * sent is added to out. 1: connected; 0: more is needed; -EACCES: it wants or did not take credentials;
 * -ECONNREFUSED: it refused (s->reply); -EBADMSG: it does not speak SOCKS5; -ENOMEM.
 * `out` may hold the password: wipe it.
 */
int socks_feed(struct socks *s, const uint8_t *data, size_t len, size_t *ret_used, struct buf *out,
	       struct err *e) MUST_CHECK;

const char *socks_reply_text(unsigned code);

#endif
