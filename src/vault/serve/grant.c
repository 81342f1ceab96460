/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants secrets to one sandbox and answers its coffer-egress (grant.h). A secret's bytes leave coffer-vault
 * only from render_secret() and render_issued(), after grant and binding were checked.
 */

#include "vault/serve/grant.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

static void save_pending_issued(struct client *c)
{
	(void)keep_tick(c->keep, &c->issued, &c->grants, clock_nsec(CLOCK_MONOTONIC), true);
}

void client_release(struct client *c)
{
	save_pending_issued(c);
	keep_free(c->keep);
	c->keep = NULL;
	issued_release(&c->issued);
	secmem_release(&c->pending);
	grants_release(&c->grants);
	c->fd = fd_close(c->fd);
}

bool client_park(struct client *c)
{
	if (c->issued.n == 0)
		return false;
	secmem_release(&c->pending);
	c->fd = fd_close(c->fd);
	return true;
}

size_t client_inherit(struct client *c, struct client *old, uint64_t now)
{
	issued_expire(&old->issued, now);
	save_pending_issued(old);
	issued_inherit(&c->issued, &c->grants, &old->issued, &old->grants);
	return c->issued.n;
}

void client_give_back(struct client *c, struct client *old, size_t n)
{
	issued_give_back(&c->issued, &c->grants, n, &old->issued, &old->grants);
}

int client_grants(const struct client *c, struct vault_grants *ret)
{
	autogrants struct vault_grants all = GRANTS_INIT;

	for (size_t i = 0; i < c->grants.n + c->issued.n; i++) {
		struct vault_grant *g = grants_add(&all);

		if (!g)
			return -ENOMEM;
		*g = i < c->grants.n ? c->grants.v[i] : c->issued.v[i - c->grants.n]->grant;
	}
	*ret = all;
	all = GRANTS_INIT;
	return 0;
}

/* --- granting -------------------------------------------------------------------------------------------------- */

static int add_grant_binding(struct vault_grant *g, const struct binding *b)
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

/* A secret for a proxy is sent nowhere else, and a request for one gets nothing else. */
static bool is_proxy_request(const struct vault_grant *ask)
{
	return ask->n_bindings && ask->bindings[0].as == BINDING_AS_PROXY;
}

/* All of a secret's own bindings, or their intersection with the requested ones. Keys that only sign are left
 * out. */
static int intersect_bindings(const struct store_entry *n, const struct vault_grant *ask,
			      struct vault_grant *ret)
{
	int r = 0;

	for (size_t i = 0; i < n->n_bindings && r == 0; i++) {
		struct binding b = n->bindings[i];

		if (b.as == BINDING_AS_SSH || (b.as == BINDING_AS_PROXY) != is_proxy_request(ask))
			continue;
		if (ask->n_bindings == 0)
			r = add_grant_binding(ret, &b);
		for (size_t k = 0; k < ask->n_bindings && r == 0; k++) {
			if (binding_meet(&n->bindings[i], &ask->bindings[k], &b))
				r = add_grant_binding(ret, &b);
		}
	}
	return r;
}

/* A secret without bindings may be sent where it was requested: the request comes from the command line of a
 * user who could bind it. Secrets that a policy names are not requested in that case
 * (netd/plan/net_secret.h). */
static int bind_as_requested(const struct vault_grant *ask, struct vault_grant *ret)
{
	int r = 0;

	for (size_t i = 0; i < ask->n_bindings && r == 0; i++) {
		struct binding b = ask->bindings[i];

		b.port = b.port ? b.port : BINDING_PORT;
		if (b.as == BINDING_AS_ANY)
			binding_usual_as(&b);
		r = b.as == BINDING_AS_SSH || b.as == BINDING_AS_PROXY ? 0 : add_grant_binding(ret, &b);
		if (r == 0 && ask->bindings[i].as == BINDING_AS_ANY && binding_usual_other(&b))
			r = add_grant_binding(ret, &b);
	}
	return r;
}

/* Explains why a secret cannot be sent where it was requested. */
static int report_unbound(const struct store_entry *n, const struct vault_grant *ask, struct err *e)
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
		return err_set(e, -EACCES,
			       "the secret '%s' only signs, or is for proxies; no request can carry it",
			       n->name);
	return err_set(e, -EACCES, "the secret '%s' is not bound to %s; it is bound to %.300s", n->name,
		       ask->bindings[0].host, buf_cstr(&b));
}

static bool secret_has_expired(const struct store_entry *n, uint64_t now)
{
	return n->expires && now >= n->expires;
}

/* An issuer has no secret in the store: its credentials come from servers. */
static int grant_issuer(struct client *c, const struct vault_grant *ask, uint32_t *handles, struct err *e)
{
	struct vault_grant *g = grants_add(&c->grants);

	if (!g)
		return err_set(e, -ENOMEM, "out of memory");
	*g = *ask;
	g->handle = ++*handles;
	return 0;
}

/* Grants one secret: narrows its bindings, checks that requests can carry it, assigns handle and
 * placeholder. */
static int grant_secret(struct client *c, const struct store *s, const struct vault_grant *ask,
			uint32_t *handles, enum vault_fault *ret_fault, struct err *e)
{
	const struct store_entry *n = store_find(s, ask->name);
	struct vault_grant *g;
	int r;

	if (ask->kind == GRANT_ISSUER)
		return grant_issuer(c, ask, handles, e);
	if (!n) {
		*ret_fault = VAULT_FAULT_NO_SUCH;
		err_set(e, -ENOENT, "there is no secret '%s'", ask->name);
		return err_hint(e, -ENOENT, "coffer secret set %s", ask->name);
	}
	if (grants_by_name(&c->grants, ask->name))
		return err_set(e, -EINVAL, "the secret '%s' is requested twice", ask->name);
	g = grants_add(&c->grants);
	if (!g)
		return err_set(e, -ENOMEM, "out of memory");
	memcpy(g->name, ask->name, sizeof(g->name));
	memcpy(g->env, ask->env, sizeof(g->env));
	r = n->n_bindings ? intersect_bindings(n, ask, g) : bind_as_requested(ask, g);
	if (r < 0)
		return err_set(e, r, "the secret '%s' is requested for more than %d places", n->name,
			       GRANTS_BINDINGS_MAX);
	if (g->n_bindings == 0)
		return report_unbound(n, ask, e);
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (store_has_lines(&n->value) && !binding_takes_lines(&g->bindings[i]))
			return err_set(e, -EINVAL,
				       "the secret '%s' contains line breaks, which cannot be sent to %s",
				       n->name, g->bindings[i].host);
		if (!binding_fits(&g->bindings[i], n->value.p, n->value.len))
			return err_set(e, -EFBIG,
				       "the secret '%s' is too long for the head of a request to %s", n->name,
				       g->bindings[i].host);
	}
	c->unbound[c->grants.n - 1] = n->n_bindings == 0;
	g->handle = ++*handles;
	issued_placeholder(&c->grants, NULL, g, &n->value, 0);
	return 0;
}

int client_grant(struct client *c, const struct store *s, const struct vault_grants *ask, uint32_t *handles,
		 enum vault_fault *ret_fault, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < ask->n && r == 0; i++)
		r = grant_secret(c, s, &ask->v[i], handles, ret_fault, e);
	if (r < 0)
		grants_release(&c->grants);
	return r;
}

/* --- answering ------------------------------------------------------------------------------------------------- */

static int pack_response(const struct vault_msg *m, struct secmem *ret)
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

static int refuse_request(uint32_t id, int status, const char *why, struct secmem *ret)
{
	struct vault_msg m = { .type = VAULT_REFUSED, .id = id, .status = status };

	m.text[0] = slice_of(why);
	return pack_response(&m, ret);
}

/* Token bucket of requests (grant.R3). */
static bool is_within_rate(struct client *c, uint64_t mono)
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

/* grant.R1: the secret's own bindings as they are now; if it has none, the grant's, provided it had none at
 * that time. */
static bool is_still_bound(const struct store_entry *n, const struct vault_grant *g, bool unbound,
			   const char *host, uint16_t port, struct slice path)
{
	for (size_t i = 0; i < n->n_bindings; i++) {
		const struct binding *b = &n->bindings[i];

		if (b->as != BINDING_AS_SSH && (b->as == BINDING_AS_PROXY) == is_proxy_request(g) &&
		    binding_covers(b, host, port, path))
			return true;
	}
	return unbound && n->n_bindings == 0;
}

static int refuse_unbound(const struct vault_msg *m, const struct vault_grant *g, const char *host,
			  struct secmem *ret)
{
	char why[VAULT_WHY_MAX];

	snprintf(why, sizeof(why), "the secret '%s' is not bound to %s:%u and this path", g->name, host,
		 (unsigned)m->num[1]);
	return refuse_request(m->id, -EACCES, why, ret);
}

static int respond_rendered(const struct vault_msg *m, const struct secmem *value, struct secmem *ret)
{
	struct vault_msg out = { .type = VAULT_RENDERED, .id = m->id };

	out.text[0] = (struct slice){ (const char *)value->p, value->len };
	return pack_response(&out, ret);
}

/* The value of an issued credential, if its issuer's bindings cover the target. */
static int render_issued(struct client *c, const struct vault_msg *m, const char *host, uint64_t now,
			 struct secmem *ret)
{
	const struct issued *x;

	issued_expire(&c->issued, now);
	x = issued_find(&c->issued, (uint32_t)m->num[0]);
	if (!x)
		return refuse_request(m->id, -ENOENT, "no such grant", ret);
	if (!grants_binding(&x->grant, host, (uint16_t)m->num[1], m->text[1], BINDING_AS_ANY, NULL))
		return refuse_unbound(m, &x->grant, host, ret);
	return respond_rendered(m, &x->value, ret);
}

/* The value of a secret, if both the grant and the secret's current bindings cover the target (grant.R1). */
static int render_secret(struct client *c, const struct store *s, const struct vault_msg *m, uint64_t now,
			 struct secmem *ret)
{
	const struct vault_grant *g = grants_by_handle(&c->grants, (uint32_t)m->num[0]);
	const struct store_entry *n = g && g->kind == GRANT_SECRET ? store_find(s, g->name) : NULL;
	char host[HOST_MAX + 1], why[VAULT_WHY_MAX];

	memcpy(host, m->text[0].p, m->text[0].len);
	host[m->text[0].len] = '\0';
	if (!g)
		return render_issued(c, m, host, now, ret);
	if (!n)
		return refuse_request(m->id, -ENOENT, "the secret was removed", ret);
	if (secret_has_expired(n, now)) {
		snprintf(why, sizeof(why), "the secret '%s' has expired", n->name);
		return refuse_request(m->id, -EKEYEXPIRED, why, ret);
	}
	if (!grants_binding(g, host, (uint16_t)m->num[1], m->text[1], BINDING_AS_ANY, NULL) ||
	    !is_still_bound(n, g, c->unbound[g - c->grants.v], host, (uint16_t)m->num[1], m->text[1]))
		return refuse_unbound(m, g, host, ret);
	return respond_rendered(m, &n->value, ret);
}

/* Stores a credential that a server issued, and responds with its placeholder. */
static int capture_issued(struct client *c, const struct vault_msg *m, uint32_t *handles, uint64_t now,
			  uint64_t mono, struct secmem *ret)
{
	struct vault_msg out = { .type = VAULT_CAPTURED, .id = m->id };
	const struct issued *x = NULL;
	const char *why = NULL;
	uint32_t dropped = 0;
	int r = issued_capture(&c->issued, &c->grants, m, handles, now, &x, &dropped, &why);

	if (r < 0)
		return refuse_request(m->id, r, why, ret);
	out.num[0] = x->grant.handle;
	out.num[1] = dropped;
	out.num[2] = x->grant.expires;
	out.num[3] = keep_changed(c->keep, &c->issued, &c->grants, mono);
	out.text[0] = (struct slice){ x->grant.placeholder, x->grant.placeholder_len };
	out.text[1] = slice_of(x->grant.name);
	return pack_response(&out, ret);
}

static int respond_grants(const struct client *c, uint32_t id, struct secmem *ret)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	autobuf struct buf b = BUF_INIT;
	struct vault_msg out = { .type = VAULT_GRANTED, .id = id };

	if (client_grants(c, &all) < 0 || grants_pack(&all, GRANTS_GRANTED, &b) < 0)
		return refuse_request(id, -ENOSPC, "there are too many grants for one message", ret);
	out.text[0] = (struct slice){ b.data, b.len };
	return pack_response(&out, ret);
}

/* NOLINTNEXTLINE(readability-function-size): nothing here reads a clock or keeps a store */
int client_handle_message(struct client *c, const struct store *s, const void *data, size_t len,
			  unsigned n_fds, uint32_t *handles, uint64_t now, uint64_t mono, struct secmem *ret)
{
	struct vault_msg m;

	if (vault_msg_parse(VAULT_FROM_CLIENT, data, len, n_fds, &m) < 0)
		return -EPROTO;
	if (!is_within_rate(c, mono))
		return refuse_request(m.id, -EBUSY, "too many requests for secrets", ret);
	switch (m.type) {
	case VAULT_RENDER:
		return render_secret(c, s, &m, now, ret);
	case VAULT_CAPTURE:
		return capture_issued(c, &m, handles, now, mono, ret);
	case VAULT_GRANTS:
		return respond_grants(c, m.id, ret);
	default:
		return -EPROTO;
	}
}
