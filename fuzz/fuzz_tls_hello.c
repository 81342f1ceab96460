/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a TLS connection, at once and in pieces: both must come to the same end. */
#include "codec/net/tls_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(const struct tls_hello *h, struct slice s)
{
	return s.len == 0 || (s.p >= h->msg.data && s.p + s.len <= h->msg.data + h->msg.len);
}

static void check(const struct tls_hello *h, size_t size)
{
	struct slice s;

	BUG_ON(h->size > size || h->msg.len > TLS_HELLO_MAX);
	BUG_ON(!inside(h, h->sni) || !inside(h, h->alpn));
	BUG_ON(h->has_sni && (h->sni.len == 0 || h->sni.len > 255 || memchr(h->sni.p, 0, h->sni.len)));
	for (size_t at = 0; tls_hello_alpn(h, &at, &s);)
		BUG_ON(s.len == 0 || !inside(h, s) || at > h->alpn.len);
	BUG_ON(h->max_version < 0x0301 || h->max_version > 0x0304);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(tls_hello_release) struct tls_hello a = TLS_HELLO_INIT, b = TLS_HELLO_INIT;
	enum tls_hello_result whole = tls_hello_feed(&a, data, size), pieces = TLS_HELLO_MORE;
	size_t step = size ? (size_t)data[size - 1] % 61 + 1 : 1;

	for (size_t n = step; pieces == TLS_HELLO_MORE && n < size + step; n += step)
		pieces = tls_hello_feed(&b, data, n < size ? n : size);
	BUG_ON(whole != pieces);
	BUG_ON((whole == TLS_HELLO_BAD || whole == TLS_HELLO_NOT_TLS) != (a.why != NULL));
	if (whole != TLS_HELLO_DONE)
		return 0;
	check(&a, size);
	BUG_ON(a.size != b.size || !slice_same(a.sni, b.sni) || !slice_same(a.alpn, b.alpn) ||
	       a.has_ech != b.has_ech);
	return 0;
}
