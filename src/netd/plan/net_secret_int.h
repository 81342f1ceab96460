/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of net_secret.h share; the invariants S1 to S7 are there. */
#ifndef NETD_NET_SECRET_INT_H
#define NETD_NET_SECRET_INT_H

#include "netd/plan/net_secret.h"

#define OOM(e) err_set((e), -ENOMEM, "out of memory")
#define PATIENCE_MS 5000 /* the guard has a sandbox to look after */

/* net_secret_say.c: lines for whoever starts the run. */
struct net_say {
	const struct policy *policy;
	struct strv *lines;
};

/* `to` may be NULL: nobody is there to be told. */
int net_secret_say_expiry(struct net_say *to, const char *name, uint64_t expires, uint64_t now) MUST_CHECK;
int net_secret_say_unreached(struct net_say *to, const char *name, const struct binding *b,
			     size_t n) MUST_CHECK;

/* Does a rule let a request to one of these out? Also true where nobody can tell, and of none at all. */
bool net_secret_is_reached(const struct net_say *to, const struct binding *b, size_t n);

/* What the vault says of the secrets that are asked for, a bit for each. */
struct looked {
	const struct vault_grants *ask;
	uint64_t now; /* s */
	uint64_t signs;
	struct buf *known;		  /* gets the hosts' keys of what signs; NULL: not */
	const struct vault_grants *pools; /* also used */
	uint64_t by_line;
	struct net_say *say; /* NULL: not */
	uint8_t lacks
		[GRANTS_MAX]; /* of each, the place from 1 on of what was asked for and is not bound; 0: nothing */
	struct net_found f;
};

/* net_secret_ask.c: fills in s->ask and its bits, s->rules and s->pools. */
int net_secret_ask(struct net_secrets *s, const struct config_policy *cp, const struct strv *named,
		   struct err *e) MUST_CHECK;

/* net_secret_vault.c. take_key: before anything is made, where there is a vault file. open: cofferd's, or one of the run's own. */
int net_secret_take_key(struct net_secrets *s, struct state *st, struct err *e) MUST_CHECK;
int net_secret_open(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
int net_secret_look(struct net_secrets *s, struct buf *known, struct net_say *say, struct looked *ret,
		    struct err *e) MUST_CHECK;

#endif
