/* SPDX-License-Identifier: Apache-2.0 */
/* Host names: what comes out is canonical, whatever went in; and nobody else takes a name of ours for an address. */
#include "codec/net/host.h"

#include <arpa/inet.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct host *h)
{
	struct in_addr a;
	struct host again;

	BUG_ON(h->len == 0 || h->len > HOST_MAX || h->text[h->len] != '\0' || strlen(h->text) != h->len);
	BUG_ON(host_canon(h->text, h->len, &again, NULL) < 0 || !host_eq(h, &again));
	BUG_ON(h->kind == HOST_NAME && inet_aton(h->text, &a));
	for (size_t i = 0; h->kind == HOST_NAME && i < h->len; i++)
		BUG_ON(!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", h->text[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *)data;
	struct err e = ERR_INIT;
	struct host h, again;
	uint16_t port, port2;

	if (host_canon(s, size, &h, &e) == 0)
		check(&h);
	else
		BUG_ON(!e.msg[0]);
	if (host_port_parse(s, size, 443, &h, &port, NULL) == 0) {
		autobuf struct buf b = BUF_INIT;

		check(&h);
		host_add(&b, &h, port);
		BUG_ON(host_port_parse(b.data, b.len, 0, &again, &port2, NULL) < 0);
		BUG_ON(!host_eq(&h, &again) || port != port2 || port == 0);
	}
	return 0;
}
