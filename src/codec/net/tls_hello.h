/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ClientHello at the start of a TLS connection (RFC 8446, 5246, 6066), without taking part in the handshake. Pure.
 *
 *	struct tls_hello h = TLS_HELLO_INIT;
 *	each time bytes came:  r = tls_hello_feed(&h, all bytes so far, how many);
 *
 * Invariants
 *  L1  What is said does not depend on how the bytes were cut into segments and records. Each byte is looked at
 *      once, however many calls there are.
 *  L2  It is decided once, on the whole ClientHello. It is at most TLS_HELLO_MAX bytes; records before its end are
 *      handshake records of 1..16384 bytes, and nothing but it is in them.
 *  L3  An extension that comes twice, a server_name list that has not exactly one host_name, a length that does not
 *      add up: bad. The name has no NUL and 1..255 bytes; host_canon() is for the caller.
 */
#ifndef CODEC_TLS_HELLO_H
#define CODEC_TLS_HELLO_H

#include "base/buf.h"
#include "codec/slice.h"

#include <stdint.h>

#define TLS_HELLO_MAX (64u << 10)

enum tls_hello_result {
	TLS_HELLO_MORE,
	TLS_HELLO_DONE,
	TLS_HELLO_BAD,	   /* h->why */
	TLS_HELLO_NOT_TLS, /* known from the first bytes: not a handshake record of TLS */
};

struct tls_hello {
	/* Once done; slices are into this struct's own copy. */
	bool has_sni;
	struct slice sni;
	struct slice alpn;	 /* as sent: each a length byte and its name; tls_hello_alpn() */
	bool has_ech;		 /* encrypted_client_hello: real or grease, nobody can tell */
	bool has_early_data;	 /* bytes of the application may follow at once */
	uint16_t legacy_version; /* 0x0303 */
	uint16_t max_version;	 /* the highest that is offered and known: 0x0301..0x0304 */
	size_t size;		 /* of the hello with its record heads: so many bytes of the connection */
	const char *why;	 /* static text */

	/* Its own. */
	int state;
	size_t seen;	/* bytes of the connection that were looked at */
	size_t left;	/* of the current record */
	struct buf msg; /* the handshake message so far */
};

#define TLS_HELLO_INIT ((struct tls_hello){ 0 })

void tls_hello_release(struct tls_hello *h);

/*
 * `data` is the connection from its first byte, with at least what was there at the last call in front. Never fails
 * otherwise than by TLS_HELLO_BAD; comes back with the same once it said anything but TLS_HELLO_MORE.
 */
enum tls_hello_result tls_hello_feed(struct tls_hello *h, const void *data, size_t len) MUST_CHECK;

/* The next protocol offered; *at begins as 0. False when there is none. */
bool tls_hello_alpn(const struct tls_hello *h, size_t *at, struct slice *ret);
bool tls_hello_offers(const struct tls_hello *h, const char *alpn);

enum tls_alert {
	TLS_ALERT_HANDSHAKE_FAILURE = 40,
	TLS_ALERT_ACCESS_DENIED = 49,
	TLS_ALERT_DECODE_ERROR = 50,
	TLS_ALERT_INTERNAL_ERROR = 80,
	TLS_ALERT_UNRECOGNIZED_NAME = 112,
};

#define TLS_ALERT_LEN 7
/* A fatal alert as a server sends it before any key is agreed on. */
void tls_alert_format(enum tls_alert a, uint8_t out[TLS_ALERT_LEN]);

#endif
