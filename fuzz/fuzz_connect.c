/* SPDX-License-Identifier: Apache-2.0 */
/* A proxy's response to CONNECT, at once and in pieces. */
#include "codec/http/connect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct connect_reply a = CONNECT_REPLY_INIT, b = CONNECT_REPLY_INIT;
	const char *s = (const char *)data;
	size_t step = size ? data[size - 1] % 7 + 1 : 1;
	struct err e = ERR_INIT;
	long whole = connect_parse_reply(&a, s, size, &e), pieces = 0;

	for (size_t n = step; pieces == 0 && n < size + step; n += step)
		pieces = connect_parse_reply(&b, s, n < size ? n : size, NULL);
	BUG_ON(size < CONNECT_REPLY_MAX && (whole != pieces || a.status != b.status));
	BUG_ON(whole > (long)size || (whole > 0 && a.status / 100 != 2) || (whole < 0 && !e.msg[0]));
	return 0;
}
