/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets that a run may use: from --secret and the policy's `secret:` to a running coffer-vault that has
 * granted them, and to their placeholders inside. The vault is that of cofferd if it is available, else one
 * of the run's own; after the request both are the same.
 *
 * Invariants (cited elsewhere as net_secret.S1 …)
 * S1  A secret named on the command line that is not available is an error before anything is made. One that
 *     only the policy names is left out and reported; coffer-egress then denies what its rule allows.
 * S2  Placeholders are made once for a run, or for a named home (net_placeholder.h). A restarted vault grants
 *     anew, under other handles, and the sandbox notices nothing.
 * S3  The current vault file counts: a restarted vault reads the file that is there then; a secret that was
 *     removed, or unbound from where it may be used, is refused from then on, without affecting the others.
 * S4  Only NAME@HOST on the command line sends a secret that is bound nowhere. A policy file alone does not,
 *     nor does unbinding a secret that was bound when the run began. A profile may do so with restrictions
 *     (net_offer.h); its unavailable secrets are left out and reported.
 * S5  If cofferd's vault is unavailable and the run cannot open one of its own (it needs a passphrase), every
 *     use is denied until cofferd's is back; it is retried.
 * S6  Neither launcher nor guard ever has a byte of a secret: only names, bindings, placeholders and
 *     descriptors.
 * S7  A key for SSH has no placeholder: it signs through the sandbox's ssh-agent (supervise_agent.c), whose
 *     channel the launcher has. The vault decides at each request, so only its name is kept here.
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
	struct vault_grants ask;     /* requested */
	struct vault_grants granted; /* in the same order, with the placeholders used inside */
	struct vault_grants issued;  /* credentials issued by servers, as the vault last reported them */
	struct vault_grants proxies; /* credentials of proxies, for coffer-dial */
	struct vault_grants rules;   /* restrictions by rules for secrets that others name too (net_rule.h) */
	const struct net_offers *offers; /* the profile's; used until the run is started */
	uint64_t vague;	  /* bit i: a rule says `ask: true` without a form; not enough for a key that signs */
	uint64_t by_line; /* bit i: named on the command line; after the start also by the profile */
	uint64_t offered; /* bit i: named by the profile */
	uint64_t with_host;	  /* bit i: named there with a host */
	uint64_t was_unbound;	  /* bit i: bound nowhere when the run began */
	uint64_t alive;		  /* bit i: the current vault has it, with a usable binding */
	struct vault_grants sign; /* keys for the ssh-agent: the requested ones (S7) */
	struct buf known;	  /* keys of their hosts, in the form of known_hosts */
	int idle;  /* the far end of egress's channel if keys only sign: nobody asks over it; -1: none */
	int agent; /* the launcher's end of the agent's channel; -1: none */
	int keep;  /* file in which the vault keeps issued credentials (net_issue.c); -1: none */
	bool has_no_file; /* there is no vault file: only issued credentials are kept (net_issue.c) */
	struct vault_files files;
	struct vault_proc vault;
	unsigned waited; /* number of times in a row that cofferd's vault was down */
	int lease; /* connection to cofferd that holds its vault for us; -1: the vault is the run's own */
	int exe;
	struct marks marks;		/* of the state directory; empty: it has none */
	char home[GRANTS_NAME_MAX + 2]; /* name of the home; empty: none */
};

#define NET_SECRETS_INIT                                  \
	((struct net_secrets){ .files = VAULT_FILES_INIT, \
			       .vault = VAULT_PROC_INIT,  \
			       .lease = -1,               \
			       .exe = -1,                 \
			       .keep = -1,                \
			       .agent = -1,               \
			       .idle = -1 })

/* Checks the syntax of --secret: NAME[@HOST,…]. Whether the secret exists is checked by net_secrets_plan(). */
int net_secret_check(const struct strv *named) MUST_CHECK;

/* Before anything is made: finds the vault, cofferd's or one of the run's own, and which requested secrets it
 * has. `named` as typed; `offers`, which is kept, may be NULL. Gives the run its id. */
int net_secrets_plan(struct net_plan *p, struct spec *s, const struct strv *named,
		     const struct net_offers *offers, struct state *st, struct err *e) MUST_CHECK;

/* Has everything granted; the spec gets variables with placeholders. Called by the launcher, before there is
 * a guard. */
int net_secrets_start(struct net_secrets *s, struct spec *spec, const struct state *st,
		      struct err *e) MUST_CHECK;
/* Grants to one coffer-egress; *ret_channel is its end of a new channel to the running vault. */
int net_secrets_grant(struct net_secrets *s, const char *id, int *ret_channel, struct err *e) MUST_CHECK;
/* A channel for the ssh-agent, replacing an earlier one; *ret_channel is the launcher's end. */
int net_secrets_agent(struct net_secrets *s, const char *id, int *ret_channel, struct err *e) MUST_CHECK;
int net_secrets_restart(struct net_secrets *s, struct state *st, const char *id, struct err *e) MUST_CHECK;
/* Closes the channel to cofferd's vault, or ends the run's own. */
void net_secrets_close_vault(struct net_secrets *s);
static inline bool net_secrets_is_up(const struct net_secrets *s)
{
	return s->vault.control >= 0;
}

/* net_issue.c: adds issuers to s->ask; keeps only them; and makes a vault for them if there is no vault file. */
int net_issue_ask(struct net_secrets *s, const struct config_policy *cp, struct err *e) MUST_CHECK;
void net_issue_leave_only(struct net_secrets *s);
int net_issue_without_file(struct net_secrets *s, struct err *e) MUST_CHECK;
/* The file in which the vault keeps issued credentials, if there can be any: that of the named home; without
 * one, or without a vault whose key outlives the run, an unnamed file that disappears with the run. */
int net_issue_keep(struct net_secrets *s, const struct spec *spec, struct err *e) MUST_CHECK;

/* net_proxy.c: credentials of proxies. If unavailable when the run begins, that is an error; later they are
 * left out. */
int net_proxy_ask(struct net_secrets *s, const struct policy *p, struct err *e) MUST_CHECK;
int net_proxy_check(struct net_secrets *s, const char *id, struct err *e) MUST_CHECK;
/* The list and the channel for one coffer-dial. */
int net_proxy_grant(struct net_secrets *s, const char *id, struct vault_grants *ret, int *ret_channel,
		    struct err *e) MUST_CHECK;
/* Is there anything that the run may use? */
static inline bool net_secrets_has_any(const struct net_secrets *s)
{
	return s->granted.n || s->sign.n || s->proxies.n;
}

void net_secrets_forget(struct net_secrets *s); /* closes our copies: another process has the descriptors */
void net_secrets_release(struct net_secrets *s);

/* The usual variable for a secret of this name: "github" is GITHUB_TOKEN. */
void net_secret_env(const char *name, char out[GRANTS_NAME_MAX + 1]);

#endif
