/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a forwarder that was taken over: the number of descriptors in the first byte, then the message. */
#include "base/err.h"
#include "egress/wire/wallmsg.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_peer(const struct wallmsg_peer *p, uint8_t family)
{
	char text[ADDR_TEXT_LEN];

	BUG_ON(addr_is_v4(&p->addr) != (family == WALLMSG_V4));
	BUG_ON(addr_format(&p->addr, text) != text || text[0] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wallmsg_head h, r;

	if (size < 1 || wallmsg_parse(data + 1, size - 1, data[0], &h) < 0)
		return 0;
	BUG_ON(memcmp(&h, data + 1, sizeof(h)) != 0 || size != 1 + sizeof(h) + h.len);
	BUG_ON(h.type == WALLMSG_STREAM ? data[0] != 1 || h.len : h.type != WALLMSG_QUERY || data[0]);
	BUG_ON(h.len > WALLMSG_DATAGRAM_MAX || (h.type == WALLMSG_QUERY && h.to.port != WALLMSG_DNS_PORT));
	check_peer(&h.from, h.family);
	check_peer(&h.to, h.family);
	r = wallmsg_reply(&h, DNS_REPLY_MAX);
	BUG_ON(wallmsg_parse(&r, sizeof(r), 0, &h) == 0); /* egress takes none of its own */
	return 0;
}
