/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of coffer-courier. */
#ifndef COURIER_COURIER_INT_H
#define COURIER_COURIER_INT_H

#include "courier/courier_http.h"
#include "dial/connect/dial_race.h"
#include "dial/connect/resolve.h"
#include "egress/tls/tls_ctx.h"

struct courier {
	struct buf message;
	struct courier_job job; /* its texts are in message */
	int resolv, store, ca, key, vault;
	uint64_t deadline; /* CLOCK_MONOTONIC ns */
	struct buf pem;	   /* the job's CA */
	struct buf secret; /* zeroed */
	struct tls_ctx *tls;

	/* courier_dial.c */
	struct loop loop;
	struct resolver *resolver;
	struct resolve_lookup lookup;
	struct race race;
	struct timer timer;
	struct own_probe own;
	int sock; /* connected; -1 until then */
	int status;
	char why[COURIER_WHY_LEN];
};

/* Call before the fence is up. */
int courier_dial_open(struct courier *c, struct err *e) MUST_CHECK;
/* Resolves, judges, connects: sets c->sock. */
int courier_dial(struct courier *c, struct err *e) MUST_CHECK;
void courier_dial_close(struct courier *c);

/* TLS, the request, the response (courier_talk.c). */
int courier_talk(struct courier *c, struct courier_response *a, struct err *e) MUST_CHECK;

#endif
