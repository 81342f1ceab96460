/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundle: from bytes to a policy, field by field as bundle_pack.c writes them. Nothing in it is trusted: after running
 * past the end, or meeting an impossible value, the reader returns zeros and fails at the end; no allocation is sized by a
 * count that was read; rules are built by the same functions as those of files, which refuse what no file could say.
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

/* The next n bytes; NULL, and a sticky error, if there are fewer. */
static const char *bundle_take(struct reader *r, size_t n)
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

static uint64_t bundle_get_num(struct reader *r, size_t size)
{
	const char *p = bundle_take(r, size);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, size);
	return le64toh(v);
}

/* A number up to max; a larger one is an error. */
static unsigned bundle_get_max(struct reader *r, size_t size, uint64_t max)
{
	uint64_t v = bundle_get_num(r, size);

	if (v > max) {
		r->bad = true;
		return 0;
	}
	return (unsigned)v;
}

static void bundle_get_addr(struct reader *r, struct addr *ret)
{
	const char *p = bundle_take(r, sizeof(ret->b));

	if (p)
		memcpy(ret->b, p, sizeof(ret->b));
}

/* A text of at most max bytes without NUL. NULL is an error unless ret_null is given; then *ret_null reports
 * it. */
static struct slice bundle_get_slice(struct reader *r, size_t max, bool *ret_null)
{
	size_t n = bundle_get_max(r, 4, max + 1);
	const char *p;

	if (ret_null)
		*ret_null = n == 0;
	else if (n == 0)
		r->bad = true;
	if (n == 0)
		return SLICE_NONE;
	p = bundle_take(r, n - 1);
	if (!p || memchr(p, '\0', n - 1)) {
		r->bad = true;
		return SLICE_NONE;
	}
	return (struct slice){ p, n - 1 };
}

static void bundle_get_text(struct reader *r, char *ret, size_t size)
{
	struct slice s = bundle_get_slice(r, size - 1, NULL);

	memcpy(ret, s.len ? s.p : "", s.len);
	ret[s.len] = '\0';
}

/* A copy of a text; NULL if there was none. */
static char *bundle_get_dup(struct reader *r, size_t max)
{
	bool null = false;
	struct slice s = bundle_get_slice(r, max, &null);
	char *copy = null || r->bad ? NULL : strndup(s.len ? s.p : "", s.len);

	if (!null && !copy)
		r->bad = true;
	return copy;
}

static void bundle_get_limits(struct reader *r, struct policy_limits *l)
{
	l->bytes_up = bundle_get_num(r, 8);
	l->bandwidth = bundle_get_num(r, 8);
	l->requests_per_minute = (uint32_t)bundle_get_num(r, 4);
	l->connections = (uint32_t)bundle_get_num(r, 4);
}

static void bundle_get_entry(struct reader *r, struct policy_rule *rule, struct err *e)
{
	char path[PATHPAT_MAX + 1];
	struct policy_entry en = { .path = path };

	en.kind = bundle_get_max(r, 1, POLICY_ENTRY_KIND_COUNT - 1);
	en.action = bundle_get_max(r, 1, POLICY_ALLOW);
	en.methods = bundle_get_num(r, 8);
	en.acts = (unsigned)bundle_get_num(r, 4);
	bundle_get_text(r, path, sizeof(path));
	en.name = bundle_get_dup(r, PATHPAT_MAX);
	en.line = (uint32_t)bundle_get_num(r, 4);
	if (!r->bad && policy_rule_add_entry(rule, &en, e) < 0)
		r->bad = true;
	free(en.name);
}

static void bundle_get_host(struct reader *r, struct policy_rule *rule, struct err *e)
{
	struct slice s = bundle_get_slice(r, HOST_MAX + 2, NULL);

	if (!r->bad && hostpat_parse(s.len ? s.p : "", s.len, &rule->host, e) < 0)
		r->bad = true;
}

static void bundle_get_range(struct reader *r, struct addr_range *ret, struct err *e)
{
	char text[ADDR_RANGE_TEXT_LEN];
	struct addr_range again;

	bundle_get_addr(r, &ret->base);
	ret->bits = (uint8_t)bundle_get_max(r, 1, 128);
	if (r->bad)
		return;
	addr_range_format(ret, text);
	if (addr_range_parse(text, strlen(text), &again, e) < 0 || again.bits != ret->bits ||
	    !addr_eq(&again.base, &ret->base))
		r->bad = true;
}

/* The terms of a rule, and its source: pin, CA, proxy set, secret, capture, flags, file and line. */
static void bundle_get_terms(struct reader *r, struct policy_rule *rule)
{
	unsigned flags;

	rule->has_pin = bundle_get_max(r, 1, 1);
	bundle_get_addr(r, &rule->pin);
	rule->pin_port = (uint16_t)bundle_get_num(r, 2);
	rule->ca = bundle_get_dup(r, POLICY_CA_MAX);
	bundle_get_text(r, rule->proxy_set, sizeof(rule->proxy_set));
	bundle_get_text(r, rule->secret, sizeof(rule->secret));
	bundle_get_text(r, rule->capture, sizeof(rule->capture));
	flags = bundle_get_max(r, 1, 3);
	rule->credentials_only = flags & 1;
	rule->secret_ask = flags & 2;
	bundle_get_text(r, rule->source, sizeof(rule->source));
	rule->line = (uint32_t)bundle_get_num(r, 4);
}

/* Reads a rule's fields into an empty rule. */
static void bundle_get_rule_fields(struct reader *r, struct policy_rule *ret, struct err *e)
{
	unsigned n;

	ret->action = bundle_get_max(r, 1, POLICY_ALLOW);
	ret->by_addr = bundle_get_max(r, 1, 1);
	if (ret->by_addr)
		bundle_get_range(r, &ret->range, e);
	else
		bundle_get_host(r, ret, e);
	ret->n_ports = bundle_get_max(r, 1, POLICY_PORTS_MAX);
	for (unsigned i = 0; i < ret->n_ports; i++) {
		ret->ports[i].lo = (uint16_t)bundle_get_num(r, 2);
		ret->ports[i].hi = (uint16_t)bundle_get_num(r, 2);
	}
	ret->port_given = bundle_get_max(r, 1, 1);
	ret->depth = (int)bundle_get_max(r, 1, POLICY_INSPECT + 1) - 1;
	bundle_get_limits(r, &ret->limits);
	bundle_get_terms(r, ret);
	n = bundle_get_max(r, 4, POLICY_ENTRIES_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		bundle_get_entry(r, ret, e);
}

static void bundle_get_rule(struct reader *r, struct policy *p, unsigned layer, struct err *e)
{
	CLEANUP(policy_rule_release) struct policy_rule rule = POLICY_RULE_INIT;

	bundle_get_rule_fields(r, &rule, e);
	if (!r->bad && policy_add_rule(p, layer, &rule, e) < 0)
		r->bad = true;
}

/* The rules that a person granted on top: the last field, absent if there are none. */
static void bundle_get_widened(struct reader *r, struct policy *p, struct err *e)
{
	autofree struct policy_rule *rules = NULL;
	size_t n, done = 0;

	if (r->bad || !r->left)
		return;
	n = bundle_get_max(r, 4, POLICY_WIDENED_MAX);
	rules = calloc(n + 1, sizeof(*rules));
	r->bad = r->bad || n == 0 || !rules;
	while (!r->bad && done < n) {
		rules[done] = POLICY_RULE_INIT;
		bundle_get_rule_fields(r, &rules[done++], e);
	}
	if (!r->bad && policy_widen(p, rules, n, e) < 0)
		r->bad = true;
	for (size_t i = 0; i < done; i++)
		policy_rule_release(&rules[i]);
}

/* One layer with its rules. */
static void bundle_get_layer(struct reader *r, struct policy *p, struct err *e)
{
	struct policy_layer_opts o = { 0 };
	unsigned layer = 0, n;

	bundle_get_limits(r, &o.limits);
	bundle_get_text(r, o.proxy_set, sizeof(o.proxy_set));
	o.require_proxy_set = bundle_get_max(r, 1, 1);
	o.browser = bundle_get_max(r, 1, 1);
	n = bundle_get_max(r, 4, POLICY_RULES_MAX);
	if (!r->bad && policy_add_layer(p, &o, &layer, e) < 0)
		r->bad = true;
	for (unsigned i = 0; i < n && !r->bad; i++)
		bundle_get_rule(r, p, layer, e);
}

static void bundle_get_proxy(struct reader *r, struct policy_proxy *ret)
{
	struct slice s;

	ret->type = bundle_get_max(r, 1, POLICY_PROXY_SOCKS5);
	s = bundle_get_slice(r, HOST_MAX, NULL);
	ret->port = (uint16_t)bundle_get_num(r, 2);
	if (!r->bad &&
	    (host_canon(s.len ? s.p : "", s.len, &ret->host, NULL) < 0 || !slice_eq(s, ret->host.text)))
		r->bad = true;
}

static void bundle_get_proxies(struct reader *r, struct policy *p, struct err *e)
{
	autofree struct policy_proxy *proxies = NULL;
	struct policy_proxies set = { 0 };
	size_t n;

	bundle_get_text(r, set.name, sizeof(set.name));
	bundle_get_text(r, set.secret, sizeof(set.secret));
	set.rotate = bundle_get_max(r, 1, POLICY_ROTATE_REQUEST);
	set.sticky_seconds = (uint32_t)bundle_get_num(r, 4);
	set.check_seconds = (uint32_t)bundle_get_num(r, 4);
	bundle_get_text(r, set.check, sizeof(set.check));
	n = bundle_get_max(r, 4, POLICY_PROXIES_MAX);
	proxies = calloc(n + 1, sizeof(*proxies));
	if (!proxies)
		r->bad = true;
	for (size_t i = 0; i < n && !r->bad; i++)
		bundle_get_proxy(r, &proxies[i]);
	set.proxies = proxies;
	set.n_proxies = n;
	if (!r->bad && policy_add_proxies(p, &set, e) < 0)
		r->bad = true;
}

/* Unsorted hashes would hide names from the search. */
static bool hashes_are_sorted(const char *hashes, size_t n)
{
	uint64_t last = 0, v;

	for (size_t i = 0; i < n; i++, last = v) {
		memcpy(&v, hashes + i * sizeof(v), sizeof(v));
		if (i && v <= last)
			return false;
	}
	return true;
}

static void bundle_get_blocklist(struct reader *r, struct policy *p, struct err *e)
{
	struct blocklist b = BLOCKLIST_INIT;

	bundle_get_text(r, b.category, sizeof(b.category));
	b.n = bundle_get_max(r, 4, POLICY_BLOCKED_MAX);
	b.hashes = bundle_take(r, b.n * sizeof(uint64_t));
	if (!r->bad && (!hashes_are_sorted(b.hashes, b.n) || policy_add_blocklist(p, &b, e) < 0))
		r->bad = true;
}

/* Everything after the layers: resolvers, synthetic range, proxy sets, blocklists. */
static void bundle_get_rest(struct reader *r, struct policy *p, struct err *e)
{
	struct addr_range syn = { 0 };
	unsigned n = bundle_get_max(r, 1, POLICY_RESOLVERS_MAX);

	for (unsigned i = 0; i < n && !r->bad; i++) {
		struct policy_resolver res = { 0 };

		bundle_get_addr(r, &res.addr);
		res.port = (uint16_t)bundle_get_num(r, 2);
		r->bad = r->bad || policy_add_resolver(p, &res, e) < 0;
	}
	if (bundle_get_max(r, 1, 1)) {
		bundle_get_range(r, &syn, e);
		r->bad = r->bad || policy_set_synthetic(p, &syn, e) < 0;
	}
	n = bundle_get_max(r, 1, POLICY_PROXY_SETS_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		bundle_get_proxies(r, p, e);
	n = bundle_get_max(r, 1, POLICY_BLOCKLISTS_MAX);
	for (unsigned i = 0; i < n && !r->bad; i++)
		bundle_get_blocklist(r, p, e);
}

static int refuse_bundle(struct err *e, const char *why)
{
	return err_set(e, -EBADMSG, "the compiled policy cannot be used: %s", why);
}

/* Checks magic, version, length and digest before anything else is read. */
static int check_bundle_head(const void *data, size_t len, struct bundle_head *h, struct err *e)
{
	unsigned char digest[HASH_LEN];

	if (len < sizeof(*h) || len > BUNDLE_MAX)
		return refuse_bundle(e, "its size is impossible");
	memcpy(h, data, sizeof(*h));
	if (memcmp(h->magic, BUNDLE_MAGIC, sizeof(h->magic)) != 0 || le32toh(h->version) != BUNDLE_VERSION)
		return refuse_bundle(e, "it is of another version");
	if (le64toh(h->body_len) != len - sizeof(*h))
		return refuse_bundle(e, "its length is wrong");
	hash_blake_once((const char *)data + sizeof(*h), len - sizeof(*h), digest);
	return memcmp(digest, h->digest, sizeof(digest)) == 0 ? 0 : refuse_bundle(e, "its digest is wrong");
}

int policy_unpack(const void *data, size_t len, struct policy **ret, struct err *e)
{
	CLEANUP(policy_freep) struct policy *p = NULL;
	struct reader r = { .p = (const char *)data + sizeof(struct bundle_head) };
	struct bundle_head h;
	unsigned n;
	int x = check_bundle_head(data, len, &h, e);

	if (x < 0)
		return x;
	r.left = len - sizeof(h);
	x = policy_new(bundle_get_max(&r, 1, POLICY_ENFORCE), &p, e);
	if (x < 0)
		return x;
	n = bundle_get_max(&r, 1, POLICY_LAYERS_MAX);
	for (unsigned i = 0; i < n && !r.bad; i++)
		bundle_get_layer(&r, p, e);
	bundle_get_rest(&r, p, e);
	bundle_get_widened(&r, p, e);
	if (r.bad || r.left)
		return refuse_bundle(e, "its contents are invalid");
	x = seal_as(p, h.digest, e);
	if (x < 0)
		return x;
	p->generation = le32toh(h.generation);
	*ret = TAKE_PTR(p);
	return 0;
}
