/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of net_secret.h, which has the invariants S1 to S7. */
#ifndef NETD_NET_SECRET_INT_H
#define NETD_NET_SECRET_INT_H

#include "netd/plan/net_secret.h"

#define OOM(e) err_set((e), -ENOMEM, "out of memory")
#define PATIENCE_MS 5000 /* timeout of the guard, which has a sandbox to look after */

/* net_secret_say.c: lines for the person who starts the run. */
struct net_say {
	const struct policy *policy;
	struct strv *lines;
};

/* `to` may be NULL: nothing is reported. */
int net_secret_say_expiry(struct net_say *to, const char *name, uint64_t expires, uint64_t now) MUST_CHECK;
int net_secret_say_unreached(struct net_say *to, const char *name, const struct binding *b,
			     size_t n) MUST_CHECK;

/* Does a rule allow a request to one of these? Also true if it cannot be determined, and for none at all. */
bool net_secret_is_reached(const struct net_say *to, const struct binding *b, size_t n);

/* The vault's information about the requested secrets, a bit for each. */
struct looked {
	const struct vault_grants *ask;
	uint64_t now; /* s */
	uint64_t signs;
	struct buf *known;		    /* gets the host keys for keys that sign; NULL: not wanted */
	const struct vault_grants *proxies; /* requested too */
	uint64_t by_line;
	struct net_say *say; /* NULL: report nothing */
	uint8_t lacks
		[GRANTS_MAX]; /* for each, index from 1 of a requested host that it is not bound to; 0: none */
	struct net_found f;
};

/* net_secret_ask.c: fills in s->ask and its bits, s->rules and s->proxies. */
int net_secret_ask(struct net_secrets *s, const struct config_policy *cp, const struct strv *named,
		   struct err *e) MUST_CHECK;

/* net_secret_vault.c. take_key: before anything is made, if there is a vault file. open: cofferd's vault, or
 * one of the run's own. */
int net_secret_take_key(struct net_secrets *s, struct state *st, struct err *e) MUST_CHECK;
int net_secret_open(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
int net_secret_look(struct net_secrets *s, struct buf *known, struct net_say *say, struct looked *ret,
		    struct err *e) MUST_CHECK;

#endif
