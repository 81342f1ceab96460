/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the vault of a run and lists its secrets: cofferd's vault if available, else one of the run's own,
 * also after either has died (net_secret.S3, net_secret.S5). The key is taken while there is a terminal to
 * type a passphrase on. Only names, bindings and dates of the list are kept (net_secret.S6).
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cofferdc/cofferd_client.h"
#include "netd/plan/net_secret_int.h"
#include "vault/ssh/sshhosts.h"

#include <errno.h>

#define FIRST_PATIENCE_MS 60000 /* the launcher has nothing else to do */
#define WAITED_MAX 8		/* attempts while cofferd's vault is down */
#define HOLD_PATIENCE_MS 10000	/* but a cofferd that does not respond is treated as absent */

/* Has cofferd a vault that is open, or (unless `open`) one that opens by itself? */
static bool cofferd_has_vault(struct state *st, bool open)
{
	struct cofferd_reply reply;

	return cofferd_ask(st, COFFERD_STAT, &reply) == 0 && !reply.error &&
	       (reply.vault == VAULTD_OPEN || (!open && reply.vault == VAULTD_READY));
}

/* Asks for a passphrase here, while there is a terminal, unless it has been typed into cofferd's vault. A key
 * that only cofferd can read (a credential of its service) is not needed. */
int net_secret_take_key(struct net_secrets *s, struct state *st, struct err *e)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r;

	if (s->files.kind == VAULT_KEY_PASSPHRASE && cofferd_has_vault(st, true))
		return 0;
	r = vault_files_take_key(&s->files, &want, e);
	if (r < 0 && s->files.kind != VAULT_KEY_PASSPHRASE && cofferd_has_vault(st, false)) {
		*e = ERR_INIT;
		return 0;
	}
	return r;
}

static int open_own_vault(struct net_secrets *s, int patience, struct err *e)
{
	int r;

	if (s->files.key < 0) {
		err_set(e, -VAULT_LOCKED, "the vault is locked, or cofferd, which has its key, is gone");
		return err_hint(e, -VAULT_LOCKED, "coffer secret unlock");
	}
	s->vault.patience = patience;
	r = vault_start(&s->vault, s->exe, e);
	/* No timeout: a person may have to type a passphrase. */
	s->vault.patience = s->files.may_reopen ? patience : 0;
	if (r == 0)
		r = vault_open(&s->vault, &s->files, VAULT_OPEN_READ_ONLY, e);
	s->vault.patience = patience;
	return r;
}

static bool binding_fits_ask(const struct binding *own, const struct vault_grant *ask)
{
	struct binding b;

	if (own->as == BINDING_AS_PROXY)
		return false;
	for (size_t i = 0; i < ask->n_bindings; i++) {
		if (binding_meet(own, &ask->bindings[i], &b))
			return true;
	}
	return ask->n_bindings == 0;
}

/* Adds the known hosts of this request. */
static int add_known_hosts(const struct vault_msg *m, const struct binding *own, size_t n,
			   const struct vault_grant *ask, struct buf *out)
{
	autosshhosts struct sshhosts all = SSHHOSTS_INIT;

	if (m->text[3].len && sshhosts_unpack(&all, m->text[3].p, m->text[3].len) < 0)
		return -EPROTO;
	for (size_t i = 0; i < all.n; i++) {
		const struct sshhosts one = { &all.v[i], 1 };
		bool wanted = false;

		for (size_t k = 0; k < n; k++)
			wanted = wanted ||
				 (own[k].as == BINDING_AS_SSH && own[k].port == all.v[i].port &&
				  str_eq(own[k].host, all.v[i].host) && binding_fits_ask(&own[k], ask));
		if (wanted)
			sshhosts_text(&one, out);
	}
	return buf_error(out);
}

/* Index from 1 of the first requested host that it is not bound to; 0: none. */
static uint8_t find_unbound_host(const struct binding *own, size_t n, const struct vault_grant *ask)
{
	for (size_t k = 0; k < ask->n_bindings && n; k++) {
		struct binding b;
		bool met = false;

		for (size_t i = 0; i < n; i++)
			met = met ||
			      (own[i].as != BINDING_AS_PROXY && binding_meet(&own[i], &ask->bindings[k], &b));
		if (!met)
			return (uint8_t)(k + 1);
	}
	return 0;
}

static int report_secret(const struct vault_msg *m, const struct binding *own, size_t n, struct looked *l,
			 size_t i)
{
	const struct vault_grant *ask = &l->ask->v[i];
	struct binding met[GRANTS_BINDINGS_MAX];
	size_t n_met = 0;

	if (net_secret_say_expiry(l->say, ask->name, m->num[3], l->now) < 0)
		return -ENOMEM;
	for (size_t k = 0; k < n; k++) {
		if (binding_fits_ask(&own[k], ask))
			met[n_met++] = own[k];
	}
	if (n && !net_secret_is_reached(l->say, met, n_met))
		l->f.unreached |= 1ull << i;
	if (!(l->by_line & (1ull << i)))
		return 0;
	return n ? net_secret_say_unreached(l->say, ask->name, met, n_met)
		 : net_secret_say_unreached(l->say, ask->name, ask->bindings, ask->n_bindings);
}

static int report_proxy_expiry(const struct vault_msg *m, const struct looked *l)
{
	for (size_t i = 0; i < l->proxies->n; i++) {
		if (slice_eq(m->text[0], l->proxies->v[i].name) &&
		    net_secret_say_expiry(l->say, l->proxies->v[i].name, m->num[3], l->now) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int take_vault_item(const struct vault_msg *m, void *ctx)
{
	struct looked *l = ctx;
	struct binding own[GRANTS_BINDINGS_MAX];
	size_t n = 0;

	if (m->type != VAULT_ITEM)
		return 0;
	if (bindings_unpack(own, &n, m->text[1].p, m->text[1].len) < 0)
		return -EPROTO;
	for (size_t i = 0; i < l->ask->n; i++) {
		uint64_t bit = 1ull << i;

		if (l->ask->v[i].kind != GRANT_SECRET || !slice_eq(m->text[0], l->ask->v[i].name))
			continue;
		l->f.there |= bit;
		l->f.expired |= m->num[3] && m->num[3] <= l->now ? bit : 0;
		l->f.unbound |= n == 0 ? bit : 0;
		l->lacks[i] = find_unbound_host(own, n, &l->ask->v[i]);
		for (size_t k = 0; k < n; k++) {
			if (binding_fits_ask(&own[k], &l->ask->v[i]))
				*(own[k].as == BINDING_AS_SSH ? &l->signs : &l->f.meets) |= bit;
		}
		if (l->known && l->signs & bit && add_known_hosts(m, own, n, &l->ask->v[i], l->known) < 0)
			return -EPROTO;
		if (report_secret(m, own, n, l, i) < 0)
			return -ENOMEM;
	}
	return report_proxy_expiry(m, l);
}

int net_secret_look(struct net_secrets *s, struct buf *known, struct net_say *say, struct looked *ret,
		    struct err *e)
{
	struct vault_msg ask = { .type = VAULT_LIST };
	autobuf struct buf mem = BUF_INIT;

	*ret = (struct looked){ .ask = &s->ask,
				.known = known,
				.proxies = &s->proxies,
				.by_line = s->by_line,
				.say = say,
				.now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC };
	return vault_call(&s->vault, &ask, NULL, 0, take_vault_item, ret, &mem, NULL, e);
}

void net_secrets_close_vault(struct net_secrets *s)
{
	vault_end(&s->vault);
	s->lease = fd_close(s->lease);
}

/* Issuers need nothing of the vault's file. */
static uint64_t issuer_bits(const struct net_secrets *s)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < s->ask.n; i++)
		bits |= s->ask.v[i].kind == GRANT_ISSUER ? 1ull << i : 0;
	return bits;
}

/* Adds the grants whose names are not in `but`. */
static int add_missing_grants(struct vault_grants *to, const struct vault_grants *from,
			      const struct vault_grants *but, struct err *e)
{
	for (size_t i = 0; i < from->n; i++) {
		struct vault_grant *g;

		if (but && grants_by_name(but, from->v[i].name))
			continue;
		g = grants_add(to);
		if (!g)
			return err_set(e, -E2BIG, "a sandbox may use %d secrets at most", GRANTS_MAX);
		*g = from->v[i];
	}
	return 0;
}

/* Holds cofferd's vault, for coffer-egress, coffer-dial and the ssh-agent alike. It grants exactly what is
 * listed here. Without a vault file cofferd has none either. */
static int hold_cofferd_vault(struct net_secrets *s, struct state *st, const char *id, int patience,
			      struct err *e)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	int r = s->has_no_file ? err_set(e, -ENOENT, "there is no vault")
			       : add_missing_grants(&all, &s->ask, NULL, e);

	if (r == 0)
		r = add_missing_grants(&all, &s->sign, &s->ask, e);
	if (r == 0)
		r = add_missing_grants(&all, &s->proxies, NULL, e);
	return r < 0 ? r : cofferd_hold(st, id, &all, patience, &s->vault, &s->lease, e);
}

static int reopen_own_vault(struct net_secrets *s, struct err *e)
{
	int r = s->has_no_file ? 0 : vault_files_reopen(&s->files, e);

	return r < 0 ? r : open_own_vault(s, PATIENCE_MS, e);
}

int net_secrets_restart(struct net_secrets *s, struct state *st, const char *id, struct err *e)
{
	struct looked l;
	int r;

	net_secrets_close_vault(s);
	r = hold_cofferd_vault(s, st, id, PATIENCE_MS, e);
	/* Wait for one that is just being restarted. */
	s->waited = r == -EAGAIN ? s->waited + 1 : 0;
	if (s->waited > 0 && s->waited < WAITED_MAX)
		return r;
	if (r < 0 && s->files.may_reopen) {
		*e = ERR_INIT;
		r = reopen_own_vault(s, e);
	} else if (r == -ECONNREFUSED) {
		r = err_set(e, -VAULT_LOCKED, "the vault is locked: coffer secret unlock opens it again");
	}
	if (r == 0)
		r = net_secret_look(s, NULL, NULL, &l, e);
	if (r == 0)
		s->alive = issuer_bits(s) |
			   (l.f.there & (l.f.meets | (l.f.unbound & s->with_host & s->was_unbound)));
	return r;
}

/* cofferd's vault, or one of the run's own if its key is available here. */
int net_secret_open(struct net_secrets *s, struct state *st, const char *id, struct err *e)
{
	int r = hold_cofferd_vault(s, st, id, HOLD_PATIENCE_MS, e);

	if (r < 0 && (s->files.key >= 0 || r == -ECONNREFUSED)) {
		*e = ERR_INIT;
		r = open_own_vault(s, FIRST_PATIENCE_MS, e);
	}
	return r;
}
