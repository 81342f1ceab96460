/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the text of a rule that an agent requests (widen.h). The text is hostile; it is shown to people only
 * in its one canonical spelling.
 */

#include "config/edit/widen.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

#define SSH_PORT 22

static int refuse_private_name(const struct policy_rule *r, struct err *e)
{
	static const char *const local[] = { ".localhost", ".local",	 ".internal",
					     ".lan",	   ".home.arpa", ".invalid" };
	const char *base = hostpat_base(&r->host);
	bool dead = r->host.kind == HOSTPAT_EXACT && !strchr(base, '.');

	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		dead = dead || str_ends(base, local[i]) || str_eq(base, local[i] + 1);
	return dead ? err_set(e, -EINVAL, "%s is a name of a private network, which cannot be requested",
			      r->host.text)
		    : 0;
}

static int parse_widen_host(const char *text, size_t len, struct policy_rule *r, struct err *e)
{
	struct host h;
	int x;

	if (host_canon(text, len, &h, NULL) == 0 && h.kind == HOST_ADDR) {
		r->by_addr = true;
		return addr_range_parse(h.text, h.len, &r->range, e);
	}
	if (len && memchr(text, '/', len))
		return err_set(e, -EINVAL, "a range of addresses cannot be requested, only a single address");
	x = hostpat_parse(text, len, &r->host, e);
	return x < 0 ? x : refuse_private_name(r, e);
}

/* "host", "host:port", "[v6]:port". */
static int parse_authority(const char *text, size_t len, uint16_t port, struct policy_rule *r, struct err *e)
{
	const char *colon = len ? memrchr(text, ':', len) : NULL;
	struct host h;
	bool any = false;
	int x;

	if (host_canon(text, len, &h, NULL) < 0 && colon &&
	    !memchr(colon, ']', (size_t)(text + len - colon))) {
		size_t n = (size_t)(text + len - colon) - 1;

		any = n == 3 && memcmp(colon + 1, "any", 3) == 0;
		x = any ? 0 : host_parse_port(colon + 1, n, &port, e);
		if (x < 0)
			return x;
		len = (size_t)(colon - text);
	}
	r->n_ports = 1;
	r->port_given = true;
	r->ports[0] = any ? (struct policy_ports){ 1, 65535 } : (struct policy_ports){ port, port };
	return parse_widen_host(text, len, r, e);
}

/* A policy knows ports, not schemes: only on these two ports the scheme determines the port. On any other
 * port a rule allows both, and its canonical spelling shows that. */
static const struct scheme {
	const char *text;
	uint16_t port;
} schemes[] = { { "https://", 443 }, { "http://", 80 }, { "http(s)://", 0 } };

static const struct scheme *scheme_of_url(const char *url)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (str_starts(url, schemes[i].text))
			return &schemes[i];
	}
	return NULL;
}

static const struct scheme *scheme_for_port(uint16_t port)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (schemes[i].port == port)
			return &schemes[i];
	}
	return &schemes[ARRAY_SIZE(schemes) - 1];
}

/* METHOD SCHEME://HOST[:PORT]/PATH. */
static int parse_widen_request(const char *text, const char *space, struct policy_rule *r, struct err *e)
{
	struct policy_entry en = { .kind = POLICY_HTTP, .action = POLICY_ALLOW };
	const struct scheme *scheme = scheme_of_url(space + 1), *shown;
	const char *host, *path;
	int x = method_parse(text, (size_t)(space - text), &en.methods, e);

	if (x < 0)
		return x;
	if (!scheme)
		return err_set(e, -EINVAL, "a request is METHOD https://HOST/PATH");
	host = space + 1 + strlen(scheme->text);
	path = strchr(host, '/');
	if (!path)
		return err_set(e, -EINVAL, "a request has a path: https://HOST/**");
	x = parse_authority(host, (size_t)(path - host), scheme->port, r, e);
	x = x < 0 ? x : pathpat_check(path, strlen(path), e);
	if (x < 0)
		return x;
	if (r->ports[0].lo != r->ports[0].hi)
		return err_set(e, -EINVAL, "a request goes to one port");
	/* The text must not show one scheme and open the other's port. */
	shown = scheme_for_port(r->ports[0].lo);
	if (shown->port && shown != scheme)
		return err_set(e, -EINVAL, "%s cannot be used with port %u", scheme->text, shown->port);
	if (!r->ports[0].lo)
		return err_set(e, -EINVAL, "%s needs a port", scheme->text);
	en.path = (char *)path;
	return policy_rule_add_entry(r, &en, e);
}

/* HOST[:PORT]; the port is left out if it is `omit`, and is "any" for all ports. */
static void add_authority(const struct policy_rule *r, uint16_t omit, struct buf *out)
{
	struct host h;

	if (r->by_addr) {
		host_from_addr(&r->range.base, &h);
		host_add(out, &h, 0);
	} else {
		buf_adds(out, r->host.text);
	}
	if (r->ports[0].lo != r->ports[0].hi)
		buf_adds(out, ":any");
	else if (r->ports[0].lo != omit)
		buf_addf(out, ":%u", r->ports[0].lo);
}

static void add_canonical_text(const struct policy_rule *r, struct buf *out)
{
	if (r->n_entries) {
		const struct scheme *s = scheme_for_port(r->ports[0].lo);

		method_format(r->entries[0].methods, out);
		buf_addf(out, " %s", s->text);
		add_authority(r, s->port, out);
		buf_adds(out, r->entries[0].path);
	} else {
		add_authority(r, 0, out);
	}
}

int widen_parse(const char *text, struct policy_rule *ret, struct buf *canon, struct err *e)
{
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	const char *space = strchr(text, ' ');
	int x;

	r.action = POLICY_ALLOW;
	if (strlen(text) > WIDEN_TEXT_MAX)
		return err_set(e, -E2BIG, "a rule is at most %d bytes long", WIDEN_TEXT_MAX);
	if (text[0] == '@')
		return err_set(e, -EINVAL, "a preset cannot be requested: name the hosts");
	x = space ? parse_widen_request(text, space, &r, e) : parse_authority(text, strlen(text), 443, &r, e);
	if (x < 0)
		return x;
	/* As in a file: port 22 has neither TLS nor HTTP. */
	if (!r.n_entries && r.ports[0].lo == SSH_PORT && r.ports[0].hi == SSH_PORT)
		r.depth = POLICY_TUNNEL;
	if (canon)
		add_canonical_text(&r, canon);
	if (canon && buf_error(canon))
		return err_set(e, -ENOMEM, "out of memory");
	*ret = r;
	r = POLICY_RULE_INIT;
	return 0;
}
