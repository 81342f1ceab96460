/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a hypothetical connection or request from command-line words, so that a policy can be asked what
 * it decides. Uses the same parsers for hosts, paths and GraphQL as egress does, so both see the same
 * request. It must not have a parser of its own for them.
 */
#include "cli/net/policy_ask.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/core/opt.h"
#include "codec/http/urlpath.h"
#include "policy/method.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_policy_ask_release(struct policy_ask *a)
{
	buf_release(&a->path);
	buf_release(&a->slashed);
	free(a->gql);
}

static int parse_ask_target(struct policy_ask *a, const char *text, size_t len, uint16_t port, struct err *e)
{
	int r = host_port_parse(text, len, port, &a->host, &a->target.port, e);

	a->target.name = &a->host;
	return r;
}

static int parse_ask_path(struct policy_ask *a, const char *text, struct err *e)
{
	struct urlpath u;
	int r = urlpath_canon(*text ? text : "/", *text ? strlen(text) : 1, URLPATH_KEEP_SLASH, &a->path, &u,
			      e);

	if (r < 0)
		return err_wrap(e, r, "the path is refused before any rule applies");
	a->request.path = urlpath_path(&a->path, &u);
	a->request.query = urlpath_query(&a->path, &u);
	if (u.slash) {
		if (urlpath_slashed(a->request.path, &a->slashed) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		a->request.slashed = (struct slice){ a->slashed.data, a->slashed.len };
	}
	return 0;
}

static int parse_ask_url(struct policy_ask *a, const char *method, const char *url, struct err *e)
{
	bool ws = str_starts(url, "ws://") || str_starts(url, "wss://");
	bool tls = str_starts(url, "https://") || str_starts(url, "wss://");
	const char *host = strstr(url, "://") + 3;
	size_t len = strcspn(host, "/?#");
	int r;

	if (!tls && !ws && !str_starts(url, "http://"))
		return err_set(e, -EINVAL, "a URL begins with https://, http://, wss:// or ws://");
	if (ws && method && !str_eq(method, "GET") && !str_eq(method, METHOD_WEBSOCKET_NAME))
		return err_set(e, -EINVAL,
			       "a websocket is opened by GET; in rules its method is " METHOD_WEBSOCKET_NAME);
	if (method && strlen(method) > HTTP1_METHOD_MAX)
		return err_set(e, -EINVAL, "a request whose method has more than %d bytes is always refused",
			       HTTP1_METHOD_MAX);
	if (memchr(host, '@', len))
		return err_set(e, -EINVAL, "a URL with a user in it (…@…) is always refused");
	r = parse_ask_target(a, host, len, tls ? 443 : 80, e);
	if (r < 0)
		return r;
	a->has_request = true;
	snprintf(a->method, sizeof(a->method), "%s", ws ? METHOD_WEBSOCKET_NAME : method ? method : "GET");
	a->request.method = slice_of(a->method);
	return parse_ask_path(a, host + len, e);
}

static int parse_ask_graphql(struct policy_ask *a, const char *text, struct err *e)
{
	int r;

	a->gql = calloc(1, sizeof(*a->gql));
	if (!a->gql)
		return err_set(e, -ENOMEM, "out of memory");
	r = graphql_parse(text, strlen(text), NULL, 0, a->gql, e);
	if (r < 0)
		return err_wrap(e, r, "graphql");
	a->docs[0] = a->gql;
	a->request.gql = a->docs;
	a->request.n_gql = 1;
	a->request.is_body_known = true;
	return 0;
}

static int parse_ask_push(struct policy_ask *a, const char *text, struct err *e)
{
	static const enum policy_push_act acts[] = { POLICY_PUSH_CREATE, POLICY_PUSH_UPDATE,
						     POLICY_PUSH_DELETE, POLICY_PUSH_FORCE };
	const char *eq = strchr(text, '=');
	/* Without an act the one that rules are strictest about: a forced update. */
	int act = eq ? opt_one_of("push", eq + 1, "create update delete force", e) : 3;

	if (act < 0)
		return act;
	a->push = (struct policy_push){ { text, eq ? (size_t)(eq - text) : strlen(text) }, acts[act] };
	a->request.push = &a->push;
	a->request.n_push = 1;
	a->request.is_body_known = true;
	return 0;
}

int cli_policy_ask_parse(struct policy_ask *a, const char *method, const char *where, const char *graphql,
			 const char *push, struct err *e)
{
	bool url = strstr(where, "://") != NULL;
	int r;

	if (method && !url)
		return err_set(e, -EINVAL, "a method needs a URL: %.20s https://example.com/path", method);
	if ((graphql || push) && !url)
		return err_set(e, -EINVAL, "graphql and push are about a request: name its method and URL");
	r = url ? parse_ask_url(a, method, where, e) : parse_ask_target(a, where, strlen(where), 443, e);
	if (r == 0 && graphql)
		r = parse_ask_graphql(a, graphql, e);
	if (r == 0 && push)
		r = parse_ask_push(a, push, e);
	return r;
}
