/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of coffer-web to cofferd: one that parses is allowed by the table, and packs to the same bytes. */
#include "base/cleanup.h"
#include "web/wire/webproto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf b = BUF_INIT;
	struct webp_msg m, again;

	if (webp_parse(data, size, &m) < 0)
		return 0;
	if (m.type == WEBP_STATS &&
	    (webp_stats_pack(&m.stats, &b) < 0 || b.len != size || memcmp(b.data, data, size) != 0))
		abort();
	if (m.type != WEBP_REQ)
		return 0;
	for (unsigned i = 0; i < web_route_fields(web_route(m.req.op)); i++) {
		const char *why;

		if (m.req.v[i].has && !web_value_check(&web_route(m.req.op)->fields[i], &m.req.v[i], &why))
			abort();
	}
	if (webp_req_pack(&m.req, &b) < 0 || webp_parse(b.data, b.len, &again) < 0 || b.len != size ||
	    memcmp(b.data, data, size) != 0)
		abort();
	return 0;
}
