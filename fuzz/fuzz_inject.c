/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with placeholders in whatever place: one that is rendered keeps its form (as many lines, segments and parameters
 * as before), has nothing of the secret that the binding does not put there, and is otherwise what it was.
 */
#include "codec/http/http1.h"
#include "egress/credential/inject.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REAL "S3cr3t/+value&=;%2f..\"x\\y"

static struct vault_grants grants;

static void set_up(void)
{
	static const char *const as[] = { "bearer", "basic",  "header:x-key", "query:key",
					  "path",   "cookie", "body",	      "header:authorization" };
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < 2; i++) {
		struct vault_grant *g = grants_add(&grants);

		if (!g)
			abort();
		g->handle = i + 1;
		snprintf(g->name, sizeof(g->name), "s%u", i);
		snprintf(g->placeholder, sizeof(g->placeholder),
			 i ? "12:PPPPqqqqRRRRssssTTTTuuuu" : "PPPPqqqqRRRRssssTTTTvvvv");
		g->placeholder_len = strlen(g->placeholder);
		for (size_t k = 0; k < 8; k++) {
			struct binding *b = &g->bindings[g->n_bindings++];

			if (binding_parse_host("a.test/p", 8, 0, b, &e) < 0 ||
			    binding_parse_as(as[k], strlen(as[k]), b, &e) < 0)
				abort();
		}
	}
}

/* Placeholders are too long to be found by chance: \x01 and \x02 stand for them. */
static void expand(struct buf *out, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == 1 || data[i] == 2)
			buf_adds(out, grants.v[data[i] - 1].placeholder);
		else
			buf_addc(out, (char)data[i]);
	}
}

static size_t count(const char *p, size_t len, char c)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += p[i] == c;
	return n;
}

static struct slice line(const uint8_t **data, size_t *size)
{
	const uint8_t *nl = *size ? memchr(*data, '\n', *size) : NULL;
	struct slice s = { (const char *)*data, nl ? (size_t)(nl - *data) : *size };

	*data += s.len + (nl != NULL);
	*size -= s.len + (nl != NULL);
	return s;
}

static bool fill(struct http_req *q, const uint8_t **data, size_t *size)
{
	struct slice target = line(data, size), l;
	autobuf struct buf text = BUF_INIT;

	buf_adds(&text, "/p");
	expand(&text, (const uint8_t *)target.p, target.len);
	if (urlpath_canon(text.data, text.len, URLPATH_KEEP_SLASH, &q->target, &q->url, NULL) < 0)
		return false;
	while (*size && (l = line(data, size)).len) {
		const char *colon = memchr(l.p, ':', l.len);
		struct slice name = { l.p, colon ? (size_t)(colon - l.p) : l.len };

		buf_clear(&text);
		if (colon)
			expand(&text, (const uint8_t *)colon + 1, l.len - name.len - 1);
		if (!http1_is_token(name) || !http1_is_value((struct slice){ text.data, text.len }) ||
		    http_fields_add(&q->fields, name, (struct slice){ text.data, text.len }) < 0)
			return false;
	}
	return true;
}

static void check(const struct http_req *q, const struct inject_out *out)
{
	struct err e = ERR_INIT;
	autobuf struct buf again = BUF_INIT;
	struct urlpath url;

	/* Still one line, the same segments and parameters. */
	if (count(out->target.data, out->target.len, '/') != count(q->target.data, q->target.len, '/') ||
	    count(out->target.data, out->target.len, '&') != count(q->target.data, q->target.len, '&') ||
	    count(out->target.data, out->target.len, '?') != count(q->target.data, q->target.len, '?') ||
	    memchr(out->target.data, ' ', out->target.len))
		abort();
	for (unsigned i = 0; i < out->fields.n; i++) {
		if (!http1_is_value(http_fields_value(&out->fields, i)))
			abort();
	}
	(void)!urlpath_canon(out->target.data, out->target.len, URLPATH_KEEP_SLASH, &again, &url, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_req q;
	static struct inject_out out;
	static struct slice value[INJECT_MAX];
	const struct inject_dest d = { .host = "a.test", .port = 443, .tls = true, .by_line = ~0ull };
	const struct inject_dest bad = { .host = "b.test", .port = 443, .tls = true, .by_line = ~0ull };
	autobuf struct buf body = BUF_INIT;
	struct inject_refusal no;
	struct inject_plan p, none;

	if (!grants.n)
		set_up();
	q = (struct http_req){ .has_body = true };
	out = (struct inject_out){ 0 };
	if (fill(&q, &data, &size)) {
		struct slice b;

		expand(&body, data, size);
		b = (struct slice){ body.data, body.len };
		for (unsigned i = 0; i < INJECT_MAX; i++)
			value[i] = slice_of(REAL);
		if (inject_find(&grants, &d, &q, b, &p, &no) == 0 && p.n) {
			/* A secret that is rendered for one host in its head is refused for another. */
			if (!p.in_body && inject_find(&grants, &bad, &q, b, &none, &no) == 0)
				abort();
			if (inject_render(&grants, &d, &q, b, &p, value, &out) == 0)
				check(&q, &out);
		}
	}
	inject_out_release(&out);
	buf_release(&q.target);
	http_fields_release(&q.fields);
	return 0;
}
