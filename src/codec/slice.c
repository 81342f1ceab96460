/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quoting a slice for a message: made harmless for a terminal, and cut where it is long. The result never has
 * more than SLICE_QUOTE_LEN bytes.
 */
#include "codec/slice.h"

#include "base/str.h"

char *slice_quote(const char *s, size_t len, char out[SLICE_QUOTE_LEN])
{
	autobuf struct buf b = BUF_INIT;

	str_add_safe(&b, s, len < SLICE_QUOTE_LEN ? len : SLICE_QUOTE_LEN, false);
	if (buf_error(&b) || b.len >= SLICE_QUOTE_LEN || len > SLICE_QUOTE_LEN) {
		size_t n = b.len < SLICE_QUOTE_LEN - 4 ? b.len : SLICE_QUOTE_LEN - 4;

		if (n)
			memcpy(out, b.data, n);
		memcpy(out + n, "...", 4);
		return out;
	}
	memcpy(out, buf_cstr(&b), b.len + 1);
	return out;
}
