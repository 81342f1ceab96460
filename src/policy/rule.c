/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one rule by itself: the parts that a rule may contain, from any source. policy_seal.c checks rules
 * against each other. Pure: no I/O, no clock.
 */
#include "policy/policy_int.h"
#include "policy/psl.h"

#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTERNAL_NAME "coffer.internal"
#define V4_PREFIX_MIN 8
#define V6_PREFIX_MIN 19

const char *policy_action_name(enum policy_action a)
{
	static const char *const names[] = { "deny", "ask", "allow" };

	return names[a];
}

const char *policy_depth_name(enum policy_depth d)
{
	static const char *const names[] = { "tunnel", "peek", "inspect" };

	return names[d];
}

enum policy_depth policy_rule_depth(const struct policy_rule *r)
{
	if (r->n_entries || r->secret[0] || r->capture[0] || r->credentials_only || r->ca)
		return POLICY_INSPECT;
	return r->depth < 0 ? POLICY_PEEK : (enum policy_depth)r->depth;
}

unsigned rule_port_spec(const struct policy_rule *r, uint16_t port)
{
	unsigned best = 0;

	for (unsigned i = 0; i < r->n_ports; i++) {
		unsigned size = (unsigned)(r->ports[i].hi - r->ports[i].lo) + 1;

		if (port < r->ports[i].lo || port > r->ports[i].hi)
			continue;
		if (!r->port_given || size >= 65535)
			size = 65536;
		if (best == 0 || size < best)
			best = size;
	}
	return best;
}

/* build.B2: no public suffix, not every name, and not the name that is answered inside. */
static int check_rule_host(const struct policy_rule *r, struct err *e)
{
	const char *base = hostpat_base(&r->host);

	if (str_eq(r->host.text, INTERNAL_NAME)) {
		err_set(e, -EINVAL,
			INTERNAL_NAME " is answered inside every sandbox and cannot be in a rule");
		return err_hint(e, -EINVAL, "remove the rule");
	}
	if (r->action == POLICY_DENY || r->host.kind == HOSTPAT_EXACT)
		return 0;
	if (r->host.kind == HOSTPAT_ANY) {
		err_set(e, -EINVAL, "\"*\" would %s every name there is", policy_action_name(r->action));
		return err_hint(e, -EINVAL, "name the domains; or 'mode: observe' to see what is used");
	}
	if (psl_is_suffix(base)) {
		err_set(e, -EINVAL, "\"%s\" would %s names that anybody can register: %s is a public suffix",
			r->host.text, policy_action_name(r->action), base);
		return err_hint(e, -EINVAL, "name a domain below it: \"*.example.%s\"", base);
	}
	return 0;
}

/* Classes of addresses that a rule with `to:` may name. */
static bool is_pinnable(enum addr_class c)
{
	return c != ADDR_METADATA && c != ADDR_LINK_LOCAL && c != ADDR_MULTICAST && c != ADDR_BROADCAST &&
	       c != ADDR_UNSPECIFIED && c != ADDR_THIS_NETWORK;
}

/* The hint is a rule that can be pasted. */
static int suggest_pin(const struct policy_rule *r, enum addr_class c, struct err *e)
{
	bool v4 = addr_is_v4(&r->range.base);
	unsigned port =
		r->port_given && r->n_ports == 1 && r->ports[0].lo == r->ports[0].hi ? r->ports[0].lo : 5432;
	char addr[ADDR_TEXT_LEN];

	if (!is_pinnable(c))
		return -EINVAL;
	addr_format(&r->range.base, addr);
	return err_hint(
		e, -EINVAL,
		"in a policy file, under 'allow:', a name that leads there: - {domain: db.example.com, port: %u, "
		"to: \"%s%s%s:%u\"}",
		port, v4 ? "" : "[", addr, v4 ? "" : "]", port);
}

/* build.B2: no wide range, and none that begins with a special address (policy.P5 refuses those within it). */
static int check_rule_range(const struct policy_rule *r, struct err *e)
{
	char text[ADDR_RANGE_TEXT_LEN];
	enum addr_class c = addr_special(&r->range.base);
	unsigned min = addr_is_v4(&r->range.base) ? V4_PREFIX_MIN : V6_PREFIX_MIN;

	if (r->action == POLICY_DENY)
		return 0;
	addr_range_format(&r->range, text);
	if (addr_range_len(&r->range) < min)
		return err_set(e, -EINVAL, "%s is too wide to %s; at least /%u", text,
			       policy_action_name(r->action), min);
	if (c != ADDR_GLOBAL) {
		err_set(e, -EINVAL, "%s begins with %s, which no range can grant", text,
			addr_special_name(c));
		return suggest_pin(r, c, e);
	}
	return r->has_pin ? err_set(e, -EINVAL, "'to:' belongs to a domain, not to an address") : 0;
}

static int check_rule_pin(const struct policy_rule *r, struct err *e)
{
	enum addr_class c = addr_special(&r->pin);

	if (!r->has_pin)
		return 0;
	if (!is_pinnable(c))
		return err_set(e, -EPERM, "'to:' cannot lead to %s", addr_special_name(c));
	return 0;
}

/* A deny has no terms: they would have no effect. */
static int check_deny_rule(const struct policy_rule *r, struct err *e)
{
	static const struct policy_limits none;

	if (memcmp(&r->limits, &none, sizeof(none)) != 0 || r->has_pin || r->ca || r->proxy_set[0] ||
	    r->secret[0] || r->capture[0] || r->credentials_only || r->depth >= 0)
		return err_set(e, -EINVAL,
			       "a deny rule has a domain or address, ports and requests, and nothing more");
	return 0;
}

static int check_rule_ports(const struct policy_rule *r, struct err *e)
{
	if (r->n_ports == 0 || r->n_ports > POLICY_PORTS_MAX)
		return err_set(e, -EINVAL, "a rule has 1 to %d ports or ranges of ports", POLICY_PORTS_MAX);
	for (unsigned i = 0; i < r->n_ports; i++) {
		if (r->ports[i].lo == 0 || r->ports[i].lo > r->ports[i].hi)
			return err_set(e, -EINVAL, "ports are 1 to 65535, the lower first");
	}
	return 0;
}

static bool is_field_pattern(const char *s)
{
	return *s && strlen(s) <= POLICY_FIELD_MAX &&
	       strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*") == strlen(s);
}

static int check_graphql_entry(const struct policy_entry *en, struct err *e)
{
	if (!en->name || !is_field_pattern(en->name) || strstr(en->name, "**"))
		return err_set(e, -EINVAL, "a GraphQL field is letters, digits and _, where * matches any");
	if (en->acts == 0 || en->acts & ~POLICY_GRAPHQL_ALL)
		return err_set(e, -EINVAL, "a GraphQL rule is about query, mutation or subscription");
	return pathpat_check(en->path, strlen(en->path), e);
}

/* A fetch has no ref; a push has one. */
static int check_git_entry(const struct policy_entry *en, struct err *e)
{
	bool fetch = en->acts & POLICY_GIT_FETCH;
	int r = pathpat_check(en->path, strlen(en->path), e);

	if (r < 0)
		return r;
	if (en->acts == 0 || en->acts & ~(POLICY_GIT_FETCH | POLICY_GIT_PUSH_ALL) ||
	    (fetch && en->acts != POLICY_GIT_FETCH) || fetch != !en->name)
		return err_set(e, -EINVAL, "a git rule is a fetch, or a push to refs");
	if (fetch)
		return 0;
	if (!str_starts(en->name, "refs/") && !str_eq(en->name, "**"))
		return err_set(e, -EINVAL, "a ref is written whole: refs/heads/main, refs/heads/bot/**");
	return pathpat_check_stars(en->name, strlen(en->name), e);
}

static int check_rule_entry(const struct policy_rule *r, const struct policy_entry *en, struct err *e)
{
	if (r->action == POLICY_ASK || (r->action == POLICY_DENY && en->action != POLICY_DENY))
		return err_set(e, -EINVAL, "only a rule under 'allow' can allow or ask for single requests");
	if (en->kind == POLICY_GRAPHQL)
		return check_graphql_entry(en, e);
	if (en->kind == POLICY_GIT)
		return check_git_entry(en, e);
	if (!method_is_valid(en->methods))
		return err_set(e, -EINVAL, "a request needs a method");
	return pathpat_check(en->path, strlen(en->path), e);
}

int rule_check(const struct policy_rule *r, struct err *e)
{
	int ret = r->by_addr ? check_rule_range(r, e) : check_rule_host(r, e);

	ret = ret < 0 ? ret : check_rule_ports(r, e);
	ret = ret < 0 ? ret : check_rule_pin(r, e);
	if (ret == 0 && r->secret_ask && !r->secret[0])
		ret = err_set(e, -EINVAL, "the rule names no secret that could need approval");
	if (ret == 0 && r->action == POLICY_DENY)
		ret = check_deny_rule(r, e);
	if (ret == 0 && r->depth >= 0 && r->depth < (int)policy_rule_depth(r)) {
		err_set(e, -EINVAL, "at 'depth: %s' requests cannot be inspected, and this rule needs that",
			policy_depth_name((enum policy_depth)r->depth));
		ret = err_hint(e, -EINVAL, "remove 'depth'");
	}
	for (size_t i = 0; ret == 0 && i < r->n_entries; i++)
		ret = check_rule_entry(r, &r->entries[i], e);
	return ret;
}

static int dup_text(const char *s, char **ret)
{
	*ret = s ? strdup(s) : NULL;
	return s && !*ret ? -ENOMEM : 0;
}

int policy_rule_add_entry(struct policy_rule *r, const struct policy_entry *en, struct err *e)
{
	struct policy_entry *to;
	int ret;

	if (r->n_entries >= POLICY_ENTRIES_MAX)
		return err_set(e, -E2BIG, "a rule names at most %d requests", POLICY_ENTRIES_MAX);
	if (VEC_MORE(r->entries, r->n_entries, POLICY_ENTRIES_MAX) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	to = &r->entries[r->n_entries++];
	*to = *en;
	to->path = to->name = NULL;
	ret = dup_text(en->path, &to->path);
	ret = ret < 0 ? ret : dup_text(en->name, &to->name);
	return ret < 0 ? err_set(e, ret, "out of memory") : 0;
}
