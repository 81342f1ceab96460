/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one rule of allow:, ask: or deny:, as a mapping or as a short text ("example.com:8443"). An unknown
 * key is refused, and a rule has names or addresses, never both.
 */
#include "config/read.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "config/capture_read.h"
#include "config/unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 443
#define SSH_PORT 22

struct draft {
	struct policy_rule rule;
	const struct ynode *domain, *addresses;
	struct config_secret secret;
	struct config_capture capture;
	const struct ynode *capture_at;
};

static void rule_draft_release(struct draft *d)
{
	policy_rule_release(&d->rule);
	capture_drop(&d->capture);
}

static int rule_key_domain(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	const char *text;
	int r = read_text(s, n, "a domain such as example.com or \"*.example.com\"", &text);

	if (r < 0)
		return r;
	r = hostpat_parse(text, strlen(text), &d->rule.host, s->e);
	if (r < 0)
		unicode_hint(text, s->e);
	d->domain = n;
	return read_wrap(s, n, r);
}

static int rule_key_address(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;

	if (d->addresses)
		return read_fail(s, n, "'address' and 'addresses' are the same; use one");
	d->addresses = n;
	return 0;
}

static int add_port_range(struct source *s, const struct ynode *n, struct policy_rule *r, uint16_t lo,
			  uint16_t hi)
{
	if (r->n_ports >= POLICY_PORTS_MAX)
		return read_fail(s, n, "a rule has at most %d ports or ranges", POLICY_PORTS_MAX);
	if (lo > hi)
		return read_fail(s, n, "the lower port of a range comes first: %u-%u", hi, lo);
	r->ports[r->n_ports++] = (struct policy_ports){ lo, hi };
	r->port_given = true;
	return 0;
}

/* One port, a range, or "any". */
static int read_port_text(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	const char *text, *dash;
	uint16_t lo, hi;
	int r = read_text(s, n, "a port", &text);

	if (r < 0)
		return r;
	if (str_eq(text, "any"))
		return add_port_range(s, n, &d->rule, 1, 65535);
	dash = strchr(text, '-');
	r = host_parse_port(text, dash ? (size_t)(dash - text) : strlen(text), &lo, s->e);
	hi = lo;
	if (r == 0 && dash)
		r = host_parse_port(dash + 1, strlen(dash + 1), &hi, s->e);
	if (r < 0)
		return read_fail(s, n, "expected a port: 443, 8000-8100, any, or a list of those");
	return add_port_range(s, n, &d->rule, lo, hi);
}

static int rule_key_port(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;

	if (d->rule.n_ports)
		return read_fail(s, n, "'port' and 'ports' are the same; use one");
	if (n->kind == YNODE_SEQ && n->n == 0)
		return read_fail(s, n, "the list of ports is empty");
	return n->kind == YNODE_SEQ ? read_each(s, n, read_port_text, d) : read_port_text(s, n, d);
}

static int rule_key_depth(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = { "tunnel", "peek", "inspect" };
	struct draft *d = to;
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	if (r == 0)
		d->rule.depth = (int)v;
	return r;
}

static int rule_key_http(struct source *s, const struct ynode *n, void *to)
{
	return read_http(s, n, &((struct draft *)to)->rule);
}

static int rule_key_graphql(struct source *s, const struct ynode *n, void *to)
{
	return read_graphql(s, n, &((struct draft *)to)->rule);
}

static int rule_key_git(struct source *s, const struct ynode *n, void *to)
{
	return read_git(s, n, &((struct draft *)to)->rule);
}

static int rule_key_limits(struct source *s, const struct ynode *n, void *to)
{
	return read_limits(s, n, &((struct draft *)to)->rule.limits);
}

/* `to:`, the address that is dialled instead of resolving. A special one is granted with a warning. */
static int rule_key_to(struct source *s, const struct ynode *n, void *to)
{
	struct policy_rule *r = &((struct draft *)to)->rule;
	const char *text;
	struct host h;
	int x = read_text(s, n, "an address, with a port or without: 10.1.2.3:8443", &text);

	if (x < 0)
		return x;
	if (host_canon(text, strlen(text), &h, NULL) == 0)
		r->pin_port = 0;
	else if (host_port_parse(text, strlen(text), 0, &h, &r->pin_port, NULL) < 0)
		return read_fail(
			s, n, "expected an address, with a port or without: 10.1.2.3:8443, [fd00::1]:8443");
	if (h.kind != HOST_ADDR)
		return read_fail(s, n, "'to:' is an address (10.1.2.3:8443), not a name: a name may change");
	r->has_pin = true;
	r->pin = h.addr;
	if (addr_special(&h.addr) == ADDR_GLOBAL)
		return 0;
	return read_warn(s, n, "this grants %s, which is %s", h.text,
			 addr_special_name(addr_special(&h.addr)));
}

static int rule_key_ca(struct source *s, const struct ynode *n, void *to)
{
	struct policy_rule *r = &((struct draft *)to)->rule;
	autobuf struct buf pem = BUF_INIT;
	int x = read_named_file(s, n, POLICY_CA_MAX, &pem);

	if (x < 0)
		return x;
	if (!strstr(buf_cstr(&pem), "-----BEGIN CERTIFICATE-----") || strlen(buf_cstr(&pem)) != pem.len)
		return read_fail(s, n, "the file contains no certificate (PEM)");
	r->ca = buf_take(&pem);
	return r->ca ? read_path(s, n, &r->ca_file) : err_set(s->e, -ENOMEM, "out of memory");
}

static int rule_key_pool(struct source *s, const struct ynode *n, void *to)
{
	struct policy_rule *r = &((struct draft *)to)->rule;

	return read_name(s, n, r->proxy_set, sizeof(r->proxy_set));
}

static int rule_secret_name(struct source *s, const struct ynode *n, void *to)
{
	struct policy_rule *r = &((struct draft *)to)->rule;

	return read_name(s, n, r->secret, sizeof(r->secret));
}

static bool is_variable_text(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return n && !text[n] && (*text < '0' || *text > '9');
}

static int rule_secret_env(struct source *s, const struct ynode *n, void *to)
{
	struct config_secret *c = &((struct draft *)to)->secret;
	const char *text;
	int r = read_text(s, n, "the name of a variable", &text);

	if (r < 0)
		return r;
	if (!is_variable_text(text) || strlen(text) >= sizeof(c->env))
		return read_fail(s, n, "expected the name of a variable, such as GITHUB_TOKEN");
	snprintf(c->env, sizeof(c->env), "%s", text);
	return 0;
}

static int rule_secret_as(struct source *s, const struct ynode *n, void *to)
{
	struct config_secret *c = &((struct draft *)to)->secret;
	const char *text;
	int r = read_text(s, n, "bearer, basic, header:NAME, query:NAME, path, body, cookie or ssh", &text);

	if (r < 0)
		return r;
	if (strlen(text) >= sizeof(c->as))
		return read_fail(
			s, n, "expected bearer, basic, header:NAME, query:NAME, path, body, cookie or ssh");
	snprintf(c->as, sizeof(c->as), "%s", text);
	return 0;
}

static int rule_secret_ask(struct source *s, const struct ynode *n, void *to)
{
	return read_bool(s, n, &((struct draft *)to)->rule.secret_ask);
}

/* `secret:`, a name or a mapping. */
static int rule_key_secret(struct source *s, const struct ynode *n, void *to)
{
	static const struct key keys[] = { { "name", rule_secret_name },
					   { "env", rule_secret_env },
					   { "as", rule_secret_as },
					   { "ask", rule_secret_ask } };
	struct draft *d = to;
	int x;

	if (d->rule.action != POLICY_ALLOW)
		return read_fail(s, n, "only a rule that allows can have a secret");
	if (n->kind == YNODE_TEXT)
		return rule_secret_name(s, n, d);
	x = read_map(s, n, "a secret", keys, ARRAY_SIZE(keys), d);
	if (x == 0 && !d->rule.secret[0])
		return read_fail(s, n, "a secret needs its 'name'");
	return x;
}

static int rule_key_capture(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;

	if (d->rule.action != POLICY_ALLOW)
		return read_fail(s, n, "only a rule that allows can have 'capture'");
	d->capture_at = n;
	return capture_parse(s, n, &d->capture);
}

static int rule_key_credentials(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = { "any", "only" };
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	if (r == 0)
		((struct draft *)to)->rule.credentials_only = v == 1;
	return r;
}

static const struct key rule_keys[] = {
	{ "domain", rule_key_domain },
	{ "address", rule_key_address },
	{ "addresses", rule_key_address },
	{ "port", rule_key_port },
	{ "ports", rule_key_port },
	{ "depth", rule_key_depth },
	{ "http", rule_key_http },
	{ "graphql", rule_key_graphql },
	{ "git", rule_key_git },
	{ "limits", rule_key_limits },
	{ "to", rule_key_to },
	{ "ca", rule_key_ca },
	{ "pool", rule_key_pool },
	{ "secret", rule_key_secret },
	{ "credentials", rule_key_credentials },
	{ "capture", rule_key_capture },
};

/* Default ports: 443 in allow and ask, every port in deny. */
static void set_default_ports(struct policy_rule *r)
{
	if (r->n_ports)
		return;
	r->n_ports = 1;
	r->port_given = false;
	r->ports[0] = r->action == POLICY_DENY ? (struct policy_ports){ 1, 65535 }
					       : (struct policy_ports){ DEFAULT_PORT, DEFAULT_PORT };
}

/* Copies a rule that becomes several: one for each range of addresses. */
static int copy_rule_draft(struct source *s, const struct policy_rule *from, struct policy_rule *ret)
{
	int r = 0;

	*ret = *from;
	ret->entries = NULL;
	ret->n_entries = 0;
	ret->ca = from->ca ? strdup(from->ca) : NULL;
	ret->ca_file = from->ca_file ? strdup(from->ca_file) : NULL;
	if ((from->ca && !ret->ca) || (from->ca_file && !ret->ca_file))
		r = err_set(s->e, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < from->n_entries; i++)
		r = policy_rule_add_entry(ret, &from->entries[i], s->e);
	return r;
}

/* Each range becomes a rule of its own, identical otherwise. */
static int add_range_rule(struct source *s, const struct ynode *n, void *to)
{
	CLEANUP(policy_rule_release) struct policy_rule rule = POLICY_RULE_INIT;
	struct draft *d = to;
	const char *text;
	int r = read_text(s, n, "an address or range: 192.0.2.7, 198.51.100.0/24", &text);

	r = r < 0 ? r : copy_rule_draft(s, &d->rule, &rule);
	if (r < 0)
		return r;
	rule.by_addr = true;
	r = addr_range_parse(text, strlen(text), &rule.range, s->e);
	r = r < 0 ? r : policy_add_rule(s->policy, s->layer, &rule, s->e);
	return read_wrap(s, n, r);
}

/* Records the rule's secret in the policy's list. */
static int keep_rule_secret(struct source *s, const struct draft *d)
{
	const struct policy_rule *r = &d->rule;
	struct config_policy *c = s->out;
	struct config_secret *v;

	if (!r->secret[0])
		return 0;
	if (VEC_MORE(c->secrets, c->n_secrets, VEC_NO_MAX) < 0)
		return err_set(s->e, -ENOMEM, "out of memory");
	v = &c->secrets[c->n_secrets++];
	*v = d->secret;
	memcpy(v->name, r->secret, sizeof(v->name));
	if (!d->addresses && !strchr(r->host.text, '*'))
		snprintf(v->host, sizeof(v->host), "%.*s", HOST_MAX, r->host.text);
	if (r->n_ports == 1 && r->ports[0].lo == r->ports[0].hi)
		v->port = r->ports[0].lo;
	return 0;
}

/* An SSH key is not put into requests: it signs beside the connection, which is an ordinary tunnel. */
static bool is_ssh_secret(const struct draft *d)
{
	return d->rule.secret[0] && strncmp(d->secret.as, "ssh", 3) == 0;
}

/* Port 22 has neither TLS nor HTTP: there is nothing to inspect. */
static void set_default_depth(struct policy_rule *r)
{
	if (r->action != POLICY_DENY && r->depth < 0 && r->n_ports == 1 && r->ports[0].lo == SSH_PORT &&
	    r->ports[0].hi == SSH_PORT && policy_rule_depth(r) == POLICY_PEEK)
		r->depth = POLICY_TUNNEL;
}

/* Such a connection cannot be inspected: approval is asked for when the key signs (vault/common/binding.h has
 * the syntax). */
static int set_ssh_ask(struct draft *d)
{
	char *as = d->secret.as, old[sizeof(d->secret.as)];
	const char *rest;

	snprintf(old, sizeof(old), "%s", as);
	rest = old[3] == ':' ? old + 4 : "";
	d->rule.secret_ask = false;
	if (old[3] && old[3] != ':')
		return -EINVAL;
	if (strncmp(rest, "ask", 3) == 0)
		return 0;
	return snprintf(as, sizeof(d->secret.as), "ssh:ask%s%s", *rest ? "," : "", rest) <
			       (int)sizeof(d->secret.as)
		       ? 0
		       : -EINVAL;
}

/* Completes the rule by its defaults, and adds it to the policy. */
static int add_rule_draft(struct source *s, const struct ynode *n, struct draft *d)
{
	int r;

	d->secret.ask = d->rule.secret_ask;
	if (is_ssh_secret(d) && d->rule.secret_ask && set_ssh_ask(d) < 0)
		return read_fail(s, n, "only ssh, ssh:sshsig and ssh:unbound can be combined with 'ask'");
	if (is_ssh_secret(d) && !d->rule.n_ports) {
		d->rule.n_ports = 1;
		d->rule.ports[0] = (struct policy_ports){ SSH_PORT, SSH_PORT };
	}
	set_default_ports(&d->rule);
	snprintf(d->rule.source, sizeof(d->rule.source), "%s", s->name);
	d->rule.line = n ? n->line : 0;
	r = keep_rule_secret(s, d);
	r = r < 0 ? r : capture_keep(s, d->capture_at, &d->rule, &d->capture);
	if (r < 0)
		return r;
	if (is_ssh_secret(d))
		d->rule.secret[0] = '\0';
	set_default_depth(&d->rule);
	if (d->addresses)
		return read_each(s, d->addresses, add_range_rule, d);
	r = policy_add_rule(s->policy, s->layer, &d->rule, s->e);
	return read_wrap(s, d->domain ? d->domain : n, r);
}

/* A pattern of names, an address (IPv6 in brackets or not), or a range. */
static int parse_rule_host(struct source *s, const char *text, size_t len, struct policy_rule *r)
{
	struct host h;
	bool addr = host_canon(text, len, &h, NULL) == 0 && h.kind == HOST_ADDR;
	int x;

	r->by_addr = addr || memchr(text, '/', len);
	if (r->by_addr)
		return addr_range_parse(addr ? h.text : text, addr ? h.len : len, &r->range, s->e);
	x = hostpat_parse(text, len, &r->host, s->e);
	if (x < 0)
		unicode_hint(text, s->e);
	return x;
}

static int refuse_url(const char *url, struct err *e)
{
	const char *host = strstr(url, "://") + 3;
	size_t len = strcspn(host, "/?#");
	bool port = str_starts(url, "http://") && !memchr(host, ':', len);
	char shown[256];

	snprintf(shown, sizeof(shown), "%.*s", (int)(len < 200 ? len : 200), host);
	err_set(e, -EINVAL, "'%.200s' is a URL; expected a host, with a port or without", url);
	return len && !memchr(host, '@', len) ? err_hint(e, -EINVAL, "%s%s", shown, port ? ":80" : "")
					      : -EINVAL;
}

/* "example.com/path". A range has an address before its slash, and a number after it. */
static int refuse_path(const char *text, struct err *e)
{
	size_t len = strcspn(text, "/");

	err_set(e, -EINVAL, "'%.200s' has a path: name the host, and put paths under http: in a policy file",
		text);
	return err_hint(e, -EINVAL, "%.*s", (int)(len < 200 ? len : 200), text);
}

static bool has_url_path(const char *text)
{
	const char *slash = strchr(text, '/');

	return slash && slash != text && slash[1 + strspn(slash + 1, "0123456789")] != '\0';
}

/* Only on the command line; a file gets a warning, because it may redirect the name by `to:`. */
static int refuse_localhost(const struct policy_rule *r, unsigned port, struct err *e)
{
	if (r->by_addr || r->has_pin ||
	    !(str_eq(r->host.text, "localhost") || str_ends(r->host.text, ".localhost")))
		return 0;
	port = port ? port : 443;
	err_set(e, -EINVAL,
		"localhost is the sandbox itself, which needs no rule; a service on this machine needs another name");
	return err_hint(
		e, -EINVAL,
		"in a policy file, under 'allow:', - {domain: thishost, port: %u, to: \"127.0.0.1:%u\"}; then "
		"connect to thishost:%u inside",
		port, port, port);
}

int read_rule_text(struct source *s, const struct ynode *at, const char *text, enum policy_action a)
{
	CLEANUP(rule_draft_release) struct draft d = { .rule = POLICY_RULE_INIT };
	struct policy_rule *r = &d.rule;
	const char *colon = strrchr(text, ':');
	size_t len = strlen(text);
	struct host h;
	uint16_t port = 0;
	int x;

	r->action = a;
	if (strstr(text, "://"))
		return read_wrap(s, at, refuse_url(text, s->e));
	if (host_canon(text, len, &h, NULL) < 0 && colon && !strchr(colon, ']')) {
		x = str_eq(colon, ":any") ? 0 : host_parse_port(colon + 1, strlen(colon + 1), &port, s->e);
		if (x < 0)
			return read_wrap(s, at, x);
		len = (size_t)(colon - text);
		r->n_ports = 1;
		r->port_given = true;
		r->ports[0] = port ? (struct policy_ports){ port, port } : (struct policy_ports){ 1, 65535 };
	}
	x = !at && has_url_path(text) ? refuse_path(text, s->e) : parse_rule_host(s, text, len, r);
	if (x == 0 && !at && a == POLICY_ALLOW)
		x = refuse_localhost(r, port, s->e);
	return x < 0 ? read_wrap(s, at, x) : add_rule_draft(s, at, &d);
}

int read_rule(struct source *s, const struct ynode *n, void *to)
{
	CLEANUP(rule_draft_release) struct draft d = { .rule = POLICY_RULE_INIT };
	int r;

	d.rule.action = *(const enum policy_action *)to;
	if (n->kind == YNODE_TEXT && !ynode_is_null(n))
		return read_rule_text(s, n, n->text, d.rule.action);
	r = read_map(s, n, "a rule", rule_keys, ARRAY_SIZE(rule_keys), &d);
	if (r < 0)
		return r;
	if (!d.domain == !d.addresses)
		return read_fail(s, n,
				 d.domain ? "a rule has a 'domain' or an 'address', not both"
					  : "a rule needs a 'domain' or an 'address'");
	return add_rule_draft(s, n, &d);
}
