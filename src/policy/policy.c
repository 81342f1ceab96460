/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a policy: creating, adding rules, proxies and lists, freeing; and its properties. policy_seal.c
 * seals it. Pure: no I/O, no clock.
 */
#include "policy/policy_int.h"

#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int policy_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

int policy_new(enum policy_mode mode, struct policy **ret, struct err *e)
{
	struct policy *p = calloc(1, sizeof(*p));

	if (!p)
		return policy_no_memory(e);
	p->mode = mode;
	*ret = p;
	return 0;
}

void policy_rule_release(struct policy_rule *r)
{
	for (size_t i = 0; i < r->n_entries; i++) {
		free(r->entries[i].path);
		free(r->entries[i].name);
	}
	free(r->entries);
	free(r->ca);
	free(r->ca_file);
	*r = POLICY_RULE_INIT;
}

void layer_release(struct layer *l)
{
	for (size_t i = 0; i < l->n; i++) {
		policy_rule_release(l->rules[i]);
		free(l->rules[i]);
	}
	free(l->rules);
	free(l->by_host);
	free(l->by_addr);
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->n_layers; i++)
		layer_release(&p->layers[i]);
	layer_release(&p->widened);
	for (size_t i = 0; i < p->n_proxy_sets; i++)
		free((void *)p->proxy_sets[i].proxies);
	for (size_t i = 0; i < p->n_blocklists; i++)
		blocklist_release(&p->blocklists[i]);
	free(p->proxy_sets);
	free(p);
}

int policy_add_layer(struct policy *p, const struct policy_layer_opts *o, unsigned *ret_layer, struct err *e)
{
	BUG_ON(p->sealed);
	if (p->n_layers == POLICY_LAYERS_MAX)
		return err_set(e, -E2BIG, "at most %d policies can be combined", POLICY_LAYERS_MAX);
	p->layers[p->n_layers].opts = *o;
	*ret_layer = p->n_layers++;
	return 0;
}

void policy_set_layer_opts(struct policy *p, unsigned layer, const struct policy_layer_opts *o)
{
	BUG_ON(p->sealed || layer >= p->n_layers);
	p->layers[layer].opts = *o;
}

void policy_set_mode(struct policy *p, enum policy_mode mode)
{
	BUG_ON(p->sealed);
	p->mode = mode;
}

const char *policy_blocked_by(const struct policy *p, const struct host *name)
{
	for (size_t i = 0; i < p->n_blocklists; i++) {
		if (blocklist_has(&p->blocklists[i], name))
			return p->blocklists[i].category;
	}
	return NULL;
}

static int layer_append_rule(struct layer *l, struct policy_rule *r, struct err *e)
{
	if (VEC_MORE(l->rules, l->n, VEC_NO_MAX) < 0)
		return policy_no_memory(e);
	l->rules[l->n++] = r;
	return 0;
}

int policy_add_rule(struct policy *p, unsigned layer, struct policy_rule *r, struct err *e)
{
	struct policy_rule *own;
	int ret = rule_check(r, e);

	BUG_ON(p->sealed || layer >= p->n_layers);
	if (ret < 0)
		return ret;
	if (p->n_rules >= POLICY_RULES_MAX)
		return err_set(e, -E2BIG, "a policy has at most %d rules", POLICY_RULES_MAX);
	own = malloc(sizeof(*own));
	if (!own)
		return policy_no_memory(e);
	ret = layer_append_rule(&p->layers[layer], own, e);
	if (ret < 0) {
		free(own);
		return ret;
	}
	*own = *r;
	own->id = (uint32_t)p->n_rules++;
	own->layer = layer;
	*r = POLICY_RULE_INIT;
	return 0;
}

void policy_clear_resolvers(struct policy *p)
{
	p->n_resolvers = 0;
}

int policy_add_resolver(struct policy *p, const struct policy_resolver *r, struct err *e)
{
	if (p->n_resolvers == POLICY_RESOLVERS_MAX)
		return err_set(e, -E2BIG, "at most %d resolvers can be named", POLICY_RESOLVERS_MAX);
	if (r->port == 0)
		return err_set(e, -EINVAL, "a resolver's port is 1 to 65535");
	p->resolvers[p->n_resolvers++] = *r;
	return 0;
}

int policy_set_synthetic(struct policy *p, const struct addr_range *r, struct err *e)
{
	enum addr_class c = addr_special(&r->base);

	if (p->has_synthetic)
		return err_set(e, -EEXIST, "the range of synthetic addresses is named twice");
	if (!addr_is_v4(&r->base) || addr_range_len(r) < 8 || addr_range_len(r) > 20)
		return err_set(e, -EINVAL, "synthetic addresses are an IPv4 range from /8 to /20");
	if (c == ADDR_LOOPBACK || c == ADDR_MULTICAST || c == ADDR_UNSPECIFIED || c == ADDR_THIS_NETWORK ||
	    c == ADDR_METADATA || c == ADDR_LINK_LOCAL || c == ADDR_BROADCAST)
		return err_set(e, -EINVAL, "programs would mistake a synthetic address there for %s",
			       addr_special_name(c));
	p->has_synthetic = true;
	p->synthetic = *r;
	return 0;
}

/* Checks a proxy set by itself, and that its name is new. */
static int check_proxies(const struct policy *p, const struct policy_proxies *set, struct err *e)
{
	if (!str_is_name(set->name))
		return err_set(e, -EINVAL,
			       "the name of a proxy set is letters, digits, dots, dashes and underscores");
	if (set->secret[0] && !str_is_name(set->secret))
		return err_set(e, -EINVAL, "'%s' is not the name of a secret", set->secret);
	if (policy_proxies_find(p, set->name))
		return err_set(e, -EEXIST, "there is a proxy set '%s' already", set->name);
	if (p->n_proxy_sets == POLICY_PROXY_SETS_MAX)
		return err_set(e, -E2BIG, "at most %d proxy sets can be named", POLICY_PROXY_SETS_MAX);
	if (set->n_proxies == 0 || set->n_proxies > POLICY_PROXIES_MAX)
		return err_set(e, -EINVAL, "a proxy set has 1 to %d proxies", POLICY_PROXIES_MAX);
	for (size_t i = 0; i < set->n_proxies; i++) {
		if (set->proxies[i].port == 0)
			return err_set(e, -EINVAL, "a proxy's port is 1 to 65535");
	}
	return 0;
}

int policy_add_proxies(struct policy *p, const struct policy_proxies *set, struct err *e)
{
	struct policy_proxy *proxies;
	int r = check_proxies(p, set, e);

	if (r < 0)
		return r;
	if (VEC_MORE(p->proxy_sets, p->n_proxy_sets, VEC_NO_MAX) < 0)
		return policy_no_memory(e);
	proxies = reallocarray(NULL, set->n_proxies, sizeof(*proxies));
	if (!proxies)
		return policy_no_memory(e);
	memcpy(proxies, set->proxies, set->n_proxies * sizeof(*proxies));
	p->proxy_sets[p->n_proxy_sets] = *set;
	p->proxy_sets[p->n_proxy_sets++].proxies = proxies;
	return 0;
}

int policy_add_blocklist(struct policy *p, struct blocklist *b, struct err *e)
{
	BUG_ON(p->sealed);
	if (!str_is_name(b->category))
		return err_set(e, -EINVAL,
			       "a category's name is letters, digits, dots, dashes and underscores");
	if (p->n_blocklists == POLICY_BLOCKLISTS_MAX)
		return err_set(e, -E2BIG, "at most %d blocklists can be named", POLICY_BLOCKLISTS_MAX);
	p->blocklists[p->n_blocklists++] = *b;
	*b = BLOCKLIST_INIT;
	return 0;
}

enum policy_mode policy_mode(const struct policy *p)
{
	return p->mode;
}

uint32_t policy_generation(const struct policy *p)
{
	return p->generation;
}

void policy_set_generation(struct policy *p, uint32_t generation)
{
	p->generation = generation;
}

void policy_digest(const struct policy *p, unsigned char ret[POLICY_DIGEST_LEN])
{
	BUG_ON(!p->sealed);
	memcpy(ret, p->digest, POLICY_DIGEST_LEN);
}

size_t policy_rule_count(const struct policy *p)
{
	return p->n_rules;
}

size_t policy_layer_count(const struct policy *p)
{
	return p->n_layers;
}

const struct policy_rule *policy_rule_at(const struct policy *p, size_t i)
{
	for (unsigned k = 0; k < p->n_layers; k++) {
		if (i < p->layers[k].n)
			return p->layers[k].rules[i];
		i -= p->layers[k].n;
	}
	BUG("no such rule");
}

bool policy_needs_ca(const struct policy *p)
{
	for (size_t i = 0; i < p->widened.n; i++) {
		if (policy_rule_depth(p->widened.rules[i]) == POLICY_INSPECT)
			return true;
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *r = policy_rule_at(p, i);

		if (policy_rule_depth(r) == POLICY_INSPECT && (r->action != POLICY_DENY || r->n_entries))
			return true;
	}
	return false;
}

bool policy_needs_proxies(const struct policy *p)
{
	for (unsigned i = 0; i < p->n_layers; i++) {
		if (p->layers[i].opts.proxy_set[0])
			return true;
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		if (policy_rule_at(p, i)->proxy_set[0])
			return true;
	}
	return false;
}

bool policy_is_browser(const struct policy *p)
{
	bool any = false;

	for (unsigned i = 0; i < p->n_layers; i++)
		any = any || p->layers[i].opts.browser;
	return any;
}

bool policy_allows_nothing(const struct policy *p)
{
	if (p->mode == POLICY_OBSERVE || p->widened.n)
		return false;
	for (unsigned i = 0; i < p->n_layers; i++) {
		bool any = false;

		for (size_t k = 0; k < p->layers[i].n; k++)
			any = any || p->layers[i].rules[k]->action != POLICY_DENY;
		if (!any)
			return true;
	}
	return p->n_layers == 0;
}

static uint64_t lower_limit(uint64_t a, uint64_t b)
{
	return a == 0 || (b && b < a) ? b : a;
}

struct policy_limits limits_lower(struct policy_limits a, const struct policy_limits *b)
{
	a.bytes_up = lower_limit(a.bytes_up, b->bytes_up);
	a.bandwidth = lower_limit(a.bandwidth, b->bandwidth);
	a.requests_per_minute = (uint32_t)lower_limit(a.requests_per_minute, b->requests_per_minute);
	a.connections = (uint32_t)lower_limit(a.connections, b->connections);
	return a;
}

struct policy_limits policy_limits(const struct policy *p)
{
	struct policy_limits l = { 0 };

	for (unsigned i = 0; i < p->n_layers; i++)
		l = limits_lower(l, &p->layers[i].opts.limits);
	return l;
}

size_t policy_resolvers(const struct policy *p, const struct policy_resolver **ret)
{
	*ret = p->resolvers;
	return p->n_resolvers;
}

bool policy_synthetic(const struct policy *p, struct addr_range *ret)
{
	if (p->has_synthetic)
		*ret = p->synthetic;
	return p->has_synthetic;
}

size_t policy_proxies(const struct policy *p, const struct policy_proxies **ret)
{
	*ret = p->proxy_sets;
	return p->n_proxy_sets;
}

const struct policy_proxies *policy_proxies_find(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->n_proxy_sets; i++) {
		if (str_eq(p->proxy_sets[i].name, name))
			return &p->proxy_sets[i];
	}
	return NULL;
}
