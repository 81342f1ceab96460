/* SPDX-License-Identifier: Apache-2.0 */
/* A request of a stranger, head and body: what is taken becomes a message that cofferd would take. */
#include "base/cleanup.h"
#include "web/server/webreq.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http1_head h;
	struct web_via via = { .port = 8787, .names = "gate.example" };
	autobuf struct buf b = BUF_INIT;
	struct web_ask a = WEB_ASK_INIT;
	enum web_op op = WEB_OP_COUNT;
	struct webp_msg m;
	long n;

	http1_head_reset(&h);
	n = http1_parse_request(&h, (const char *)data, size);
	if (n <= 0)
		return 0;
	via.owner = h.minor == 0;
	if (web_check_head(&h, &via, &a, &op) == 0 && op != WEB_OP_COUNT &&
	    web_build(&h, (const char *)data + n, size - (size_t)n, &a) == 0) {
		a.req.id = 1;
		if (webp_req_pack(&a.req, &b) == 0 && webp_parse(b.data, b.len, &m) < 0)
			abort();
	} else if (op == WEB_OP_COUNT && a.no.status && (a.no.status < 400 || !a.no.code)) {
		abort();
	}
	web_ask_release(&a);
	return 0;
}
