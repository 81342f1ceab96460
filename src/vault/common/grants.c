/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs, unpacks and checks grants (grants.h). Unpacked bytes come from another process, so every field is
 * checked. Pure; no secret is in them.
 */

#include "vault/common/grants.h"

#include "base/str.h"
#include "base/vec.h"
#include "vault/common/wire.h"

#include <errno.h>
#include <stdlib.h>

#define MAGIC 0x32475643u /* "CVG2" */

void grants_release(struct vault_grants *g)
{
	free(g->v);
	*g = GRANTS_INIT;
}

struct vault_grant *grants_add(struct vault_grants *g)
{
	if (VEC_MORE(g->v, g->n, GRANTS_MAX) < 0)
		return NULL;
	g->v[g->n] = (struct vault_grant){ 0 };
	return &g->v[g->n++];
}

static bool is_variable_name(const char *s)
{
	if (*s >= '0' && *s <= '9')
		return false;
	for (; *s; s++) {
		if (!((*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
		      *s == '_'))
			return false;
	}
	return true;
}

bool grants_is_placeholder(const char *s, size_t len)
{
	if (len < GRANTS_PLACEHOLDER_MIN || len > GRANTS_PLACEHOLDER_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		      (c && strchr("._:-", c))))
			return false;
	}
	return true;
}

static bool has_valid_placeholder(const struct vault_grant *g)
{
	return grants_is_placeholder(g->placeholder, g->placeholder_len) &&
	       !g->placeholder[g->placeholder_len];
}

/* Does the grant have only the fields of its kind? */
static bool kind_is_consistent(const struct vault_grant *g, bool asked)
{
	struct issue s;

	switch (g->kind) {
	case GRANT_SECRET:
		return !g->issue[0] && !g->of && !g->expires;
	case GRANT_ISSUER:
		return !g->placeholder_len && !g->placeholder[0] && !g->env[0] && !g->of && !g->expires &&
		       g->n_bindings && issue_parse(g->issue, &s) == 0;
	case GRANT_ISSUED:
		return !asked && !g->issue[0] && !g->env[0];
	default:
		return false;
	}
}

/* Checks all fields of one grant, or of a request for one (grants.G1 to grants.G3). */
static bool is_valid_grant(const struct vault_grant *g, enum grants_kind kind)
{
	bool asked = kind == GRANTS_ASKED;

	if (!kind_is_consistent(g, asked))
		return false;

	if (!str_is_name(g->name) || strlen(g->name) > GRANTS_NAME_MAX || !is_variable_name(g->env))
		return false;
	if (asked ? g->handle || g->placeholder_len || g->placeholder[0]
		  : !g->handle || (g->kind != GRANT_ISSUER && !has_valid_placeholder(g)))
		return false;
	if (g->n_bindings > GRANTS_BINDINGS_MAX || (!asked && g->n_bindings == 0))
		return false;
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (!binding_is_good(&g->bindings[i], asked && g->kind == GRANT_SECRET ? BINDING_ASKED : 0))
			return false;
	}
	return true;
}

/* If one placeholder contained another, a match would be ambiguous. */
static bool are_distinguishable(const struct vault_grant *a, const struct vault_grant *b)
{
	if (!a->placeholder_len || !b->placeholder_len)
		return a->handle != b->handle;
	return a->handle != b->handle &&
	       !memmem(a->placeholder, a->placeholder_len, b->placeholder, b->placeholder_len) &&
	       !memmem(b->placeholder, b->placeholder_len, a->placeholder, a->placeholder_len);
}

static bool are_valid_grants(const struct vault_grants *g, enum grants_kind kind)
{
	if (g->n > GRANTS_MAX)
		return false;
	for (size_t i = 0; i < g->n; i++) {
		if (!is_valid_grant(&g->v[i], kind))
			return false;
		for (size_t k = 0; kind == GRANTS_GRANTED && k < i; k++) {
			if (!are_distinguishable(&g->v[i], &g->v[k]))
				return false;
		}
	}
	return true;
}

static void put_binding(struct wire_out *out, const struct binding *b)
{
	wire_put_text(out, b->host);
	wire_put(out, b->port, 2);
	wire_put(out, b->as, 1);
	wire_put_text(out, b->path);
	wire_put_text(out, b->word);
	wire_put_text(out, b->user);
}

static void get_binding(struct wire_in *in, struct binding *b)
{
	wire_get_text(in, b->host, sizeof(b->host));
	b->port = (uint16_t)wire_get(in, 2);
	b->as = (uint8_t)wire_get(in, 1);
	wire_get_text(in, b->path, sizeof(b->path));
	wire_get_text(in, b->word, sizeof(b->word));
	wire_get_text(in, b->user, sizeof(b->user));
}

/* Field order here and in get_grant() must agree. */
static void put_grant(struct wire_out *out, const struct vault_grant *g)
{
	wire_put(out, g->kind, 1);
	wire_put(out, g->handle, 4);
	wire_put_text(out, g->name);
	wire_put_text(out, g->env);
	wire_put(out, g->placeholder_len, 2);
	wire_put_bytes(out, g->placeholder, g->placeholder_len);
	wire_put(out, g->n_bindings, 1);
	for (size_t i = 0; i < g->n_bindings; i++)
		put_binding(out, &g->bindings[i]);
	wire_put(out, strlen(g->issue), 2);
	wire_put_bytes(out, g->issue, strlen(g->issue));
	wire_put(out, g->of, 4);
	wire_put(out, g->expires, 8);
}

static void get_grant(struct wire_in *in, struct vault_grant *g)
{
	struct slice s;

	g->kind = (uint8_t)wire_get(in, 1);
	g->handle = (uint32_t)wire_get(in, 4);
	wire_get_text(in, g->name, sizeof(g->name));
	wire_get_text(in, g->env, sizeof(g->env));
	g->placeholder_len = (size_t)wire_get(in, 2);
	s = wire_get_bytes(in, g->placeholder_len);
	if (s.len > GRANTS_PLACEHOLDER_MAX)
		in->bad = true;
	else if (s.len)
		memcpy(g->placeholder, s.p, s.len);
	g->n_bindings = (size_t)wire_get(in, 1);
	if (g->n_bindings > GRANTS_BINDINGS_MAX)
		in->bad = true;
	for (size_t i = 0; !in->bad && i < g->n_bindings; i++)
		get_binding(in, &g->bindings[i]);
	s = wire_get_bytes(in, (size_t)wire_get(in, 2));
	if (s.len > ISSUE_TEXT_MAX || (s.len && memchr(s.p, '\0', s.len)))
		in->bad = true;
	else if (s.len)
		memcpy(g->issue, s.p, s.len);
	g->of = (uint32_t)wire_get(in, 4);
	g->expires = wire_get(in, 8);
}

static void put_grants(struct wire_out *out, const struct vault_grants *g, enum grants_kind kind)
{
	wire_put(out, MAGIC, 4);
	wire_put(out, kind, 2);
	wire_put(out, g->n, 2);
	for (size_t i = 0; i < g->n; i++)
		put_grant(out, &g->v[i]);
}

int grants_pack(const struct vault_grants *g, enum grants_kind kind, struct buf *out)
{
	struct wire_out count = { 0 }, w = { 0 };

	if (!are_valid_grants(g, kind))
		return -EBADMSG;
	put_grants(&count, g, kind);
	if (count.bad || count.len > GRANTS_PACK_MAX)
		return -E2BIG;
	w = (struct wire_out){ .p = (uint8_t *)buf_reserve(out, count.len), .cap = count.len };
	if (!w.p)
		return -ENOMEM;
	put_grants(&w, g, kind);
	out->len += w.len;
	return 0;
}

int grants_unpack(struct vault_grants *ret, enum grants_kind kind, const void *data, size_t len)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	struct wire_in in = { .p = data, .left = len };
	size_t n;

	if (len > GRANTS_PACK_MAX || wire_get(&in, 4) != MAGIC || wire_get(&in, 2) != kind)
		return -EBADMSG;
	n = (size_t)wire_get(&in, 2);
	if (in.bad || n > GRANTS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n && !in.bad; i++) {
		struct vault_grant *v = grants_add(&g);

		if (!v)
			return -ENOMEM;
		get_grant(&in, v);
	}
	if (in.bad || in.left || !are_valid_grants(&g, kind))
		return -EBADMSG;
	*ret = g;
	g = GRANTS_INIT;
	return 0;
}

int bindings_pack(const struct binding *v, size_t n, struct buf *out)
{
	struct wire_out count = { 0 }, w = { 0 };

	if (n > GRANTS_BINDINGS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (!binding_is_good(&v[i], 0))
			return -EBADMSG;
		put_binding(&count, &v[i]);
	}
	w = (struct wire_out){ .p = (uint8_t *)buf_reserve(out, count.len + 1), .cap = count.len + 1 };
	if (!w.p)
		return -ENOMEM;
	wire_put(&w, n, 1);
	for (size_t i = 0; i < n; i++)
		put_binding(&w, &v[i]);
	out->len += w.len;
	return 0;
}

int bindings_unpack(struct binding v[GRANTS_BINDINGS_MAX], size_t *ret_n, const void *data, size_t len)
{
	struct wire_in in = { .p = data, .left = len };
	size_t n = (size_t)wire_get(&in, 1);

	if (in.bad || n > GRANTS_BINDINGS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		v[i] = (struct binding){ 0 };
		get_binding(&in, &v[i]);
		if (in.bad || !binding_is_good(&v[i], 0))
			return -EBADMSG;
	}
	if (in.left)
		return -EBADMSG;
	*ret_n = n;
	return 0;
}

const struct vault_grant *grants_find_placeholder(const struct vault_grants *g, const char *text, size_t len,
						  size_t *ret_at)
{
	const struct vault_grant *found = NULL;

	/* Most fields of a request are shorter than any placeholder. */
	for (size_t i = 0; i < g->n && len >= GRANTS_PLACEHOLDER_MIN; i++) {
		const struct vault_grant *v = &g->v[i];
		const char *p =
			v->placeholder_len ? memmem(text, len, v->placeholder, v->placeholder_len) : NULL;

		if (!p)
			continue;
		/* A later one wins only if it begins earlier; no two can begin at the same place. */
		found = v;
		*ret_at = (size_t)(p - text);
		len = *ret_at + v->placeholder_len - 1;
	}
	return found;
}

bool grants_eq(const struct vault_grant *a, const struct vault_grant *b)
{
	if (a->kind != b->kind || !str_eq(a->name, b->name) || !str_eq(a->issue, b->issue) ||
	    a->n_bindings != b->n_bindings)
		return false;
	for (size_t i = 0; i < a->n_bindings; i++) {
		if (!binding_eq(&a->bindings[i], &b->bindings[i]))
			return false;
	}
	return true;
}

const struct vault_grant *grants_by_handle(const struct vault_grants *g, uint32_t handle)
{
	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].handle == handle)
			return &g->v[i];
	}
	return NULL;
}

const struct vault_grant *grants_by_name(const struct vault_grants *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++) {
		if (str_eq(g->v[i].name, name))
			return &g->v[i];
	}
	return NULL;
}

void grants_issue_bindings(const struct vault_grant *issuer, enum issue_how how, struct vault_grant *ret)
{
	ret->n_bindings = 0;
	for (size_t i = 0; i < issuer->n_bindings; i++) {
		if ((how == ISSUE_REFRESH) == (issuer->bindings[i].as == BINDING_AS_BODY))
			ret->bindings[ret->n_bindings++] = issuer->bindings[i];
	}
}

static bool binding_is_way(const struct binding *b, enum binding_as as, const char *word)
{
	if (as == BINDING_AS_ANY)
		return true;
	if (b->as != as)
		return false;
	return !*b->word || (word && str_eq(b->word, word));
}

const struct binding *grants_binding(const struct vault_grant *g, const char *host, uint16_t port,
				     struct slice path, enum binding_as as, const char *word)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_is_way(&g->bindings[i], as, word) &&
		    binding_covers(&g->bindings[i], host, port, path))
			return &g->bindings[i];
	}
	return NULL;
}
