/* SPDX-License-Identifier: Apache-2.0 */
/* Refused packets of a sandbox through netlink: any bytes, as messages and as one packet. */
#include "base/err.h"
#include "egress/core/nflog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tell(void *ctx, const struct nflog_packet *p)
{
	char text[ADDR_TEXT_LEN];

	(*(unsigned *)ctx)++;
	BUG_ON(addr_format(&p->to, text) != text || text[0] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nflog_packet p;
	unsigned n = 0;

	nflog_parse(data, size, tell, &n);
	BUG_ON(n > size / 24); /* an attribute's head and the shortest packet */
	if (nflog_parse_packet(data, size, &p) == 0)
		tell(&n, &p);
	return 0;
}
