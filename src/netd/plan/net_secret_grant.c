/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels of the vault: each coffer-egress gets one of its own with what is still alive, the ssh-agent
 * another. What was granted first keeps its place and its placeholder for as long as the run lasts (S2);
 * what is no more has a handle that no vault gives (S3).
 */
#include "base/fd.h"
#include "netd/plan/net_rule.h"
#include "netd/plan/net_secret_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Behind what was asked for the vault says what servers issued meanwhile. */
static int keep_issued(struct net_secrets *s, const struct vault_grants *fresh, size_t from, struct err *e)
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

/* What servers issued to an earlier run stands behind what was asked for, as it does later. */
static int take_first(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
	size_t n = s->ask.n < fresh->n ? s->ask.n : fresh->n;
	int r = keep_issued(s, fresh, n, e);

	if (r < 0)
		return r;
	fresh->n = n;
	/* From now on only these count: what the vault says of them when it is asked again is not looked at. */
	if (n && !s->has_no_file) {
		r = net_placeholders_put(s->files.dir, s->home[0] ? s->home : NULL, &s->marks, fresh, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < fresh->n; i++) {
		if (!net_rule_apply(&s->rules, &fresh->v[i]))
			return err_set(
				e, -EACCES,
				"the secret '%s' is bound to be sent in another way than a rule of the policy says",
				fresh->v[i].name);
	}
	s->granted = *fresh;
	*fresh = GRANTS_INIT;
	return 0;
}

/* S2, S3: what is no more keeps its place and its placeholder, with a handle that no vault gives. */
static int keep_placeholders(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
	size_t k = 0;

	if (s->granted.n == 0)
		return take_first(s, fresh, e);
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
	return keep_issued(s, fresh, k, e);
}

/* Nothing at all: the channel's other end is closed, and whatever is asked over it is denied. */
static int grant_alive(struct net_secrets *s, const char *id, int theirs, struct vault_grants *fresh,
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
	/* What an earlier coffer-egress had ends with this one's, but for what servers issued. */
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
	r = grant_alive(s, id, theirs, &fresh, e);
	if (r == 0)
		r = keep_placeholders(s, &fresh, e);
	if (r < 0)
		return r;
	/* Where nothing is ever sent no end of a channel is news. */
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
