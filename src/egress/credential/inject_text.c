/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a request into the pieces in which a placeholder may be, the same way for finding, rendering and
 * judging. Pure.
 */
#include "egress/credential/inject_int.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#define BASIC_MAX 8192 /* characters after "Basic " that are decoded */

struct slice inject_path(const struct http_req *q)
{
	return q->url.path_len ? urlpath_path(&q->target, &q->url) : slice_of("/");
}

const struct vault_grant *inject_placeholder(const struct vault_grants *g, struct slice s, size_t *ret_at)
{
	return s.len ? grants_find_placeholder(g, s.p, s.len, ret_at) : NULL;
}

/* Of all characters of a placeholder only the colon is encoded by some clients. */
struct slice inject_uncolon(struct slice s, struct buf *tmp)
{
	const char *p = s.p, *end;

	if (s.len == 0)
		return s;
	end = s.p + s.len;
	buf_clear(tmp);
	for (const char *c = p; (c = memchr(c, '%', (size_t)(end - c))) != NULL; c++) {
		if (end - c < 3 || c[1] != '3' || (c[2] | 32) != 'a')
			continue;
		buf_add(tmp, p, (size_t)(c - p));
		buf_addc(tmp, ':');
		p = c + 3;
		c += 2;
	}
	if (p == s.p)
		return s;
	buf_add(tmp, p, (size_t)(end - p));
	return buf_error(tmp) ? s : (struct slice){ tmp->data, tmp->len };
}

/* The next piece of `s` up to a separator; false at its end. */
bool inject_next_piece(struct slice *s, char sep, struct slice *ret)
{
	const char *at;

	if (!s->p)
		return false;
	at = s->len ? memchr(s->p, sep, s->len) : NULL;
	*ret = (struct slice){ s->p, at ? (size_t)(at - s->p) : s->len };
	*s = at ? (struct slice){ at + 1, s->len - ret->len - 1 } : SLICE_NONE;
	return true;
}

struct slice inject_trim(struct slice s)
{
	while (s.len && (*s.p == ' ' || *s.p == '\t'))
		s.p++, s.len--;
	while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* "Scheme rest": yields the rest, if the scheme is this one. */
bool inject_has_scheme(struct slice v, const char *scheme, struct slice *ret)
{
	size_t n = strlen(scheme);

	if (v.len <= n || strncasecmp(v.p, scheme, n) != 0 || (v.p[n] != ' ' && v.p[n] != '\t'))
		return false;
	*ret = inject_trim((struct slice){ v.p + n, v.len - n });
	return true;
}

/* Decodes "user:password" of a Basic credential. */
bool inject_basic_pair(struct slice value, struct buf *out)
{
	struct slice b64;
	size_t n = 0;
	char *p;

	buf_clear(out);
	if (!inject_has_scheme(value, "Basic", &b64) || b64.len > BASIC_MAX)
		return false;
	while (b64.len && b64.p[b64.len - 1] == '=')
		b64.len--;
	p = buf_reserve(out, b64.len);
	if (!p || sodium_base642bin((unsigned char *)p, b64.len, b64.p, b64.len, NULL, &n, NULL,
				    sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0)
		return false;
	out->len += n;
	return true;
}

struct slice inject_param_name(struct slice pair)
{
	const char *eq = pair.len ? memchr(pair.p, '=', pair.len) : NULL;

	return (struct slice){ pair.p, eq ? (size_t)(eq - pair.p) : pair.len };
}

struct slice inject_param_value(struct slice pair)
{
	size_t n = inject_param_name(pair).len;

	return n < pair.len ? (struct slice){ pair.p + n + 1, pair.len - n - 1 } : SLICE_NONE;
}
