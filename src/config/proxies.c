/* SPDX-License-Identifier: Apache-2.0 */
/* Reads `proxies:`, the sets of upstream proxies. Credentials are in the vault, or in a file of their own,
 * never in a URL. */
#include "config/read.h"

#include "base/cleanup.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STICKY_DEFAULT 600
#define CHECK_DEFAULT 60
#define DAY 86400

struct proxy_draft {
	struct policy_proxies set;
	struct policy_proxy *proxies;
	char *credentials;
	int type; /* -1: from the URL's scheme */
};

static void proxy_draft_release(struct proxy_draft *d)
{
	free(d->proxies);
	free(d->credentials);
}

static const struct {
	const char *scheme;
	enum policy_proxy_type type;
	uint16_t port;
} schemes[] = {
	{ "http://", POLICY_PROXY_CONNECT, 3128 },
	{ "socks5://", POLICY_PROXY_SOCKS5, 1080 },
	{ "socks5h://", POLICY_PROXY_SOCKS5, 1080 },
};

/* coffer-dial passes the connected socket on; with TLS to the proxy there would be no plain socket to
 * pass. */
static int refuse_tls(struct source *s, const struct ynode *n)
{
	read_fail(s, n, "TLS to the proxy itself (https://) is not supported");
	return err_hint(
		s->e, -EINVAL,
		"use http://HOST:PORT or socks5://HOST:PORT; for a proxy across a network, use the local end "
		"of a tunnel to it (stunnel, ssh -L)");
}

/* SCHEME://HOST[:PORT], without credentials. */
static int parse_proxy_url(struct source *s, const struct ynode *n, const char *text, int type,
			   struct policy_proxy *ret)
{
	size_t i = 0, len;
	uint16_t port = 0;

	while (i < ARRAY_SIZE(schemes) && !str_starts(text, schemes[i].scheme))
		i++;
	if (str_starts(text, "https://"))
		return refuse_tls(s, n);
	if (i == ARRAY_SIZE(schemes) && (type < 0 || strstr(text, "://")))
		return read_fail(s, n, "expected http://HOST:PORT or socks5://HOST:PORT");
	ret->type = i < ARRAY_SIZE(schemes) ? schemes[i].type : (enum policy_proxy_type)type;
	if (i < ARRAY_SIZE(schemes)) {
		port = schemes[i].port;
		text += strlen(schemes[i].scheme);
	}
	if (strchr(text, '@'))
		return read_fail(s, n,
				 "user and password belong in the vault ('secret: NAME'), not in the URL");
	len = strlen(text);
	len -= len && text[len - 1] == '/';
	return read_wrap(s, n, host_port_parse(text, len, port, &ret->host, &ret->port, s->e));
}

/* Adds one proxy to the set. */
static int add_proxy_url(struct source *s, const struct ynode *n, void *to)
{
	struct proxy_draft *d = to;
	struct policy_proxy one = { 0 };
	const char *text;
	int r = read_text(s, n, "a proxy: http://proxy.example.com:3128", &text);

	r = r < 0 ? r : parse_proxy_url(s, n, text, d->type, &one);
	if (r < 0)
		return r;
	if (d->set.n_proxies >= POLICY_PROXIES_MAX)
		return read_fail(s, n, "a proxy set has at most %d proxies", POLICY_PROXIES_MAX);
	if (VEC_MORE(d->proxies, d->set.n_proxies, POLICY_PROXIES_MAX) < 0)
		return err_set(s->e, -ENOMEM, "out of memory");
	d->proxies[d->set.n_proxies++] = one;
	return 0;
}

static int proxy_key_type(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = { "connect", "socks5" };
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	if (r == 0)
		((struct proxy_draft *)to)->type = (int)v;
	return r;
}

static int proxy_key_urls(struct source *s, const struct ynode *n, void *to)
{
	(void)s;
	(void)n;
	(void)to;
	return 0; /* read last: 'type' may come after it */
}

static int proxy_key_credentials(struct source *s, const struct ynode *n, void *to)
{
	int r = read_path(s, n, &((struct proxy_draft *)to)->credentials);

	return r < 0 ? r
		     : read_warn(
			       s, n,
			       "proxies' credentials are better kept in the vault: 'secret: NAME', bound to each proxy "
			       "as proxy");
}

static int proxy_key_secret(struct source *s, const struct ynode *n, void *to)
{
	struct policy_proxies *p = &((struct proxy_draft *)to)->set;

	return read_name(s, n, p->secret, sizeof(p->secret));
}

static int proxy_key_rotate(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = { "sticky", "connection", "request" };
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	if (r == 0)
		((struct proxy_draft *)to)->set.rotate = v;
	return r;
}

static int proxy_key_sticky(struct source *s, const struct ynode *n, void *to)
{
	return read_seconds(s, n, DAY, &((struct proxy_draft *)to)->set.sticky_seconds);
}

static int proxy_key_check(struct source *s, const struct ynode *n, void *to)
{
	struct policy_proxies *p = &((struct proxy_draft *)to)->set;
	const char *text;
	struct host h;
	uint16_t port;
	int r = read_text(s, n, "the target of a check: example.com:443", &text);

	r = r < 0 ? r : read_wrap(s, n, host_port_parse(text, strlen(text), 443, &h, &port, s->e));
	if (r == 0)
		snprintf(p->check, sizeof(p->check),
			 h.kind == HOST_ADDR && !addr_is_v4(&h.addr) ? "[%s]:%u" : "%s:%u", h.text, port);
	return r;
}

static int proxy_key_check_every(struct source *s, const struct ynode *n, void *to)
{
	return read_seconds(s, n, DAY, &((struct proxy_draft *)to)->set.check_seconds);
}

static const struct key proxy_keys[] = {
	{ "type", proxy_key_type },
	{ "urls", proxy_key_urls },
	{ "credentials_file", proxy_key_credentials },
	{ "secret", proxy_key_secret },
	{ "rotate", proxy_key_rotate },
	{ "sticky", proxy_key_sticky },
	{ "check", proxy_key_check },
	{ "check_every", proxy_key_check_every },
};

static int keep_proxy_secret(struct source *s, struct proxy_draft *d)
{
	struct config_policy *c = s->out;
	struct config_proxy_secret *v;

	if (!d->credentials)
		return 0;
	if (VEC_MORE(c->proxy_secrets, c->n_proxy_secrets, VEC_NO_MAX) < 0)
		return err_set(s->e, -ENOMEM, "out of memory");
	v = &c->proxy_secrets[c->n_proxy_secrets++];
	memcpy(v->proxy_set, d->set.name, sizeof(v->proxy_set));
	v->file = TAKE_PTR(d->credentials);
	return 0;
}

/* One set of proxies with its options. */
static int read_proxy_set(struct source *s, const struct ynode *key, const struct ynode *n)
{
	CLEANUP(proxy_draft_release) struct proxy_draft d = { .type = -1 };
	const struct ynode *urls;
	int r = read_name(s, key, d.set.name, sizeof(d.set.name));

	d.set.sticky_seconds = STICKY_DEFAULT;
	r = r < 0 ? r : read_map(s, n, "a proxy set", proxy_keys, ARRAY_SIZE(proxy_keys), &d);
	if (r < 0)
		return r;
	urls = ynode_get(n, "urls");
	if (!urls)
		return read_fail(s, n, "a proxy set needs its 'urls'");
	r = read_each(s, urls, add_proxy_url, &d);
	if (r < 0)
		return r;
	if (d.credentials && d.set.secret[0])
		return read_fail(s, n, "a proxy set has a 'secret' or a 'credentials_file', not both");
	if (d.set.check[0] && !d.set.check_seconds)
		d.set.check_seconds = CHECK_DEFAULT;
	d.set.proxies = d.proxies;
	r = read_wrap(s, n, policy_add_proxies(s->policy, &d.set, s->e));
	return r < 0 ? r : keep_proxy_secret(s, &d);
}

int read_proxies(struct source *s, const struct ynode *n, void *to)
{
	int r = 0;

	(void)to;
	if (n->kind != YNODE_MAP)
		return read_fail(s, n, "'proxies' has proxy sets by name (NAME: {urls: […]}), but here is %s",
				 ynode_kind_name(n));
	for (size_t i = 0; r == 0 && i < n->n; i++)
		r = read_proxy_set(s, n->keys[i], n->items[i]);
	return r;
}
