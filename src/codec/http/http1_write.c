/* SPDX-License-Identifier: Apache-2.0 */
/* Writes heads. Every part is checked first, so that no byte in it can end its line and begin another header. */
#include "codec/http/http1.h"

#include <errno.h>

int http1_add_request_line(struct buf *out, struct slice method, struct slice target)
{
	if (!http1_is_token(method) || target.len == 0)
		return -EINVAL;
	for (size_t i = 0; i < target.len; i++) {
		if (target.p[i] < 0x21 || target.p[i] > 0x7e || target.p[i] == '#')
			return -EINVAL;
	}
	buf_add(out, method.p, method.len);
	buf_addc(out, ' ');
	buf_add(out, target.p, target.len);
	buf_adds(out, " HTTP/1.1\r\n");
	return buf_error(out);
}

int http1_add_status_line(struct buf *out, unsigned status, struct slice reason)
{
	if (reason.len == 0)
		reason = slice_of(http1_reason(status));
	if (status < 100 || status > 599 || !http1_is_value(reason))
		return -EINVAL;
	buf_addf(out, "HTTP/1.1 %u ", status);
	buf_add(out, reason.p, reason.len);
	buf_adds(out, "\r\n");
	return buf_error(out);
}

int http1_add_field(struct buf *out, struct slice name, struct slice value)
{
	if (!http1_is_token(name) || !http1_is_value(value))
		return -EINVAL;
	buf_add(out, name.p, name.len);
	buf_adds(out, ": ");
	buf_add(out, value.p, value.len);
	buf_adds(out, "\r\n");
	return buf_error(out);
}

int http1_add_end(struct buf *out)
{
	buf_adds(out, "\r\n");
	return buf_error(out);
}

static const struct {
	unsigned status;
	const char *reason;
} reasons[] = {
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 304, "Not Modified" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 411, "Length Required" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
};

const char *http1_reason(unsigned status)
{
	static const char *const classes[] = { "Informational", "OK", "Redirect", "Client Error",
					       "Server Error" };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].status == status)
			return reasons[i].reason;
	}
	return status >= 100 && status <= 599 ? classes[status / 100 - 1] : "Unknown";
}
