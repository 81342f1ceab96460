/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the wanted secrets into requested ones, before anything is made: the vault is opened and listed once,
 * and unavailable secrets are an error or left out (net_secret.S1, net_secret.S4). Bits and grants of struct
 * net_secrets keep one order from here on. No byte of a secret is here (net_secret.S6).
 */
#include "netd/plan/net_secret.h"

#include "base/fd.h"
#include "netd/plan/net_plan.h"
#include "netd/plan/net_rule.h"
#include "netd/plan/net_secret_int.h"
#include "sandbox/engine/helper.h"

#include <errno.h>

/* 1: request it. Secrets that only the policy names are left out if unavailable (net_secret.S1,
 * net_secret.S4); for typed ones the vault itself reports if no binding fits. */
static int may_request(const struct net_secrets *s, const struct looked *l, size_t i, struct err *e)
{
	const char *name = s->ask.v[i].name;
	uint64_t bit = 1ull << i;

	if (s->ask.v[i].kind == GRANT_ISSUER)
		return 1;
	if (s->offered & ~s->by_line & bit)
		return net_offer_usable(s, &l->f) & ~l->f.unreached & bit ? 1 : 0;
	if (!(s->by_line & bit))
		return l->f.there & ~l->f.expired & (l->f.meets | l->signs) & bit ? 1 : 0;
	if (!(l->f.there & bit)) {
		err_set(e, -ENOENT, "there is no secret '%s' in the vault", name);
		return err_hint(e, -ENOENT, "coffer secret set %s", name);
	}
	if (l->f.expired & bit) {
		err_set(e, -EKEYEXPIRED, "the secret '%s' has expired", name);
		return err_hint(e, -EKEYEXPIRED, "coffer secret rotate %s --expires DATE", name);
	}
	/* If it is bound to none of them, the vault reports that, with its bindings. */
	if ((l->f.meets | l->signs) & bit && l->lacks[i]) {
		const char *host = s->ask.v[i].bindings[l->lacks[i] - 1].host;

		err_set(e, -EACCES, "the secret '%s' is not bound to %s", name, host);
		return err_hint(e, -EACCES, "coffer secret bind %s --host %s, or leave it out", name, host);
	}
	return 1;
}

static void copy_bit(uint64_t *bits, size_t from, size_t to)
{
	uint64_t on = *bits >> from & 1;

	*bits = (*bits & ~(1ull << to)) | on << to;
}

/* From here on as if it had been typed with that host. */
static int bind_offered_secret(struct net_secrets *s, size_t i, struct err *e)
{
	int r = net_offer_bind(s, &s->ask.v[i], e);

	s->with_host |= r > 0 ? 1ull << i : 0;
	return r < 0 ? r : 1;
}

/* net_offer.O3, for secrets that the profile would bind. */
static int mark_unreached(const struct net_secrets *s, const struct net_say *say, struct net_found *f,
			  struct err *e)
{
	for (size_t i = 0; i < s->ask.n; i++) {
		struct vault_grant g = s->ask.v[i];
		uint64_t bit = 1ull << i;
		int r;

		if (!(s->offered & f->unbound & bit))
			continue;
		r = net_offer_bind(s, &g, e);
		if (r < 0)
			return r;
		if (!net_secret_is_reached(say, g.bindings, g.n_bindings))
			f->unreached |= bit;
	}
	return 0;
}

static int choose_requested(struct net_secrets *s, struct net_say *say, struct err *e)
{
	struct looked l;
	size_t n = 0;
	int r = net_secret_look(s, &s->known, say, &l, e);

	r = r < 0 ? r : mark_unreached(s, say, &l.f, e);
	if (r < 0)
		return r;
	s->was_unbound = l.f.unbound;
	/* Without a vault file this was reported already, and nothing is offered any more. */
	if (s->offered)
		net_offer_say(s, &l.f);
	for (size_t i = 0; i < s->ask.n; i++) {
		r = may_request(s, &l, i, e);
		if (r > 0 && s->offered & l.f.unbound & (1ull << i))
			r = bind_offered_secret(s, i, e);
		if (r < 0)
			return r;
		if (r == 1 && l.signs & s->vague & (1ull << i)) {
			err_set(e, -EINVAL, "the secret '%s' is a key that signs", s->ask.v[i].name);
			return err_hint(e, -EINVAL, "add `as: ssh` to the rule that has `ask: true`");
		}
		if (r == 1 && l.signs & (1ull << i)) {
			struct vault_grant *g = grants_add(&s->sign);

			if (!g)
				return OOM(e);
			*g = s->ask.v[i];
			net_rule_sign(&s->rules, g);
		}
		/* A key that only signs is not sent; for one that does neither the vault reports the reason. */
		if (r == 0 || (l.signs & ~l.f.meets & (1ull << i)))
			continue;
		copy_bit(&s->by_line, i, n);
		copy_bit(&s->offered, i, n);
		copy_bit(&s->with_host, i, n);
		copy_bit(&s->was_unbound, i, n);
		s->alive |= 1ull << n;
		if (n != i)
			s->ask.v[n] = s->ask.v[i];
		n++;
	}
	s->ask.n = n;
	/* For coffer-egress a profile counts as the command line, which named it. */
	s->by_line = (s->by_line | s->offered) & s->alive;
	s->with_host &= s->alive;
	s->was_unbound &= s->alive;
	return 0;
}

static int open_and_choose(struct net_secrets *s, struct state *st, const char *id, struct net_say *say,
			   struct err *e)
{
	uint64_t with_host = s->with_host;
	int r;

	s->exe = helper_open("coffer-vault", e);
	r = s->exe < 0 ? s->exe : net_secret_open(s, st, id, e);
	if (r == 0)
		r = choose_requested(s, say, e);
	/* cofferd's vault grants only what was requested first, and the profile's host was added since. */
	if (r == 0 && s->lease >= 0 && s->ask.n && s->with_host != with_host) {
		net_secrets_close_vault(s);
		r = net_secret_open(s, st, id, e);
	}
	return r < 0 ? err_wrap(e, r, "the vault") : 0;
}

int net_secrets_plan(struct net_plan *p, struct spec *spec, const struct strv *named,
		     const struct net_offers *offers, struct state *st, struct err *e)
{
	struct net_secrets *s = &p->secrets;
	struct vault_key_want want = VAULT_KEY_WANT_INIT;
	struct net_say say = { p->cp.policy, &p->conflicts };
	int r;

	s->offers = offers;
	r = net_secret_ask(s, &p->cp, named, e);
	if (r < 0 || s->ask.n + s->proxies.n == 0)
		return r;
	r = vault_files_open(&s->files, st->fd, &want, VAULT_FILES_NO_KEY, e);
	if (r == -ENOENT && s->by_line == 0 && s->proxies.n == 0) {
		/* Only the policy or the profile names them (net_secret.S1). */
		*e = ERR_INIT;
		net_offer_say(s, NULL);
		net_issue_leave_only(s);
		if (s->ask.n == 0)
			return 0;
		r = net_issue_without_file(s, e);
	} else if (r == -ENOENT) {
		return err_hint(e, r, "coffer secret set %s",
				s->proxies.n ? s->proxies.v[0].name : s->ask.v[0].name);
	} else if (r == 0) {
		r = net_secret_take_key(s, st, e);
	}
	if (r == 0 && !spec->id[0])
		r = state_new_id(spec->id, e);
	if (r == 0)
		r = open_and_choose(s, st, spec->id, &say, e);
	if (r < 0)
		return r;
	if (s->ask.n || s->sign.n) {
		spec->ca = p->needs_ca = true;
		spec->ca_later = false;
	} else if (s->proxies.n == 0) {
		net_secrets_close_vault(s);
	}
	return 0;
}

void net_secrets_forget(struct net_secrets *s)
{
	s->vault.control = fd_close(s->vault.control);
	s->vault.pidfd = fd_close(s->vault.pidfd);
	s->vault = VAULT_PROC_INIT;
	s->lease = fd_close(s->lease);
	vault_files_close(&s->files);
	s->files = VAULT_FILES_INIT;
	s->exe = fd_close(s->exe);
	s->keep = fd_close(s->keep);
}

void net_secrets_release(struct net_secrets *s)
{
	net_secrets_forget(s);
	grants_release(&s->ask);
	grants_release(&s->granted);
	grants_release(&s->rules);
	grants_release(&s->sign);
	buf_release(&s->known);
	s->agent = fd_close(s->agent);
	s->idle = fd_close(s->idle);
	grants_release(&s->issued);
	grants_release(&s->proxies);
	*s = NET_SECRETS_INIT;
}
