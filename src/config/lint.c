/* SPDX-License-Identifier: Apache-2.0 */
#include "config/lint.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Each rule is compared with all others: a file of thousands was made by a program, which needs no advice. */
#define LINT_RULES_MAX 500

struct lint {
	const struct policy *p;
	unsigned layer;
	bool observe;
	struct strv *out;
	int r;
};

/* Rules of presets are ours to get right. */
static bool is_own(const struct policy_rule *r)
{
	return !str_starts(r->source, "preset ");
}

static void warn(struct lint *l, const struct policy_rule *r, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void warn(struct lint *l, const struct policy_rule *r, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (l->r == 0)
		l->r = strv_addf(l->out, "%s:%u:1: %s", r->source, r->line, text);
}

/* The next rule of this layer behind *at. */
static const struct policy_rule *next(const struct lint *l, size_t *at)
{
	while (*at < policy_rule_count(l->p)) {
		const struct policy_rule *r = policy_rule_at(l->p, (*at)++);

		if (r->layer == l->layer)
			return r;
	}
	return NULL;
}

static bool ports_meet(const struct policy_rule *a, const struct policy_rule *b)
{
	for (unsigned i = 0; i < a->n_ports; i++) {
		for (unsigned k = 0; k < b->n_ports; k++) {
			if (a->ports[i].lo <= b->ports[k].hi && b->ports[k].lo <= a->ports[i].hi)
				return true;
		}
	}
	return false;
}

static bool same_ports(const struct policy_rule *a, const struct policy_rule *b)
{
	return a->n_ports == b->n_ports && a->port_given == b->port_given &&
	       memcmp(a->ports, b->ports, a->n_ports * sizeof(a->ports[0])) == 0;
}

/* "*.github.com" is not github.com. */
static void lint_apex(struct lint *l, const struct policy_rule *r)
{
	const struct policy_rule *o;
	const char *apex = hostpat_base(&r->host);
	size_t at = 0;

	if (r->action == POLICY_DENY || r->by_addr || r->host.kind != HOSTPAT_BELOW)
		return;
	while ((o = next(l, &at))) {
		if (!o->by_addr && str_eq(o->host.text, apex))
			return;
	}
	warn(l, r, "%s does not cover %s itself; add it if it is wanted", r->host.text, apex);
}

/* Could an allow have let in what this denies? */
static bool is_met(const struct policy_rule *deny, const struct policy_rule *o)
{
	if (o->action == POLICY_DENY || !ports_meet(deny, o))
		return false;
	if (deny->by_addr || o->by_addr) /* names lead to addresses, so any name may be met */
		return deny->by_addr || deny->host.kind == HOSTPAT_ANY;
	return hostpat_covers(&o->host, &deny->host) || hostpat_covers(&deny->host, &o->host);
}

static void lint_deny(struct lint *l, const struct policy_rule *r)
{
	const struct policy_rule *o;
	bool met = false;
	size_t at = 0;

	if (r->action != POLICY_DENY || r->by_addr || r->host.kind == HOSTPAT_ANY)
		return;
	while ((o = next(l, &at))) {
		met = met || is_met(r, o);
		if (o->action == POLICY_DENY || o->by_addr || !str_eq(o->host.text, r->host.text) ||
		    !o->port_given || r->port_given || r->n_entries)
			continue;
		warn(l, r,
		     "the rule in line %u names its ports and so still allows %s there; name the port here too",
		     o->line, o->host.text);
	}
	if (!met && !l->observe)
		warn(l, r, "%s is denied already, as nothing allows it; the rule has no effect",
		     r->host.text);
}

static void lint_twice(struct lint *l, const struct policy_rule *r)
{
	const struct policy_rule *o;
	size_t at = 0;

	if (r->by_addr || r->n_entries)
		return;
	while ((o = next(l, &at)) && o != r) {
		if (o->by_addr || o->n_entries || !str_eq(o->host.text, r->host.text) || !same_ports(o, r))
			continue;
		if (o->action == r->action)
			warn(l, r, "%s is here a second time; it stands in line %u already", r->host.text,
			     o->line);
	}
}

/* An allow that loses to a deny of the same name and ports. */
static void lint_shadowed(struct lint *l, const struct policy_rule *r)
{
	const struct policy_rule *o;
	size_t at = 0;

	if (r->action == POLICY_DENY || r->by_addr || r->n_entries)
		return;
	while ((o = next(l, &at))) {
		if (o->by_addr || o->action != POLICY_DENY || o->n_entries ||
		    !str_eq(o->host.text, r->host.text))
			continue;
		if (same_ports(o, r) || (!r->port_given && ports_meet(o, r)))
			warn(l, r, "%s is never allowed: line %u denies the same, and deny wins",
			     r->host.text, o->line);
	}
}

/* Where the server speaks first, or nothing looks like TLS or HTTP. */
static void lint_port(struct lint *l, const struct policy_rule *r)
{
	static const struct {
		uint16_t port;
		const char *what;
	} known[] = {
		{ 21, "FTP" },		{ 22, "SSH" },	  { 25, "SMTP" },	  { 110, "POP3" },
		{ 143, "IMAP" },	{ 587, "SMTP" },  { 1433, "SQL Server" }, { 3306, "MySQL" },
		{ 5432, "PostgreSQL" }, { 5672, "AMQP" }, { 6379, "Redis" },	  { 27017, "MongoDB" }
	};

	if (r->action == POLICY_DENY || r->depth >= 0 || r->n_entries)
		return;
	for (unsigned i = 0; i < r->n_ports; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(known); k++) {
			if (r->ports[i].lo == known[k].port && r->ports[i].hi == known[k].port)
				warn(l, r,
				     "port %u is %s, which is neither TLS nor HTTP: it needs 'depth: tunnel'",
				     known[k].port, known[k].what);
		}
	}
}

/* Names that can only lead where nothing may go. */
static void lint_dead(struct lint *l, const struct policy_rule *r)
{
	static const char *const local[] = { ".localhost", ".local",	 ".internal",
					     ".lan",	   ".home.arpa", ".invalid" };
	const char *base = hostpat_base(&r->host);
	bool dead = str_eq(base, "localhost");

	if (r->by_addr || r->has_pin || r->action == POLICY_DENY)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		dead = dead || str_ends(base, local[i]);
	if (dead || !strchr(base, '.'))
		warn(l, r, "%s is a name of a private network: without 'to: ADDRESS' it can never be reached",
		     r->host.text);
}

static void lint_blocked(struct lint *l, const struct policy_rule *r)
{
	const char *base = hostpat_base(&r->host), *category;
	struct host h;

	if (r->by_addr || r->action == POLICY_DENY || host_canon(base, strlen(base), &h, NULL) < 0)
		return;
	category = policy_blocked_by(l->p, &h);
	if (category)
		warn(l, r, "%s is on the blocklist '%s', which wins", r->host.text, category);
}

/* The same request allowed and denied. */
static void lint_entries(struct lint *l, const struct policy_rule *r)
{
	for (size_t i = 0; i < r->n_entries; i++) {
		const struct policy_entry *a = &r->entries[i];

		for (size_t k = 0; k < i; k++) {
			const struct policy_entry *b = &r->entries[k];
			autobuf struct buf text = BUF_INIT;

			if (a->kind != b->kind || a->methods != b->methods || a->acts != b->acts ||
			    !str_eq(a->path, b->path) || !a->name != !b->name ||
			    (a->name && !str_eq(a->name, b->name)))
				continue;
			policy_entry_text(a, &text);
			warn(l, r, "'%s' stands in line %u and in line %u%s", buf_cstr(&text), b->line,
			     a->line, a->action == b->action ? "" : "; the stricter wins");
		}
	}
}

int lint_layer(const struct policy *p, unsigned layer, bool observe, struct strv *warnings, struct err *e)
{
	static void (*const checks[])(struct lint *, const struct policy_rule *) = {
		lint_apex, lint_deny, lint_twice,   lint_shadowed,
		lint_port, lint_dead, lint_blocked, lint_entries,
	};
	struct lint l = { .p = p, .layer = layer, .observe = observe, .out = warnings };
	const struct policy_rule *r;
	size_t at = 0, n = 0;

	while ((r = next(&l, &at)) && l.r == 0) {
		if (!is_own(r) || n++ >= LINT_RULES_MAX)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
			checks[i](&l, r);
	}
	return l.r < 0 ? err_set(e, l.r, "out of memory") : 0;
}
