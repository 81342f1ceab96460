/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault that cofferd keeps: one coffer-vault for all sandboxes of a state directory (doc/adr/0014). It is
 * started with the first request or by `coffer secret unlock`, and restarted with growing pauses when it
 * dies.
 *
 * cofferd has its control channel, over which no secret value is ever sent. The guard of a sandbox gets a
 * channel of its own, limited to the secrets of its sandbox; cofferd is not between them.
 *
 * Requests by state:
 *
 *	          absent     locked             ready (a key opens it)   open
 *	hold      refused    refused: unlock    started, then as open    a channel
 *	unlock    refused    a vault to open    started                  nothing to do
 *	unlocked  refused    it is the vault    refused                  the older one ends
 *	lock      refused    nothing to do      refused                  ended; refused where a key opens it again
 *
 * "unlock" and "unlocked" come over one connection; if it ends in between, the vault that was to be opened is
 * ended.
 *
 * Invariants (cited elsewhere as vaultd.K1 …)
 * K1  cofferd neither has nor reads a passphrase: the vault reads it from a descriptor of the unlocking
 *     client, which talks to the vault over a copy of its control channel meanwhile.
 * K2  A vault counts as open only if it has opened the file that has the name now, with the key that it was
 *     given.
 * K3  The vault ends with cofferd. If its key is a passphrase it is then locked; otherwise the next user
 *     opens it.
 * K4  A new file under the name takes effect at once: the vault reads it with its key, and every guard asks
 *     anew.
 */
#ifndef DAEMON_VAULTD_H
#define DAEMON_VAULTD_H

#include "base/json.h"
#include "cofferdc/cofferd_client.h"
#include "daemon/child/helpers.h"
#include "ipc/loop.h"
#include "sandbox/state/state.h"
#include "vault/client/client.h"

struct vaultd {
	struct state *st;
	struct loop *loop;
	struct audit *audit;
	struct helpers *helpers;
	void (*opened)(void *ctx);
	void *ctx;
	/* Internal. */
	struct helper helper;
	struct vault_files files;
	struct vault_proc proc;	 /* pid -1: not running */
	struct vault_proc typed; /* a vault whose passphrase is being typed */
	struct watch w, w_dir;
	struct timer again;
	unsigned leases; /* number of sandboxes that use it */
};

/* The fields of the owner must be set. */
void vaultd_begin(struct vaultd *v);
void vaultd_end(struct vaultd *v);

enum vaultd_state vaultd_state(const struct vaultd *v);
/* Is there a reason not to exit? */
bool vaultd_is_busy(const struct vaultd *v);

/* A channel for the guard of sandbox `id`; `ask` are the packed grants as received. The caller counts the
 * lease. */
int vaultd_hold(struct vaultd *v, const char *id, const void *ask, size_t len, int *ret_channel,
		struct err *e) MUST_CHECK;
/* 0: it is open. 1: *ret_control is a copy of the control channel of a new vault that waits for VAULT_OPEN;
 * an earlier one that was waiting is ended. */
int vaultd_unlock(struct vaultd *v, int *ret_control, struct err *e) MUST_CHECK;
int vaultd_unlocked(struct vaultd *v, struct err *e) MUST_CHECK;
void vaultd_cancel_unlock(struct vaultd *v); /* the unlocking client has disconnected */
int vaultd_lock(struct vaultd *v, struct err *e) MUST_CHECK;

void vaultd_json(const struct vaultd *v, struct json *j);

#endif
