/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets that a run may use: from --secret and the policy's `secret:` to a running coffer-vault that has granted
 * them, and to what stands for them inside. The vault is that which cofferd keeps, where there is one that can be had; else
 * one of the run's own. From the asking on the two are the same.
 *
 * Invariants
 *  S1  What is named on the command line and cannot be had is an error before anything is made. What only the policy names
 *      is left out and said; coffer-egress then denies what its rule allows.
 *  S2  Placeholders are made once for a run. A vault that is started again grants anew, under other handles, and the
 *      sandbox notices nothing.
 *  S3  What the vault file says now counts: a vault that is started again reads the file that is there then, and one that
 *      was removed, or unbound from where it may be used, is refused from then on without harm to the others.
 *  S4  Only NAME@HOST on the command line sends a secret that is bound nowhere. A policy file alone does not, nor does
 *      unbinding one that was bound when the run began.
 *      A profile does so with care (net_offer.h); what it names and cannot be had is left out, and said.
 *  S5  Where cofferd's vault is not to be had, and the run could open none of its own (a passphrase), all is denied until
 *      it is; it is asked for again and again.
 *  S6  Neither launcher nor guard ever has a byte of a secret: only names, bindings, placeholders and descriptors.
 */
#ifndef GATEWAY_NET_SECRET_H
#define GATEWAY_NET_SECRET_H

#include "base/str.h"
#include "gateway/net_offer.h"
#include "sandbox/spec.h"
#include "vault/client.h"

struct net_plan;
struct run;
struct state;

struct net_secrets {
	struct vault_grants ask;     /* what is wanted */
	struct vault_grants granted; /* in the same order, with the placeholders that are inside */
	struct vault_grants
		rules; /* what the policy's rules say of those that it does not name alone (net_rule.h) */
	const struct net_offers *offers; /* the profile's; until it is started */
	uint64_t by_line;     /* bit i: named on the command line; once it is started, or by the profile */
	uint64_t offered;     /* bit i: named by the profile */
	uint64_t with_host;   /* bit i: there, with a host */
	uint64_t was_unbound; /* bit i: bound nowhere when the run began */
	uint64_t alive;	      /* bit i: the vault that is there has it, for somewhere */
	struct vault_files files;
	struct vault_proc vault;
	unsigned waited; /* times in a row that cofferd's vault was down */
	int lease; /* the connection to cofferd by which its vault is ours; -1: the vault is the run's own */
	int exe;
};

#define NET_SECRETS_INIT \
	((struct net_secrets){ .files = VAULT_FILES_INIT, .vault = VAULT_PROC_INIT, .lease = -1, .exe = -1 })

/* Before anything is made: finds the vault, cofferd's or one of the run's own, and what there is in it of what is wanted. `named` as
 * typed; `offers`, which is kept, may be NULL. The run gets its id here. */
int net_secrets_plan(struct net_plan *p, struct spec *s, const struct strv *named,
		     const struct net_offers *offers, struct state *st, struct err *e) MUST_CHECK;

/* Has it all granted; the spec gets variables with placeholders. By the launcher, before there is a guard. */
int net_secrets_start(struct run *r, struct err *e) MUST_CHECK;
/* A vault that runs, with the channel of one coffer-egress; *ret_channel is the other end. */
int net_secrets_grant(struct net_secrets *s, const char *id, int *ret_channel, struct err *e) MUST_CHECK;
int net_secrets_restart(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
/* There is none any more: a channel is closed, one of our own is ended. */
void net_secrets_down(struct net_secrets *s);
static inline bool net_secrets_is_up(const struct net_secrets *s)
{
	return s->vault.control >= 0;
}

void net_secrets_forget(struct net_secrets *s); /* somebody else has the descriptors */
void net_secrets_release(struct net_secrets *s);

/* The variable that a secret of this name is expected under, when nobody says: "github" is GITHUB_TOKEN. */
void net_secret_env(const char *name, char out[GRANTS_NAME_MAX + 1]);

#endif
