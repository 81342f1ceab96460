/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds `req` and `resp` from parsed heads, and HTTP/1.1 heads from them. The lists of fields that never
 * pass are here (http_head.H3); ambiguous heads are refused, not repaired.
 */
#include "egress/exchange/http_head.h"

#include "codec/http/http_form.h"
#include "crypto/hash.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/inspect.h"
#include "policy/method.h"

#include <stdio.h>

#define PARAMS_LOGGED 24 /* bytes of a segment's parameters in a path that is too long for the log */
#define PARAMS_SHOWN 8

static void head_refuse(struct exch *e, unsigned answer, const char *why)
{
	if (e->req.why)
		return;
	e->req.why = why;
	e->req.refusal = answer;
}

static bool name_in_list(struct slice s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (slice_eq_nocase(s, list[i]))
			return true;
	}
	return false;
}

/* Hop-by-hop, or written anew by us. */
static bool is_hop_or_framing(struct slice name)
{
	static const char *const list[] = {
		"connection",	       "keep-alive", "proxy-connection",
		"proxy-authorization", "te",	     "trailer",
		"transfer-encoding",   "upgrade",    "host",
		"content-length",      "expect",     "http2-settings",
		"proxy-authenticate",  "alt-used",   "early-data",
	};

	return name_in_list(name, list, ARRAY_SIZE(list));
}

/*
 * Servers and frameworks that trust one of these act on another host, path or method than was judged. No
 * client inside is a proxy in front of these servers, so none of them has an honest use.
 */
static bool is_override_field(struct slice name)
{
	static const char *const list[] = {
		"forwarded",	       "x-host",	   "x-override-url",
		"x-method-override",   "x-method",	   "x-backend-host",
		"x-proxy-url",	       "x-proxy-host",	   "x-real-ip",
		"x-client-ip",	       "client-ip",	   "true-client-ip",
		"x-cluster-client-ip", "x-originating-ip", "x-request-uri",
		"x-request-url",       "request-uri",	   "x-script-name",
		"x-invoke-path",       "x-matched-path",   "x-wap-profile",
		"x-forward-for",       "cf-connecting-ip", "via",
	};
	static const char *const families[] = { "x-forwarded",	 "x-original-",	      "x-rewrite-",
						"x-http-method", "x-http-path-",      "x-envoy-original-",
						"x-http-host-",	 "x-http-destination" };

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		size_t n = strlen(families[i]);

		if (name.len >= n && strncasecmp(name.p, families[i], n) == 0)
			return true;
	}
	return name_in_list(name, list, ARRAY_SIZE(list));
}

/* Fields that tell how the body is read: one of each, and nothing similar. */
static bool is_body_field(struct slice name)
{
	return slice_eq_nocase(name, "content-type") || slice_eq_nocase(name, "content-encoding");
}

/* A gateway that turns names into variables (CGI) cannot tell x_forwarded_host from x-forwarded-host. */
static struct slice dashed_name(struct slice name, char text[64])
{
	if (!memchr(name.p, '_', name.len) || name.len > 63)
		return name;
	for (size_t i = 0; i < name.len; i++)
		text[i] = (char)(name.p[i] == '_' ? '-' : name.p[i]);
	return (struct slice){ text, name.len };
}

void http_head_field(struct exch *e, struct slice name, struct slice value)
{
	char text[64];
	struct slice plain = dashed_name(name, text);
	int r;

	if (is_hop_or_framing(name))
		return;
	if (is_override_field(plain) ||
	    (plain.p == text && (is_hop_or_framing(plain) || is_body_field(plain)))) {
		snprintf(e->dropped, sizeof(e->dropped), "%.*s", (int)(name.len > 60 ? 60 : name.len),
			 name.p);
		return;
	}
	if (is_body_field(name) &&
	    http_fields_get(&e->req.fields, name.len == 12 ? "content-type" : "content-encoding").p)
		head_refuse(e, 400, "two headers say how the body is to be read");
	r = http_fields_add(&e->req.fields, name, value);
	if (r == -E2BIG)
		head_refuse(e, 431, "the request has too many headers");
	else if (r < 0)
		head_refuse(e, 503, "out of memory");
}

void http_head_target(struct exch *e, struct slice target)
{
	struct err why = ERR_INIT;

	if (urlpath_canon(target.p, target.len, URLPATH_KEEP_SLASH, &e->req.target, &e->req.url, &why) == 0)
		return;
	if (target.len > URLPATH_MAX)
		head_refuse(e, 414, "the request target is too long");
	else
		head_refuse(e, 400, "the path can be read in more than one way, or is malformed");
	/* For the response and the journal: as received, without its query. */
	e->req.url = (struct urlpath){ 0 };
	buf_clear(&e->req.target);
	for (size_t i = 0; i < target.len && i < 512 && target.p[i] != '?'; i++)
		buf_addc(&e->req.target, target.p[i]);
}

void http_head_authority(struct exch *e, const struct host *host, uint16_t port)
{
	const struct inspect_conn *c = e->conn;

	if (!host_eq(host, &c->host))
		head_refuse(e, 421, "Host is not the name that was looked up for this connection");
	else if (port && port != c->port)
		head_refuse(e, 421, "Host names another port than that of this connection");
}

/* Rails, Symfony, WordPress, Salesforce and others take the method from such a parameter. */
static bool query_has_method(struct slice q)
{
	return http_form_has(q, "_method") || http_form_has(q, "_httpmethod") ||
	       http_form_has(q, "x-http-method-override");
}

/* Django, Symfony and others read "delete" as DELETE; rules do not. */
static bool has_lower_case(const char *method)
{
	for (; *method; method++) {
		if (*method >= 'a' && *method <= 'z')
			return true;
	}
	return false;
}

void http_head_finish(struct exch *e)
{
	struct http_req *r = &e->req;

	if (r->url.has_query && query_has_method(urlpath_query(&r->target, &r->url)))
		head_refuse(e, 403, "a query parameter _method would change the method that was decided");
	if (has_lower_case(r->method))
		head_refuse(e, 400,
			    "a method must be in capital letters; servers treat other spellings differently");
	if (strcmp(r->method, METHOD_WEBSOCKET_NAME) == 0)
		head_refuse(e, 400, "WEBSOCKET is a method only in rules, not in HTTP");
	if (strcmp(r->method, "CONNECT") == 0)
		head_refuse(e, 405, "CONNECT is not for a server; connect to the other host directly");
	else if (strcmp(r->method, "TRACE") == 0)
		head_refuse(e, 405, "TRACE would show what is added to requests");
}

static void head_upgrade(struct exch *e, const struct http1_head *h)
{
	if (!h->upgrade)
		return;
	if (slice_eq_nocase(h->upgrade_to, "websocket") && strcmp(e->req.method, "GET") == 0 &&
	    h->body == HTTP1_BODY_NONE) {
		e->req.websocket = true;
		return;
	}
	/* curl offers h2c with every plain request: ignoring the offer is the standard's answer. */
	if (slice_eq_nocase(h->upgrade_to, "h2c")) {
		snprintf(e->dropped, sizeof(e->dropped), "upgrade: h2c");
		return;
	}
	head_refuse(e, 403, "an upgrade to anything but websocket would not be inspected");
}

void http_head_from_h1(struct exch *e, const struct http1_head *h)
{
	struct http_req *r = &e->req;

	snprintf(r->method, sizeof(r->method), "%.*s", (int)h->method.len, h->method.p);
	if (h->has_host)
		http_head_authority(e, &h->host, h->port);
	else
		head_refuse(e, 400, "the request names no host");
	if (h->form == HTTP1_ASTERISK)
		buf_adds(&r->target, "*");
	else if (h->form != HTTP1_AUTHORITY)
		http_head_target(e, h->path);
	if (h->form == HTTP1_ABSOLUTE && !slice_eq_nocase(h->scheme, e->conn->tls ? "https" : "http"))
		head_refuse(e, 421, "the scheme of the target is not that of this connection");
	for (unsigned i = 0; i < h->n_fields; i++) {
		if (!http1_is_hop(h, h->fields[i].name))
			http_head_field(e, h->fields[i].name, h->fields[i].value);
	}
	r->has_length = h->has_content_length;
	r->length = h->content_length;
	r->expect = h->expect_continue;
	r->te_trailers = http1_has_token(h, "te", "trailers");
	head_upgrade(e, h);
	http_head_finish(e);
}

static int head_add_fields(struct buf *out, const struct http_fields *f)
{
	int r = 0;

	for (unsigned i = 0; i < f->n && r == 0; i++)
		r = http1_add_field(out, http_fields_name(f, i), http_fields_value(f, i));
	return r;
}

static int head_add_u64(struct buf *out, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return http1_add_field(out, slice_of(name), slice_of(text));
}

static int head_add_str(struct buf *out, const char *name, const char *value)
{
	return http1_add_field(out, slice_of(name), slice_of(value));
}

int http_head_to_h1(struct buf *out, const struct exch *e, bool chunked, bool keep)
{
	const struct http_resp *p = &e->resp;
	int r = http1_add_status_line(out, p->status, SLICE_NONE);

	if (r == 0)
		r = head_add_fields(out, &p->fields);
	if (r == 0 && p->has_length && p->status >= 200)
		r = head_add_u64(out, "Content-Length", p->length);
	if (r == 0 && chunked)
		r = head_add_str(out, "Transfer-Encoding", "chunked");
	if (r == 0 && p->tunnel)
		r = head_add_str(out, "Upgrade", "websocket");
	if (r == 0 && p->tunnel)
		r = head_add_str(out, "Connection", "Upgrade");
	if (r == 0 && !keep)
		r = head_add_str(out, "Connection", "close");
	return r ? r : http1_add_end(out);
}

void http_head_host(const struct inspect_conn *c, char out[HTTP_HOST_MAX])
{
	const char *open = c->host.kind == HOST_ADDR && strchr(c->host.text, ':') ? "[" : "";

	snprintf(out, HTTP_HOST_MAX, "%s%s%s", open, c->host.text, *open ? "]" : "");
	if (c->port != (c->tls ? 443 : 80))
		snprintf(out + strlen(out), HTTP_HOST_MAX - strlen(out), ":%u", c->port);
}

static int head_add_host(struct buf *out, const struct inspect_conn *c)
{
	char host[HTTP_HOST_MAX];

	http_head_host(c, host);
	return head_add_str(out, "Host", host);
}

int http_head_request_h1(struct buf *out, const struct exch *e)
{
	const struct http_req *q = &e->req;
	const struct buf *target = secret_target(e);
	int r = http1_add_request_line(out, slice_of(q->method), (struct slice){ target->data, target->len });

	if (r == 0)
		r = head_add_host(out, e->conn);
	if (r == 0)
		r = head_add_fields(out, secret_fields(e));
	if (r == 0 && q->has_length)
		r = head_add_u64(out, "Content-Length", secret_length(e));
	else if (r == 0 && q->has_body)
		r = head_add_str(out, "Transfer-Encoding", "chunked");
	if (r == 0 && q->expect && !e->continued)
		r = head_add_str(out, "Expect", "100-continue");
	if (r == 0 && q->te_trailers && !q->websocket)
		r = head_add_str(out, "TE", "trailers");
	if (r == 0 && q->websocket)
		r = head_add_str(out, "Upgrade", "websocket");
	if (r == 0 && (q->websocket || q->te_trailers))
		r = head_add_str(out, "Connection", q->websocket ? "Upgrade" : "TE");
	return r ? r : http1_add_end(out);
}

int http_head_resp_field(struct http_fields *f, struct slice name, struct slice value)
{
	static const char *const useless[] = { "alt-svc", "proxy-authenticate", "proxy-authentication-info" };

	if (is_hop_or_framing(name) || name_in_list(name, useless, ARRAY_SIZE(useless)))
		return 0;
	return http_fields_add(f, name, value);
}

int http_head_resp_from_h1(struct exch *e, const struct http1_head *h)
{
	struct http_resp *p = &e->resp;
	int r = 0;

	http_fields_clear(&p->fields);
	p->status = h->status;
	p->tunnel = h->body == HTTP1_BODY_TUNNEL;
	p->no_body = h->body == HTTP1_BODY_NONE && h->status >= 200;
	/* With HEAD and 304 a length is meaningful and no body follows. */
	p->has_length = h->has_content_length ||
			(h->body == HTTP1_BODY_NONE && h->status >= 200 && h->status != 204 &&
			 h->status != 304 && strcmp(e->req.method, "HEAD") != 0);
	p->length = h->content_length;
	for (unsigned i = 0; i < h->n_fields && r == 0; i++) {
		if (!http1_is_hop(h, h->fields[i].name))
			r = http_head_resp_field(&p->fields, h->fields[i].name, h->fields[i].value);
	}
	return r;
}

static void add_short_digest(struct buf *out, struct slice s)
{
	unsigned char sum[HASH_LEN];
	char hex[9];

	hash_sha256(s.p, s.len, sum);
	hash_hex(sum, 4, hex);
	buf_addf(out, "#%s", hex);
}

/* Where the parameters of a segment begin; its end: it has none. */
static size_t segment_params_at(const char *segment, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (segment[i] == ';' || (len - i >= 3 && memcmp(segment + i, "%3B", 3) == 0))
			return i;
	}
	return len;
}

static void cut_segment_params(struct buf *out, struct slice path)
{
	while (path.len) {
		const char *slash = memchr(path.p, '/', path.len);
		size_t len = slash ? (size_t)(slash - path.p) + 1 : path.len;
		size_t end = slash ? len - 1 : len, at = segment_params_at(path.p, end);

		if (end - at > PARAMS_LOGGED) {
			buf_add(out, path.p, at + PARAMS_SHOWN);
			buf_adds(out, "...");
			add_short_digest(out, (struct slice){ path.p + at, end - at });
			buf_adds(out, slash ? "/" : "");
		} else {
			buf_add(out, path.p, len);
		}
		path.p += len;
		path.len -= len;
	}
}

void http_path_log(struct buf *out, struct slice path, size_t max)
{
	const size_t mark = sizeof("...#01234567...") - 1, ends = max > mark ? max - mark : 0;
	autobuf struct buf cut = BUF_INIT;

	if (path.len <= max) {
		buf_add(out, path.p, path.len);
		return;
	}
	cut_segment_params(&cut, path);
	if (buf_error(&cut)) {
		out->error = buf_error(&cut);
		return;
	}
	if (cut.len <= max) {
		buf_add(out, cut.data, cut.len);
		return;
	}
	buf_add(out, cut.data, ends - ends / 2);
	buf_adds(out, "...");
	add_short_digest(out, path);
	buf_adds(out, "...");
	buf_add(out, cut.data + cut.len - ends / 2, ends / 2);
}

void http_query_digest(struct buf *out, struct slice q)
{
	const size_t start = out->len;
	char sep = '?';

	while (q.len && out->len - start < HTTP_QUERY_LOGGED) {
		const char *amp = memchr(q.p, '&', q.len);
		size_t len = amp ? (size_t)(amp - q.p) : q.len;
		const char *eq = memchr(q.p, '=', len);
		size_t name = eq ? (size_t)(eq - q.p) : 0;
		size_t value = eq ? name + 1 : 0;

		buf_addc(out, sep);
		buf_add(out, q.p, name > 32 ? 32 : name);
		buf_adds(out, eq ? "=" : "");
		add_short_digest(out, (struct slice){ q.p + value, len - value });
		sep = '&';
		q.p += len + (amp != NULL);
		q.len -= len + (amp != NULL);
	}
	if (q.len) {
		buf_adds(out, "&...");
		add_short_digest(out, q);
	}
}
