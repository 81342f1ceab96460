/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of dialproto.D1: one table of message types with their size, direction and validity check. Used
 * by both programs on bytes of the other, which may be compromised. Pure.
 */
#include "egress/wire/dialproto.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>

#define REQ_FLAGS DIAL_RESOLVE_ONLY
#define REP_FLAGS (DIAL_VIA_PROXY | DIAL_ONE_REQUEST | DIAL_UNRESOLVED | DIAL_PINNED)

/* Printable ASCII up to a NUL, and only NULs after it: no byte can hide. */
static bool is_padded_text(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	if (n == size)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < 0x20 || s[i] > 0x7e)
			return false;
	}
	for (size_t i = n; i < size; i++) {
		if (s[i])
			return false;
	}
	return true;
}

static bool is_all_zero(const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

/* Empty, or a name that a policy may give to a proxy set. */
static bool is_proxy_set_name(const char *s)
{
	return is_padded_text(s, DIAL_PROXY_SET_LEN) && (!*s || str_is_name(s));
}

static bool is_wire_host(const char *s, size_t size)
{
	struct host h;

	return is_padded_text(s, size) && host_canon(s, strlen(s), &h, NULL) == 0 && h.kind == HOST_NAME &&
	       str_eq(h.text, s);
}

static bool is_good_req(const union dial_msg *m)
{
	const struct dial_req *r = &m->req;

	if ((r->flags & ~REQ_FLAGS) || (r->port == 0 && !(r->flags & DIAL_RESOLVE_ONLY)))
		return false;
	if (!is_proxy_set_name(r->proxy_set) || !is_padded_text(r->sticky, sizeof(r->sticky)))
		return false;
	if (r->kind == DIAL_NAME)
		return is_wire_host(r->host, sizeof(r->host)) && is_all_zero(r->addr, sizeof(r->addr));
	return r->kind == DIAL_ADDR && is_all_zero(r->host, sizeof(r->host));
}

static bool is_good_rep(const union dial_msg *m)
{
	const struct dial_rep *r = &m->rep;

	return r->status <= 0 && !(r->flags & ~REP_FLAGS) && is_padded_text(r->proxy, sizeof(r->proxy)) &&
	       is_padded_text(r->why, sizeof(r->why));
}

static bool is_good_cancel(const union dial_msg *m)
{
	(void)m;
	return true;
}

static bool is_good_fault(const union dial_msg *m)
{
	const struct dial_fault *f = &m->fault;

	return f->reserved == 0 && *f->proxy_set && is_proxy_set_name(f->proxy_set) && *f->proxy &&
	       is_padded_text(f->proxy, sizeof(f->proxy));
}

static const struct form {
	size_t size;
	bool to_dial;
	bool (*good)(const union dial_msg *m);
} dialproto_forms[] = {
	[DIAL_REQ] = { sizeof(struct dial_req), true, is_good_req },
	[DIAL_REP] = { sizeof(struct dial_rep), false, is_good_rep },
	[DIAL_CANCEL] = { sizeof(struct dial_cancel), true, is_good_cancel },
	[DIAL_FAULT] = { sizeof(struct dial_fault), true, is_good_fault },
};

static int dialproto_parse(const void *data, size_t len, bool to_dial, union dial_msg *ret)
{
	union dial_msg m = { 0 };
	const struct form *f;

	if (len < sizeof(m.type) || len > sizeof(m))
		return -EPROTO;
	memcpy(&m, data, len);
	if (m.type >= ARRAY_SIZE(dialproto_forms))
		return -EPROTO;
	f = &dialproto_forms[m.type];
	if (!f->good || f->to_dial != to_dial || f->size != len || !f->good(&m))
		return -EPROTO;
	*ret = m;
	return 0;
}

int dialproto_parse_to_dial(const void *data, size_t len, union dial_msg *ret)
{
	return dialproto_parse(data, len, true, ret);
}

int dialproto_parse_to_egress(const void *data, size_t len, union dial_msg *ret)
{
	return dialproto_parse(data, len, false, ret);
}

void dialproto_request(struct dial_req *ret, uint32_t id, const struct host *h, uint16_t port, unsigned flags)
{
	*ret = (struct dial_req){ .type = DIAL_REQ, .id = id, .port = port, .flags = (uint8_t)flags };
	if (h->kind == HOST_ADDR) {
		ret->kind = DIAL_ADDR;
		memcpy(ret->addr, h->addr.b, sizeof(ret->addr));
		return;
	}
	ret->kind = DIAL_NAME;
	memcpy(ret->host, h->text, h->len);
}
