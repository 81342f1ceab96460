/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/net/tls_hello.h"
#include "tap.h"

#include <stdlib.h>

/* A ClientHello put together from its extensions, then cut into records. */
static void add16(struct buf *b, size_t v)
{
	buf_addc(b, (char)(v >> 8));
	buf_addc(b, (char)v);
}

static void add_ext(struct buf *b, unsigned type, const void *data, size_t len)
{
	add16(b, type);
	add16(b, len);
	buf_add(b, data, len);
}

static void add_sni(struct buf *b, const char *name, size_t len)
{
	autobuf struct buf e = BUF_INIT;

	add16(&e, len + 3);
	buf_addc(&e, 0);
	add16(&e, len);
	buf_add(&e, name, len);
	add_ext(b, 0, e.data, e.len);
}

static void add_message(struct buf *out, const struct buf *exts, bool with_exts)
{
	autobuf struct buf m = BUF_INIT;
	char zeros[32] = { 0 };

	buf_add(&m, "\3\3", 2);
	buf_add(&m, zeros, 32);
	buf_add(&m, "\0\0\2\x13\1\1\0", 7);
	if (with_exts) {
		add16(&m, exts->len);
		buf_add(&m, buf_cstr(exts), exts->len);
	}
	buf_add(out, "\1", 1);
	buf_addc(out, (char)(m.len >> 16));
	add16(out, m.len & 0xffff);
	buf_add(out, m.data, m.len);
}

static void add_records(struct buf *out, const struct buf *msg, size_t each)
{
	for (size_t at = 0; at < msg->len; at += each) {
		size_t n = msg->len - at < each ? msg->len - at : each;

		buf_add(out, "\x16\3\1", 3);
		add16(out, n);
		buf_add(out, msg->data + at, n);
	}
}

static void hello_of(const struct buf *exts, size_t record, struct buf *out)
{
	autobuf struct buf m = BUF_INIT;

	add_message(&m, exts, true);
	add_records(out, &m, record);
}

static enum tls_hello_result feed_in(struct tls_hello *h, const struct buf *b, size_t step)
{
	enum tls_hello_result r = TLS_HELLO_MORE;

	for (size_t n = step; r == TLS_HELLO_MORE; n += step) {
		r = tls_hello_feed(h, b->data, n < b->len ? n : b->len);
		if (n >= b->len)
			break;
	}
	return r;
}

static enum tls_hello_result whole(const struct buf *exts, struct tls_hello *h)
{
	autobuf struct buf b = BUF_INIT;

	hello_of(exts, 16384, &b);
	return tls_hello_feed(h, b.data, b.len);
}

static void full_exts(struct buf *e, size_t padding)
{
	char *zeros = calloc(1, padding + 1);

	add_sni(e, "api.github.com", 14);
	add_ext(e, 16, "\0\x0c\2h2\x8http/1.1", 14);
	add_ext(e, 43, "\6\x1a\x1a\3\4\3\3", 7);
	add_ext(e, 0xfe0d, "grease", 6);
	add_ext(e, 21, zeros, padding);
	free(zeros);
}

static void test_case_05_segments(void)
{
	static const size_t steps[] = { 1, 2, 3, 100, 1460, 100000 }, records[] = { 1, 5, 512, 16384 };
	autobuf struct buf e = BUF_INIT;

	full_exts(&e, 5000);
	for (size_t i = 0; i < 6; i++) {
		for (size_t k = 0; k < 4; k++) {
			CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT;
			autobuf struct buf b = BUF_INIT;
			enum tls_hello_result r;

			hello_of(&e, records[k], &b);
			buf_add(&b, "", 0);
			r = feed_in(&h, &b, steps[i]);
			CHECKF(r == TLS_HELLO_DONE && slice_eq(h.sni, "api.github.com") && h.size == b.len &&
				       tls_hello_offers(&h, "h2") && h.has_ech && h.max_version == 0x0304,
			       "case 5: a hello of 5 KiB is parsed in segments of %zu and records of %zu",
			       steps[i], records[k]);
		}
	}
}

static void test_fields(void)
{
	CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT, g = TLS_HELLO_INIT;
	autobuf struct buf e = BUF_INIT, b = BUF_INIT, m = BUF_INIT;
	struct slice s;
	size_t at = 0;

	full_exts(&e, 0);
	hello_of(&e, 16384, &b);
	buf_adds(&b, "what follows");
	CHECK(tls_hello_feed(&h, b.data, b.len) == TLS_HELLO_DONE && h.size == b.len - 12);
	CHECKF(tls_hello_feed(&h, b.data, b.len) == TLS_HELLO_DONE, "a hello that was parsed stays parsed");
	CHECK(tls_hello_alpn(&h, &at, &s) && slice_eq(s, "h2"));
	CHECK(tls_hello_alpn(&h, &at, &s) && slice_eq(s, "http/1.1") && !tls_hello_alpn(&h, &at, &s));
	CHECK(!tls_hello_offers(&h, "h3") && !h.has_early_data && h.legacy_version == 0x0303);
	buf_clear(&b);
	add_message(&m, &e, false);
	add_records(&b, &m, 16384);
	CHECKF(tls_hello_feed(&g, b.data, b.len) == TLS_HELLO_DONE && !g.has_sni && !g.has_ech &&
		       g.max_version == 0x0303,
	       "case 4: a hello without extensions has no name");
}

static void test_names_refused(void)
{
	static const struct {
		const char *what, *data;
		size_t len;
	} bad[] = {
		{ "an empty extension", "", 0 },
		{ "an empty list", "\0\0", 2 },
		{ "an empty name", "\0\3\0\0\0", 5 },
		{ "two names", "\0\x8\0\0\1a\0\0\1b", 10 },
		{ "a name of another type", "\0\4\1\0\1a", 6 },
		{ "a second name of another type", "\0\x8\0\0\1a\1\0\1b", 10 },
		{ "a list shorter than its extension", "\0\4\0\0\1ab", 7 },
		{ "a list longer than its extension", "\0\5\0\0\1a", 6 },
		{ "a name longer than its list", "\0\4\0\0\2a", 6 },
		{ "case 6: a NUL in the name", "\0\6\0\0\3a\0b", 8 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT;
		autobuf struct buf e = BUF_INIT;

		add_ext(&e, 0, bad[i].data, bad[i].len);
		CHECKF(whole(&e, &h) == TLS_HELLO_BAD && h.why && !h.has_sni, "the hello is refused with %s",
		       bad[i].what);
	}
	for (size_t len = 255; len < 257; len++) {
		CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT;
		autobuf struct buf e = BUF_INIT;
		char name[256];

		memset(name, 'a', sizeof(name));
		add_sni(&e, name, len);
		CHECKF(whole(&e, &h) == (len > 255 ? TLS_HELLO_BAD : TLS_HELLO_DONE),
		       "a name of %zu bytes is judged by its length", len);
	}
}

static void test_extensions_refused(void)
{
	static const struct {
		const char *what;
		unsigned type;
		const char *data;
		size_t len;
		int times;
	} bad[] = {
		{ "an unknown extension twice", 0x1234, "", 0, 2 },
		{ "ALPN twice", 16, "\0\3\2h2", 5, 2 },
		{ "an empty list of protocols", 16, "\0\0", 2, 1 },
		{ "an empty protocol", 16, "\0\1\0", 3, 1 },
		{ "a protocol longer than its list", 16, "\0\3\3h2", 5, 1 },
		{ "an odd list of versions", 43, "\3\3\4\3", 4, 1 },
		{ "no version that is known", 43, "\2\x1a\x1a", 3, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT;
		autobuf struct buf e = BUF_INIT;

		for (int k = 0; k < bad[i].times; k++)
			add_ext(&e, bad[i].type, bad[i].data, bad[i].len);
		CHECKF(whole(&e, &h) == TLS_HELLO_BAD, "the hello is refused with %s", bad[i].what);
	}
}

static enum tls_hello_result bytes(const char *data, size_t len)
{
	CLEANUP(tls_hello_release) struct tls_hello h = TLS_HELLO_INIT;

	return tls_hello_feed(&h, data, len);
}

static void test_records(void)
{
	autobuf struct buf e = BUF_INIT, b = BUF_INIT, m = BUF_INIT;

	CHECK(bytes("", 0) == TLS_HELLO_MORE && bytes("\x16", 1) == TLS_HELLO_MORE);
	CHECK(bytes("G", 1) == TLS_HELLO_NOT_TLS && bytes("\x80\x2e\1\3\1", 5) == TLS_HELLO_NOT_TLS);
	CHECK(bytes("\x16\2", 2) == TLS_HELLO_NOT_TLS && bytes("SSH-2.0", 7) == TLS_HELLO_NOT_TLS);
	CHECKF(bytes("\x16\3\1\0\0", 5) == TLS_HELLO_BAD, "an empty record is refused");
	CHECKF(bytes("\x16\3\1\x40\1", 5) == TLS_HELLO_BAD, "a record that is too large is refused");
	CHECKF(bytes("\x16\3\1\0\4\2\0\0\0", 9) == TLS_HELLO_BAD,
	       "a handshake that begins with another message is refused");
	CHECKF(bytes("\x16\3\1\0\4\1\1\0\0", 9) == TLS_HELLO_BAD, "a hello of 64 KiB or more is refused");
	CHECKF(bytes("\x16\3\1\0\4\1\0\0\1\x14\3\1\0\1\1", 15) == TLS_HELLO_BAD,
	       "a record of another type within the hello is refused");
	full_exts(&e, 10);
	add_message(&m, &e, true);
	buf_addc(&m, 0);
	add_records(&b, &m, 16384);
	CHECKF(bytes(b.data, b.len) == TLS_HELLO_BAD, "a byte behind the hello in its record is refused");
	CHECKF(bytes(b.data, b.len - 1) == TLS_HELLO_BAD,
	       "a byte behind the hello is refused before it has come");
	CHECKF(bytes(b.data, b.len - 2) == TLS_HELLO_MORE,
	       "a record that is longer than the hello is read on until the hello is whole");
}

static void test_cut(void)
{
	autobuf struct buf e = BUF_INIT, m = BUF_INIT;
	bool refused = true;

	full_exts(&e, 10);
	add_message(&m, &e, true);
	for (size_t n = 4; n < m.len; n++) {
		autobuf struct buf b = BUF_INIT, s = BUF_INIT;

		buf_add(&s, m.data, n);
		s.data[2] = (char)((n - 4) >> 8);
		s.data[3] = (char)(n - 4);
		add_records(&b, &s, 16384);
		/* 45 bytes are a hello without extensions. */
		refused = refused && bytes(b.data, b.len) == (n == 45 ? TLS_HELLO_DONE : TLS_HELLO_BAD);
	}
	CHECKF(refused, "a hello that ends too early is refused at every length");
}

static void test_alert(void)
{
	uint8_t out[TLS_ALERT_LEN];

	tls_alert_format(TLS_ALERT_UNRECOGNIZED_NAME, out);
	CHECK(memcmp(out, "\x15\3\3\0\2\2\x70", 7) == 0);
}

int main(void)
{
	test_case_05_segments();
	test_fields();
	test_names_refused();
	test_extensions_refused();
	test_records();
	test_cut();
	test_alert();
	return tap_done();
}
