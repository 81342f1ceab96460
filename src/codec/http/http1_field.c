/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers, one at a time: their syntax, and their effect on the framing and on the connection. A header that
 * decides the framing or the host must not have a second reading (http1.P3 to http1.P5).
 */
#include "codec/http/http1_int.h"

#include <errno.h>

#define CONTENT_LENGTH_MAX ((uint64_t)1 << 53)

int http1_fail(struct http1_head *h, unsigned status, const char *why)
{
	h->fail_status = status;
	h->why = why;
	return -EBADMSG;
}

static bool is_tchar(unsigned char c)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c && memchr(others, c, sizeof(others) - 1);
}

bool http1_is_token(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!is_tchar((unsigned char)s.p[i]))
			return false;
	}
	return s.len > 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

struct slice http1_trim(struct slice s)
{
	while (s.len && is_space(s.p[0])) {
		s.p++;
		s.len--;
	}
	while (s.len && is_space(s.p[s.len - 1]))
		s.len--;
	return s;
}

bool http1_is_value(struct slice s)
{
	if (s.len && (is_space(s.p[0]) || is_space(s.p[s.len - 1])))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

const char *http1_split_field(struct slice line, struct http1_field *ret)
{
	const char *colon = line.len ? memchr(line.p, ':', line.len) : NULL;
	struct http1_field f;

	if (line.len && is_space(line.p[0]))
		return "a header is folded over two lines, or begins with a space";
	if (!colon)
		return "a header has no colon";
	f.name = (struct slice){ line.p, (size_t)(colon - line.p) };
	f.value = http1_trim((struct slice){ colon + 1, line.len - f.name.len - 1 });
	if (f.name.len && is_space(colon[-1]))
		return "there is a space between a header's name and its colon";
	if (!http1_is_token(f.name))
		return "a header's name contains an invalid character";
	if (!http1_is_value(f.value))
		return "a header's value has a control byte in it";
	*ret = f;
	return NULL;
}

/* --- headers with a meaning here ---------------------------------------------------------------------------- */

/* Only valid after the first line, which sets the status. */
static bool is_response(const struct http1_head *h)
{
	return h->status != 0;
}

static int take_host(struct http1_head *h, struct slice v)
{
	if (is_response(h))
		return 0;
	if (h->has_host)
		return http1_fail(h, 400, "there are two Host headers");
	h->has_host = true;
	h->host_field = v;
	return 0;
}

static int take_length(struct http1_head *h, struct slice v)
{
	uint64_t n = 0;

	if (h->has_content_length)
		return http1_fail(h, 400, "there are two Content-Length headers");
	if (v.len < 1 || v.len > 16)
		return http1_fail(h, 400, "Content-Length is not a number, or too large");
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return http1_fail(h, 400, "Content-Length is not a number");
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	if (n > CONTENT_LENGTH_MAX)
		return http1_fail(h, 400, "Content-Length is too large");
	h->has_content_length = true;
	h->content_length = n;
	return 0;
}

static int take_encoding(struct http1_head *h, struct slice v)
{
	if (h->has_encoding)
		return http1_fail(h, 400, "there are two Transfer-Encoding headers");
	if (h->minor == 0)
		return http1_fail(h, 400, "HTTP/1.0 has no Transfer-Encoding");
	if (!slice_eq_nocase(v, "chunked"))
		return http1_fail(h, 501, "Transfer-Encoding is not exactly \"chunked\"");
	h->has_encoding = true;
	return 0;
}

/* Takes the next element of a comma list; an element may be empty. False at the end. */
static bool next_element(struct slice *list, struct slice *ret)
{
	const char *comma;
	size_t n;

	if (!list->p)
		return false;
	comma = list->len ? memchr(list->p, ',', list->len) : NULL;
	n = comma ? (size_t)(comma - list->p) : list->len;
	*ret = http1_trim((struct slice){ list->p, n });
	*list = comma ? (struct slice){ comma + 1, list->len - n - 1 } : SLICE_NONE;
	return true;
}

/*
 * http1.P5: headers that decide the framing, the host, the content or the credentials. A proxy drops the headers that
 * Connection names, so a request that names one of these there is an attempt to make the next server read another
 * message: refused. Some servers do it by mistake in responses (Connection: Transfer-Encoding): ignored.
 */
static bool is_vital(struct slice name)
{
	static const char *const vital[] = { "host",
					     "content-length",
					     "transfer-encoding",
					     "content-encoding",
					     "content-type",
					     "authorization",
					     "cookie",
					     "expect" };

	for (size_t i = 0; i < sizeof(vital) / sizeof(vital[0]); i++) {
		if (slice_eq_nocase(name, vital[i]))
			return true;
	}
	return false;
}

static int take_connection(struct http1_head *h, struct slice v)
{
	struct slice token;

	while (next_element(&v, &token)) {
		if (++h->n_tokens > HTTP1_TOKENS_MAX)
			return http1_fail(h, 431, "Connection names too many headers");
		if (token.len && !http1_is_token(token))
			return http1_fail(h, 400, "Connection is not a list of names");
		if (!is_response(h) && is_vital(token))
			return http1_fail(h, 400, "Connection names a header that the message requires");
	}
	return 0;
}

static int take_upgrade(struct http1_head *h, struct slice v)
{
	if (h->upgrade_to.p)
		return is_response(h) ? 0 : http1_fail(h, 400, "there are two Upgrade headers");
	h->upgrade_to = v;
	return 0;
}

static int take_expect(struct http1_head *h, struct slice v)
{
	if (is_response(h))
		return 0;
	if (h->expect_continue || !slice_eq_nocase(v, "100-continue"))
		return http1_fail(h, 417, "Expect is not \"100-continue\", once");
	h->expect_continue = true;
	return 0;
}

/* CGI turns hyphens into underscores, so a gateway may read Content_Length as Content-Length. */
static int take_lookalike(struct http1_head *h, struct slice v)
{
	(void)v;
	return http1_fail(h, 400,
			  "a header's name resembles Content-Length or Transfer-Encoding but is neither");
}

static const struct {
	const char *name;
	int (*take)(struct http1_head *h, struct slice v);
} known[] = {
	{ "host", take_host },
	{ "content-length", take_length },
	{ "transfer-encoding", take_encoding },
	{ "connection", take_connection },
	{ "upgrade", take_upgrade },
	{ "expect", take_expect },
	{ "content_length", take_lookalike },
	{ "transfer_encoding", take_lookalike },
};

int http1_take_field(struct http1_head *h, struct slice line)
{
	struct http1_field *f = &h->fields[h->n_fields];
	const char *why;

	if (h->n_fields == HTTP1_FIELDS_MAX)
		return http1_fail(h, 431, "there are too many headers");
	why = http1_split_field(line, f);
	if (why)
		return http1_fail(h, 400, why);
	h->n_fields++;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (slice_eq_nocase(f->name, known[i].name))
			return known[i].take(h, f->value);
	}
	return 0;
}

int http1_check_fields(struct http1_head *h)
{
	if (h->has_content_length && h->has_encoding)
		return http1_fail(h, 400, "there are both Content-Length and Transfer-Encoding");
	h->keep_alive = h->minor ? !http1_has_token(h, "connection", "close")
				 : http1_has_token(h, "connection", "keep-alive") &&
					   !http1_has_token(h, "connection", "close");
	h->upgrade = h->minor && h->upgrade_to.len && http1_has_token(h, "connection", "upgrade");
	return 0;
}

/* --- queries ------------------------------------------------------------------------------------------------ */

const struct slice *http1_get(const struct http1_head *h, const char *name)
{
	for (unsigned i = 0; i < h->n_fields; i++) {
		if (slice_eq_nocase(h->fields[i].name, name))
			return &h->fields[i].value;
	}
	return NULL;
}

unsigned http1_count(const struct http1_head *h, const char *name)
{
	unsigned n = 0;

	for (unsigned i = 0; i < h->n_fields; i++)
		n += slice_eq_nocase(h->fields[i].name, name);
	return n;
}

static bool lists_have(const struct http1_head *h, const char *name, struct slice token)
{
	for (unsigned i = 0; i < h->n_fields; i++) {
		struct slice list = h->fields[i].value, t;

		if (!slice_eq_nocase(h->fields[i].name, name))
			continue;
		while (next_element(&list, &t)) {
			if (t.len == token.len && t.len && strncasecmp(t.p, token.p, t.len) == 0)
				return true;
		}
	}
	return false;
}

bool http1_has_token(const struct http1_head *h, const char *name, const char *token)
{
	return lists_have(h, name, slice_of(token));
}

bool http1_is_hop(const struct http1_head *h, struct slice name)
{
	static const char *const hop[] = { "connection",
					   "keep-alive",
					   "proxy-connection",
					   "proxy-authenticate",
					   "te",
					   "trailer",
					   "transfer-encoding",
					   "proxy-authorization",
					   "upgrade",
					   "proxy-authentication-info" };

	for (size_t i = 0; i < sizeof(hop) / sizeof(hop[0]); i++) {
		if (slice_eq_nocase(name, hop[i]))
			return true;
	}
	return lists_have(h, "connection", name) && !is_vital(name);
}
