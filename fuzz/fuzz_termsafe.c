/* SPDX-License-Identifier: Apache-2.0 */
/* For any input, cut anywhere, only text, line ends, tabs and colours come out, and always the same. */
#include "codec/term/termsafe.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The sequence at p must be ESC [ digits ; m; returns its last byte. */
static size_t check_colour(const struct buf *b, size_t i)
{
	size_t n = strspn(b->data + i + 2, "0123456789;");

	BUG_ON(i + 2 >= b->len || b->data[i + 1] != '[' || b->data[i + 2 + n] != 'm');
	return i + 2 + n;
}

static void check(const struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		unsigned char c = (unsigned char)b->data[i];

		if (c == 0x1b) {
			i = check_colour(b, i);
			continue;
		}
		BUG_ON((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f);
		BUG_ON(c == 0xc2 && i + 1 < b->len && (unsigned char)b->data[i + 1] < 0xa0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct termsafe t = TERMSAFE_INIT;
	autobuf struct buf whole = BUF_INIT, cut = BUF_INIT;
	size_t at = size ? data[0] % size : 0;

	termsafe_feed(&t, &whole, data, size);
	termsafe_finish(&t, &whole);
	check(&whole);
	t = TERMSAFE_INIT;
	termsafe_feed(&t, &cut, data, at);
	termsafe_feed(&t, &cut, data + at, size - at);
	termsafe_finish(&t, &cut);
	BUG_ON(whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, cut.len) != 0));
	return 0;
}
