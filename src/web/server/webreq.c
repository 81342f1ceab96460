/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an HTTP request to a message for cofferd (webreq.h): route, origin, credential, values. Pure; every
 * byte is hostile.
 */
#include "web/server/webreq.h"

#include "base/hex.h"
#include "base/str.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

void web_ask_release(struct web_ask *a)
{
	buf_release(&a->texts);
}

static int refuse_request(struct web_ask *a, unsigned status, const char *code, const char *hint,
			  const char *fmt, ...) PRINTF_LIKE(5, 6);

static int refuse_request(struct web_ask *a, unsigned status, const char *code, const char *hint,
			  const char *fmt, ...)
{
	va_list ap;

	a->no = (struct web_refusal){ .status = status, .code = code, .hint = hint };
	va_start(ap, fmt);
	(void)vsnprintf(a->no.message, sizeof(a->no.message), fmt, ap);
	va_end(ap);
	return -1;
}

/* --- the route ------------------------------------------------------------------------------------------ */

static struct slice request_path(const struct http1_head *h)
{
	const char *q = memchr(h->path.p, '?', h->path.len);

	return (struct slice){ h->path.p, q ? (size_t)(q - h->path.p) : h->path.len };
}

static struct slice request_query(const struct http1_head *h)
{
	size_t n = request_path(h).len;

	return n < h->path.len ? (struct slice){ h->path.p + n + 1, h->path.len - n - 1 }
			       : (struct slice){ "", 0 };
}

/* webreq.Q1. *ret_part is the part of the path that {} stands for. */
static bool path_matches(const char *pattern, struct slice path, struct slice *ret_part)
{
	const char *hole = strstr(pattern, "{}");
	size_t before = hole ? (size_t)(hole - pattern) : 0, after = hole ? strlen(hole + 2) : 0;

	*ret_part = (struct slice){ NULL, 0 };
	if (!hole)
		return slice_eq(path, pattern);
	if (path.len <= before + after || memcmp(path.p, pattern, before) != 0 ||
	    memcmp(path.p + path.len - after, hole + 2, after) != 0)
		return false;
	*ret_part = (struct slice){ path.p + before, path.len - before - after };
	return !memchr(ret_part->p, '/', ret_part->len);
}

static int find_route(const struct http1_head *h, struct web_ask *a, enum web_op *ret)
{
	struct slice path = request_path(h), part;
	bool known = false;

	for (int i = 0; i < WEB_OP_COUNT; i++) {
		const struct web_route *r = web_route((enum web_op)i);

		if (!r->method || !path_matches(r->path, path, &part))
			continue;
		/* {} could also match the rest of a longer path; the table has no such pair with one method. */
		known = true;
		if (slice_eq(h->method, r->method)) {
			*ret = (enum web_op)i;
			return 0;
		}
	}
	if (known)
		return refuse_request(a, 405, "method_not_allowed", "GET /v1/openapi.yaml lists all paths",
				      "this path does not take this method");
	return refuse_request(a, 404, "not_found", "GET /v1/openapi.yaml lists all paths",
			      "there is nothing at this path");
}

/* --- the caller ----------------------------------------------------------------------------------------- */

static bool is_in_list(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		size_t len = strcspn(p, ",");

		if (len == n && strncasecmp(p, name, n) == 0)
			return true;
	}
	return false;
}

/* webreq.Q3. The operator gave the name, and with it any port that a proxy uses. */
static bool host_is_named(const struct http1_head *h, const struct web_via *via)
{
	return h->host.kind != HOST_ADDR && is_in_list(via->names, h->host.text);
}

static bool is_our_host(const struct http1_head *h, const struct web_via *via)
{
	if (!h->has_host)
		return false;
	if (host_is_named(h, via))
		return true;
	return (h->port ? h->port : 80) == via->port &&
	       (h->host.kind == HOST_ADDR || str_eq(h->host.text, "localhost"));
}

/* Compares with the scheme followed by Host as sent. There is exactly one Host (http1.P4). */
static bool origin_equals(const struct http1_head *h, const struct slice *origin, const char *scheme)
{
	const struct slice *host = http1_get(h, "host");
	size_t n = strlen(scheme);

	return host && http1_count(h, "origin") == 1 && origin->len == n + host->len &&
	       memcmp(origin->p, scheme, n) == 0 && memcmp(origin->p + n, host->p, host->len) == 0;
}

static bool is_our_origin(const struct http1_head *h, const struct web_via *via, const struct slice *origin)
{
	return origin_equals(h, origin, "http://") ||
	       (host_is_named(h, via) && origin_equals(h, origin, "https://"));
}

static bool is_base64url(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", s[i]) ||
		    !s[i])
			return false;
	}
	return true;
}

static int take_bearer_token(const struct slice *v, struct web_ask *a)
{
	static const char scheme[] = "Bearer ", session[] = WEB_SESSION_PREFIX;
	size_t n = sizeof(scheme) - 1;

	if (v->len <= n || v->len > n + 128 || strncasecmp(v->p, scheme, n) != 0 ||
	    !is_base64url(v->p + n, v->len - n))
		return refuse_request(a, 401, "unauthorized", "coffer token new makes one",
				      "Authorization is not a bearer token");
	a->req.cred = v->len - n > sizeof(session) - 1 && memcmp(v->p + n, session, sizeof(session) - 1) == 0
			      ? WEB_CRED_SESSION
			      : WEB_CRED_TOKEN;
	web_secret_hash(v->p + n, v->len - n, a->req.key);
	return 0;
}

static int take_credential(const struct http1_head *h, const struct web_via *via, struct web_ask *a)
{
	const struct slice *auth = http1_get(h, "authorization");

	if (via->owner) {
		a->req.cred = WEB_CRED_OWNER;
		memcpy(a->req.key, via->key, HASH_LEN);
		return 0;
	}
	if (http1_count(h, "authorization") > 1)
		return refuse_request(a, 400, "bad_request", NULL, "more than one credential");
	return auth ? take_bearer_token(auth, a) : 0;
}

/* webreq.Q4: the browser's statement of which site makes the request; other programs send none. */
static bool is_same_site(const struct http1_head *h)
{
	const struct slice *site = http1_get(h, "sec-fetch-site");

	return !site || (http1_count(h, "sec-fetch-site") == 1 &&
			 (slice_eq(*site, "same-origin") || slice_eq(*site, "none")));
}

static int check_origin(const struct http1_head *h, const struct web_via *via, struct web_ask *a, bool is_api)
{
	const struct slice *origin = http1_get(h, "origin");

	if (via->owner)
		return 0;
	if (!is_our_host(h, via))
		return refuse_request(a, 421, "forbidden", "use the address itself, or name it with --host",
				      "Host is not a name of this gateway");
	if ((origin && !is_our_origin(h, via, origin)) || (is_api && !is_same_site(h)))
		return refuse_request(a, 403, "forbidden", NULL,
				      "a page of another site may not use this API");
	return 0;
}

static int check_body_head(const struct http1_head *h, struct web_ask *a, const struct web_route *r)
{
	const struct slice *type = http1_get(h, "content-type");
	size_t n;

	if (h->body == HTTP1_BODY_NONE)
		return 0;
	if (h->body == HTTP1_BODY_LENGTH && h->content_length > WEB_BODY_MAX)
		return refuse_request(a, 413, "too_large", NULL, "a body has at most %u bytes", WEB_BODY_MAX);
	if (!r || str_eq(r->method, "GET"))
		return refuse_request(a, 400, "bad_request", NULL, "this operation takes no body");
	n = strlen("application/json");
	if (!type || http1_count(h, "content-type") != 1 || type->len < n ||
	    strncasecmp(type->p, "application/json", n) != 0 ||
	    (type->len > n && type->p[n] != ';' && type->p[n] != ' '))
		return refuse_request(a, 415, "unsupported_media_type", "Content-Type: application/json",
				      "the body must be JSON");
	return 0;
}

static int take_idempotency_key(const struct http1_head *h, struct web_ask *a)
{
	const struct slice *v = http1_get(h, "idempotency-key");

	if (!v)
		return 0;
	if (http1_count(h, "idempotency-key") != 1 || v->len < 8 || v->len >= sizeof(a->idem) ||
	    !is_base64url(v->p, v->len))
		return refuse_request(a, 400, "bad_request", "8 to 64 letters, digits, - and _",
				      "Idempotency-Key is malformed");
	memcpy(a->idem, v->p, v->len);
	return 0;
}

int web_check_head(const struct http1_head *h, const struct web_via *via, struct web_ask *a,
		   enum web_op *ret_op)
{
	struct slice path = request_path(h);
	enum web_op op = WEB_OP_COUNT;

	if (h->form != HTTP1_ORIGIN)
		return refuse_request(a, 400, "bad_request", NULL, "this is not a proxy");
	if (h->upgrade || h->expect_continue)
		return refuse_request(a, 417, "bad_request", NULL,
				      "neither Upgrade nor Expect is known here");
	if (take_credential(h, via, a) < 0)
		return -1;
	if (path.len < 4 || memcmp(path.p, "/v1/", 4) != 0) {
		*ret_op = WEB_OP_COUNT;
		return check_origin(h, via, a, false) < 0 ? -1 : check_body_head(h, a, NULL);
	}
	/* The host is checked first: a rebound name must not even learn which routes there are. */
	if (check_origin(h, via, a, true) < 0 || find_route(h, a, &op) < 0 ||
	    check_body_head(h, a, web_route(op)) < 0 || take_idempotency_key(h, a) < 0)
		return -1;
	if (web_route(op)->role != WEB_NOBODY && a->req.cred == WEB_CRED_NONE)
		return refuse_request(a, 401, "unauthorized",
				      "coffer token new makes a token, coffer ui opens the page",
				      "this needs a token or a session");
	/* The response is a secret and is not stored. */
	if (op == WEB_SESSION_OPEN)
		a->idem[0] = '\0';
	a->req.op = *ret_op = op;
	return 0;
}

/* --- the values ----------------------------------------------------------------------------------------- */

/* Values are texts of one buffer that may move while it grows, so their offsets are kept until it is
 * complete. */
struct value_filler {
	struct web_ask *a;
	const struct web_route *r;
	size_t at[WEBP_FIELDS];
};

static int find_field(const struct value_filler *f, const char *name, size_t len, enum web_from from)
{
	for (unsigned i = 0; i < web_route_fields(f->r); i++) {
		if (f->r->fields[i].from == from && strlen(f->r->fields[i].name) == len &&
		    memcmp(f->r->fields[i].name, name, len) == 0)
			return (int)i;
	}
	return -1;
}

static int refuse_field(struct value_filler *f, int i, const char *why)
{
	return refuse_request(f->a, 400, "bad_request", "GET /v1/openapi.yaml describes it", "%s %s",
			      f->r->fields[i].name, why);
}

static int check_value(struct value_filler *f, int i)
{
	struct web_value *v = &f->a->req.v[i];
	const char *why;

	if (buf_error(&f->a->texts))
		return refuse_request(f->a, 503, "unavailable", NULL, "out of memory");
	v->s = buf_cstr(&f->a->texts) + f->at[i];
	if (!web_value_check(&f->r->fields[i], v, &why))
		return refuse_field(f, i, why);
	v->has = true;
	return 0;
}

static int find_field_word(const struct web_field *fd, const char *s, size_t len, uint64_t *ret)
{
	for (uint64_t n = 0; fd->words[n]; n++) {
		if (strlen(fd->words[n]) == len && memcmp(fd->words[n], s, len) == 0) {
			*ret = n;
			return 0;
		}
	}
	return -EINVAL;
}

/* Takes a value from the path, query or a header. */
static int take_text_value(struct value_filler *f, int i, const char *s, size_t len)
{
	const struct web_field *fd = &f->r->fields[i];
	struct web_value *v = &f->a->req.v[i];
	char number[24];

	if (v->has)
		return refuse_field(f, i, "was given twice");
	f->at[i] = f->a->texts.len;
	buf_add(&f->a->texts, s, len);
	buf_addc(&f->a->texts, '\0');
	v->len = len;
	snprintf(number, sizeof(number), "%.*s", (int)(len < sizeof(number) ? len : 0), s);
	if (fd->kind == WEB_NUM && (strlen(number) != len || str_to_u64(number, &v->n) < 0))
		return refuse_field(f, i, "is not a valid number");
	if (fd->kind == WEB_WORD && find_field_word(fd, s, len, &v->n) < 0)
		return refuse_field(f, i, "is not one of the known words");
	if (fd->kind == WEB_FLAG) {
		if (!(len == 4 && memcmp(s, "true", 4) == 0) && !(len == 5 && memcmp(s, "false", 5) == 0))
			return refuse_field(f, i, "must be true or false");
		v->n = len == 4;
	}
	return check_value(f, i);
}

static int decode_query_value(const char *s, size_t len, struct buf *out)
{
	for (size_t i = 0; i < len; i++) {
		int byte;

		if (s[i] != '%') {
			buf_addc(out, (char)(s[i] == '+' ? ' ' : s[i]));
			continue;
		}
		byte = i + 2 < len ? hex_byte(s + i + 1) : -1;
		if (byte < 0)
			return -EINVAL;
		buf_addc(out, (char)byte);
		i += 2;
	}
	return buf_error(out);
}

static int take_query_values(struct value_filler *f, struct slice q)
{
	while (q.len) {
		const char *amp = memchr(q.p, '&', q.len);
		size_t len = amp ? (size_t)(amp - q.p) : q.len;
		const char *eq = memchr(q.p, '=', len);
		size_t name = eq ? (size_t)(eq - q.p) : len;
		int i = find_field(f, q.p, name, WEB_IN_QUERY);
		autobuf struct buf value = BUF_INIT;

		if (i < 0)
			return refuse_request(f->a, 400, "bad_request", "GET /v1/openapi.yaml lists them",
					      "a parameter of the query is not known");
		if (decode_query_value(eq ? eq + 1 : "", eq ? len - name - 1 : 0, &value) < 0)
			return refuse_field(f, i, "is badly encoded");
		if (take_text_value(f, i, buf_cstr(&value), value.len) < 0)
			return -1;
		q.p += len + (amp ? 1 : 0);
		q.len -= len + (amp ? 1 : 0);
	}
	return 0;
}

static void add_list_item(struct value_filler *f, struct web_value *v, const char *s, size_t len)
{
	buf_add(&f->a->texts, s, len);
	buf_addc(&f->a->texts, '\0');
	v->len += len + 1;
	v->n++;
}

static bool take_json_list(struct value_filler *f, struct web_value *v, json_t *j)
{
	json_t *x;
	size_t i;

	if (!json_is_array(j) || json_array_size(j) > WEBP_ITEMS)
		return false;
	json_array_foreach(j, i, x)
	{
		/* An embedded NUL would split one item into two. */
		if (!json_is_string(x) || strlen(json_string_value(x)) != json_string_length(x))
			return false;
		add_list_item(f, v, json_string_value(x), json_string_length(x));
	}
	return true;
}

static bool take_json_env(struct value_filler *f, struct web_value *v, json_t *j)
{
	const char *key;
	json_t *x;

	if (!json_is_object(j) || json_object_size(j) > WEBP_ITEMS)
		return false;
	json_object_foreach(j, key, x)
	{
		autobuf struct buf b = BUF_INIT;

		if (!json_is_string(x) || strlen(json_string_value(x)) != json_string_length(x) ||
		    strchr(key, '='))
			return false;
		buf_addf(&b, "%s=", key);
		buf_add(&b, json_string_value(x), json_string_length(x));
		if (buf_error(&b))
			return false;
		add_list_item(f, v, b.data, b.len);
	}
	return true;
}

static bool take_json_base64(struct value_filler *f, struct web_value *v, json_t *j)
{
	size_t len = json_string_length(j);
	char *p = json_is_string(j) ? buf_reserve(&f->a->texts, len / 4 * 3 + 4) : NULL;

	if (!p || sodium_base642bin((unsigned char *)p, len / 4 * 3 + 3, json_string_value(j), len, NULL,
				    &v->len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
		return false;
	f->a->texts.len += v->len;
	buf_addc(&f->a->texts, '\0');
	return true;
}

static bool take_json_value(struct value_filler *f, int i, json_t *j)
{
	const struct web_field *fd = &f->r->fields[i];
	struct web_value *v = &f->a->req.v[i];

	f->at[i] = f->a->texts.len;
	switch (fd->kind) {
	case WEB_FLAG:
		v->n = json_is_true(j);
		return json_is_boolean(j);
	case WEB_NUM:
		v->n = (uint64_t)json_integer_value(j);
		return json_is_integer(j) && json_integer_value(j) >= 0;
	case WEB_WORD:
		return json_is_string(j) &&
		       find_field_word(fd, json_string_value(j), json_string_length(j), &v->n) == 0;
	case WEB_ARGV:
		return take_json_list(f, v, j);
	case WEB_ENV:
		return take_json_env(f, v, j);
	case WEB_BASE64:
		return take_json_base64(f, v, j);
	default:
		if (!json_is_string(j))
			return false;
		v->len = json_string_length(j);
		buf_add(&f->a->texts, json_string_value(j), v->len);
		buf_addc(&f->a->texts, '\0');
		return true;
	}
}

/* webreq.Q2: known members only, each checked by the table. */
static int take_json_body(struct value_filler *f, const char *body, size_t len)
{
	json_error_t why;
	json_t *o = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why), *x;
	const char *key;
	int r = 0;

	if (!json_is_object(o)) {
		json_decref(o);
		return refuse_request(f->a, 400, "bad_request", NULL, "the body is not one JSON object");
	}
	json_object_foreach(o, key, x)
	{
		int i = find_field(f, key, strlen(key), WEB_IN_BODY);

		if (i < 0)
			r = refuse_request(f->a, 400, "bad_request", "GET /v1/openapi.yaml lists them",
					   "a member of the body is not known");
		else if (!take_json_value(f, i, x))
			r = refuse_field(f, i, "is of the wrong kind");
		else
			r = check_value(f, i);
		if (r < 0)
			break;
	}
	json_decref(o);
	return r;
}

static int check_needed(struct value_filler *f)
{
	for (unsigned i = 0; i < web_route_fields(f->r); i++) {
		struct web_value *v = &f->a->req.v[i];

		if (v->has)
			v->s = buf_cstr(&f->a->texts) + f->at[i];
		else if (f->r->fields[i].needed)
			return refuse_field(f, (int)i, "is missing");
	}
	if (f->a->req.op == WEB_EXEC && webp_str(&f->a->req, "workdir") &&
	    webp_str(&f->a->req, "workdir")[0] != '/')
		return refuse_request(f->a, 400, "bad_request", NULL, "workdir is not absolute");
	if (f->a->req.op == WEB_EXEC && webp_get(&f->a->req, "stdin") && webp_get(&f->a->req, "stdin_base64"))
		return refuse_request(f->a, 400, "bad_request", NULL,
				      "stdin and stdin_base64 exclude each other");
	return 0;
}

int web_build(const struct http1_head *h, const char *body, size_t len, struct web_ask *a)
{
	struct value_filler f = { .a = a, .r = web_route(a->req.op) };
	struct slice part;

	if (!path_matches(f.r->path, request_path(h), &part))
		return refuse_request(a, 404, "not_found", NULL, "there is nothing at this path");
	for (unsigned i = 0; i < web_route_fields(f.r); i++) {
		const struct slice *v =
			f.r->fields[i].from == WEB_IN_HEADER ? http1_get(h, f.r->fields[i].name) : NULL;

		if (f.r->fields[i].from == WEB_IN_PATH)
			v = &part;
		if (v && take_text_value(&f, (int)i, v->p, v->len) < 0)
			return -1;
	}
	if (take_query_values(&f, request_query(h)) < 0)
		return -1;
	if (len && take_json_body(&f, body, len) < 0)
		return -1;
	return check_needed(&f);
}
