/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an HTTP request to a message for cofferd (webproto.h), or to why not. Pure: the fuzzer's entry.
 *
 * Invariants
 *  Q1  A path is one of the table's, byte for byte; the part that is a name is not decoded. A query has known members, each once.
 *  Q2  A body is one JSON object of known members, none twice, each checked by the table.
 *  Q3  Over TCP, Host is an address, localhost, or a name that the operator gave: a page of somebody else's whose name was made to
 *      lead here (DNS rebinding) carries its own name. Origin, where there is one, is this very host and port; https where the
 *      operator gave the name, for a proxy stands there.
 *  Q4  Nothing that a browser sends by itself authorises anything: there is no cookie, which would go to every port of the host, also
 *      to one that a sandbox publishes. Who asks says so in Authorization. A request of which the browser says that another site, or
 *      another port, made it (Sec-Fetch-Site) is refused; the page's own files may be linked to.
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

/* Which connection it came over. */
struct web_via {
	bool owner; /* handed over by cofferd: `key` stands for him */
	unsigned char key[HASH_LEN];
	uint16_t port;		      /* of the listening socket */
	const char *names;	      /* comma-separated, beside addresses and localhost */
	unsigned char peer[HASH_LEN]; /* the other end's network, for what it may ask before it is known */
};

struct web_ask {
	struct webp_req req; /* values point into `texts` */
	struct buf texts;
	char idem[65]; /* Idempotency-Key; "" for none */
	struct web_refusal no;
};

#define WEB_ASK_INIT ((struct web_ask){ 0 })
void web_ask_release(struct web_ask *a);

/* May a body come at all? Called with the head alone. -1: a->no. *ret_op is WEB_OP_COUNT for a file of the page. */
int web_check_head(const struct http1_head *h, const struct web_via *via, struct web_ask *a,
		   enum web_op *ret_op) MUST_CHECK;

/* The rest, once the body is there. */
int web_build(const struct http1_head *h, const char *body, size_t len, struct web_ask *a) MUST_CHECK;

#endif
