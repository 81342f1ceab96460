/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels of the vault: each coffer-egress gets one of its own with the secrets that are still available,
 * the ssh-agent another. The first grants keep their places and placeholders for the life of the run
 * (net_secret.S2); a lost one has a handle that no vault gives (net_secret.S3).
 */
#include "base/fd.h"
#include "netd/plan/net_rule.h"
#include "netd/plan/net_secret_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* After the requested secrets, the vault lists credentials that servers issued meanwhile. */
static int take_issued(struct net_secrets *s, const struct vault_grants *fresh, size_t from, struct err *e)
{
	grants_release(&s->issued);
	for (size_t i = from; i < fresh->n; i++) {
		struct vault_grant *g = fresh->v[i].kind == GRANT_ISSUED ? grants_add(&s->issued) : NULL;

		if (!g)
			return err_set(e, -EPROTO, "the vault granted something else than before");
		*g = fresh->v[i];
	}
	return 0;
}

/* Credentials issued to an earlier run follow the requested ones, as they do later. */
static int take_first_grant(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
	size_t n = s->ask.n < fresh->n ? s->ask.n : fresh->n;
	int r = take_issued(s, fresh, n, e);

	if (r < 0)
		return r;
	fresh->n = n;
	/* From now on only these placeholders count: those of later responses are ignored. */
	if (n && !s->has_no_file) {
		r = net_placeholders_put(s->files.dir, s->home[0] ? s->home : NULL, &s->marks, fresh, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < fresh->n; i++) {
		if (!net_rule_apply(&s->rules, &fresh->v[i]))
			return err_set(
				e, -EACCES,
				"the secret '%s' is bound to another form than a rule of the policy names",
				fresh->v[i].name);
	}
	s->granted = *fresh;
	*fresh = GRANTS_INIT;
	return 0;
}

/* net_secret.S2, net_secret.S3: a lost secret keeps its place and its placeholder, with a handle that no
 * vault gives. */
static int update_granted(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
	size_t k = 0;

	if (s->granted.n == 0)
		return take_first_grant(s, fresh, e);
	for (size_t i = 0; i < s->granted.n; i++) {
		struct vault_grant *old = &s->granted.v[i];
		const struct vault_grant *now = k < fresh->n ? &fresh->v[k] : NULL;

		if (!(s->alive & (1ull << i))) {
			old->handle = UINT32_MAX - (uint32_t)i;
			continue;
		}
		if (!now || !str_eq(old->name, now->name))
			return err_set(e, -EPROTO, "the vault granted something else than before");
		k++;
		if (!net_rule_apply(&s->rules, &fresh->v[k - 1])) {
			old->handle = UINT32_MAX - (uint32_t)i;
			continue;
		}
		old->handle = now->handle;
		old->n_bindings = now->n_bindings;
		memcpy(old->bindings, now->bindings, sizeof(old->bindings));
	}
	return take_issued(s, fresh, k, e);
}

/* With nothing to grant the far end of the channel is closed, and every request over it is denied. */
static int grant_available(struct net_secrets *s, const char *id, int theirs, struct vault_grants *fresh,
			   struct err *e)
{
	autogrants struct vault_grants ask = GRANTS_INIT;

	for (size_t i = 0; i < s->ask.n; i++) {
		struct vault_grant *g = s->alive & (1ull << i) ? grants_add(&ask) : NULL;

		if (g)
			*g = s->ask.v[i];
		else if (s->alive & (1ull << i))
			return OOM(e);
	}
	if (ask.n == 0 && s->granted.n)
		(void)!vault_ungrant(&s->vault, id, NULL);
	/* This replaces the grant of an earlier coffer-egress, but keeps issued credentials. */
	return ask.n ? vault_grant(&s->vault, id, &ask, theirs, s->keep, fresh, e) : 0;
}

int net_secrets_grant(struct net_secrets *s, const char *id, int *ret_channel, struct err *e)
{
	autogrants struct vault_grants fresh = GRANTS_INIT;
	autoclose int ours = -1, theirs = -1;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	ours = sv[0];
	theirs = sv[1];
	r = grant_available(s, id, theirs, &fresh, e);
	if (r == 0)
		r = update_granted(s, &fresh, e);
	if (r < 0)
		return r;
	/* Keeps the far end open, since a closed channel would be reported although nothing is ever sent over
	 * it. */
	if (s->granted.n == 0) {
		fd_close(s->idle);
		s->idle = TAKE_FD(theirs);
	}
	*ret_channel = TAKE_FD(ours);
	return 0;
}

int net_secrets_agent(struct net_secrets *s, const char *id, int *ret_channel, struct err *e)
{
	autoclose int ours = -1, theirs = -1;
	size_t n = 0;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	ours = sv[0];
	theirs = sv[1];
	r = vault_agent(&s->vault, id, &s->sign, theirs, &n, e);
	if (r == 0)
		*ret_channel = TAKE_FD(ours);
	return r;
}
