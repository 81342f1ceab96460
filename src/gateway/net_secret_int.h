/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of net_secret.h share; the invariants S1 to S7 are there. */
#ifndef GATEWAY_NET_SECRET_INT_H
#define GATEWAY_NET_SECRET_INT_H

#include "gateway/net_secret.h"

#define OOM(e) err_set((e), -ENOMEM, "out of memory")
#define PATIENCE_MS 5000 /* the guard has a sandbox to look after */

/* What the vault says of the secrets that are asked for, a bit for each. */
struct looked {
	const struct vault_grants *ask;
	uint64_t now; /* s */
	uint64_t signs;
	struct buf *known; /* gets the hosts' keys of what signs; NULL: not */
	struct net_found f;
};

/* net_secret_ask.c: fills in s->ask and its bits, s->rules and s->pools. */
int net_secret_ask(struct net_secrets *s, const struct config_policy *cp, const struct strv *named,
		   struct err *e) MUST_CHECK;

/* net_secret_vault.c. take_key: before anything is made, where there is a vault file. open: cofferd's, or one of the run's own. */
int net_secret_take_key(struct net_secrets *s, struct state *st, struct err *e) MUST_CHECK;
int net_secret_open(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
int net_secret_look(struct net_secrets *s, struct buf *known, struct looked *ret, struct err *e) MUST_CHECK;

#endif
