/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of courier_job.h. Parses in the confined process what a trusted one sent, and checks the result
 * the other way round, where the sender may be compromised. A message with more than its head announces is
 * refused (courier_job.C1).
 */
#include "courier/courier_job.h"

#include "base/str.h"
#include "codec/http/http1.h"
#include "codec/http/urlpath.h"

#include <errno.h>
#include <string.h>

#define JOB_MAGIC 0x314a4343u /* "CCJ1" */

struct job_head {
	uint32_t magic, flags, auth, handle, timeout_ms;
	uint16_t port, pin_port;
	uint8_t pin[16];
	char method[COURIER_METHOD_MAX + 1];
	uint32_t host_len, target_len, fields_len, body_len;
};

static_assert(sizeof(struct job_head) == 64, "no padding");

size_t courier_job_fds(unsigned flags)
{
	return (size_t)__builtin_popcount(flags & (COURIER_HAS_RESOLV | COURIER_HAS_STORE | COURIER_HAS_CA |
						   COURIER_HAS_KEY | COURIER_HAS_VAULT));
}

static bool is_job_method(const char *m)
{
	static const char *const list[] = { "GET", "HEAD", "POST", "PUT" };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (str_eq(m, list[i]))
			return true;
	}
	return false;
}

static bool is_job_target(struct slice t)
{
	autobuf struct buf canon = BUF_INIT;
	struct urlpath u;

	return t.len > 0 && t.len <= COURIER_TARGET_MAX &&
	       urlpath_canon(t.p, t.len, URLPATH_KEEP_SLASH, &canon, &u, NULL) == 0 && canon.len == t.len &&
	       memcmp(canon.data, t.p, t.len) == 0;
}

/* Fields that only the courier itself writes. */
static bool is_courier_field(struct slice name)
{
	static const char *const own[] = { "host",
					   "content-length",
					   "transfer-encoding",
					   "connection",
					   "upgrade",
					   "te",
					   "trailer",
					   "expect",
					   "keep-alive",
					   "authorization",
					   "cookie",
					   "coffer-signature",
					   "proxy-authorization" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (slice_eq_nocase(name, own[i]))
			return true;
	}
	return false;
}

static bool are_job_fields(struct slice f)
{
	if (f.len > COURIER_FIELDS_MAX)
		return false;
	while (f.len) {
		const char *end = memchr(f.p, '\n', f.len), *colon = memchr(f.p, ':', f.len);
		struct slice name, value;

		if (!end || !colon || colon > end || colon[1] != ' ')
			return false;
		name = (struct slice){ f.p, (size_t)(colon - f.p) };
		value = (struct slice){ colon + 2, (size_t)(end - colon) - 2 };
		if (!http1_is_token(name) || !http1_is_value(value) || is_courier_field(name))
			return false;
		f.len -= (size_t)(end - f.p) + 1;
		f.p = end + 1;
	}
	return true;
}

/* A secret requires its source; a CA replaces the store. */
static bool are_job_flags(const struct courier_job *j)
{
	unsigned key = j->flags & (COURIER_HAS_KEY | COURIER_HAS_VAULT);
	unsigned trust = j->flags & (COURIER_HAS_STORE | COURIER_HAS_CA);

	if (j->flags & ~(unsigned)COURIER_FLAGS_ALL || key == (COURIER_HAS_KEY | COURIER_HAS_VAULT) ||
	    trust == 0 || trust == (COURIER_HAS_STORE | COURIER_HAS_CA))
		return false;
	if ((key != 0) != (j->auth != COURIER_NO_AUTH) ||
	    ((j->flags & COURIER_HAS_VAULT) != 0) != (j->handle != 0))
		return false;
	return (j->flags & COURIER_HAS_PIN) != 0 ? j->pin_port != 0 : j->pin_port == 0;
}

static bool is_good_job(const struct courier_job *j)
{
	struct host again;

	return (unsigned)j->auth < COURIER_AUTH_COUNT && are_job_flags(j) && j->port &&
	       j->timeout_ms >= COURIER_TIMEOUT_MIN && j->timeout_ms <= COURIER_TIMEOUT_MAX &&
	       is_job_method(j->method) && host_canon(j->host.text, j->host.len, &again, NULL) == 0 &&
	       host_eq(&again, &j->host) && is_job_target(j->target) && are_job_fields(j->fields) &&
	       j->body.len <= COURIER_BODY_MAX;
}

int courier_job_pack(const struct courier_job *j, struct buf *out)
{
	struct job_head h = { .magic = JOB_MAGIC,
			      .flags = j->flags,
			      .auth = j->auth,
			      .handle = j->handle,
			      .timeout_ms = j->timeout_ms,
			      .port = j->port,
			      .pin_port = j->pin_port,
			      .host_len = j->host.len,
			      .target_len = (uint32_t)j->target.len,
			      .fields_len = (uint32_t)j->fields.len,
			      .body_len = (uint32_t)j->body.len };

	if (!is_good_job(j))
		return -EINVAL;
	if (j->flags & COURIER_HAS_PIN)
		memcpy(h.pin, j->pin.b, sizeof(h.pin));
	memcpy(h.method, j->method, strlen(j->method));
	buf_add(out, &h, sizeof(h));
	buf_add(out, j->host.text, j->host.len);
	buf_add(out, j->target.p, j->target.len);
	buf_add(out, j->fields.p, j->fields.len);
	buf_add(out, j->body.p, j->body.len);
	return buf_error(out);
}

static struct slice take_job_text(const char **p, uint32_t len)
{
	struct slice s = { *p, len };

	*p += len;
	return s;
}

int courier_job_parse(const void *data, size_t len, size_t n_fds, struct courier_job *ret)
{
	static const struct addr none;
	struct courier_job j = { 0 };
	struct slice host;
	const char *p = data;
	struct job_head h;

	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, p, sizeof(h));
	p += sizeof(h);
	if (h.magic != JOB_MAGIC || h.host_len > HOST_MAX || h.target_len > COURIER_TARGET_MAX ||
	    h.fields_len > COURIER_FIELDS_MAX || h.body_len > COURIER_BODY_MAX ||
	    h.auth >= COURIER_AUTH_COUNT ||
	    len - sizeof(h) != (size_t)h.host_len + h.target_len + h.fields_len + h.body_len ||
	    h.method[COURIER_METHOD_MAX])
		return -EBADMSG;
	j.flags = h.flags;
	j.auth = (enum courier_auth)h.auth;
	j.handle = h.handle;
	j.timeout_ms = h.timeout_ms;
	j.port = h.port;
	j.pin_port = h.pin_port;
	memcpy(j.pin.b, h.pin, sizeof(j.pin.b));
	memcpy(j.method, h.method, sizeof(j.method));
	host = take_job_text(&p, h.host_len);
	j.target = take_job_text(&p, h.target_len);
	j.fields = take_job_text(&p, h.fields_len);
	j.body = take_job_text(&p, h.body_len);
	if (host_canon(host.p, host.len, &j.host, NULL) < 0 || !slice_eq(host, j.host.text) ||
	    !is_good_job(&j) || n_fds != courier_job_fds(j.flags) ||
	    strlen(j.method) != strnlen(h.method, sizeof(h.method)))
		return -EBADMSG;
	/* Nothing hides in unused bytes. */
	if ((!(j.flags & COURIER_HAS_PIN) && !addr_eq(&j.pin, &none)) ||
	    memcmp(j.method + strlen(j.method), "\0\0\0\0\0\0\0", sizeof(j.method) - strlen(j.method) - 1) !=
		    0)
		return -EBADMSG;
	*ret = j;
	return 0;
}

int courier_result_check(const void *data, size_t len, struct courier_result *ret)
{
	struct courier_result r;

	if (len != sizeof(r))
		return -EBADMSG;
	memcpy(&r, data, sizeof(r));
	if (r.magic != COURIER_RESULT_MAGIC || r.reserved || r.error > 0 || r.error < -4095 ||
	    (r.error == 0 && (r.status < 200 || r.status > 599)) || (r.error && r.status) ||
	    r.why[COURIER_WHY_LEN - 1] || r.text[COURIER_WHY_LEN - 1])
		return -EBADMSG;
	*ret = r;
	return 0;
}
