/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of host names and "host:port". An input that another parser might read as a different host, such as
 * a short or octal IPv4 address, is refused.
 */
#include "codec/net/host.h"

#include "codec/net/punycode.h"
#include "codec/slice.h"

#include <errno.h>
#include <string.h>

static int host_is_malformed(struct err *e, const char *in, size_t len, const char *why)
{
	char q[SLICE_QUOTE_LEN];

	return err_set(e, -EINVAL, "host '%s' %s", slice_quote(in, len, q), why);
}

static bool is_host_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
	return is_host_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

static const char *why_no_host_byte(unsigned char c)
{
	if (c == 0)
		return "has a NUL in it";
	if (c < 0x20 || c == 0x7f)
		return "has a control byte in it";
	if (c == ' ')
		return "has a space in it";
	if (c == '%')
		return "has a percent sign in it; host names are never percent-encoded";
	if (c == '@')
		return "has a user name in front of it (@)";
	if (c == '*')
		return "has a *, which is valid in patterns only";
	if (c >= 0x80)
		return "is not in ASCII; write its xn-- form";
	return "has a character that is not valid in host names";
}

/* Would inet_aton() or a URL parser read this as a number? Digits, or 0x and any number of hex digits. */
static bool looks_numeric(const char *s, size_t len)
{
	bool hex = len >= 2 && s[0] == '0' && s[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < len; i++) {
		if (!is_host_digit(s[i]) && !(hex && s[i] >= 'a' && s[i] <= 'f'))
			return false;
	}
	return true;
}

static const char *label_fault(const char *s, size_t len, bool last)
{
	if (len == 0)
		return "has an empty label (two dots, or a dot at an end)";
	if (len > HOST_LABEL_MAX)
		return "has a label longer than 63 bytes";
	if (s[0] == '-' || s[len - 1] == '-')
		return "has a label that begins or ends with a hyphen";
	if (len >= 4 && memcmp(s, "xn--", 4) == 0 && !punycode_is_valid(s + 4, len - 4))
		return "has an xn-- label that does not decode";
	if (last && looks_numeric(s, len))
		return "looks like an IPv4 address but is not valid: write four decimal numbers without leading zeros";
	return NULL;
}

static const char *labels_fault(const char *s, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *dot = memchr(s + at, '.', len - at);
		size_t end = dot ? (size_t)(dot - s) : len;
		const char *why = label_fault(s + at, end - at, !dot);

		if (why || !dot)
			return why;
		at = end + 1;
	}
}

void host_from_addr(const struct addr *a, struct host *ret)
{
	char text[ADDR_TEXT_LEN];
	struct host h = { .kind = HOST_ADDR, .addr = *a };

	addr_format(a, text);
	h.len = (uint8_t)strlen(text);
	memcpy(h.text, text, h.len);
	*ret = h;
}

static int canon_v6(const char *in, size_t len, struct host *ret, struct err *e)
{
	const char *s = in;
	size_t n = len;
	struct addr a;
	int r;

	if (len && in[0] == '[') {
		if (len < 2 || in[len - 1] != ']')
			return host_is_malformed(e, in, len, "has a bracket that is not closed at its end");
		s++;
		n -= 2;
		if (n == 0 || !memchr(s, ':', n))
			return host_is_malformed(e, in, len,
						 "has brackets around text that is not an IPv6 address");
	}
	r = addr_parse(s, n, &a, e);
	if (r < 0)
		return r;
	host_from_addr(&a, ret);
	return 0;
}

/* Copies a name in lower case, without a trailing dot. Refuses a byte that no name may have. */
static int copy_name(const char *in, size_t len, struct host *h, struct err *e)
{
	size_t n = len && in[len - 1] == '.' ? len - 1 : len;

	if (n == 0)
		return host_is_malformed(e, in, len, "is empty");
	if (n > HOST_MAX)
		return host_is_malformed(e, in, len, "is longer than 253 bytes");
	for (size_t i = 0; i < n; i++) {
		char c = in[i];

		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (c != '.' && !is_name_byte(c))
			return host_is_malformed(e, in, len, why_no_host_byte((unsigned char)c));
		h->text[i] = c;
	}
	h->len = (uint8_t)n;
	return 0;
}

int host_canon(const char *in, size_t len, struct host *ret, struct err *e)
{
	struct host h = { .kind = HOST_NAME };
	const char *why;
	int r;

	if (len && (in[0] == '[' || memchr(in, ':', len)))
		return canon_v6(in, len, ret, e);
	r = copy_name(in, len, &h, e);
	if (r < 0)
		return r;
	if (addr_parse(h.text, h.len, &h.addr, NULL) == 0) {
		host_from_addr(&h.addr, ret);
		return 0;
	}
	why = labels_fault(h.text, h.len);
	if (why)
		return host_is_malformed(e, in, len, why);
	*ret = h;
	return 0;
}

int host_parse_port(const char *in, size_t len, uint16_t *ret, struct err *e)
{
	char q[SLICE_QUOTE_LEN];
	unsigned v = 0;

	for (size_t i = 0; i < len && i < 6; i++)
		v = is_host_digit(in[i]) ? v * 10 + (unsigned)(in[i] - '0') : 1000000;
	if (len < 1 || len > 5 || in[0] == '0' || v > 65535)
		return err_set(e, -EINVAL, "port '%s' is not a number from 1 to 65535",
			       slice_quote(in, len, q));
	*ret = (uint16_t)v;
	return 0;
}

/* The length of the host in "host", "host:port", "[v6]" or "[v6]:port". */
static int host_end(const char *in, size_t len, size_t *ret, struct err *e)
{
	const char *p = len ? memchr(in, in[0] == '[' ? ']' : ':', len) : NULL;
	size_t end = p ? (size_t)(p - in) : len;

	if (len && in[0] == '[' && p)
		end++;
	if (end < len && in[end] != ':')
		return host_is_malformed(e, in, len, "has text after its bracket that is not a port");
	if (end < len && in[0] != '[' && memchr(in + end + 1, ':', len - end - 1))
		return host_is_malformed(e, in, len,
					 "has more than one colon; write an IPv6 address in brackets");
	*ret = end;
	return 0;
}

int host_port_parse(const char *in, size_t len, int default_port, struct host *ret, uint16_t *ret_port,
		    struct err *e)
{
	uint16_t port = default_port == HOST_PORT_OPTIONAL ? 0 : (uint16_t)default_port;
	size_t end = len;
	struct host h;
	int r;

	r = host_end(in, len, &end, e);
	if (r < 0)
		return r;
	r = host_canon(in, end, &h, e);
	if (r < 0)
		return r;
	if (end < len)
		r = host_parse_port(in + end + 1, len - end - 1, &port, e);
	else if (!default_port)
		r = host_is_malformed(e, in, len, "has no port; add it after a colon");
	if (r < 0)
		return r;
	*ret = h;
	*ret_port = port;
	return 0;
}

bool host_eq(const struct host *a, const struct host *b)
{
	return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

void host_add(struct buf *out, const struct host *h, uint16_t port)
{
	bool v6 = h->kind == HOST_ADDR && !addr_is_v4(&h->addr);

	buf_addf(out, v6 ? "[%s]" : "%s", h->text);
	if (port)
		buf_addf(out, ":%u", (unsigned)port);
}

unsigned host_labels(const struct host *h)
{
	unsigned n = h->kind == HOST_NAME;

	for (size_t i = 0; n && i < h->len; i++)
		n += h->text[i] == '.';
	return n;
}
