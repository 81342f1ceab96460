/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of upstream proxies that are in the vault: the grants (which secret for which proxy), and the
 * channel. A credential is fetched anew for each handshake, and zeroed when that is over (proxy_tunnel.c).
 */
#ifndef DIAL_DIAL_VAULT_H
#define DIAL_DIAL_VAULT_H

#include "egress/wire/vaultc.h"
#include "vault/common/grants.h"

struct dial_vault {
	struct vault_grants grants;
	struct vaultc client;
	bool is_open;
};

/*
 * Takes a packed list (fds.h, struct secrets_head) and a channel. Requests that wait for an older channel are
 * refused.
 */
int dial_vault_open(struct dial_vault *v, struct loop *loop, const void *list, size_t len, int channel,
		    struct err *e) MUST_CHECK;
void dial_vault_release(struct dial_vault *v);

/* Fetches the credential of a proxy. 0: a->done() will be called; else `why` has the reason. */
int dial_vault_fetch(struct dial_vault *v, struct vaultc_request *a, const char *secret,
		     const struct host *proxy, uint16_t port, const char **why) MUST_CHECK;
/*
 * Splits a fetched credential: both halves point into `mem`, which is zeroed when released. NULL, or what is
 * wrong with it.
 */
const char *dial_vault_split(const struct dial_vault *v, const char *secret, const struct host *proxy,
			     uint16_t port, struct slice value, struct buf *mem, const char **user,
			     const char **password) MUST_CHECK;

#endif
