/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net_secret.h"

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/run.h"
#include "sandbox/helper.h"

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

/* A rule for one host narrows the secret to that; the request itself is judged by its rule in any case. */
static int narrow_by_rule(struct vault_grant *g, const struct config_secret *c, struct err *e)
{
	struct binding b = { .port = c->port };
	int r;

	if (c->as[0] && !c->host[0])
		return err_set(e, -EINVAL, "the secret '%s': 'as' needs a rule for one host, not a pattern",
			       c->name);
	if (!c->host[0] || g->n_bindings == GRANTS_BINDINGS_MAX)
		return 0;
	snprintf(b.host, sizeof(b.host), "%s", c->host);
	snprintf(b.path, sizeof(b.path), "/");
	r = c->as[0] ? binding_parse_as(c->as, strlen(c->as), &b, e) : 0;
	if (r < 0)
		return err_wrap(e, r, "the secret '%s' of the policy", c->name);
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_eq(&g->bindings[i], &b))
			return 0;
	}
	g->bindings[g->n_bindings++] = b;
	return 0;
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
	/* What the command line says of it is narrower or says nothing; both are checked for each request. */
	if (s->by_line & (1ull << (g - s->ask.v)) || (has_pattern(cp, c->name) && !c->as[0]))
		return 0;
	return narrow_by_rule(g, c, e);
}

int net_secrets_plan(struct net_plan *p, struct spec *spec, const struct strv *named, int state_fd,
		     struct err *e)
{
	struct net_secrets *s = &p->secrets;
	struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < named->n; i++)
		r = take_typed(s, named->v[i], e);
	for (size_t i = 0; r == 0 && i < p->cp.n_secrets; i++)
		r = take_rule(s, &p->cp, &p->cp.secrets[i], e);
	if (r == 0)
		r = net_issue_ask(s, &p->cp, e);
	if (r == 0)
		r = net_pool_ask(s, p->cp.policy, e);
	if (r < 0 || s->ask.n + s->pools.n == 0)
		return r;
	r = vault_files_open(&s->files, state_fd, &want, 0, e);
	if (r == -ENOENT && s->by_line == 0 && s->pools.n == 0) {
		/* Only the policy names them (S1). */
		*e = ERR_INIT;
		net_issue_leave_only(s);
		if (s->ask.n == 0)
			return 0;
		r = net_issue_without_file(s, e);
	}
	if (r == -ENOENT)
		return err_hint(e, r, "coffer secret set %s",
				s->pools.n ? s->pools.v[0].name : s->ask.v[0].name);
	if (r < 0)
		return r;
	s->exe = helper_open("coffer-vault", e);
	if (s->exe < 0)
		return s->exe;
	if (s->ask.n)
		spec->ca = p->needs_ca = true;
	return 0;
}

/* The vault. */

#define PATIENCE_MS 5000	/* the guard has a sandbox to look after */
#define FIRST_PATIENCE_MS 60000 /* the launcher has nothing else to do */

static int open_vault(struct net_secrets *s, int patience, struct err *e)
{
	int r;

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
	uint64_t there, expired, unbound, meets;
};

static bool meets(const struct binding *own, const struct vault_grant *ask)
{
	struct binding b;

	if (own->as == BINDING_AS_SSH || own->as == BINDING_AS_PROXY)
		return false;
	for (size_t i = 0; i < ask->n_bindings; i++) {
		if (binding_meet(own, &ask->bindings[i], &b))
			return true;
	}
	return ask->n_bindings == 0;
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
		l->there |= bit;
		l->expired |= m->num[3] && m->num[3] <= l->now ? bit : 0;
		l->unbound |= n == 0 ? bit : 0;
		for (size_t k = 0; k < n; k++)
			l->meets |= meets(&own[k], &l->ask->v[i]) ? bit : 0;
	}
	return 0;
}

static int look(struct net_secrets *s, struct looked *ret, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_LIST };
	autobuf struct buf mem = BUF_INIT;

	*ret = (struct looked){ .ask = &s->ask, .now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC };
	return vault_call(&s->vault, &ask, NULL, 0, look_at, ret, &mem, NULL, e);
}

/* They need nothing of the vault's file. */
static uint64_t issuers_of(const struct net_secrets *s)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < s->ask.n; i++)
		bits |= s->ask.v[i].kind == GRANT_ISSUER ? 1ull << i : 0;
	return bits;
}

int net_secrets_restart(struct net_secrets *s, struct err *e)
{
	struct looked l;
	int r;

	vault_end(&s->vault);
	if (!s->files.may_reopen)
		return err_set(e, -EPERM,
			       "its passphrase cannot be asked for again; end the sandbox and start it anew");
	r = s->has_no_file ? 0 : vault_files_reopen(&s->files, e);
	if (r == 0)
		r = open_vault(s, PATIENCE_MS, e);
	if (r == 0)
		r = look(s, &l, e);
	if (r == 0)
		s->alive =
			issuers_of(s) | (l.there & (l.meets | (l.unbound & s->with_host & s->was_unbound)));
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

/* S2, S3: what is no more keeps its place and its placeholder, with a handle that no vault gives. */
static int keep_placeholders(struct net_secrets *s, struct vault_grants *fresh, struct err *e)
{
	size_t k = 0;

	if (s->granted.n == 0) {
		s->granted = *fresh;
		*fresh = GRANTS_INIT;
		return 0;
	}
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
	if (!(s->by_line & bit))
		return l->there & ~l->expired & l->meets & bit ? 1 : 0;
	if (!(l->there & bit)) {
		err_set(e, -ENOENT, "there is no secret '%s' in the vault", name);
		return err_hint(e, -ENOENT, "coffer secret set %s", name);
	}
	if (l->expired & bit) {
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

static int leave_out(struct net_secrets *s, struct err *e)
{
	struct looked l;
	size_t n = 0;
	int r = look(s, &l, e);

	if (r < 0)
		return r;
	s->was_unbound = l.unbound;
	for (size_t i = 0; i < s->ask.n; i++) {
		r = is_wanted(s, &l, i, e);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		move_bit(&s->by_line, i, n);
		move_bit(&s->with_host, i, n);
		move_bit(&s->was_unbound, i, n);
		s->alive |= 1ull << n;
		if (n != i)
			s->ask.v[n] = s->ask.v[i];
		n++;
	}
	s->ask.n = n;
	s->by_line &= s->alive;
	s->with_host &= s->alive;
	s->was_unbound &= s->alive;
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

int net_secrets_start(struct run *r, struct err *e)
{
	struct net_secrets *s = &r->net->secrets;
	int channel = -1, ret;

	if (s->ask.n + s->pools.n == 0)
		return 0;
	ret = open_vault(s, FIRST_PATIENCE_MS, e);
	if (ret == 0)
		ret = leave_out(s, e);
	s->vault.patience = PATIENCE_MS;
	if (ret == 0 && s->ask.n)
		ret = net_secrets_grant(s, r->spec->id, &channel, e);
	if (ret == 0)
		ret = net_pool_check(s, r->spec->id, e);
	/* Each coffer-egress gets one of its own. */
	fd_close(channel);
	for (size_t i = 0; ret == 0 && i < s->granted.n; i++) {
		if (s->granted.v[i].env[0])
			ret = put_variable(r->spec, s->granted.v[i].env, s->granted.v[i].placeholder, e);
	}
	if (ret == 0)
		ret = put_git(r->spec, &s->granted, e);
	return ret < 0 ? err_wrap(e, ret, "the vault") : 0;
}

void net_secrets_forget(struct net_secrets *s)
{
	s->vault.control = fd_close(s->vault.control);
	s->vault.pidfd = fd_close(s->vault.pidfd);
	s->vault = VAULT_PROC_INIT;
	vault_files_close(&s->files);
	s->files = VAULT_FILES_INIT;
	s->exe = fd_close(s->exe);
}

void net_secrets_release(struct net_secrets *s)
{
	net_secrets_forget(s);
	grants_release(&s->ask);
	grants_release(&s->granted);
	grants_release(&s->issued);
	grants_release(&s->pools);
	*s = NET_SECRETS_INIT;
}
