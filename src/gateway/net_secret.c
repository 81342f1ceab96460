/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net_secret.h"

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/cofferd.h"
#include "gateway/net_rule.h"
#include "gateway/run.h"
#include "gateway/supervise.h"
#include "gateway/vaultd.h"
#include "sandbox/helper.h"
#include "vault/sshhosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define OOM(e) err_set((e), -ENOMEM, "out of memory")

void net_secret_env(const char *name, char out[GRANTS_NAME_MAX + 1])
{
	static const struct {
		const char *name, *env;
	} known[] = {
		{ "anthropic", "ANTHROPIC_API_KEY" }, { "deepseek", "DEEPSEEK_API_KEY" },
		{ "gemini", "GEMINI_API_KEY" },	      { "github", "GITHUB_TOKEN" },
		{ "gitlab", "GITLAB_TOKEN" },	      { "google", "GOOGLE_API_KEY" },
		{ "groq", "GROQ_API_KEY" },	      { "huggingface", "HF_TOKEN" },
		{ "mistral", "MISTRAL_API_KEY" },     { "npm", "NPM_TOKEN" },
		{ "openai", "OPENAI_API_KEY" },	      { "openrouter", "OPENROUTER_API_KEY" },
		{ "pypi", "TWINE_PASSWORD" },	      { "slack", "SLACK_BOT_TOKEN" },
		{ "telegram", "TELEGRAM_BOT_TOKEN" }, { "xai", "XAI_API_KEY" },
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(name, known[i].name)) {
			snprintf(out, GRANTS_NAME_MAX + 1, "%s", known[i].env);
			return;
		}
	}
	if (*name >= '0' && *name <= '9')
		out[n++] = '_';
	for (; *name && n < GRANTS_NAME_MAX; name++) {
		char c = *name;

		out[n++] = (char)(c >= 'a' && c <= 'z'				     ? c - 32
				  : (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c
										     : '_');
	}
	out[n] = '\0';
}

/* What is asked for. */

static struct vault_grant *ask_for(struct net_secrets *s, const char *name, struct err *e)
{
	struct vault_grant *g;

	for (size_t i = 0; i < s->ask.n; i++) {
		if (str_eq(s->ask.v[i].name, name))
			return &s->ask.v[i];
	}
	g = grants_add(&s->ask);
	if (!g) {
		err_set(e, -E2BIG, "a sandbox may use %d secrets at most", GRANTS_MAX);
		return NULL;
	}
	snprintf(g->name, sizeof(g->name), "%s", name);
	net_secret_env(name, g->env);
	return g;
}

/* "HOST[:PORT][/path],HOST…" */
static int narrow(struct vault_grant *g, const char *hosts, const char *typed, struct err *e)
{
	while (*hosts) {
		size_t n = strcspn(hosts, ",");
		struct binding b = { 0 };
		int r;

		if (g->n_bindings == GRANTS_BINDINGS_MAX)
			return err_set(e, -E2BIG, "--secret %s: too many hosts", typed);
		r = binding_parse_host(hosts, n, BINDING_ASKED | BINDING_ADDRESS, &b, e);
		if (r < 0)
			return err_wrap(e, r, "--secret %s", typed);
		g->bindings[g->n_bindings++] = b;
		hosts += n + (hosts[n] == ',');
	}
	return 0;
}

static int take_typed(struct net_secrets *s, const char *typed, struct err *e)
{
	const char *at = strchr(typed, '@');
	size_t n = at ? (size_t)(at - typed) : strlen(typed);
	char name[GRANTS_NAME_MAX + 1];
	struct vault_grant *g;

	if (n > GRANTS_NAME_MAX || n == 0 || (at && !at[1]))
		return err_set(e, -EINVAL, "--secret %s: expected NAME or NAME@HOST[,HOST]", typed);
	snprintf(name, sizeof(name), "%.*s", (int)n, typed);
	if (!str_is_name(name))
		return err_set(e, -EINVAL, "--secret %s: '%s' is not the name of a secret", typed, name);
	g = ask_for(s, name, e);
	if (!g)
		return -E2BIG;
	s->by_line |= 1ull << (g - s->ask.v);
	s->with_host |= at ? 1ull << (g - s->ask.v) : 0;
	return at ? narrow(g, at + 1, typed, e) : 0;
}

static bool has_pattern(const struct config_policy *cp, const char *name)
{
	for (size_t i = 0; i < cp->n_secrets; i++) {
		if (str_eq(cp->secrets[i].name, name) && !cp->secrets[i].host[0])
			return true;
	}
	return false;
}

static int take_rule(struct net_secrets *s, const struct config_policy *cp, const struct config_secret *c,
		     struct err *e)
{
	struct vault_grant *g = ask_for(s, c->name, e);

	if (!g)
		return -E2BIG;
	if (c->env[0])
		snprintf(g->env, sizeof(g->env), "%s", c->env);
	if ((s->by_line | s->offered) & (1ull << (g - s->ask.v)))
		return net_rule_add(&s->rules, c, e);
	/* A rule for one host narrows the secret to that; the request itself is judged by its rule in any case. */
	return has_pattern(cp, c->name) && !c->as[0] ? 0 : net_rule_narrow(g, c, e);
}

/* Is there a vault of cofferd's that is open, or opens by itself? */
static bool is_kept(struct state *st, bool open)
{
	struct cofferd_reply reply;

	return cofferd_ask(st, COFFERD_STAT, &reply) == 0 && !reply.error &&
	       (reply.vault == VAULTD_OPEN || (!open && reply.vault == VAULTD_READY));
}

/* A passphrase is asked for here, while there is a terminal, unless somebody has typed it already. A key that only cofferd can
 * read (a credential of its service) is not needed. */
static int take_key(struct net_secrets *s, struct state *st, struct err *e)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r;

	if (s->files.kind == VAULT_KEY_PASSPHRASE && is_kept(st, true))
		return 0;
	r = vault_files_take_key(&s->files, &want, e);
	if (r < 0 && s->files.kind != VAULT_KEY_PASSPHRASE && is_kept(st, false)) {
		*e = ERR_INIT;
		return 0;
	}
	return r;
}

static int take_offer(struct net_secrets *s, const struct net_offer *o, struct err *e)
{
	struct vault_grant *g;
	int r = net_offer_check(o, e);

	if (r < 0)
		return r;
	g = ask_for(s, o->name, e);
	if (!g)
		return -E2BIG;
	if (o->env && o->env->n)
		snprintf(g->env, sizeof(g->env), "%s", o->env->v[0]);
	s->offered |= 1ull << (g - s->ask.v);
	return 0;
}

/* The vault. */

#define PATIENCE_MS 5000	/* the guard has a sandbox to look after */
#define FIRST_PATIENCE_MS 60000 /* the launcher has nothing else to do */
#define WAITED_MAX 8		/* times that cofferd's vault is asked for while it is down */
#define HOLD_PATIENCE_MS 10000	/* but a cofferd that does not answer is as good as none */

static int open_own(struct net_secrets *s, int patience, struct err *e)
{
	int r;

	if (s->files.key < 0) {
		err_set(e, -VAULT_LOCKED, "the vault is locked, or cofferd, which has its key, is gone");
		return err_hint(e, -VAULT_LOCKED, "coffer secret unlock");
	}
	s->vault.patience = patience;
	r = vault_start(&s->vault, s->exe, e);
	/* A passphrase may be typed. */
	s->vault.patience = s->files.may_reopen ? patience : 0;
	if (r == 0)
		r = vault_open(&s->vault, &s->files, VAULT_OPEN_READ_ONLY, e);
	s->vault.patience = patience;
	return r;
}

/* What the vault says of the secrets that are asked for, a bit for each. */
struct looked {
	const struct vault_grants *ask;
	uint64_t now; /* s */
	uint64_t signs;
	struct buf *known; /* gets the hosts' keys of what signs; NULL: not */
	struct net_found f;
};

static bool meets(const struct binding *own, const struct vault_grant *ask)
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

/* Those of the hosts that this ask is about. */
static int add_known(const struct vault_msg *m, const struct binding *own, size_t n,
		     const struct vault_grant *ask, struct buf *out)
{
	autosshhosts struct sshhosts all = SSHHOSTS_INIT;

	if (m->text[3].len && sshhosts_unpack(&all, m->text[3].p, m->text[3].len) < 0)
		return -EPROTO;
	for (size_t i = 0; i < all.n; i++) {
		const struct sshhosts one = { &all.v[i], 1 };
		bool wanted = false;

		for (size_t k = 0; k < n; k++)
			wanted = wanted || (own[k].as == BINDING_AS_SSH && own[k].port == all.v[i].port &&
					    str_eq(own[k].host, all.v[i].host) && meets(&own[k], ask));
		if (wanted)
			sshhosts_text(&one, out);
	}
	return buf_error(out);
}

static int look_at(const struct vault_msg *m, void *ctx)
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
		for (size_t k = 0; k < n; k++) {
			if (meets(&own[k], &l->ask->v[i]))
				*(own[k].as == BINDING_AS_SSH ? &l->signs : &l->f.meets) |= bit;
		}
		if (l->known && l->signs & bit && add_known(m, own, n, &l->ask->v[i], l->known) < 0)
			return -EPROTO;
	}
	return 0;
}

static int look(struct net_secrets *s, struct buf *known, struct looked *ret, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_LIST };
	autobuf struct buf mem = BUF_INIT;

	*ret = (struct looked){ .ask = &s->ask,
				.known = known,
				.now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC };
	return vault_call(&s->vault, &ask, NULL, 0, look_at, ret, &mem, NULL, e);
}

void net_secrets_down(struct net_secrets *s)
{
	vault_end(&s->vault);
	s->lease = fd_close(s->lease);
}

/* They need nothing of the vault's file. */
static uint64_t issuers_of(const struct net_secrets *s)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < s->ask.n; i++)
		bits |= s->ask.v[i].kind == GRANT_ISSUER ? 1ull << i : 0;
	return bits;
}

/* Those that are not in `but` under their name. */
static int add_all(struct vault_grants *to, const struct vault_grants *from, const struct vault_grants *but,
		   struct err *e)
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

/* cofferd's vault, for coffer-egress, coffer-dial and the ssh-agent alike. It grants a holder what is said here, word for word.
 * Where there was no vault file cofferd has none either. */
static int hold(struct net_secrets *s, struct state *st, const char *id, int patience, struct err *e)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	int r = s->has_no_file ? err_set(e, -ENOENT, "there is no vault") : add_all(&all, &s->ask, NULL, e);

	if (r == 0)
		r = add_all(&all, &s->sign, &s->ask, e);
	if (r == 0)
		r = add_all(&all, &s->pools, NULL, e);
	return r < 0 ? r : cofferd_hold(st, id, &all, patience, &s->vault, &s->lease, e);
}

static int reopen_own(struct net_secrets *s, struct err *e)
{
	int r = s->has_no_file ? 0 : vault_files_reopen(&s->files, e);

	return r < 0 ? r : open_own(s, PATIENCE_MS, e);
}

int net_secrets_restart(struct net_secrets *s, struct state *st, const char *id, struct err *e)
{
	struct looked l;
	int r;

	net_secrets_down(s);
	r = hold(s, st, id, PATIENCE_MS, e);
	/* One that is only just being started again is waited for. */
	s->waited = r == -EAGAIN ? s->waited + 1 : 0;
	if (s->waited > 0 && s->waited < WAITED_MAX)
		return r;
	if (r < 0 && s->files.may_reopen) {
		*e = ERR_INIT;
		r = reopen_own(s, e);
	} else if (r == -ECONNREFUSED) {
		r = err_set(e, -VAULT_LOCKED, "the vault is locked: coffer secret unlock opens it again");
	}
	if (r == 0)
		r = look(s, NULL, &l, e);
	if (r == 0)
		s->alive = issuers_of(s) |
			   (l.f.there & (l.f.meets | (l.f.unbound & s->with_host & s->was_unbound)));
	return r;
}

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

static int take_first(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
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
	return ask.n ? vault_grant(&s->vault, id, &ask, theirs, fresh, e) : 0;
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

/* 1: it is asked for. What only the policy names is left out where it cannot be had (S1, S4); of what was typed the vault says
 * itself why it is bound to nothing that would do. */
static int is_wanted(const struct net_secrets *s, const struct looked *l, size_t i, struct err *e)
{
	const char *name = s->ask.v[i].name;
	uint64_t bit = 1ull << i;

	if (s->ask.v[i].kind == GRANT_ISSUER)
		return 1;
	if (s->offered & ~s->by_line & bit)
		return net_offer_usable(s, &l->f) & bit ? 1 : 0;
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
	return 1;
}

static void move_bit(uint64_t *bits, size_t from, size_t to)
{
	uint64_t on = *bits >> from & 1;

	*bits = (*bits & ~(1ull << to)) | on << to;
}

/* From here on as if it had been typed with that host. */
static int bind_offered(struct net_secrets *s, size_t i, struct err *e)
{
	int r = net_offer_bind(s, &s->ask.v[i], e);

	s->with_host |= r > 0 ? 1ull << i : 0;
	return r < 0 ? r : 1;
}

static int leave_out(struct net_secrets *s, struct err *e)
{
	struct looked l;
	size_t n = 0;
	int r = look(s, &s->known, &l, e);

	if (r < 0)
		return r;
	s->was_unbound = l.f.unbound;
	net_offer_say(s, &l.f);
	for (size_t i = 0; i < s->ask.n; i++) {
		r = is_wanted(s, &l, i, e);
		if (r > 0 && s->offered & l.f.unbound & (1ull << i))
			r = bind_offered(s, i, e);
		if (r < 0)
			return r;
		if (r == 1 && l.signs & (1ull << i)) {
			struct vault_grant *g = grants_add(&s->sign);

			if (!g)
				return OOM(e);
			*g = s->ask.v[i];
		}
		/* What only signs is sent nowhere; what does neither the vault has a word about. */
		if (r == 0 || (l.signs & ~l.f.meets & (1ull << i)))
			continue;
		move_bit(&s->by_line, i, n);
		move_bit(&s->offered, i, n);
		move_bit(&s->with_host, i, n);
		move_bit(&s->was_unbound, i, n);
		s->alive |= 1ull << n;
		if (n != i)
			s->ask.v[n] = s->ask.v[i];
		n++;
	}
	s->ask.n = n;
	/* For coffer-egress a profile is the command line: it was named there. */
	s->by_line = (s->by_line | s->offered) & s->alive;
	s->with_host &= s->alive;
	s->was_unbound &= s->alive;
	return 0;
}

static int take_all(struct net_secrets *s, const struct config_policy *cp, const struct strv *named,
		    struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < named->n; i++)
		r = take_typed(s, named->v[i], e);
	for (size_t i = 0; r == 0 && s->offers && i < s->offers->n; i++)
		r = take_offer(s, &s->offers->v[i], e);
	for (size_t i = 0; r == 0 && i < cp->n_secrets; i++)
		r = take_rule(s, cp, &cp->secrets[i], e);
	if (r == 0)
		r = net_issue_ask(s, cp, e);
	return r < 0 ? r : net_pool_ask(s, cp->policy, e);
}

/* cofferd's, or one of the run's own where its key was to be had here. */
static int open_first(struct net_secrets *s, struct state *st, const char *id, struct err *e)
{
	int r = hold(s, st, id, HOLD_PATIENCE_MS, e);

	if (r < 0 && (s->files.key >= 0 || r == -ECONNREFUSED)) {
		*e = ERR_INIT;
		r = open_own(s, FIRST_PATIENCE_MS, e);
	}
	return r;
}

static int look_first(struct net_secrets *s, struct state *st, const char *id, struct err *e)
{
	uint64_t with_host = s->with_host;
	int r;

	s->exe = helper_open("coffer-vault", e);
	r = s->exe < 0 ? s->exe : open_first(s, st, id, e);
	if (r == 0)
		r = leave_out(s, e);
	/* cofferd's vault grants a holder what was said first: a profile's host has been added since. */
	if (r == 0 && s->lease >= 0 && s->ask.n && s->with_host != with_host) {
		net_secrets_down(s);
		r = open_first(s, st, id, e);
	}
	return r < 0 ? err_wrap(e, r, "the vault") : 0;
}

int net_secrets_plan(struct net_plan *p, struct spec *spec, const struct strv *named,
		     const struct net_offers *offers, struct state *st, struct err *e)
{
	struct net_secrets *s = &p->secrets;
	struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r;

	s->offers = offers;
	r = take_all(s, &p->cp, named, e);
	if (r < 0 || s->ask.n + s->pools.n == 0)
		return r;
	r = vault_files_open(&s->files, st->fd, &want, VAULT_FILES_NO_KEY, e);
	if (r == -ENOENT && s->by_line == 0 && s->pools.n == 0) {
		/* Only the policy names them, or the profile (S1). */
		*e = ERR_INIT;
		net_offer_say(s, NULL);
		net_issue_leave_only(s);
		if (s->ask.n == 0)
			return 0;
		r = net_issue_without_file(s, e);
	} else if (r == -ENOENT) {
		return err_hint(e, r, "coffer secret set %s",
				s->pools.n ? s->pools.v[0].name : s->ask.v[0].name);
	} else if (r == 0) {
		r = take_key(s, st, e);
	}
	if (r == 0 && !spec->id[0])
		r = state_new_id(spec->id, e);
	if (r == 0)
		r = look_first(s, st, spec->id, e);
	if (r < 0)
		return r;
	if (s->ask.n || s->sign.n) {
		spec->ca = p->needs_ca = true;
		spec->ca_later = false;
	} else if (s->pools.n == 0) {
		net_secrets_down(s);
	}
	return 0;
}

/* What is inside. */

static int put_variable(struct spec *s, const char *name, const char *value, struct err *e)
{
	size_t len = strlen(name);
	autofree char *pair = NULL;

	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], name, len) != 0 || s->env.v[i][len] != '=')
			continue;
		err_set(e, -EINVAL,
			"the variable %s is to hold a secret's placeholder, and has a value already", name);
		return err_hint(e, -EINVAL, "leave out -e %s", name);
	}
	if (asprintf(&pair, "%s=%s", name, value) < 0 || strv_add(&s->env, pair) < 0)
		return OOM(e);
	return 0;
}

static int take_count(struct spec *s)
{
	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], "GIT_CONFIG_COUNT=", 17) == 0) {
			long n = strtol(s->env.v[i] + 17, NULL, 10);

			free(s->env.v[i]);
			memmove(&s->env.v[i], &s->env.v[i + 1], (s->env.n - i) * sizeof(s->env.v[0]));
			s->env.n--;
			return n > 0 && n < 1000 ? (int)n : 0;
		}
	}
	return 0;
}

/* A helper for one host, in git's own words: it hands out the placeholder, and nothing is written anywhere. */
static int put_helper(struct spec *s, const struct vault_grant *g, const struct binding *b, int n,
		      struct err *e)
{
	char key[64], port[8] = "";
	autofree char *name = NULL, *value = NULL;
	int r;

	if (b->port != BINDING_PORT)
		snprintf(port, sizeof(port), ":%u", b->port);
	if (asprintf(&name, "credential.https://%s%s.helper", b->host, port) < 0)
		return OOM(e);
	if (asprintf(&value,
		     "!f() { test \"$1\" = get && printf 'username=%%s\\npassword=%%s\\n' '%s' '%s'; }; f",
		     b->user[0] && !strchr(b->user, '\'') ? b->user : "x-access-token", g->placeholder) < 0)
		return OOM(e);
	snprintf(key, sizeof(key), "GIT_CONFIG_KEY_%d", n);
	r = put_variable(s, key, name, e);
	snprintf(key, sizeof(key), "GIT_CONFIG_VALUE_%d", n);
	return r < 0 ? r : put_variable(s, key, value, e);
}

static int put_git(struct spec *s, const struct vault_grants *g, struct err *e)
{
	int first = take_count(s), n = first, r = 0;
	char count[16];

	for (size_t i = 0; i < g->n && r == 0; i++) {
		for (size_t k = 0; k < g->v[i].n_bindings && r == 0 && g->v[i].kind == GRANT_SECRET; k++) {
			if (g->v[i].bindings[k].as == BINDING_AS_BASIC)
				r = put_helper(s, &g->v[i], &g->v[i].bindings[k], n++, e);
		}
	}
	if (r < 0 || n == 0)
		return r;
	snprintf(count, sizeof(count), "%d", n);
	return put_variable(s, "GIT_CONFIG_COUNT", count, e);
}

/* Where the agent is, and whom ssh may trust. */
static int put_agent(struct net_secrets *s, struct spec *spec, struct err *e)
{
	int r = s->sign.n ? net_secrets_agent(s, spec->id, &s->agent, e) : 0;

	if (r < 0 || !s->sign.n)
		return r;
	if (s->known.len) {
		free(spec->known_hosts);
		spec->known_hosts = strdup(buf_cstr(&s->known));
		if (!spec->known_hosts)
			return OOM(e);
	}
	return put_variable(spec, "SSH_AUTH_SOCK", SUPERVISE_AGENT_PATH, e);
}

static int put_placeholder(struct net_secrets *s, struct spec *spec, const struct vault_grant *g,
			   struct err *e)
{
	int r = g->env[0] ? put_variable(spec, g->env, g->placeholder, e) : 0;
	const char *more;

	for (size_t i = 0; r == 0 && (more = net_offer_env(s, g->name, i)); i++)
		r = put_variable(spec, more, g->placeholder, e);
	return r;
}

int net_secrets_start(struct run *r, struct err *e)
{
	struct net_secrets *s = &r->net->secrets;
	int channel = -1, ret;

	if (s->ask.n + s->sign.n + s->pools.n == 0)
		return 0;
	s->vault.patience = PATIENCE_MS;
	ret = s->ask.n ? net_secrets_grant(s, r->spec->id, &channel, e) : 0;
	if (ret == 0)
		ret = net_pool_check(s, r->spec->id, e);
	/* Each coffer-egress gets one of its own. */
	fd_close(channel);
	for (size_t i = 0; ret == 0 && i < s->granted.n; i++) {
		if (s->granted.v[i].kind == GRANT_SECRET)
			ret = put_placeholder(s, r->spec, &s->granted.v[i], e);
	}
	if (ret == 0)
		ret = put_git(r->spec, &s->granted, e);
	if (ret == 0)
		ret = put_agent(s, r->spec, e);
	return ret < 0 ? err_wrap(e, ret, "the vault") : 0;
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
	grants_release(&s->pools);
	*s = NET_SECRETS_INIT;
}
