/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/grant.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "vault/shape.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>

void client_release(struct client *c)
{
	for (size_t i = 0; i < c->n_captured; i++)
		secmem_release(&c->captured[i].value);
	secmem_release(&c->pending);
	grants_release(&c->grants);
	c->fd = fd_close(c->fd);
	c->n_captured = 0;
}

/* --- granting -------------------------------------------------------------------------------------------------- */

static int add_binding(struct vault_grant *g, const struct binding *b)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_eq(&g->bindings[i], b))
			return 0;
	}
	if (g->n_bindings == GRANTS_BINDINGS_MAX)
		return -E2BIG;
	g->bindings[g->n_bindings++] = *b;
	return 0;
}

/* All of a secret's own bindings, or what they have in common with what was asked for. Keys that only sign are not sent. */
static int meet_bindings(const struct store_entry *n, const struct vault_grant *ask, struct vault_grant *ret)
{
	int r = 0;

	for (size_t i = 0; i < n->n_bindings && r == 0; i++) {
		struct binding b = n->bindings[i];

		if (b.as == BINDING_AS_SSH)
			continue;
		if (ask->n_bindings == 0)
			r = add_binding(ret, &b);
		for (size_t k = 0; k < ask->n_bindings && r == 0; k++) {
			if (binding_meet(&n->bindings[i], &ask->bindings[k], &b))
				r = add_binding(ret, &b);
		}
	}
	return r;
}

/* A secret that is bound nowhere goes where it was asked for: whoever asks has it from the command line of somebody who could
 * bind it. What a policy names is not asked for then (gateway/net_secret.h). */
static int bind_as_asked(const struct vault_grant *ask, struct vault_grant *ret)
{
	int r = 0;

	for (size_t i = 0; i < ask->n_bindings && r == 0; i++) {
		struct binding b = ask->bindings[i];

		b.port = b.port ? b.port : BINDING_PORT;
		if (b.as == BINDING_AS_ANY)
			binding_usual_as(&b);
		r = b.as == BINDING_AS_SSH ? 0 : add_binding(ret, &b);
		if (r == 0 && ask->bindings[i].as == BINDING_AS_ANY && binding_usual_other(&b))
			r = add_binding(ret, &b);
	}
	return r;
}

static int say_unbound(const struct store_entry *n, const struct vault_grant *ask, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	if (n->n_bindings == 0) {
		err_set(e, -EACCES, "the secret '%s' is bound to no host, so it can be sent nowhere",
			n->name);
		return err_hint(e, -EACCES,
				"coffer secret bind %s --host HOST --as bearer, or --secret %s@HOST", n->name,
				n->name);
	}
	for (size_t i = 0; i < n->n_bindings; i++) {
		buf_adds(&b, i ? ", " : "");
		binding_describe(&n->bindings[i], &b);
	}
	if (ask->n_bindings == 0)
		return err_set(e, -EACCES, "the secret '%s' only signs; it is sent nowhere", n->name);
	return err_set(e, -EACCES, "the secret '%s' is not bound to %s; it is bound to %.300s", n->name,
		       ask->bindings[0].host, buf_cstr(&b));
}

static bool is_apart(const struct vault_grants *all, const char *p, size_t len)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct vault_grant *g = &all->v[i];

		if (g->placeholder_len && (memmem(g->placeholder, g->placeholder_len, p, len) ||
					   memmem(p, len, g->placeholder, g->placeholder_len)))
			return false;
	}
	return true;
}

static void give_placeholder(const struct vault_grants *all, struct vault_grant *g,
			     const struct secmem *value)
{
	char text[SHAPE_MAX + 1];
	uint8_t seed[SHAPE_SEED_LEN];
	size_t len;

	do {
		randombytes_buf(seed, sizeof(seed));
		len = shape_placeholder(value->p, value->len, seed, text);
	} while (!is_apart(all, text, len));
	secmem_wipe(seed, sizeof(seed));
	memcpy(g->placeholder, text, len + 1);
	g->placeholder_len = len;
}

static bool has_expired(const struct store_entry *n, uint64_t now)
{
	return n->expires && now >= n->expires;
}

static int grant_one(struct client *c, const struct store *s, const struct vault_grant *ask,
		     uint32_t *handles, enum vault_fault *ret_fault, struct err *e)
{
	const struct store_entry *n = store_find(s, ask->name);
	struct vault_grant *g;
	int r;

	if (!n) {
		*ret_fault = VAULT_FAULT_NO_SUCH;
		err_set(e, -ENOENT, "there is no secret '%s'", ask->name);
		return err_hint(e, -ENOENT, "coffer secret set %s", ask->name);
	}
	if (grants_by_name(&c->grants, ask->name))
		return err_set(e, -EINVAL, "the secret '%s' is asked for twice", ask->name);
	g = grants_add(&c->grants);
	if (!g)
		return err_set(e, -ENOMEM, "out of memory");
	memcpy(g->name, ask->name, sizeof(g->name));
	memcpy(g->env, ask->env, sizeof(g->env));
	r = n->n_bindings ? meet_bindings(n, ask, g) : bind_as_asked(ask, g);
	if (r < 0)
		return err_set(e, r, "the secret '%s' is asked for at more than %d places", n->name,
			       GRANTS_BINDINGS_MAX);
	if (g->n_bindings == 0)
		return say_unbound(n, ask, e);
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (store_has_lines(&n->value) && !binding_takes_lines(&g->bindings[i]))
			return err_set(e, -EINVAL,
				       "the secret '%s' has line breaks in it, which cannot be sent to %s",
				       n->name, g->bindings[i].host);
	}
	c->unbound[c->grants.n - 1] = n->n_bindings == 0;
	g->handle = ++*handles;
	give_placeholder(&c->grants, g, &n->value);
	return 0;
}

int client_grant(struct client *c, const struct store *s, const struct vault_grants *ask, uint32_t *handles,
		 enum vault_fault *ret_fault, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < ask->n && r == 0; i++)
		r = grant_one(c, s, &ask->v[i], handles, ret_fault, e);
	if (r < 0)
		grants_release(&c->grants);
	return r;
}

/* --- answering ------------------------------------------------------------------------------------------------- */

static int pack(const struct vault_msg *m, struct secmem *ret)
{
	autosecmem struct secmem out = SECMEM_INIT;
	long n;

	if (secmem_new(&out, vault_msg_size(VAULT_TO_CLIENT, m), NULL) < 0)
		return -ENOMEM;
	n = vault_msg_pack(VAULT_TO_CLIENT, m, out.p, out.cap);
	if (n < 0)
		return (int)n;
	out.len = (size_t)n;
	*ret = out;
	out = SECMEM_INIT;
	return 0;
}

static int refuse(uint32_t id, int status, const char *why, struct secmem *ret)
{
	struct vault_msg m = { .type = VAULT_REFUSED, .id = id, .status = status };

	m.text[0] = slice_of(why);
	return pack(&m, ret);
}

static bool may_ask(struct client *c, uint64_t mono)
{
	if (c->tokens_at == 0)
		c->tokens = GRANT_BURST;
	else if (mono > c->tokens_at)
		c->tokens += (double)(mono - c->tokens_at) * GRANT_RATE / (double)NSEC_PER_SEC;
	c->tokens = c->tokens > GRANT_BURST ? GRANT_BURST : c->tokens;
	c->tokens_at = mono ? mono : 1;
	if (c->tokens < 1)
		return false;
	c->tokens -= 1;
	return true;
}

static const struct captured *find_captured(const struct client *c, uint32_t handle)
{
	for (size_t i = 0; i < c->n_captured; i++) {
		if (c->captured[i].handle == handle)
			return &c->captured[i];
	}
	return NULL;
}

/* R1: the secret's own bindings as they are now; without any, the grant's where it had none then. */
static bool is_bound_still(const struct store_entry *n, bool unbound, const char *host, uint16_t port,
			   struct slice path)
{
	for (size_t i = 0; i < n->n_bindings; i++) {
		if (n->bindings[i].as != BINDING_AS_SSH && binding_covers(&n->bindings[i], host, port, path))
			return true;
	}
	return unbound && n->n_bindings == 0;
}

static int render(struct client *c, const struct store *s, const struct vault_msg *m, uint64_t now,
		  struct secmem *ret)
{
	const struct vault_grant *g = grants_by_handle(&c->grants, (uint32_t)m->num[0]);
	const struct captured *cap = g ? find_captured(c, g->handle) : NULL;
	const struct store_entry *n = g ? store_find(s, cap ? cap->of : g->name) : NULL;
	struct vault_msg out = { .type = VAULT_RENDERED, .id = m->id };
	char host[HOST_MAX + 1], why[VAULT_WHY_MAX];

	if (!n)
		return refuse(m->id, -ENOENT, g ? "the secret was removed" : "no such grant", ret);
	if (has_expired(n, now)) {
		snprintf(why, sizeof(why), "the secret '%s' has expired", n->name);
		return refuse(m->id, -EKEYEXPIRED, why, ret);
	}
	memcpy(host, m->text[0].p, m->text[0].len);
	host[m->text[0].len] = '\0';
	if (!grants_binding(g, host, (uint16_t)m->num[1], m->text[1], BINDING_AS_ANY, NULL) ||
	    !is_bound_still(n, c->unbound[g - c->grants.v], host, (uint16_t)m->num[1], m->text[1])) {
		snprintf(why, sizeof(why), "the secret '%s' is not bound to %s:%u and this path", g->name,
			 host, (unsigned)m->num[1]);
		return refuse(m->id, -EACCES, why, ret);
	}
	out.text[0] = (struct slice){ (const char *)(cap ? cap->value.p : n->value.p),
				      cap ? cap->value.len : n->value.len };
	return pack(&out, ret);
}

static bool is_carried(const struct vault_grant *g, const struct secmem *v)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (store_has_lines(v) && !binding_takes_lines(&g->bindings[i]))
			return false;
	}
	return !memchr(v->p, '\0', v->len);
}

/* The same value again gets the same placeholder: servers repeat themselves. */
static const struct captured *same_captured(const struct client *c, struct slice value)
{
	for (size_t i = 0; i < c->n_captured; i++) {
		if (secmem_eq(&c->captured[i].value, value.p, value.len))
			return &c->captured[i];
	}
	return NULL;
}

static int say_captured(const struct client *c, uint32_t id, const struct captured *cap, struct secmem *ret)
{
	const struct vault_grant *g = grants_by_handle(&c->grants, cap->handle);
	struct vault_msg out = { .type = VAULT_CAPTURED, .id = id, .num = { cap->handle } };

	out.text[0] = (struct slice){ g->placeholder, g->placeholder_len };
	out.text[1] = slice_of(cap->name);
	return pack(&out, ret);
}

static int capture(struct client *c, const struct vault_msg *m, uint32_t *handles, struct secmem *ret)
{
	const struct vault_grant *of = grants_by_handle(&c->grants, (uint32_t)m->num[0]);
	const struct captured *first, *known = same_captured(c, m->text[0]);
	struct captured *cap = &c->captured[c->n_captured];
	struct vault_grant *g;
	size_t i_of;

	if (known)
		return say_captured(c, m->id, known, ret);
	if (!of)
		return refuse(m->id, -ENOENT, "no such grant", ret);
	if (c->n_captured == GRANT_CAPTURES_MAX || c->grants.n == GRANTS_MAX)
		return refuse(m->id, -ENOSPC, "too many credentials were issued to this sandbox", ret);
	i_of = (size_t)(of - c->grants.v);
	first = find_captured(c, of->handle);
	*cap = (struct captured){ 0 };
	if (secmem_new(&cap->value, m->text[0].len, NULL) < 0)
		return refuse(m->id, -ENOMEM, "no memory can be locked for it", ret);
	(void)!secmem_add(&cap->value, m->text[0].p, m->text[0].len);
	g = is_carried(of, &cap->value) ? grants_add(&c->grants) : NULL;
	if (!g) {
		secmem_release(&cap->value);
		return refuse(m->id, -EINVAL, "such a value cannot be sent where its secret is bound to",
			      ret);
	}
	of = &c->grants.v[i_of];
	memcpy(cap->of, first ? first->of : of->name, sizeof(cap->of));
	snprintf(cap->name, sizeof(cap->name), "%.30s.%.*s", cap->of,
		 m->text[1].len > 30 ? 30 : (int)m->text[1].len, m->text[1].p);
	cap->handle = g->handle = ++*handles;
	memcpy(g->name, cap->name, sizeof(g->name));
	memcpy(g->bindings, of->bindings, sizeof(g->bindings));
	g->n_bindings = of->n_bindings;
	give_placeholder(&c->grants, g, &cap->value);
	c->unbound[c->grants.n - 1] = c->unbound[i_of];
	c->n_captured++;
	return say_captured(c, m->id, cap, ret);
}

static int tell_grants(const struct client *c, uint32_t id, struct secmem *ret)
{
	autobuf struct buf b = BUF_INIT;
	struct vault_msg out = { .type = VAULT_GRANTED, .id = id };

	if (grants_pack(&c->grants, GRANTS_GRANTED, &b) < 0)
		return refuse(id, -ENOSPC, "there is too much of it", ret);
	out.text[0] = (struct slice){ b.data, b.len };
	return pack(&out, ret);
}

/* NOLINTNEXTLINE(readability-function-size): nothing here reads a clock or keeps a store */
int client_take(struct client *c, const struct store *s, const void *data, size_t len, unsigned n_fds,
		uint32_t *handles, uint64_t now, uint64_t mono, struct secmem *ret)
{
	struct vault_msg m;

	if (vault_msg_parse(VAULT_FROM_CLIENT, data, len, n_fds, &m) < 0)
		return -EPROTO;
	if (!may_ask(c, mono))
		return refuse(m.id, -EBUSY, "too many requests for secrets", ret);
	switch (m.type) {
	case VAULT_RENDER:
		return render(c, s, &m, now, ret);
	case VAULT_CAPTURE:
		return capture(c, &m, handles, ret);
	case VAULT_GRANTS:
		return tell_grants(c, m.id, ret);
	default:
		return -EPROTO;
	}
}
