/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault that cofferd keeps: one coffer-vault for all sandboxes of a state directory (doc/adr/0014). It is started when the
 * first one asks, or somebody says so, and again with growing pauses when it dies.
 *
 * cofferd has its control channel, by which no value ever comes. The guard of a sandbox gets a channel of its own, over which
 * it has what its sandbox may use and nothing else; cofferd is not between them.
 *
 * What may be asked, in which state:
 *
 *	          absent     locked             ready (a key opens it)   open
 *	hold      refused    refused: unlock    started, then as open    a channel
 *	unlock    refused    a vault to open    started                  nothing to do
 *	unlocked  refused    it is the vault    refused                  the older one ends
 *	lock      refused    nothing to do      refused                  ended; refused where a key opens it again
 *
 * "unlock" and "unlocked" come over one connection, whose end in between ends the vault that was to be opened.
 *
 * Invariants
 *  K1  cofferd neither has a passphrase nor reads one: the vault reads it from the descriptor of whoever unlocks, who speaks
 *      with it over a copy of its control channel until then.
 *  K2  A vault counts as open when it has opened the file that has the name now, with the key that it was given.
 *  K3  It ends with cofferd. One whose key is a passphrase is then locked; others are opened by whoever needs them.
 *  K4  Another file under the name counts at once: the vault reads it with the key that it has, and every guard asks anew.
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
	/* Its own. */
	struct helper helper;
	struct vault_files files;
	struct vault_proc proc;	 /* pid -1: none */
	struct vault_proc typed; /* its passphrase is being typed */
	struct watch w, w_dir;
	struct timer again;
	unsigned leases; /* sandboxes that use it */
};

/* What the owner sets is set. */
void vaultd_begin(struct vaultd *v);
void vaultd_end(struct vaultd *v);

enum vaultd_state vaultd_state(const struct vaultd *v);
/* Is there a reason not to leave? */
bool vaultd_is_busy(const struct vaultd *v);

/* A channel for the guard of sandbox `id`; `ask` is as it was sent. The caller counts the lease. */
int vaultd_hold(struct vaultd *v, const char *id, const void *ask, size_t len, int *ret_channel,
		struct err *e) MUST_CHECK;
/* 0: it is open. 1: *ret_control is a copy of the control channel of one that waits for VAULT_OPEN; one that was waiting is
 * ended. */
int vaultd_unlock(struct vaultd *v, int *ret_control, struct err *e) MUST_CHECK;
int vaultd_unlocked(struct vaultd *v, struct err *e) MUST_CHECK;
void vaultd_unlock_over(struct vaultd *v); /* whoever was typing is gone */
int vaultd_lock(struct vaultd *v, struct err *e) MUST_CHECK;

void vaultd_json(const struct vaultd *v, struct json *j);

#endif
