/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking coffer-vault for a secret's bytes, and handing it those that a server issued: the client's side of vault/common/vaultproto.h.
 *
 * Invariants
 *  C1  Each vault_ask gets done() exactly once, unless it was cancelled: never afterwards, and never from within
 *      vaultc_render().
 *  C2  An answer's bytes are zeroed here when done() returns, also those that nobody waits for.
 *  C3  An answer that breaks the protocol ends the channel; then everything that waits, and all that comes, is refused.
 */
#ifndef EGRESS_VAULTC_H
#define EGRESS_VAULTC_H

#include "base/buf.h"
#include "codec/slice.h"
#include "ipc/loop.h"
#include "vault/common/vaultproto.h"

struct vault_ask {
	/* Set by the owner. status 0: `value` is the secret, until done() returns; else negative, and `why` is for people. */
	void (*done)(struct vault_ask *a, int status, struct slice value, const char *why);
	void *ctx;

	/* Of vaultc_capture(), while done() runs: `value` is the placeholder. */
	uint32_t handle, dropped; /* as VAULT_CAPTURED has them */
	uint64_t expires;
	bool kept;
	struct slice name;

	/* Its own. */
	struct buf msg;	 /* until it was sent */
	uint32_t answer; /* the type that it must have */
	uint32_t id;
	struct vault_ask *next, **link; /* link is NULL when it does not wait */
};

struct vaultc {
	struct loop *loop;
	struct watch w;			/* w.fd -1: the vault is not there */
	struct vault_ask *first, **end; /* asked and not yet answered, in order */
	unsigned in_flight;		/* with the vault, cancelled ones too */
	uint32_t last_id;
	unsigned char *in; /* VAULTC_IN bytes, zero between two answers */
	void (*on_down)(struct vaultc *v, const char *why);
	void *ctx;
};

int vaultc_init(struct vaultc *v, struct loop *loop, struct err *e) MUST_CHECK;
void vaultc_release(struct vaultc *v);
/* Takes fd. What waits for the old one is refused. */
int vaultc_connect(struct vaultc *v, int fd, struct err *e) MUST_CHECK;

/* -EPIPE when there is no vault, -EBUSY, -ENOMEM. */
int vaultc_render(struct vaultc *v, struct vault_ask *a, uint32_t handle, const char *host, uint16_t port,
		  struct slice path) MUST_CHECK;
/* A credential that a server issued, as VAULT_CAPTURE says. The same errors. */
struct vaultc_issued {
	uint32_t issuer, carried;
	uint64_t expires_in;
	struct slice value;
	const char *member;
};
int vaultc_capture(struct vaultc *v, struct vault_ask *a, const struct vaultc_issued *i) MUST_CHECK;
void vaultc_cancel(struct vaultc *v, struct vault_ask *a); /* nothing when it is not asked */

#endif
