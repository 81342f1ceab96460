/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts: towards clients with leaves of the sandbox's CA, towards servers with verification of their
 * certificates. Created once; the certificate store is read when the first server is verified.
 *
 * Invariants
 *  T1  TLS 1.2 and 1.3; no compression, no renegotiation.
 *  T2  A server is verified against exactly one set of authorities: the rule's `ca:`, else the store; and for
 *      exactly one name. A cached session is reused only for that name, port and set.
 */
#ifndef EGRESS_TLS_CTX_H
#define EGRESS_TLS_CTX_H

#include "codec/net/host.h"
#include "egress/tls/ca.h"

#include <openssl/ssl.h>

#define TLS_SESSIONS_MAX 256
#define TLS_CAS_MAX 64

struct tls_ctx;

int tls_ctx_new(struct tls_ctx **ret, int store_fd, struct err *e) MUST_CHECK;
void tls_ctx_free(struct tls_ctx *t);

/* For the client's side of a connection to `h`. ALPN: h2 when the client offers it, else http/1.1. */
int tls_ctx_accept(struct tls_ctx *t, struct ca *ca, const struct host *h, SSL **ret,
		   struct err *e) MUST_CHECK;

enum tls_alpn { TLS_ALPN_H1, TLS_ALPN_BOTH, TLS_ALPN_H2 };
int tls_ctx_connect(struct tls_ctx *t, const struct host *h, uint16_t port, const char *ca_pem,
		    enum tls_alpn alpn, SSL **ret, struct err *e) MUST_CHECK;

/* Has ALPN selected "h2"? */
bool tls_is_h2(const SSL *s);

/* Why verification of the server's certificate failed; NULL when it did not. */
const char *tls_verify_error(const SSL *s);

/* Frees the contexts made for `ca:` of an older policy. */
void tls_ctx_forget_cas(struct tls_ctx *t);

#endif
