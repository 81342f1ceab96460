/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client of coffer-vault (vault/common/vaultproto.h): fetches the bytes of a secret, and hands over
 * credentials that a server issued.
 *
 * Invariants
 *  C1  Each vaultc_request gets done() exactly once, unless it was cancelled: then never, and never from
 *      within vaultc_render().
 *  C2  The bytes of a reply are zeroed here when done() returns, also those that no request waits for.
 *  C3  A reply that breaks the protocol closes the channel; every waiting request, and every later one, is
 *      refused.
 */
#ifndef EGRESS_VAULTC_H
#define EGRESS_VAULTC_H

#include "base/buf.h"
#include "codec/slice.h"
#include "ipc/loop.h"
#include "vault/common/vaultproto.h"

struct vaultc_request {
	/*
	 * Set by the owner. status 0: `value` is the secret and valid until done() returns; else negative,
	 * and `why` is for people.
	 */
	void (*done)(struct vaultc_request *a, int status, struct slice value, const char *why);
	void *ctx;

	/* Result of vaultc_capture(), valid while done() runs: `value` is the placeholder. */
	uint32_t handle, dropped; /* as in VAULT_CAPTURED */
	uint64_t expires;
	bool kept;
	struct slice name;

	/* Private. */
	struct buf msg;	     /* until it is sent */
	uint32_t reply_type; /* the only valid type besides VAULT_REFUSED */
	uint32_t id;
	struct vaultc_request *next, **link; /* link is NULL when it is not queued */
};

struct vaultc {
	struct loop *loop;
	struct watch w;			     /* w.fd -1: no connection to the vault */
	struct vaultc_request *first, **end; /* queued or awaiting a reply, in order */
	unsigned in_flight;		     /* sent and unanswered, cancelled ones too */
	uint32_t last_id;
	unsigned char *in; /* VAULTC_IN bytes, zero between two replies */
	void (*on_down)(struct vaultc *v, const char *why);
	void *ctx;
};

int vaultc_init(struct vaultc *v, struct loop *loop, struct err *e) MUST_CHECK;
void vaultc_release(struct vaultc *v);
/* Takes fd. Requests that wait for the old connection are refused. */
int vaultc_connect(struct vaultc *v, int fd, struct err *e) MUST_CHECK;

/* -EPIPE when there is no vault, -EBUSY, -ENOMEM. */
int vaultc_render(struct vaultc *v, struct vaultc_request *a, uint32_t handle, const char *host,
		  uint16_t port, struct slice path) MUST_CHECK;
/* A credential that a server issued, for VAULT_CAPTURE. The same errors. */
struct vaultc_issued {
	uint32_t issuer, carried;
	uint64_t expires_in;
	struct slice value;
	const char *member;
};
int vaultc_capture(struct vaultc *v, struct vaultc_request *a, const struct vaultc_issued *i) MUST_CHECK;
void vaultc_cancel(struct vaultc *v, struct vaultc_request *a); /* no effect when it is not queued */

#endif
