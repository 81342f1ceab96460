/* SPDX-License-Identifier: Apache-2.0 */
/* A proxy's response to SOCKS5, at once and in pieces. */
#include "codec/net/socks.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int talk(const uint8_t *data, size_t size, size_t step, struct buf *out, size_t *ret_used)
{
	struct host h = { .kind = HOST_NAME, .len = 1, .text = "a" };
	struct socks s = SOCKS_INIT(&h, 443, step & 1 ? "user" : NULL, step & 1 ? "password" : NULL);
	size_t at = 0, have = 0;
	int r = socks_start(&s, out, NULL);

	while (r == 0 && have < size) {
		size_t used;

		have = size - have <= step / 2 ? size : have + step / 2;
		r = socks_feed(&s, data + at, have - at, &used, out, NULL);
		BUG_ON(used > have - at);
		at += used;
	}
	*ret_used = at;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf a = BUF_INIT, b = BUF_INIT;
	size_t used_a, used_b, auth = size ? data[size - 1] & 1 : 0, step = size ? data[size - 1] % 7 + 1 : 1;
	int whole = talk(data, size, (SIZE_MAX / 2 & ~(size_t)1) | auth, &a, &used_a);
	int pieces = talk(data, size, 2 * step | auth, &b, &used_b);

	BUG_ON(whole != pieces || (whole >= 0 && (used_a != used_b || a.len != b.len)));
	BUG_ON(whole >= 0 && memcmp(a.data, b.data, a.len) != 0);
	return 0;
}
