/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: from a policy to bytes. bundle_unpack.c reads field by field what is written here; whoever changes one changes
 * the other and BUNDLE_VERSION. Numbers are little-endian, texts have a length in front; hashes of blocklists, which are
 * used in place, are in this machine's order: a bundle never leaves it.
 */
#include "policy/bundle.h"

#include "crypto/hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static void put_num(struct buf *b, uint64_t v, size_t size)
{
	uint64_t le = htole64(v);

	buf_add(b, &le, size);
}

static void put8(struct buf *b, unsigned v)
{
	put_num(b, v, 1);
}

static void put16(struct buf *b, unsigned v)
{
	put_num(b, v, 2);
}

static void put32(struct buf *b, uint64_t v)
{
	put_num(b, v, 4);
}

/* NULL and "" are told apart: a length one more than it is. */
static void put_text(struct buf *b, const char *s)
{
	size_t n = s ? strlen(s) : 0;

	put32(b, s ? n + 1 : 0);
	buf_add(b, s ? s : "", n);
}

static void put_limits(struct buf *b, const struct policy_limits *l)
{
	put_num(b, l->bytes_up, 8);
	put_num(b, l->bandwidth, 8);
	put32(b, l->requests_per_minute);
	put32(b, l->connections);
}

static void put_range(struct buf *b, const struct addr_range *r)
{
	buf_add(b, r->base.b, sizeof(r->base.b));
	put8(b, r->bits);
}

static void put_entry(struct buf *b, const struct policy_entry *en)
{
	put8(b, en->kind);
	put8(b, en->action);
	put_num(b, en->methods, 8);
	put32(b, en->acts);
	put_text(b, en->path);
	put_text(b, en->name);
	put32(b, en->line);
}

static void put_rule(struct buf *b, const struct policy_rule *r)
{
	put8(b, r->action);
	put8(b, r->by_addr);
	if (r->by_addr) {
		put_range(b, &r->range);
	} else {
		put_text(b, r->host.text);
	}
	put8(b, r->n_ports);
	for (unsigned i = 0; i < r->n_ports; i++) {
		put16(b, r->ports[i].lo);
		put16(b, r->ports[i].hi);
	}
	put8(b, r->port_given);
	put8(b, (unsigned)(r->depth + 1));
	put_limits(b, &r->limits);
	put8(b, r->has_pin);
	buf_add(b, r->pin.b, sizeof(r->pin.b));
	put16(b, r->pin_port);
	put_text(b, r->ca);
	put_text(b, r->pool);
	put_text(b, r->secret);
	put_text(b, r->capture);
	put8(b, (unsigned)r->credentials_only | (unsigned)r->secret_ask << 1);
	put_text(b, r->source);
	put32(b, r->line);
	put32(b, r->n_entries);
	for (size_t i = 0; i < r->n_entries; i++)
		put_entry(b, &r->entries[i]);
}

static void put_layer(struct buf *b, const struct layer *l)
{
	put_limits(b, &l->opts.limits);
	put_text(b, l->opts.pool);
	put8(b, l->opts.require_pool);
	put8(b, l->opts.browser);
	put32(b, l->n);
	for (size_t i = 0; i < l->n; i++)
		put_rule(b, l->rules[i]);
}

static void put_pool(struct buf *b, const struct policy_proxies *pool)
{
	put_text(b, pool->name);
	put_text(b, pool->secret);
	put8(b, pool->rotate);
	put32(b, pool->sticky_seconds);
	put32(b, pool->check_seconds);
	put_text(b, pool->check);
	put32(b, pool->n_proxies);
	for (size_t i = 0; i < pool->n_proxies; i++) {
		put8(b, pool->proxies[i].type);
		put_text(b, pool->proxies[i].host.text);
		put16(b, pool->proxies[i].port);
	}
}

static void put_blocklist(struct buf *b, const struct blocklist *l)
{
	put_text(b, l->category);
	put32(b, l->n);
	buf_add(b, l->n ? l->hashes : "", l->n * sizeof(uint64_t));
}

int pack_body(const struct policy *p, struct buf *b, struct err *e)
{
	put8(b, p->mode);
	put8(b, p->n_layers);
	for (unsigned i = 0; i < p->n_layers; i++)
		put_layer(b, &p->layers[i]);
	put8(b, (unsigned)p->n_resolvers);
	for (size_t i = 0; i < p->n_resolvers; i++) {
		buf_add(b, p->resolvers[i].addr.b, sizeof(p->resolvers[i].addr.b));
		put16(b, p->resolvers[i].port);
	}
	put8(b, p->has_synthetic);
	if (p->has_synthetic)
		put_range(b, &p->synthetic);
	put8(b, (unsigned)p->n_pools);
	for (size_t i = 0; i < p->n_pools; i++)
		put_pool(b, &p->pools[i]);
	put8(b, (unsigned)p->n_blocklists);
	for (size_t i = 0; i < p->n_blocklists; i++)
		put_blocklist(b, &p->blocklists[i]);
	/* Only where there is something: it is the last. */
	if (p->widened.n) {
		put32(b, p->widened.n);
		for (size_t i = 0; i < p->widened.n; i++)
			put_rule(b, p->widened.rules[i]);
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
	r = pack_body(p, out, e);
	if (r < 0)
		return r;
	h.body_len = htole64(out->len - start - sizeof(h));
	memcpy(out->data + start, &h, sizeof(h));
	return 0;
}
