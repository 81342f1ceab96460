/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of wallmsg.M1 and M2: one table of the messages that a forwarder may send. It may be taken over, so
 * nothing of a message is used before it is checked whole. Pure.
 */
#include "egress/wire/wallmsg.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

/* Is it an address that packets leave a sandbox for? The others stay inside, or no wall routes them. */
static bool has_route(const struct addr *a)
{
	switch (addr_special(a)) {
	case ADDR_UNSPECIFIED:
	case ADDR_LOOPBACK:
	case ADDR_MULTICAST:
	case ADDR_BROADCAST:
		return false;
	default:
		return true;
	}
}

static bool is_good_stream(const struct wallmsg_head *h)
{
	return h->to.port == WALLMSG_DNS_PORT || has_route(&h->to.addr);
}

static bool is_good_query(const struct wallmsg_head *h)
{
	return h->to.port == WALLMSG_DNS_PORT;
}

static const struct wallmsg_form {
	uint16_t data_max;
	unsigned n_fds;
	bool (*good)(const struct wallmsg_head *h);
} wallmsg_forms[] = {
	[WALLMSG_STREAM] = { 0, 1, is_good_stream },
	[WALLMSG_QUERY] = { WALLMSG_DATAGRAM_MAX, 0, is_good_query },
};

static bool is_peer_of(const struct wallmsg_peer *p, uint8_t family)
{
	return addr_is_v4(&p->addr) == (family == WALLMSG_V4) && p->zero[0] == 0 && p->zero[1] == 0;
}

int wallmsg_parse(const void *data, size_t len, unsigned n_fds, struct wallmsg_head *ret)
{
	const struct wallmsg_form *f;
	struct wallmsg_head h;

	if (len < sizeof(h))
		return -EPROTO;
	memcpy(&h, data, sizeof(h));
	f = h.type < ARRAY_SIZE(wallmsg_forms) ? &wallmsg_forms[h.type] : NULL;
	if (!f || !f->good || h.len > f->data_max || len != sizeof(h) + h.len || n_fds != f->n_fds)
		return -EPROTO;
	if ((h.family != WALLMSG_V4 && h.family != WALLMSG_V6) || h.zero || !is_peer_of(&h.from, h.family) ||
	    !is_peer_of(&h.to, h.family) || !f->good(&h))
		return -EPROTO;
	*ret = h;
	return 0;
}

struct wallmsg_head wallmsg_reply(const struct wallmsg_head *query, size_t len)
{
	struct wallmsg_head h = *query;

	h.type = WALLMSG_REPLY;
	h.len = (uint16_t)len;
	h.from = query->to;
	h.to = query->from;
	return h;
}
