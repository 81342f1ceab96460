/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream proxies' credentials that are in the vault: which secret is granted for which proxy, and the channel over which one
 * is asked for. It is asked for each handshake anew, and zeroed when that is over (proxy_tunnel.c).
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

/* A packed list (fds.h, struct secrets_head), and a channel, which it takes. What waits for an older one is refused. */
int dial_vault_open(struct dial_vault *v, struct loop *loop, const void *list, size_t len, int channel,
		    struct err *e) MUST_CHECK;
void dial_vault_release(struct dial_vault *v);

/* The credential of a proxy. 0: a->done() will be called; else `why` says what is wrong. */
int dial_vault_ask(struct dial_vault *v, struct vaultc_request *a, const char *secret,
		   const struct host *proxy, uint16_t port, const char **why) MUST_CHECK;
/* What came, as it is used: both point into `mem`, which is wiped. NULL, or what is wrong with it. */
const char *dial_vault_split(const struct dial_vault *v, const char *secret, const struct host *proxy,
			     uint16_t port, struct slice value, struct buf *mem, const char **user,
			     const char **password) MUST_CHECK;

#endif
