/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets that a run may use: from --secret and the policy's `secret:` to a running coffer-vault that has granted
 * them, and to what stands for them inside. The vault is that which cofferd keeps, where there is one that can be had; else
 * one of the run's own. From the asking on the two are the same.
 *
 * Invariants
 *  S1  What is named on the command line and cannot be had is an error before anything is made. What only the policy names
 *      is left out and said; coffer-egress then denies what its rule allows.
 *  S2  Placeholders are made once for a run, or for a named home (net_placeholder.h). A vault that is started again grants anew,
 *      under other handles, and the sandbox notices nothing.
 *  S3  What the vault file says now counts: a vault that is started again reads the file that is there then, and one that
 *      was removed, or unbound from where it may be used, is refused from then on without harm to the others.
 *  S4  Only NAME@HOST on the command line sends a secret that is bound nowhere. A policy file alone does not, nor does
 *      unbinding one that was bound when the run began.
 *      A profile does so with care (net_offer.h); what it names and cannot be had is left out, and said.
 *  S5  Where cofferd's vault is not to be had, and the run could open none of its own (a passphrase), all is denied until
 *      it is; it is asked for again and again.
 *  S6  Neither launcher nor guard ever has a byte of a secret: only names, bindings, placeholders and descriptors.
 *  S7  A key for SSH has no placeholder: it signs through the sandbox's ssh-agent (supervise_agent.c), whose channel the
 *      launcher has. What the vault says when it is asked decides, so nothing of it is remembered here but its name.
 */
#ifndef NETD_NET_SECRET_H
#define NETD_NET_SECRET_H

#include "base/str.h"
#include "config/policy_file.h"
#include "netd/plan/net_offer.h"
#include "netd/plan/net_placeholder.h"
#include "sandbox/spec/spec.h"
#include "vault/client/client.h"

struct net_plan;
struct state;

struct net_secrets {
	struct vault_grants ask;     /* what is wanted */
	struct vault_grants granted; /* in the same order, with the placeholders that are inside */
	struct vault_grants issued;  /* what servers issued, as the vault said when it was last asked */
	struct vault_grants pools;   /* what coffer-dial is to have for proxies */
	struct vault_grants
		rules; /* what the policy's rules say of those that it does not name alone (net_rule.h) */
	const struct net_offers *offers; /* the profile's; until it is started */
	uint64_t
		vague; /* a rule says `ask: true` and not how it is sent: for keys that sign that is too little */
	uint64_t by_line;     /* bit i: named on the command line; once it is started, or by the profile */
	uint64_t offered;     /* bit i: named by the profile */
	uint64_t with_host;   /* bit i: there, with a host */
	uint64_t was_unbound; /* bit i: bound nowhere when the run began */
	uint64_t alive;	      /* bit i: the vault that is there has it, for somewhere */
	struct vault_grants sign; /* keys for the ssh-agent: what of them is wanted (S7) */
	struct buf known;	  /* of the hosts that they are for, as known_hosts has it */
	int idle;  /* the far end of what egress has where keys only sign: nobody asks over it; -1: none */
	int agent; /* the launcher's end of the agent's channel; -1: none */
	int keep;  /* where the vault keeps what servers issue (net_issue.c); -1: nothing is issued */
	bool has_no_file; /* there is no vault: only what servers issue is kept (net_issue.c) */
	struct vault_files files;
	struct vault_proc vault;
	unsigned waited; /* times in a row that cofferd's vault was down */
	int lease; /* the connection to cofferd by which its vault is ours; -1: the vault is the run's own */
	int exe;
	struct marks marks;		/* of the state directory; all empty: it has none */
	char home[GRANTS_NAME_MAX + 2]; /* the named home; empty: none */
};

#define NET_SECRETS_INIT                                  \
	((struct net_secrets){ .files = VAULT_FILES_INIT, \
			       .vault = VAULT_PROC_INIT,  \
			       .lease = -1,               \
			       .exe = -1,                 \
			       .keep = -1,                \
			       .agent = -1,               \
			       .idle = -1 })

/* Whether what --secret says can be read at all: NAME[@HOST,…]. Whether there is such a secret net_secrets_plan() says. */
int net_secret_check(const struct strv *named) MUST_CHECK;

/* Before anything is made: finds the vault, cofferd's or one of the run's own, and what there is in it of what is wanted. `named` as
 * typed; `offers`, which is kept, may be NULL. The run gets its id here. */
int net_secrets_plan(struct net_plan *p, struct spec *s, const struct strv *named,
		     const struct net_offers *offers, struct state *st, struct err *e) MUST_CHECK;

/* Has it all granted; the spec gets variables with placeholders. By the launcher, before there is a guard. */
int net_secrets_start(struct net_secrets *s, struct spec *spec, const struct state *st,
		      struct err *e) MUST_CHECK;
/* A vault that runs, with the channel of one coffer-egress; *ret_channel is the other end. */
int net_secrets_grant(struct net_secrets *s, const char *id, int *ret_channel, struct err *e) MUST_CHECK;
/* The channel of its ssh-agent, in the place of an earlier one; *ret_channel is the launcher's end. */
int net_secrets_agent(struct net_secrets *s, const char *id, int *ret_channel, struct err *e) MUST_CHECK;
int net_secrets_restart(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
/* There is none any more: a channel is closed, one of our own is ended. */
void net_secrets_down(struct net_secrets *s);
static inline bool net_secrets_is_up(const struct net_secrets *s)
{
	return s->vault.control >= 0;
}

/* net_issue.c: issuers beside the secrets in s->ask; only them; and a vault for them where there is no file. */
int net_issue_ask(struct net_secrets *s, const struct config_policy *cp, struct err *e) MUST_CHECK;
void net_issue_leave_only(struct net_secrets *s);
int net_issue_without_file(struct net_secrets *s, struct err *e) MUST_CHECK;
/* The file in which the vault keeps what is issued, where anything may be: that of the run's named home; without one, or without a
 * vault whose key outlives the run, a file without a name, that is gone with the run. */
int net_issue_keep(struct net_secrets *s, const struct spec *spec, struct err *e) MUST_CHECK;

/* net_proxy.c: secrets for proxies. What cannot be had when the run begins is an error; later it is left out. */
int net_proxy_ask(struct net_secrets *s, const struct policy *p, struct err *e) MUST_CHECK;
int net_proxy_check(struct net_secrets *s, const char *id, struct err *e) MUST_CHECK;
/* The list and the channel of one coffer-dial. */
int net_proxy_grant(struct net_secrets *s, const char *id, struct vault_grants *ret, int *ret_channel,
		    struct err *e) MUST_CHECK;
/* Is there anything that it may use? */
static inline bool net_secrets_any(const struct net_secrets *s)
{
	return s->granted.n || s->sign.n || s->pools.n;
}

void net_secrets_forget(struct net_secrets *s); /* somebody else has the descriptors */
void net_secrets_release(struct net_secrets *s);

/* The variable that a secret of this name is expected under, when nobody says: "github" is GITHUB_TOKEN. */
void net_secret_env(const char *name, char out[GRANTS_NAME_MAX + 1]);

#endif
