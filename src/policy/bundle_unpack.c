/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: from bytes to a policy, field by field as bundle_pack.c writes them. Nothing is believed: a reader that has run
 * past the end, or met a value that cannot be, gives zeros from then on and fails at the end; memory is never taken by a
 * count that was read; rules are made by the same functions as those of files, which refuse what no file could say.
 */
#include "policy/bundle.h"

#include "base/str.h"
#include "crypto/hash.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const char *p;
	size_t left;
	bool bad;
};

static const char *take(struct reader *r, size_t n)
{
	const char *p = r->p;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->left -= n;
	return p;
}

static uint64_t get_num(struct reader *r, size_t size)
{
	const char *p = take(r, size);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, size);
	return le64toh(v);
}

/* A number up to max. */
static unsigned get_max(struct reader *r, size_t size, uint64_t max)
{
	uint64_t v = get_num(r, size);

	if (v > max) {
		r->bad = true;
		return 0;
	}
	return (unsigned)v;
}

static void get_addr(struct reader *r, struct addr *ret)
{
	const char *p = take(r, sizeof(ret->b));

	if (p)
		memcpy(ret->b, p, sizeof(ret->b));
}

/* A text of at most max bytes without NUL; *ret_null (may be NULL) says that there was none, else that is bad. */
static struct slice get_slice(struct reader *r, size_t max, bool *ret_null)
{
	size_t n = get_max(r, 4, max + 1);
	const char *p;

	if (ret_null)
		*ret_null = n == 0;
	else if (n == 0)
		r->bad = true;
	if (n == 0)
		return SLICE_NONE;
	p = take(r, n - 1);
	if (!p || memchr(p, '\0', n - 1)) {
		r->bad = true;
		return SLICE_NONE;
	}
	return (struct slice){ p, n - 1 };
}

static void get_text(struct reader *r, char *ret, size_t size)
{
	struct slice s = get_slice(r, size - 1, NULL);

	memcpy(ret, s.len ? s.p : "", s.len);
	ret[s.len] = '\0';
}

static char *get_dup(struct reader *r, size_t max)
{
	bool null = false;
	struct slice s = get_slice(r, max, &null);
	char *copy = null || r->bad ? NULL : strndup(s.len ? s.p : "", s.len);

	if (!null && !copy)
		r->bad = true;
	return copy;
}

static void get_limits(struct reader *r, struct policy_limits *l)
{
	l->bytes_up = get_num(r, 8);
	l->bandwidth = get_num(r, 8);
	l->requests_per_minute = (uint32_t)get_num(r, 4);
	l->connections = (uint32_t)get_num(r, 4);
}

static void get_entry(struct reader *r, struct policy_rule *rule, struct err *e)
{
	char path[PATHPAT_MAX + 1];
	struct policy_entry en = { .path = path };

	en.kind = get_max(r, 1, POLICY_ENTRY_KIND_COUNT - 1);
	en.action = get_max(r, 1, POLICY_ALLOW);
	en.methods = get_num(r, 8);
	en.acts = (unsigned)get_num(r, 4);
	get_text(r, path, sizeof(path));
	en.name = get_dup(r, PATHPAT_MAX);
	en.line = (uint32_t)get_num(r, 4);
	if (!r->bad && policy_rule_add_entry(rule, &en, e) < 0)
		r->bad = true;
	free(en.name);
}

static void get_host(struct reader *r, struct policy_rule *rule, struct err *e)
{
	struct slice s = get_slice(r, HOST_MAX + 2, NULL);

	if (!r->bad && hostpat_parse(s.len ? s.p : "", s.len, &rule->host, e) < 0)
		r->bad = true;
}

static void get_range(struct reader *r, struct addr_range *ret, struct err *e)
{
	char text[ADDR_RANGE_TEXT_LEN];
	struct addr_range again;

	get_addr(r, &ret->base);
	ret->bits = (uint8_t)get_max(r, 1, 128);
	if (r->bad)
		return;
	addr_range_format(ret, text);
	if (addr_range_parse(text, strlen(text), &again, e) < 0 || again.bits != ret->bits ||
	    !addr_eq(&again.base, &ret->base))
		r->bad = true;
}

static void get_way(struct reader *r, struct policy_rule *rule)
{
	unsigned flags;

	rule->has_pin = get_max(r, 1, 1);
	get_addr(r, &rule->pin);
	rule->pin_port = (uint16_t)get_num(r, 2);
	rule->ca = get_dup(r, POLICY_CA_MAX);
	get_text(r, rule->pool, sizeof(rule->pool));
	get_text(r, rule->secret, sizeof(rule->secret));
	get_text(r, rule->capture, sizeof(rule->capture));
	flags = get_max(r, 1, 3);
	rule->credentials_only = flags & 1;
	rule->secret_ask = flags & 2;
	get_text(r, rule->source, sizeof(rule->source));
	rule->line = (uint32_t)get_num(r, 4);
}

/* Into a rule that is empty. */
static void get_draft(struct reader *r, struct policy_rule *ret, struct err *e)
{
	unsigned n;

	ret->action = get_max(r, 1, POLICY_ALLOW);
	ret->by_addr = get_max(r, 1, 1);
	if (ret->by_addr)
		get_range(r, &ret->range, e);
	else
		get_host(r, ret, e);
	ret->n_ports = get_max(r, 1, POLICY_PORTS_MAX);
	for (unsigned i = 0; i < ret->n_ports; i++) {
		ret->ports[i].lo = (uint16_t)get_num(r, 2);
		ret->ports[i].hi = (uint16_t)get_num(r, 2);
	}
	ret->port_given = get_max(r, 1, 1);
	ret->depth = (int)get_max(r, 1, POLICY_INSPECT + 1) - 1;
	get_limits(r, &ret->limits);
	get_way(r, ret);
	n = get_max(r, 4, POLICY_ENTRIES_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		get_entry(r, ret, e);
}

static void get_rule(struct reader *r, struct policy *p, unsigned layer, struct err *e)
{
	CLEANUP(policy_rule_release) struct policy_rule rule = POLICY_RULE_INIT;

	get_draft(r, &rule, e);
	if (!r->bad && policy_add_rule(p, layer, &rule, e) < 0)
		r->bad = true;
}

/* What a person granted on top: the last, and only where there is something. */
static void get_widened(struct reader *r, struct policy *p, struct err *e)
{
	autofree struct policy_rule *rules = NULL;
	size_t n, done = 0;

	if (r->bad || !r->left)
		return;
	n = get_max(r, 4, POLICY_WIDENED_MAX);
	rules = calloc(n + 1, sizeof(*rules));
	r->bad = r->bad || n == 0 || !rules;
	while (!r->bad && done < n) {
		rules[done] = POLICY_RULE_INIT;
		get_draft(r, &rules[done++], e);
	}
	if (!r->bad && policy_widen(p, rules, n, e) < 0)
		r->bad = true;
	for (size_t i = 0; i < done; i++)
		policy_rule_release(&rules[i]);
}

static void get_layer(struct reader *r, struct policy *p, struct err *e)
{
	struct policy_layer_opts o = { 0 };
	unsigned layer = 0, n;

	get_limits(r, &o.limits);
	get_text(r, o.pool, sizeof(o.pool));
	o.require_pool = get_max(r, 1, 1);
	o.browser = get_max(r, 1, 1);
	n = get_max(r, 4, POLICY_RULES_MAX);
	if (!r->bad && policy_add_layer(p, &o, &layer, e) < 0)
		r->bad = true;
	for (unsigned i = 0; i < n && !r->bad; i++)
		get_rule(r, p, layer, e);
}

static void get_proxy(struct reader *r, struct policy_proxy *ret)
{
	struct slice s;

	ret->type = get_max(r, 1, POLICY_PROXY_SOCKS5);
	s = get_slice(r, HOST_MAX, NULL);
	ret->port = (uint16_t)get_num(r, 2);
	if (!r->bad &&
	    (host_canon(s.len ? s.p : "", s.len, &ret->host, NULL) < 0 || !slice_eq(s, ret->host.text)))
		r->bad = true;
}

static void get_pool(struct reader *r, struct policy *p, struct err *e)
{
	autofree struct policy_proxy *proxies = NULL;
	struct policy_proxies pool = { 0 };
	size_t n;

	get_text(r, pool.name, sizeof(pool.name));
	get_text(r, pool.secret, sizeof(pool.secret));
	pool.rotate = get_max(r, 1, POLICY_ROTATE_REQUEST);
	pool.sticky_seconds = (uint32_t)get_num(r, 4);
	pool.check_seconds = (uint32_t)get_num(r, 4);
	get_text(r, pool.check, sizeof(pool.check));
	n = get_max(r, 4, POLICY_PROXIES_MAX);
	proxies = calloc(n + 1, sizeof(*proxies));
	if (!proxies)
		r->bad = true;
	for (size_t i = 0; i < n && !r->bad; i++)
		get_proxy(r, &proxies[i]);
	pool.proxies = proxies;
	pool.n_proxies = n;
	if (!r->bad && policy_add_proxies(p, &pool, e) < 0)
		r->bad = true;
}

/* Out of order, a name would not be found that is there. */
static bool is_sorted(const char *hashes, size_t n)
{
	uint64_t last = 0, v;

	for (size_t i = 0; i < n; i++, last = v) {
		memcpy(&v, hashes + i * sizeof(v), sizeof(v));
		if (i && v <= last)
			return false;
	}
	return true;
}

static void get_blocklist(struct reader *r, struct policy *p, struct err *e)
{
	struct blocklist b = BLOCKLIST_INIT;

	get_text(r, b.category, sizeof(b.category));
	b.n = get_max(r, 4, POLICY_BLOCKED_MAX);
	b.hashes = take(r, b.n * sizeof(uint64_t));
	if (!r->bad && (!is_sorted(b.hashes, b.n) || policy_add_blocklist(p, &b, e) < 0))
		r->bad = true;
}

static void get_rest(struct reader *r, struct policy *p, struct err *e)
{
	struct addr_range syn = { 0 };
	unsigned n = get_max(r, 1, POLICY_RESOLVERS_MAX);

	for (unsigned i = 0; i < n && !r->bad; i++) {
		struct policy_resolver res = { 0 };

		get_addr(r, &res.addr);
		res.port = (uint16_t)get_num(r, 2);
		r->bad = r->bad || policy_add_resolver(p, &res, e) < 0;
	}
	if (get_max(r, 1, 1)) {
		get_range(r, &syn, e);
		r->bad = r->bad || policy_set_synthetic(p, &syn, e) < 0;
	}
	n = get_max(r, 1, POLICY_POOLS_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		get_pool(r, p, e);
	n = get_max(r, 1, POLICY_BLOCKLISTS_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		get_blocklist(r, p, e);
}

static int bad_bundle(struct err *e, const char *why)
{
	return err_set(e, -EBADMSG, "the compiled policy cannot be used: %s", why);
}

static int read_head(const void *data, size_t len, struct bundle_head *h, struct err *e)
{
	unsigned char digest[HASH_LEN];

	if (len < sizeof(*h) || len > BUNDLE_MAX)
		return bad_bundle(e, "it has no such size");
	memcpy(h, data, sizeof(*h));
	if (memcmp(h->magic, BUNDLE_MAGIC, sizeof(h->magic)) != 0 || le32toh(h->version) != BUNDLE_VERSION)
		return bad_bundle(e, "it is of another version");
	if (le64toh(h->body_len) != len - sizeof(*h))
		return bad_bundle(e, "it is cut short, or too long");
	hash_blake_once((const char *)data + sizeof(*h), len - sizeof(*h), digest);
	return memcmp(digest, h->digest, sizeof(digest)) == 0 ? 0 : bad_bundle(e, "its digest is wrong");
}

int policy_unpack(const void *data, size_t len, struct policy **ret, struct err *e)
{
	CLEANUP(policy_freep) struct policy *p = NULL;
	struct reader r = { .p = (const char *)data + sizeof(struct bundle_head) };
	struct bundle_head h;
	unsigned n;
	int x = read_head(data, len, &h, e);

	if (x < 0)
		return x;
	r.left = len - sizeof(h);
	x = policy_new(get_max(&r, 1, POLICY_ENFORCE), &p, e);
	if (x < 0)
		return x;
	n = get_max(&r, 1, POLICY_LAYERS_MAX);
	for (unsigned i = 0; i < n && !r.bad; i++)
		get_layer(&r, p, e);
	get_rest(&r, p, e);
	get_widened(&r, p, e);
	if (r.bad || r.left)
		return bad_bundle(e, "it says what no policy can say");
	x = seal_as(p, h.digest, e);
	if (x < 0)
		return x;
	p->generation = le32toh(h.generation);
	*ret = TAKE_PTR(p);
	return 0;
}
