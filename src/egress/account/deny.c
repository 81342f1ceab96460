/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders a refusal as a line, as JSON and as an HTTP/1.1 response. Host, path and rule come from outside:
 * they are made harmless for terminals and headers here. Pure. No byte of these texts may end a header's
 * line.
 */
#include "egress/account/deny.h"

#include "base/json.h"
#include "base/str.h"
#include "codec/http/http1.h"
#include "policy/policy.h"

#define HOW_TO_ASK \
	"http://coffer.internal/ shows what is allowed and takes requests for more; a person decides"

static void deny_add_target(struct buf *out, const struct denial *d)
{
	if (d->method) {
		buf_adds(out, d->method);
		buf_addc(out, ' ');
	}
	str_add_safe(out, d->host ? d->host : "this host", d->host ? strlen(d->host) : 9, false);
	if (d->port)
		buf_addf(out, ":%u", d->port);
	if (d->path)
		str_add_safe(out, d->path, strnlen(d->path, 256), false);
}

void deny_line(struct buf *out, const struct denial *d)
{
	autobuf struct buf reason = BUF_INIT;

	buf_adds(out, "coffer: ");
	deny_add_target(out, d);
	buf_adds(out, " is denied: ");
	policy_text_inside(d->reason ? d->reason : "no rule allows it", &reason);
	str_add_safe(out, buf_cstr(&reason), reason.len, false);
	if (d->rule) {
		buf_adds(out, " [");
		policy_text_inside(d->rule, out);
		buf_addc(out, ']');
	}
}

void deny_json(struct buf *out, const struct denial *d)
{
	struct json j = JSON_INIT(out);
	autobuf struct buf line = BUF_INIT, rule = BUF_INIT, reason = BUF_INIT;

	deny_line(&line, d);
	policy_text_inside(d->rule ? d->rule : "", &rule);
	policy_text_inside(d->reason ? d->reason : "", &reason);
	json_obj(&j, NULL);
	json_str(&j, "error", "denied");
	json_str(&j, "message", buf_cstr(&line));
	json_str(&j, "host", d->host);
	if (d->port)
		json_u64(&j, "port", d->port);
	else
		json_none(&j, "port");
	json_str(&j, "method", d->method);
	json_str(&j, "path", d->path);
	json_str(&j, "rule", d->rule ? buf_cstr(&rule) : NULL);
	json_str(&j, "reason", d->reason ? buf_cstr(&reason) : NULL);
	json_str(&j, "how_to_ask", d->hint ? d->hint : HOW_TO_ASK);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

/* A header's value: only printable ASCII, so that nothing in it can end the line. */
static void add_header_text(struct buf *out, const struct buf *text)
{
	for (size_t i = 0; i < text->len && i < 512; i++) {
		unsigned char c = (unsigned char)text->data[i];

		buf_addc(out, (char)(c >= 0x20 && c < 0x7f ? c : '?'));
	}
}

void deny_http1(struct buf *out, const struct denial *d, bool head_only)
{
	autobuf struct buf body = BUF_INIT, line = BUF_INIT;
	unsigned status = d->status ? d->status : 403;

	deny_json(&body, d);
	deny_line(&line, d);
	buf_addf(out, "HTTP/1.1 %u %s\r\n", status, http1_reason(status));
	buf_addf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.len);
	buf_adds(out, "Cache-Control: no-store\r\nConnection: close\r\nCoffer-Denied: ");
	add_header_text(out, &line);
	buf_adds(out, "\r\n\r\n");
	if (!head_only)
		buf_add(out, buf_cstr(&body), body.len);
}
