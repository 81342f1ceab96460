/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals a policy once all rules are added: sorts them for lookup, checks them against each other, and
 * computes the digest. Pure: no I/O, no clock. Rules that contradict each other about one connection are
 * refused (build.B3).
 */
#include "policy/policy_int.h"

#include "base/str.h"
#include "crypto/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_ids(const struct policy_rule *a, const struct policy_rule *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_by_host(const void *x, const void *y)
{
	const struct policy_rule *a = *(struct policy_rule *const *)x, *b = *(struct policy_rule *const *)y;
	int c = strcmp(a->host.text, b->host.text);

	return c ? c : compare_ids(a, b);
}

static int compare_by_range(const void *x, const void *y)
{
	const struct policy_rule *a = *(struct policy_rule *const *)x, *b = *(struct policy_rule *const *)y;
	int c = (int)b->range.bits - (int)a->range.bits;

	c = c ? c : addr_cmp(&a->range.base, &b->range.base);
	return c ? c : compare_ids(a, b);
}

int layer_sort(struct layer *l, struct err *e)
{
	l->by_host = calloc(l->n + 1, sizeof(struct policy_rule *));
	l->by_addr = calloc(l->n + 1, sizeof(struct policy_rule *));
	if (!l->by_host || !l->by_addr)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < l->n; i++) {
		if (l->rules[i]->by_addr)
			l->by_addr[l->n_by_addr++] = l->rules[i];
		else
			l->by_host[l->n_by_host++] = l->rules[i];
	}
	qsort(l->by_host, l->n_by_host, sizeof(struct policy_rule *), compare_by_host);
	qsort(l->by_addr, l->n_by_addr, sizeof(struct policy_rule *), compare_by_range);
	return 0;
}

static bool ports_overlap(const struct policy_rule *a, const struct policy_rule *b)
{
	for (unsigned i = 0; i < a->n_ports; i++) {
		for (unsigned k = 0; k < b->n_ports; k++) {
			if (a->ports[i].lo <= b->ports[k].hi && b->ports[k].lo <= a->ports[i].hi)
				return true;
		}
	}
	return false;
}

/* The first term in which two rules differ; NULL: none. */
static const char *differing_term(const struct policy_rule *a, const struct policy_rule *b)
{
	if (a->has_pin != b->has_pin ||
	    (a->has_pin && (!addr_eq(&a->pin, &b->pin) || a->pin_port != b->pin_port)))
		return "to";
	if (!a->ca != !b->ca || (a->ca && !str_eq(a->ca, b->ca)))
		return "ca";
	return str_eq(a->proxy_set, b->proxy_set) ? NULL : "pool";
}

/* build.B3: rules with the same host pattern and a common port must agree. They are adjacent in by_host. */
static int check_agreement(const struct layer *l, struct err *e)
{
	for (size_t i = 0; i < l->n_by_host; i++) {
		const struct policy_rule *a = l->by_host[i];

		for (size_t k = i + 1; k < l->n_by_host; k++) {
			const struct policy_rule *b = l->by_host[k];
			char ta[POLICY_RULE_TEXT_MAX], tb[POLICY_RULE_TEXT_MAX];

			BUG_ON(!a || !b);
			if (!str_eq(a->host.text, b->host.text))
				break;
			if (a->action == POLICY_DENY || b->action == POLICY_DENY || !ports_overlap(a, b) ||
			    !differing_term(a, b))
				continue;
			return err_set(
				e, -EINVAL, "two rules for the same name and port differ in '%s:': %s and %s",
				differing_term(a, b), policy_rule_text(a, ta), policy_rule_text(b, tb));
		}
	}
	return 0;
}

static int check_proxy_set_name(const struct policy *p, const char *name, struct err *e)
{
	const char *names[POLICY_PROXY_SETS_MAX];
	const char *near;

	if (!name[0] || policy_proxies_find(p, name))
		return 0;
	for (size_t i = 0; i < p->n_proxy_sets; i++)
		names[i] = p->proxy_sets[i].name;
	near = str_nearest(name, names, p->n_proxy_sets);
	err_set(e, -ENOENT, "there is no proxy set '%s' under 'proxies:'", name);
	return near ? err_hint(e, -ENOENT, "pool: %s", near) : -ENOENT;
}

/* Rules must agree on the way of a connection (build.B3), and every proxy set that they name must exist. */
static int check_layer_rules(const struct policy *p, const struct layer *l, struct err *e)
{
	int r = check_agreement(l, e);

	r = r < 0 ? r : check_proxy_set_name(p, l->opts.proxy_set, e);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		char text[POLICY_RULE_TEXT_MAX];

		r = check_proxy_set_name(p, l->rules[i]->proxy_set, e);
		if (r < 0)
			err_wrap(e, r, "%s", policy_rule_text(l->rules[i], text));
	}
	return r;
}

int seal_as(struct policy *p, const unsigned char digest[POLICY_DIGEST_LEN], struct err *e)
{
	int r = 0;

	BUG_ON(p->sealed);
	for (unsigned i = 0; r == 0 && i < p->n_layers; i++) {
		r = layer_sort(&p->layers[i], e);
		r = r < 0 ? r : check_layer_rules(p, &p->layers[i], e);
	}
	if (r < 0)
		return r;
	memcpy(p->digest, digest, POLICY_DIGEST_LEN);
	p->sealed = true;
	return 0;
}

int seal_digest(struct policy *p, struct err *e)
{
	autobuf struct buf body = BUF_INIT;
	int r = bundle_pack_body(p, &body, e);

	if (r == 0)
		hash_blake_once(body.data, body.len, p->digest);
	return r;
}

int policy_seal(struct policy *p, struct err *e)
{
	autobuf struct buf body = BUF_INIT;
	unsigned char digest[HASH_LEN];
	int r = bundle_pack_body(p, &body, e);

	_Static_assert(POLICY_DIGEST_LEN == HASH_LEN, "the digest is that hash");
	if (r < 0)
		return r;
	hash_blake_once(body.data, body.len, digest);
	return seal_as(p, digest, e);
}
