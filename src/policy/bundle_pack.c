/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: from a policy to bytes. bundle_unpack.c reads the same fields in the same order; a change here needs one there and
 * a new BUNDLE_VERSION. Numbers are little-endian, texts follow their length. Hashes of blocklists are used in place and
 * therefore in host byte order: a bundle never leaves the machine.
 */
#include "policy/bundle.h"

#include "crypto/hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static void bundle_put_num(struct buf *b, uint64_t v, size_t size)
{
	uint64_t le = htole64(v);

	buf_add(b, &le, size);
}

static void bundle_put8(struct buf *b, unsigned v)
{
	bundle_put_num(b, v, 1);
}

static void bundle_put16(struct buf *b, unsigned v)
{
	bundle_put_num(b, v, 2);
}

static void bundle_put32(struct buf *b, uint64_t v)
{
	bundle_put_num(b, v, 4);
}

/* NULL and "" differ: the stored length is one more than the real one. */
static void bundle_put_text(struct buf *b, const char *s)
{
	size_t n = s ? strlen(s) : 0;

	bundle_put32(b, s ? n + 1 : 0);
	buf_add(b, s ? s : "", n);
}

static void bundle_put_limits(struct buf *b, const struct policy_limits *l)
{
	bundle_put_num(b, l->bytes_up, 8);
	bundle_put_num(b, l->bandwidth, 8);
	bundle_put32(b, l->requests_per_minute);
	bundle_put32(b, l->connections);
}

static void bundle_put_range(struct buf *b, const struct addr_range *r)
{
	buf_add(b, r->base.b, sizeof(r->base.b));
	bundle_put8(b, r->bits);
}

static void bundle_put_entry(struct buf *b, const struct policy_entry *en)
{
	bundle_put8(b, en->kind);
	bundle_put8(b, en->action);
	bundle_put_num(b, en->methods, 8);
	bundle_put32(b, en->acts);
	bundle_put_text(b, en->path);
	bundle_put_text(b, en->name);
	bundle_put32(b, en->line);
}

/* Field order as in bundle_get_rule_fields(). */
static void bundle_put_rule(struct buf *b, const struct policy_rule *r)
{
	bundle_put8(b, r->action);
	bundle_put8(b, r->by_addr);
	if (r->by_addr) {
		bundle_put_range(b, &r->range);
	} else {
		bundle_put_text(b, r->host.text);
	}
	bundle_put8(b, r->n_ports);
	for (unsigned i = 0; i < r->n_ports; i++) {
		bundle_put16(b, r->ports[i].lo);
		bundle_put16(b, r->ports[i].hi);
	}
	bundle_put8(b, r->port_given);
	bundle_put8(b, (unsigned)(r->depth + 1));
	bundle_put_limits(b, &r->limits);
	bundle_put8(b, r->has_pin);
	buf_add(b, r->pin.b, sizeof(r->pin.b));
	bundle_put16(b, r->pin_port);
	bundle_put_text(b, r->ca);
	bundle_put_text(b, r->proxy_set);
	bundle_put_text(b, r->secret);
	bundle_put_text(b, r->capture);
	bundle_put8(b, (unsigned)r->credentials_only | (unsigned)r->secret_ask << 1);
	bundle_put_text(b, r->source);
	bundle_put32(b, r->line);
	bundle_put32(b, r->n_entries);
	for (size_t i = 0; i < r->n_entries; i++)
		bundle_put_entry(b, &r->entries[i]);
}

static void bundle_put_layer(struct buf *b, const struct layer *l)
{
	bundle_put_limits(b, &l->opts.limits);
	bundle_put_text(b, l->opts.proxy_set);
	bundle_put8(b, l->opts.require_proxy_set);
	bundle_put8(b, l->opts.browser);
	bundle_put32(b, l->n);
	for (size_t i = 0; i < l->n; i++)
		bundle_put_rule(b, l->rules[i]);
}

static void bundle_put_proxies(struct buf *b, const struct policy_proxies *set)
{
	bundle_put_text(b, set->name);
	bundle_put_text(b, set->secret);
	bundle_put8(b, set->rotate);
	bundle_put32(b, set->sticky_seconds);
	bundle_put32(b, set->check_seconds);
	bundle_put_text(b, set->check);
	bundle_put32(b, set->n_proxies);
	for (size_t i = 0; i < set->n_proxies; i++) {
		bundle_put8(b, set->proxies[i].type);
		bundle_put_text(b, set->proxies[i].host.text);
		bundle_put16(b, set->proxies[i].port);
	}
}

static void bundle_put_blocklist(struct buf *b, const struct blocklist *l)
{
	bundle_put_text(b, l->category);
	bundle_put32(b, l->n);
	buf_add(b, l->n ? l->hashes : "", l->n * sizeof(uint64_t));
}

int bundle_pack_body(const struct policy *p, struct buf *b, struct err *e)
{
	bundle_put8(b, p->mode);
	bundle_put8(b, p->n_layers);
	for (unsigned i = 0; i < p->n_layers; i++)
		bundle_put_layer(b, &p->layers[i]);
	bundle_put8(b, (unsigned)p->n_resolvers);
	for (size_t i = 0; i < p->n_resolvers; i++) {
		buf_add(b, p->resolvers[i].addr.b, sizeof(p->resolvers[i].addr.b));
		bundle_put16(b, p->resolvers[i].port);
	}
	bundle_put8(b, p->has_synthetic);
	if (p->has_synthetic)
		bundle_put_range(b, &p->synthetic);
	bundle_put8(b, (unsigned)p->n_proxy_sets);
	for (size_t i = 0; i < p->n_proxy_sets; i++)
		bundle_put_proxies(b, &p->proxy_sets[i]);
	bundle_put8(b, (unsigned)p->n_blocklists);
	for (size_t i = 0; i < p->n_blocklists; i++)
		bundle_put_blocklist(b, &p->blocklists[i]);
	/* Written only if there are any: it is the last field. */
	if (p->widened.n) {
		bundle_put32(b, p->widened.n);
		for (size_t i = 0; i < p->widened.n; i++)
			bundle_put_rule(b, p->widened.rules[i]);
	}
	return buf_error(b) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int policy_pack(const struct policy *p, struct buf *out, struct err *e)
{
	struct bundle_head h = { .version = htole32(BUNDLE_VERSION) };
	size_t start = out->len;
	int r;

	BUG_ON(!p->sealed);
	memcpy(h.magic, BUNDLE_MAGIC, sizeof(h.magic));
	h.generation = htole32(p->generation);
	memcpy(h.digest, p->digest, sizeof(h.digest));
	buf_add(out, &h, sizeof(h));
	r = bundle_pack_body(p, out, e);
	if (r < 0)
		return r;
	h.body_len = htole64(out->len - start - sizeof(h));
	memcpy(out->data + start, &h, sizeof(h));
	return 0;
}
