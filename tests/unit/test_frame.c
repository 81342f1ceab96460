/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/frame.h"
#include "tap.h"

#include <errno.h>

static void test_round_trip(void)
{
	autobuf struct buf b = BUF_INIT;
	const uint32_t v[3] = { 1, 0xdeadbeef, 0 };
	uint32_t got[3];
	struct frame f;
	long n;

	frame_add(&b, 7, 0x01020304, "hello", 5);
	frame_add_u32s(&b, 9, 1, v, 3);
	CHECK(b.len == 2 * FRAME_HEAD + 5 + 12);
	CHECK(memcmp(b.data, "\5\0\0\0\7\0\0\0\4\3\2\1hello", 17) == 0);
	n = frame_parse(b.data, b.len, &f);
	CHECK(n == FRAME_HEAD + 5 && f.type == 7 && f.chan == 0x01020304 && f.len == 5);
	CHECK(memcmp(f.data, "hello", 5) == 0);
	CHECK(frame_get_u32s(&f, got, 1) == -EPROTO);
	n = frame_parse(b.data + n, b.len - (size_t)n, &f);
	CHECK(n == FRAME_HEAD + 12 && frame_get_u32s(&f, got, 3) == 0);
	CHECK(got[0] == 1 && got[1] == 0xdeadbeef && got[2] == 0);
	CHECK(frame_get_u32s(&f, got, 2) == -EPROTO);
}

static void test_partial(void)
{
	autobuf struct buf b = BUF_INIT;
	struct frame f;
	bool waits = true;

	frame_add(&b, 1, 2, "abc", 3);
	for (size_t i = 0; i < b.len; i++)
		waits = waits && frame_parse(b.data, i, &f) == 0;
	CHECKF(waits, "a cut frame is waited for at every length");
	CHECK(frame_parse(b.data, b.len, &f) == (long)b.len);
}

static void test_refused(void)
{
	uint8_t head[FRAME_HEAD];
	struct frame f;

	frame_put_head(head, 1, 2, FRAME_MAX_PAYLOAD + 1);
	CHECKF(frame_parse(head, 4, &f) == -EPROTO,
	       "a length over the limit is refused before the body has come");
	frame_put_head(head, 1, 2, UINT32_MAX);
	CHECK(frame_parse(head, sizeof(head), &f) == -EPROTO);
	for (int i = 5; i < 8; i++) {
		frame_put_head(head, 1, 2, 0);
		head[i] = 1;
		CHECKF(frame_parse(head, sizeof(head), &f) == -EPROTO, "reserved byte %d is refused", i);
	}
	frame_put_head(head, 255, UINT32_MAX, 0);
	CHECK(frame_parse(head, sizeof(head), &f) == FRAME_HEAD && f.chan == UINT32_MAX && f.len == 0);
}

static void test_largest(void)
{
	static char data[FRAME_MAX_PAYLOAD];
	autobuf struct buf b = BUF_INIT;
	struct frame f;

	frame_add(&b, 3, 4, data, sizeof(data));
	CHECK(frame_parse(b.data, b.len - 1, &f) == 0);
	CHECK(frame_parse(b.data, b.len, &f) == FRAME_HEAD + (long)FRAME_MAX_PAYLOAD);
}

int main(void)
{
	test_round_trip();
	test_partial();
	test_refused();
	test_largest();
	return tap_done();
}
