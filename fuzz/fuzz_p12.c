/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle of certificates that came with an image, as Java will find it. */
#include "codec/file/p12.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Into an element with this tag, which must end where its surroundings do; *end is where it begins afterwards. */
static size_t enter(const struct buf *b, size_t at, uint8_t tag, size_t end)
{
	const uint8_t *d = (const uint8_t *)b->data;
	size_t len, n;

	BUG_ON(end - at < 2 || d[at] != tag);
	len = d[at + 1];
	n = len & 0x80 ? len & 0x7f : 0;
	BUG_ON(n > 4 || end - at < 2 + n);
	at += 2;
	for (len = n ? 0 : len; n > 0; n--)
		len = len << 8 | d[at++];
	BUG_ON(len != end - at);
	return at;
}

static size_t enter_info(const struct buf *b, size_t at)
{
	at = enter(b, at, 0x30, b->len) + 11;
	at = enter(b, at, 0xa0, b->len);
	return enter(b, at, 0x04, b->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf all = BUF_INIT, some = BUF_INIT;
	size_t cap = 300 + (size ? data[size - 1] * 64u : 0), at;
	int n = p12_add_trusted(&all, (const char *)data, size, 1u << 30);
	int k = p12_add_trusted(&some, (const char *)data, size, cap);

	BUG_ON(n < 0 || k < 0 || k > n || some.len > cap || all.len > size + 300);
	at = enter(&all, 0, 0x30, all.len) + 3;
	at = enter_info(&all, at);
	at = enter(&all, at, 0x30, all.len);
	at = enter_info(&all, at);
	at = enter(&all, at, 0x30, all.len);
	BUG_ON((n == 0) != (at == all.len));
	return 0;
}
