/* SPDX-License-Identifier: Apache-2.0 */
/* The CONNECT request to an HTTP proxy, and a strict reader of the head of its response. Must not read past that head. */
#include "codec/http/connect.h"

#include "base/base64.h"
#include "codec/http/http1.h"

#include <errno.h>
#include <stdint.h>

static bool is_plain(const char *s, bool is_user)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < 0x20 || c == 0x7f || (is_user && c == ':'))
			return false;
	}
	return n <= CONNECT_CREDENTIAL_MAX;
}

static int add_credentials(struct buf *out, const char *user, const char *password, struct err *e)
{
	char both[2 * CONNECT_CREDENTIAL_MAX + 2];
	int n;

	if (!is_plain(user, true) || !is_plain(password, false))
		return err_set(
			e, -EINVAL,
			"the proxy's user name has a colon, or the user name or the password has a control byte or more than %d bytes",
			CONNECT_CREDENTIAL_MAX);
	n = snprintf(both, sizeof(both), "%s:%s", user, password);
	buf_adds(out, "Proxy-Authorization: Basic ");
	base64_add(out, both, (size_t)n);
	buf_adds(out, "\r\n");
	explicit_bzero(both, sizeof(both));
	return 0;
}

int connect_add_request(struct buf *out, const struct host *h, uint16_t port, const char *user,
			const char *password, struct err *e)
{
	size_t before = out->len;
	int r = 0;

	buf_adds(out, "CONNECT ");
	host_add(out, h, port);
	buf_adds(out, " HTTP/1.1\r\nHost: ");
	host_add(out, h, port);
	buf_adds(out, "\r\n");
	if (user)
		r = add_credentials(out, user, password ? password : "", e);
	if (r < 0) {
		out->len = before;
		return r;
	}
	buf_adds(out, "\r\n");
	return buf_error(out);
}

long connect_parse_reply(struct connect_reply *c, const char *data, size_t len, struct err *e)
{
	struct http1_head h = { .scanned = c->scanned, .line = c->line };
	size_t limit = len < CONNECT_REPLY_MAX ? len : CONNECT_REPLY_MAX;
	long n = http1_parse_response(&h, data, limit, slice_of("CONNECT"));

	c->scanned = h.scanned;
	c->line = h.line;
	if (n < 0)
		return err_set(e, -EBADMSG, "the proxy does not speak HTTP/1.1: %s", h.why);
	if (n == 0 && limit == CONNECT_REPLY_MAX)
		return err_set(e, -EBADMSG, "the proxy's response is too large");
	if (n == 0)
		return 0;
	c->status = h.status;
	if (h.status / 100 == 2)
		return n;
	if (h.status / 100 == 1)
		return err_set(e, -EBADMSG, "the proxy sent status %u instead of a final response", h.status);
	if (h.status == 407)
		return err_set(e, -EACCES, "the proxy requires other credentials (407)");
	return err_set(e, -ECONNREFUSED, "the proxy refused with status %u", h.status);
}
