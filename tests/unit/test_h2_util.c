/* SPDX-License-Identifier: Apache-2.0 */
/* How much a peer may bother us: a bucket of frames that ask for nothing. */
#include "egress/exchange/h2_util.h"
#include "tap.h"

#define SECOND 1000000000ULL

static nghttp2_frame frame(uint8_t type, uint8_t flags, size_t length)
{
	nghttp2_frame f = { .hd = { .type = type, .flags = flags, .length = length } };

	return f;
}

static unsigned until_refused(struct h2_calm *c, const nghttp2_frame *f, uint64_t now, unsigned max)
{
	unsigned n = 0;

	while (n < max && h2_calm_take(c, f, now))
		n++;
	return n;
}

/* A head is bounded however many frames it comes in. */
static void test_begin(void)
{
	nghttp2_frame_hd more = { .type = NGHTTP2_CONTINUATION }, data = { .type = NGHTTP2_DATA };
	struct h2_calm c = { .block = 77 };

	h2_calm_begin(&c, &more);
	CHECK(c.block == 77);
	h2_calm_begin(&c, &data);
	CHECK(c.block == 0);
}

static void test_wrong(void)
{
	struct h2_calm c = { 0 };
	unsigned n = 0;

	while (n < 10000 && h2_calm_wrong(&c, SECOND))
		n++;
	CHECK(n == H2_CALM_BURST / 5);
}

int main(void)
{
	nghttp2_frame ping = frame(NGHTTP2_PING, 0, 8), data = frame(NGHTTP2_DATA, 0, 100);
	nghttp2_frame empty = frame(NGHTTP2_DATA, 0, 0),
		      end = frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 0);
	nghttp2_frame ack = frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0),
		      window = frame(NGHTTP2_WINDOW_UPDATE, 0, 4);
	struct h2_calm c = { 0 };
	uint64_t n;

	window.window_update.window_size_increment = 65536;
	CHECK(until_refused(&c, &ping, SECOND, 10000) == H2_CALM_BURST / 2);
	CHECK(!h2_calm_take(&c, &empty, SECOND));
	CHECK(h2_calm_take(&c, &data, SECOND) && h2_calm_take(&c, &end, SECOND));
	CHECK(h2_calm_take(&c, &ack, SECOND) && h2_calm_take(&c, &window, SECOND));
	window.window_update.window_size_increment = 1;
	CHECK(!h2_calm_take(&c, &window, SECOND));
	CHECK(until_refused(&c, &ping, 2 * SECOND, 10000) == H2_CALM_PER_SECOND / 2);
	CHECK(until_refused(&c, &ping, 10000 * SECOND, 10000) == H2_CALM_BURST / 2);
	CHECK(until_refused(&c, &data, 10000 * SECOND, 5000) == 5000);
	test_begin();
	test_wrong();
	CHECK(h2_length(slice_of("0"), &n) == 0 && n == 0);
	CHECK(h2_length(slice_of("1234567890123456"), &n) == 0 && n == 1234567890123456);
	CHECK(h2_length(SLICE_NONE, &n) < 0 && h2_length(slice_of("+1"), &n) < 0 &&
	      h2_length(slice_of("1 "), &n) < 0);
	CHECK(h2_length(slice_of("12345678901234567"), &n) < 0 && h2_length(slice_of("1,1"), &n) < 0);
	return tap_done();
}
