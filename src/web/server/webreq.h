/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns an HTTP request into a message for cofferd (webproto.h), or into a refusal. Pure: the fuzzer's entry.
 *
 * Invariants (cited elsewhere as webreq.Q1 …)
 * Q1  A path matches the table byte for byte; the part that is a name is not decoded. A query has known
 *     parameters, each once.
 * Q2  A body is one JSON object of known members, none twice, each checked by the table.
 * Q3  Over TCP, Host is an address, localhost, or a name that the operator gave: a foreign page whose name
 *     was made to resolve here (DNS rebinding) carries its own name. Origin, if present, is this very host
 *     and port; https if the operator gave the name, since a proxy is in front.
 * Q4  Nothing that a browser sends by itself authorises anything: there is no cookie, which would be sent to
 *     every port of the host, including one that a sandbox publishes. The credential is in Authorization. A
 *     request that the browser marks as made by another site or port (Sec-Fetch-Site) is refused; the page's
 *     own files may be linked to.
 */
#ifndef WEB_WEBREQ_H
#define WEB_WEBREQ_H

#include "codec/http/http1.h"
#include "web/wire/webproto.h"

struct web_refusal {
	unsigned status;
	const char *code;
	char message[256];
	const char *hint; /* or NULL */
};

/* The connection that a request came over. */
struct web_via {
	bool owner; /* passed on by cofferd: `key` identifies the owner */
	unsigned char key[HASH_LEN];
	uint16_t port;	   /* of the listening socket */
	const char *names; /* accepted names, comma-separated, beside addresses and localhost */
	unsigned char
		peer[HASH_LEN]; /* hash of the peer's network, for rate limits before it is authenticated */
};

struct web_ask {
	struct webp_req req; /* values point into `texts` */
	struct buf texts;
	char idem[65]; /* Idempotency-Key; "" for none */
	struct web_refusal no;
};

#define WEB_ASK_INIT ((struct web_ask){ 0 })
void web_ask_release(struct web_ask *a);

/* Checks a head before its body is read. -1: refused, see a->no. *ret_op is WEB_OP_COUNT for a file of the
 * page. */
int web_check_head(const struct http1_head *h, const struct web_via *via, struct web_ask *a,
		   enum web_op *ret_op) MUST_CHECK;

/* Builds the message once the body is complete. */
int web_build(const struct http1_head *h, const char *body, size_t len, struct web_ask *a) MUST_CHECK;

#endif
