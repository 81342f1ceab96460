/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy sets of one policy: built, found, scored, reported. Uses are in proxy_use.c, active checks in
 * proxy_check.c. No message, line or statistics may contain a credential (proxy.O4).
 */
#include "dial/proxy/proxy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "dial/proxy/proxy_credentials.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>

struct proxy_sets {
	struct proxy_env env;
	struct proxy_set *v;
	size_t n;
	unsigned refs; /* the owner, and each use */
	bool is_over;  /* the owner has released it: running uses end, and none begins */
	unsigned char key[crypto_shorthash_KEYBYTES];
};

static void wipe_string(char *s)
{
	if (s)
		sodium_memzero(s, strlen(s));
	free(s);
}

static void proxy_sets_release(struct proxy_sets *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct proxy_set *p = &s->v[i];

		for (size_t k = 0; k < p->n; k++) {
			wipe_string(p->member[k].user);
			wipe_string(p->member[k].password);
		}
		free(p->member);
		free(p->score);
	}
	free(s->v);
	free(s);
}

void proxy_ref(struct proxy_set *p)
{
	p->sets->refs++;
}

void proxy_unref(struct proxy_set *p)
{
	struct proxy_sets *s = p->sets;

	if (--s->refs == 0)
		proxy_sets_release(s);
}

const struct proxy_env *proxy_env(const struct proxy_set *p)
{
	return &p->sets->env;
}

void proxy_sets_free(struct proxy_sets *s)
{
	if (!s)
		return;
	s->is_over = true;
	for (size_t i = 0; i < s->n; i++)
		proxy_check_stop(&s->v[i]);
	if (--s->refs == 0)
		proxy_sets_release(s);
}

uint64_t proxy_hash(const struct proxy_set *p, const char *text)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	static_assert(sizeof(h) == sizeof(out), "siphash");
	crypto_shorthash(out, (const unsigned char *)text, strlen(text), p->sets->key);
	memcpy(&h, out, sizeof(h));
	return h ? h : 1; /* 0 means none */
}

static char *dup_slice(struct slice s)
{
	return strndup(s.p, s.len);
}

static int set_member_credential(struct proxy_set *p, size_t i, const char *text, size_t len,
				 const struct proxy_member *old)
{
	struct proxy_member *m = &p->member[i];
	struct slice user, password;

	if (!text) {
		if (!old || !old->user)
			return 0;
		user = slice_of(old->user);
		password = slice_of(old->password);
	} else if (!proxy_credentials_find(text, len, p->name, i, &user, &password)) {
		return 0;
	}
	m->user = dup_slice(user);
	m->password = dup_slice(password);
	return m->user && m->password ? 0 : -ENOMEM;
}

static const struct proxy_set *find_old_set(const struct proxy_sets *old, const char *name)
{
	for (size_t i = 0; old && i < old->n; i++) {
		if (str_eq(old->v[i].name, name))
			return &old->v[i];
	}
	return NULL;
}

static const struct proxy_member *find_proxy_member(const struct proxy_set *p, const char *label,
						    size_t *ret_i)
{
	for (size_t i = 0; p && i < p->n; i++) {
		if (str_eq(p->member[i].label, label)) {
			*ret_i = i;
			return &p->member[i];
		}
	}
	return NULL;
}

static void set_member_label(struct proxy_member *m)
{
	autobuf struct buf b = BUF_INIT;

	host_add(&b, &m->def.host, m->def.port);
	snprintf(m->label, sizeof(m->label), "%s", buf_cstr(&b));
}

static int fill_proxy_members(struct proxy_set *p, const struct policy_proxies *def, const char *text,
			      size_t len, const struct proxy_set *old)
{
	bool is_same = old && old->n == def->n_proxies;

	for (size_t i = 0; i < p->n; i++) {
		struct proxy_member *m = &p->member[i];
		const struct proxy_member *was;
		size_t at = 0;
		int r;

		m->set = p;
		m->def = def->proxies[i];
		set_member_label(m);
		was = find_proxy_member(old, m->label, &at);
		p->score[i] = old && was ? old->score[at] : SCORE_INIT;
		/* The probe belonged to the old sets, and its result will not arrive here. */
		if (p->score[i].state == SCORE_HALF_OPEN)
			p->score[i].state = SCORE_OPEN;
		is_same = is_same && was && at == i;
		r = set_member_credential(p, i, text, len, was);
		if (r < 0)
			return r;
	}
	if (is_same)
		p->sticky = old->sticky;
	return 0;
}

static int fill_proxy_set(struct proxy_set *p, const struct policy_proxies *def, const char *text, size_t len,
			  const struct proxy_set *old)
{
	memcpy(p->name, def->name, sizeof(p->name));
	memcpy(p->secret, def->secret, sizeof(p->secret));
	p->rotate = def->rotate;
	p->sticky_ns = def->sticky_seconds * NSEC_PER_SEC;
	p->check_ns = def->check_seconds * NSEC_PER_SEC;
	p->has_check = *def->check && host_port_parse(def->check, strlen(def->check), 443, &p->check_host,
						      &p->check_port, NULL) == 0;
	if (def->n_proxies > PROXY_MEMBERS_MAX)
		return -E2BIG;
	p->member = calloc(def->n_proxies, sizeof(*p->member));
	p->score = calloc(def->n_proxies, sizeof(*p->score));
	if (!p->member || !p->score)
		return -ENOMEM;
	p->n = def->n_proxies;
	return fill_proxy_members(p, def, text, len, old);
}

int proxy_sets_new(struct proxy_sets **ret, const struct proxy_env *env, const struct policy *policy,
		   const char *credentials, size_t len, const struct proxy_sets *old, struct err *e)
{
	const struct policy_proxies *def = NULL;
	size_t n = policy_proxies(policy, &def),
	       bad = credentials ? proxy_credentials_check(credentials, len) : 0;
	struct proxy_sets *s = calloc(1, sizeof(*s));
	int r = 0;

	if (bad) {
		free(s);
		return err_set(e, -EINVAL, "the proxies' credentials cannot be read: line %zu", bad);
	}
	if (s)
		s->v = calloc(n ? n : 1, sizeof(*s->v));
	if (!s || !s->v) {
		free(s);
		return err_set(e, -ENOMEM, "no memory");
	}
	s->env = *env;
	s->refs = 1;
	if (old)
		memcpy(s->key, old->key, sizeof(s->key));
	else
		randombytes_buf(s->key, sizeof(s->key));
	for (size_t i = 0; r == 0 && i < n; i++) {
		s->v[i].sets = s;
		s->n = i + 1;
		r = fill_proxy_set(&s->v[i], &def[i], credentials, len, find_old_set(old, def[i].name));
	}
	if (r < 0) {
		proxy_sets_release(s);
		return err_set(e, r, "a proxy set cannot be set up: %s",
			       r == -E2BIG ? "it has too many proxies" : strerror(-r));
	}
	for (size_t i = 0; i < n; i++)
		proxy_check_arm(&s->v[i]);
	*ret = s;
	return 0;
}

struct proxy_set *proxy_sets_find(struct proxy_sets *s, const char *name)
{
	for (size_t i = 0; s && i < s->n; i++) {
		if (str_eq(s->v[i].name, name))
			return &s->v[i];
	}
	return NULL;
}

void proxy_fill_tunnel(const struct proxy_set *p, size_t member, struct tunnel *t)
{
	const struct proxy_member *m = &p->member[member];

	t->loop = p->sets->env.loop;
	t->resolver = p->sets->env.resolver;
	t->proxy = &m->def;
	t->user = m->user;
	t->password = m->password;
	t->secret = p->secret[0] ? p->secret : NULL;
	t->vault = p->sets->env.vault;
}

/* proxy.O3. Silence towards two different targets in a row is more likely the proxy's fault. */
static bool silence_is_proxy_fault(struct proxy_member *m, uint64_t target)
{
	bool its = m->suspect && m->suspect != target;

	m->suspect = its ? 0 : target;
	return its;
}

void proxy_outcome(struct proxy_set *p, size_t i, enum tunnel_end end, bool is_check, uint64_t target,
		   uint64_t latency_ns, const char *why)
{
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	enum score_state was = p->score[i].state;
	bool fault = end == TUNNEL_FAULT;

	/* A working proxy reaches the target of a check. */
	if (is_check && (end == TUNNEL_REFUSED || end == TUNNEL_SILENT))
		fault = true;
	else if (end == TUNNEL_SILENT)
		fault = silence_is_proxy_fault(&p->member[i], target);
	if (end == TUNNEL_OPEN) {
		p->member[i].suspect = 0;
		score_success_of(p->score, p->n, i, latency_ns, now);
	} else if (fault) {
		score_fault(p->score, p->n, i, now);
	} else {
		score_neutral(p->score, i, now, end == TUNNEL_REFUSED);
	}
	if (p->score[i].state != was && p->sets->env.on_state)
		p->sets->env.on_state(p->sets->env.ctx, p, i, why);
	/* A check holds no reference: started now, it would outlive its proxy set. */
	if (end == TUNNEL_SILENT && !is_check && p->has_check && !p->sets->is_over)
		proxy_check_now(p, i);
}

void proxy_sets_fault(struct proxy_sets *s, const char *set, const char *proxy)
{
	struct proxy_set *p = proxy_sets_find(s, set);
	size_t i = 0;

	if (p && find_proxy_member(p, proxy, &i))
		proxy_outcome(p, i, TUNNEL_FAULT, false, 0, 0, "the tunnel through it broke");
}

#define MEMBER_MAX 512 /* most bytes of one member in the statistics */

static void add_member_stats(const struct proxy_set *p, size_t i, uint64_t now, struct json *j)
{
	static const char *const types[] = {
		[POLICY_PROXY_CONNECT] = "http", [POLICY_PROXY_SOCKS5] = "socks5"
	};
	static const char *const rotates[] = { [POLICY_ROTATE_STICKY] = "sticky",
					       [POLICY_ROTATE_CONNECTION] = "connection",
					       [POLICY_ROTATE_REQUEST] = "request" };
	const struct score *s = &p->score[i];

	json_obj(j, NULL);
	json_str(j, "pool", p->name);
	json_str(j, "rotate", rotates[p->rotate]);
	json_str(j, "proxy", p->member[i].label);
	json_str(j, "type", types[p->member[i].def.type]);
	json_str(j, "state", score_state_name(s->state));
	json_milli(j, "score", (uint64_t)(score_value(s, now) * 1000 + 0.5));
	json_milli(j, "success", (uint64_t)(score_success(s, now) * 1000 + 0.5));
	json_u64(j, "latency_ms", (uint64_t)(s->latency_ns / 1e6));
	json_u64(j, "used", s->uses);
	json_u64(j, "successes", s->successes);
	json_u64(j, "faults", s->faults);
	if (s->state == SCORE_OPEN)
		json_u64(j, "back_in_s", s->until > now ? (s->until - now) / NSEC_PER_SEC : 0);
	json_end_obj(j);
}

void proxy_sets_add_stats(const struct proxy_sets *s, struct json *j, const char *key, size_t room)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	size_t end = j->out->len + room;

	json_arr(j, key);
	for (size_t i = 0; s && i < s->n; i++) {
		for (size_t k = 0; k < s->v[i].n && j->out->len + MEMBER_MAX < end; k++)
			add_member_stats(&s->v[i], k, now, j);
	}
	json_end_arr(j);
}
