/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ClientHello at the start of a TLS connection (RFC 8446, 5246, 6066), without taking part in the handshake. Pure.
 *
 *	struct tls_hello h = TLS_HELLO_INIT;
 *	each time bytes came:  r = tls_hello_feed(&h, all bytes so far, how many);
 *
 * Invariants
 *  L1  The result does not depend on how the bytes are divided into segments and records. Each byte is read once over
 *      all calls.
 *  L2  The result is final, and is given for the complete ClientHello, which has at most TLS_HELLO_MAX bytes. It is in
 *      handshake records of 1..16384 bytes, and nothing else is in them.
 *  L3  TLS_HELLO_BAD: an extension that occurs twice, a server_name list without exactly one host_name, lengths that
 *      contradict each other. The name has 1..255 bytes and no NUL; the caller passes it to host_canon().
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
	TLS_HELLO_BAD,	   /* the reason is in h->why */
	TLS_HELLO_NOT_TLS, /* known from the first bytes: not a handshake record of TLS */
};

struct tls_hello {
	/* Once done; slices are into this struct's own copy. */
	bool has_sni;
	struct slice sni;
	struct slice alpn;	 /* as sent, each name after a length byte; read it by tls_hello_alpn() */
	bool has_ech;		 /* encrypted_client_hello; real ones and grease cannot be distinguished */
	bool has_early_data;	 /* application data may follow without a round trip */
	uint16_t legacy_version; /* 0x0303 */
	uint16_t max_version;	 /* the highest known version that is offered: 0x0301..0x0304 */
	size_t size;		 /* bytes of the connection that the hello takes, record heads included */
	const char *why;	 /* static text */

	/* Private to tls_hello.c. */
	int state;
	size_t seen;	/* bytes of the connection that were read */
	size_t left;	/* bytes of the current record to come */
	struct buf msg; /* the handshake message so far */
};

#define TLS_HELLO_INIT ((struct tls_hello){ 0 })

void tls_hello_release(struct tls_hello *h);

/*
 * `data` is the connection from its first byte: all that was given before, and more. Every failure, also of memory, is
 * TLS_HELLO_BAD. Once the result is not TLS_HELLO_MORE, each later call returns the same.
 */
enum tls_hello_result tls_hello_feed(struct tls_hello *h, const void *data, size_t len) MUST_CHECK;

/* The next protocol that is offered; *at begins as 0. False at the end. */
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
/* Writes a fatal alert, unencrypted, as a server sends it before keys are agreed. */
void tls_alert_format(enum tls_alert a, uint8_t out[TLS_ALERT_LEN]);

#endif
