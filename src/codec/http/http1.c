/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a head, parses its first line, and derives the host and the framing from the head as a
 * whole. A head that two implementations might read differently must be refused here.
 */
#include "codec/http/http1_int.h"

#include <stddef.h>

enum { VERSION_LEN = 8 };

void http1_head_reset(struct http1_head *h)
{
	memset(h, 0, offsetof(struct http1_head, fields));
}

/* The length of the head, 0 while its end has not come, -EBADMSG. Reads each byte once over all calls. */
static long find_end(struct http1_head *h, const char *data, size_t len)
{
	size_t limit = len < HTTP1_HEAD_MAX ? len : HTTP1_HEAD_MAX;

	while (h->scanned < limit) {
		const char *lf = memchr(data + h->scanned, '\n', limit - h->scanned);
		size_t at;

		if (!lf) {
			h->scanned = limit;
			break;
		}
		at = (size_t)(lf - data);
		if (at == 0 || data[at - 1] != '\r')
			return http1_fail(h, 400, "a line ends with LF alone");
		h->scanned = at + 1;
		if (at - 1 == h->line)
			return h->line ? (long)at + 1 : http1_fail(h, 400, "it begins with an empty line");
		h->line = at + 1;
	}
	return len >= HTTP1_HEAD_MAX ? http1_fail(h, 431, "the head is too large") : 0;
}

/* Takes the line at *at, which find_end() has found to be complete. */
static struct slice take_head_line(const char *data, size_t len, size_t *at)
{
	const char *lf = memchr(data + *at, '\n', len - *at);
	size_t end = lf ? (size_t)(lf - data) : 0;
	struct slice line = { data + *at, end - 1 - *at };

	BUG_ON(end <= *at);
	*at = end + 1;
	return line;
}

static int take_version(struct http1_head *h, struct slice v)
{
	if (v.len != VERSION_LEN || !slice_starts(v, "HTTP/"))
		return http1_fail(h, 400, "it is not HTTP");
	if (memcmp(v.p, "HTTP/1.", 7) != 0 || (v.p[7] != '0' && v.p[7] != '1'))
		return http1_fail(h, 505, "it is neither HTTP/1.1 nor HTTP/1.0");
	h->minor = (unsigned)(v.p[7] - '0');
	return 0;
}

/* All headers up to the empty line. */
static int take_fields(struct http1_head *h, const char *data, size_t len, size_t at)
{
	int r;

	for (;;) {
		struct slice line = take_head_line(data, len, &at);

		if (line.len == 0)
			return http1_check_fields(h);
		r = http1_take_field(h, line);
		if (r < 0)
			return r;
	}
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* http1.P2: an incomplete head must begin like a request line. */
static int check_beginning(struct http1_head *h, const char *data, size_t len)
{
	size_t n = len < HTTP1_METHOD_MAX + 1 ? len : HTTP1_METHOD_MAX + 1;
	const char *space = n ? memchr(data, ' ', n) : NULL;
	size_t method = space ? (size_t)(space - data) : n;

	if (len &&
	    (method == 0 || method > HTTP1_METHOD_MAX || !http1_is_token((struct slice){ data, method })))
		return http1_fail(h, 400, "it is not HTTP");
	if (h->line == 0 && len > HTTP1_TARGET_MAX + HTTP1_METHOD_MAX + VERSION_LEN + 4)
		return http1_fail(h, 414, "the request target is too long");
	return 0;
}

static bool is_target(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < 0x21 || s.p[i] > 0x7e || s.p[i] == '#')
			return false;
	}
	return s.len > 0;
}

static int take_request_line(struct http1_head *h, struct slice line)
{
	const char *first = memchr(line.p, ' ', line.len), *last = memrchr(line.p, ' ', line.len);

	if (!first || first == last)
		return http1_fail(h, 400, "it is not HTTP");
	h->method = (struct slice){ line.p, (size_t)(first - line.p) };
	h->target = (struct slice){ first + 1, (size_t)(last - first) - 1 };
	if (h->method.len > HTTP1_METHOD_MAX || !http1_is_token(h->method))
		return http1_fail(h, 400, "the method is invalid");
	if (h->target.len > HTTP1_TARGET_MAX)
		return http1_fail(h, 414, "the request target is too long");
	if (!is_target(h->target))
		return http1_fail(
			h, 400,
			"the request target has a space, a control byte, a # or a byte over 0x7e in it");
	return take_version(h, (struct slice){ last + 1, line.len - (size_t)(last + 1 - line.p) });
}

/* Splits "http://host:port/path". */
static int take_absolute(struct http1_head *h)
{
	struct slice t = h->target, rest;
	size_t scheme = t.len > 7 && strncasecmp(t.p, "http://", 7) == 0    ? 4
			: t.len > 8 && strncasecmp(t.p, "https://", 8) == 0 ? 5
									    : 0;
	size_t n = 0;

	if (!scheme)
		return http1_fail(h, 400, "the request target is neither a path nor a URL of http or https");
	h->form = HTTP1_ABSOLUTE;
	h->scheme = (struct slice){ t.p, scheme };
	rest = (struct slice){ t.p + scheme + 3, t.len - scheme - 3 };
	while (n < rest.len && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	if (n < rest.len && rest.p[n] == '?')
		return http1_fail(h, 400, "the request target has a query and no path");
	h->path = n < rest.len ? (struct slice){ rest.p + n, rest.len - n } : slice_of("/");
	if (host_port_parse(rest.p, n, scheme == 4 ? 80 : 443, &h->host, &h->port, NULL) < 0)
		return http1_fail(h, 400, "the host in the request target is invalid");
	return 0;
}

static int take_target(struct http1_head *h)
{
	if (slice_eq(h->method, "CONNECT")) {
		h->form = HTTP1_AUTHORITY;
		if (host_port_parse(h->target.p, h->target.len, 0, &h->host, &h->port, NULL) < 0)
			return http1_fail(h, 400, "CONNECT requires a valid host and a port");
		return 0;
	}
	if (h->target.p[0] == '/') {
		h->form = HTTP1_ORIGIN;
		h->path = h->target;
		return 0;
	}
	if (slice_eq(h->target, "*")) {
		h->form = HTTP1_ASTERISK;
		return slice_eq(h->method, "OPTIONS") ? 0
						      : http1_fail(h, 400, "* is only valid with OPTIONS");
	}
	return take_absolute(h);
}

/* http1.P4: parses the Host header, and compares it with the host in the target if there is one. */
static int check_host(struct http1_head *h)
{
	bool said = h->form == HTTP1_ABSOLUTE || h->form == HTTP1_AUTHORITY;
	struct host host;
	uint16_t port;

	if (!h->has_host) {
		h->has_host = said;
		return h->minor ? http1_fail(h, 400, "there is no Host header") : 0;
	}
	if (host_port_parse(h->host_field.p, h->host_field.len, said ? h->port : HOST_PORT_OPTIONAL, &host,
			    &port, NULL) < 0)
		return http1_fail(h, 400, "the Host header is not a valid host");
	if (said && (!host_eq(&host, &h->host) || port != h->port))
		return http1_fail(h, 400, "the request target and the Host header name different hosts");
	h->host = host;
	h->port = port;
	return 0;
}

static int request_body(struct http1_head *h)
{
	if (h->form == HTTP1_AUTHORITY && (h->has_encoding || h->content_length))
		return http1_fail(h, 400, "CONNECT has no body");
	h->body = h->has_encoding     ? HTTP1_BODY_CHUNKED
		  : h->content_length ? HTTP1_BODY_LENGTH
				      : HTTP1_BODY_NONE;
	return 0;
}

long http1_parse_request(struct http1_head *h, const char *data, size_t len)
{
	long n = find_end(h, data, len);
	size_t at = 0;
	int r;

	if (n <= 0)
		return n == 0 ? check_beginning(h, data, len) : n;
	r = take_request_line(h, take_head_line(data, (size_t)n, &at));
	if (r == 0)
		r = take_fields(h, data, (size_t)n, at);
	if (r == 0)
		r = take_target(h);
	if (r == 0)
		r = check_host(h);
	if (r == 0)
		r = request_body(h);
	return r < 0 ? r : n;
}

/* --- responses ---------------------------------------------------------------------------------------------- */

static int take_status_line(struct http1_head *h, struct slice line)
{
	const char *p = line.p + VERSION_LEN;
	int r;

	if (line.len < VERSION_LEN + 4 || *p != ' ')
		return http1_fail(h, 502, "it is not HTTP");
	r = take_version(h, (struct slice){ line.p, VERSION_LEN });
	if (r < 0)
		return r;
	for (int i = 1; i <= 3; i++) {
		if (p[i] < '0' || p[i] > '9')
			return http1_fail(h, 502, "the status is not a number");
		h->status = h->status * 10 + (unsigned)(p[i] - '0');
	}
	if (h->status < 100 || h->status > 599)
		return http1_fail(h, 502, "the status is not from 100 to 599");
	line = (struct slice){ p + 4, line.len - VERSION_LEN - 4 };
	if (line.len && line.p[0] != ' ')
		return http1_fail(h, 502, "the status is not a number");
	h->reason = http1_trim(line);
	return http1_is_value(h->reason) ? 0 : http1_fail(h, 502, "the reason has a control byte in it");
}

static int response_body(struct http1_head *h, struct slice method)
{
	bool tunnel = h->status == 101 || (slice_eq(method, "CONNECT") && h->status / 100 == 2);
	bool none = h->status / 100 == 1 || h->status == 204;

	/* These have no body. A response that frames one all the same would be split differently by other readers. */
	if ((tunnel || none) && (h->has_encoding || h->content_length))
		return http1_fail(h, 502, "a response that cannot have a body announces one");
	if (tunnel)
		h->body = HTTP1_BODY_TUNNEL;
	else if (none || h->status == 304 || slice_eq(method, "HEAD"))
		h->body = HTTP1_BODY_NONE;
	else if (h->has_encoding)
		h->body = HTTP1_BODY_CHUNKED;
	else if (h->has_content_length)
		h->body = h->content_length ? HTTP1_BODY_LENGTH : HTTP1_BODY_NONE;
	else
		h->body = HTTP1_BODY_CLOSE;
	h->keep_alive = h->keep_alive && h->body != HTTP1_BODY_CLOSE && h->body != HTTP1_BODY_TUNNEL;
	return 0;
}

/* An incomplete response must begin like a status line. */
static int check_greeting(struct http1_head *h, const char *data, size_t len)
{
	size_t n = len < 7 ? len : 7;

	return memcmp(data, "HTTP/1.", n) == 0 ? 0 : http1_fail(h, 502, "it is not HTTP/1.1 or HTTP/1.0");
}

long http1_parse_response(struct http1_head *h, const char *data, size_t len, struct slice method)
{
	long n = find_end(h, data, len);
	size_t at = 0;
	int r = 0;

	if (n == 0 && len)
		r = check_greeting(h, data, len);
	if (n > 0)
		r = take_status_line(h, take_head_line(data, (size_t)n, &at));
	if (n > 0 && r == 0)
		r = take_fields(h, data, (size_t)n, at);
	if (n > 0 && r == 0)
		r = response_body(h, method);
	/* A malformed response is the server's fault: the client gets 502. */
	h->fail_status = r < 0 || n < 0 ? 502 : 0;
	return r < 0 ? r : n;
}
