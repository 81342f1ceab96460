/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule's `capture:`: credentials that a server issues at an endpoint of the rule's host.
 *	endpoint: POST /oauth/token     METHOD PATH
 *	json: [access_token]            members of the response that may be sent to the hosts of `for`
 *	claims: [id_token]              the same, for a signed token whose claims a program reads
 *	refresh: [refresh_token]        members that are sent back to the endpoint, in a body
 *	for: [api.example.com]          HOST[:PORT][/path]; default: the rule's own
 *	as: bearer
 *	name: example                   default: the rule's domain
 * Without json, claims and refresh, OAuth's four names apply.
 */
#include "config/capture_read.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "policy/psl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX 8
#define MEMBER_MAX 31
#define HOSTS_MAX 12

struct draft {
	struct config_capture *c;
	const char *endpoint;
	const struct ynode *endpoint_at;
	char *method, *path;
	struct buf members;
	size_t n_members;
	const char *how; /* of the list that is being read */
	bool has_refresh;
};

static void capture_draft_release(struct draft *d)
{
	free(d->method);
	buf_release(&d->members);
}

/* `endpoint:`, METHOD PATH. */
static int capture_key_endpoint(struct source *s, const struct ynode *n, void *to)
{
	static const char form[] = "a method and a path: POST /oauth/token";
	struct draft *d = to;
	const char *text;
	char *space;
	int r = read_text(s, n, form, &text);

	if (r < 0)
		return r;
	d->endpoint_at = n;
	d->method = strdup(text);
	if (!d->method)
		return err_set(s->e, -ENOMEM, "out of memory");
	space = strchr(d->method, ' ');
	if (!space || space == d->method || space - d->method > 16 ||
	    strspn(d->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != (size_t)(space - d->method))
		return read_fail(s, n, "expected %s", form);
	*space++ = '\0';
	d->path = space + strspn(space, " ");
	return read_wrap(s, n, pathpat_check(d->path, strlen(d->path), s->e));
}

static bool is_member_name(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.");

	return n && n <= MEMBER_MAX && !name[n] && name[0] != '.' && name[n - 1] != '.' &&
	       !strstr(name, "..");
}

static bool has_member(const struct draft *d, const char *name)
{
	autofree char *copy = strdup(d->members.len ? d->members.data : "");
	char *save = NULL;

	for (char *w = copy ? strtok_r(copy, " ", &save) : NULL; w; w = strtok_r(NULL, " ", &save)) {
		w[strcspn(w, "=")] = '\0';
		if (str_eq(w, name))
			return true;
	}
	return false;
}

/* One member of json:, claims: or refresh:. */
static int add_capture_member(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	const char *text;
	int r = read_text(s, n, "the name of a member of the response: access_token", &text);

	if (r < 0)
		return r;
	if (!is_member_name(text))
		return read_fail(s, n,
				 "expected the name of a member of the response, such as access_token or "
				 "data.token");
	if (has_member(d, text))
		return read_fail(s, n, "'%s' is named twice", text);
	if (d->n_members++ == MEMBERS_MAX)
		return read_fail(s, n, "at most %d members of a response are captured", MEMBERS_MAX);
	buf_addf(&d->members, " %s%s", text, d->how);
	return buf_error(&d->members) ? err_set(s->e, -ENOMEM, "out of memory") : 0;
}

static int capture_key_json(struct source *s, const struct ynode *n, void *to)
{
	((struct draft *)to)->how = "";
	return read_each(s, n, add_capture_member, to);
}

static int capture_key_claims(struct source *s, const struct ynode *n, void *to)
{
	((struct draft *)to)->how = "=claims";
	return read_each(s, n, add_capture_member, to);
}

static int capture_key_refresh(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	size_t before = d->n_members;
	int r;

	d->how = "=refresh";
	r = read_each(s, n, add_capture_member, to);
	d->has_refresh = d->n_members > before;
	return r;
}

/* One host of `for:`. Exact hosts only: a credential must not be sent to names that others may register. */
static int add_capture_host(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	const char *text, *slash;
	uint16_t port;
	struct host h;
	int r = read_text(s, n, "a host: api.example.com", &text);

	if (r < 0)
		return r;
	slash = strchr(text, '/');
	if (strchr(text, '*') || strstr(text, "://"))
		return read_fail(s, n, "captured credentials are for exact hosts: HOST[:PORT][/path]");
	r = host_port_parse(text, slash ? (size_t)(slash - text) : strlen(text), 443, &h, &port, s->e);
	if (r == 0 && slash)
		r = pathpat_check(slash, strlen(slash), s->e);
	if (r < 0)
		return read_wrap(s, n, r);
	if (h.kind == HOST_NAME && psl_is_suffix(h.text))
		return read_fail(s, n, "%s is a public suffix: anybody may have a name below it", h.text);
	if (d->c->hosts.n == HOSTS_MAX)
		return read_fail(s, n, "captured credentials are for at most %d hosts", HOSTS_MAX);
	return strv_add(&d->c->hosts, text) < 0 ? err_set(s->e, -ENOMEM, "out of memory") : 0;
}

static int capture_key_for(struct source *s, const struct ynode *n, void *to)
{
	return read_each(s, n, add_capture_host, to);
}

/* Is it a way to send a credential? vault/common/binding.h checks it again. */
static bool is_capture_way(const char *text)
{
	static const char *const words[] = { "bearer", "basic", "path", "body", "cookie" };
	static const char *const named[] = { "header:", "query:", "cookie:" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (str_eq(text, words[i]))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		if (str_starts(text, named[i]) && text[strlen(named[i])])
			return true;
	}
	return false;
}

static int capture_key_as(struct source *s, const struct ynode *n, void *to)
{
	static const char form[] = "bearer, basic, header:NAME, query:NAME, path, body or cookie";
	struct config_capture *c = ((struct draft *)to)->c;
	const char *text;
	int r = read_text(s, n, form, &text);

	if (r < 0)
		return r;
	if (!is_capture_way(text) || strlen(text) >= sizeof(c->as))
		return read_fail(s, n, "expected %s", form);
	memcpy(c->as, text, strlen(text) + 1);
	return 0;
}

static int capture_key_name(struct source *s, const struct ynode *n, void *to)
{
	struct config_capture *c = ((struct draft *)to)->c;

	return read_name(s, n, c->name, sizeof(c->name));
}

static const struct key capture_keys[] = {
	{ "endpoint", capture_key_endpoint }, { "json", capture_key_json }, { "claims", capture_key_claims },
	{ "refresh", capture_key_refresh },   { "for", capture_key_for },   { "as", capture_key_as },
	{ "name", capture_key_name },
};

/* Fills in the defaults, and checks that the keys fit together. */
static int check_capture(struct source *s, const struct ynode *n, struct draft *d)
{
	if (!d->path)
		return read_fail(s, n, "'capture' needs an 'endpoint': POST /oauth/token");
	if (!d->n_members) {
		d->has_refresh = !pathpat_has_star(d->path);
		buf_adds(&d->members, " access_token id_token=claims");
		buf_adds(&d->members, d->has_refresh ? " refresh_token=refresh" : "");
	}
	if (d->has_refresh && pathpat_has_star(d->path))
		return read_fail(s, d->endpoint_at, "'refresh' needs an endpoint without '*'");
	return 0;
}

int capture_parse(struct source *s, const struct ynode *n, struct config_capture *ret)
{
	CLEANUP(capture_draft_release) struct draft d = { .c = ret };
	int r = read_map(s, n, "'capture'", capture_keys, ARRAY_SIZE(capture_keys), &d);

	r = r < 0 ? r : check_capture(s, n, &d);
	if (r < 0)
		return r;
	if (d.has_refresh)
		snprintf(ret->path, sizeof(ret->path), "%s", d.path);
	if (!ret->as[0])
		snprintf(ret->as, sizeof(ret->as), "bearer");
	/* The host is inserted when the rule is complete. */
	if (asprintf(&ret->issue, "%s\n%s%s", d.method, d.path, buf_cstr(&d.members)) < 0) {
		ret->issue = NULL;
		return err_set(s->e, -ENOMEM, "out of memory");
	}
	return 0;
}

void capture_drop(struct config_capture *c)
{
	free(c->issue);
	strv_release(&c->hosts);
	*c = (struct config_capture){ 0 };
}

/* Inserts the rule's host into the endpoint. */
static int set_endpoint_host(struct source *s, const struct policy_rule *r, struct config_capture *c)
{
	autobuf struct buf b = BUF_INIT;
	char *rest = strchr(c->issue, '\n');
	struct host h;

	if (host_canon(r->host.text, strlen(r->host.text), &h, NULL) < 0)
		return err_set(s->e, -EINVAL, "'capture' needs a rule for one host");
	*rest++ = '\0';
	memcpy(c->host, h.text, strlen(h.text) + 1);
	c->port = r->ports[0].lo;
	buf_addf(&b, "%s %s:%u%s", c->issue, h.text, c->port, rest);
	free(c->issue);
	c->issue = buf_take(&b);
	return c->issue ? 0 : err_set(s->e, -ENOMEM, "out of memory");
}

static bool is_same_capture(const struct config_capture *a, const struct config_capture *b)
{
	if (!str_eq(a->name, b->name) || !str_eq(a->issue, b->issue) || !str_eq(a->as, b->as) ||
	    a->hosts.n != b->hosts.n)
		return false;
	for (size_t i = 0; i < a->hosts.n; i++) {
		if (!str_eq(a->hosts.v[i], b->hosts.v[i]))
			return false;
	}
	return true;
}

int capture_keep(struct source *s, const struct ynode *n, struct policy_rule *r, struct config_capture *c)
{
	struct config_policy *out = s->out;
	int x;

	if (!c->issue)
		return 0;
	if (r->by_addr || !r->host.text[0] || strchr(r->host.text, '*') || r->n_ports != 1 ||
	    r->ports[0].lo != r->ports[0].hi)
		return read_fail(s, n, "'capture' needs a rule for one domain and one port, not a pattern");
	if (!c->name[0] && strlen(r->host.text) >= sizeof(c->name))
		return read_fail(s, n, "'capture' needs a 'name'");
	if (!c->name[0])
		memcpy(c->name, r->host.text, strlen(r->host.text) + 1);
	memcpy(r->capture, c->name, sizeof(r->capture));
	x = set_endpoint_host(s, r, c);
	if (x == 0 && !c->hosts.n && strv_addf(&c->hosts, "%s:%u", c->host, c->port) < 0)
		x = err_set(s->e, -ENOMEM, "out of memory");
	if (x < 0)
		return x;
	for (size_t i = 0; i < out->n_captures; i++) {
		/* The same preset may be used in a file and on the command line. */
		if (is_same_capture(&out->captures[i], c))
			return 0;
		if (str_eq(out->captures[i].name, c->name))
			return read_fail(s, n,
					 "another rule captures under the name '%s'; give this one its own",
					 c->name);
	}
	if (VEC_MORE(out->captures, out->n_captures, VEC_NO_MAX) < 0)
		return err_set(s->e, -ENOMEM, "out of memory");
	out->captures[out->n_captures++] = *c;
	*c = (struct config_capture){ 0 };
	return 0;
}
