/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/http/http1_chunk.h"
#include "tap.h"

#include <errno.h>

/* The output, the bytes taken, the last event. */
struct seen {
	char data[4096];
	size_t len, used;
	int result;
	unsigned trailers;
	char first[64];
};

static struct seen read_all(const char *text, size_t size, size_t step)
{
	CLEANUP(http1_chunks_release) struct http1_chunks c = HTTP1_CHUNKS_INIT;
	struct seen s = { .result = HTTP1_CHUNK_MORE };

	while (s.used < size && s.result >= 0 && s.result != HTTP1_CHUNK_END) {
		size_t n = size - s.used < step ? size - s.used : step, used;
		struct slice d;

		s.result = http1_chunks_next(&c, text + s.used, n, &used, &d);
		s.used += used;
		if (s.result == HTTP1_CHUNK_DATA) {
			memcpy(s.data + s.len, d.p, d.len);
			s.len += d.len;
		}
	}
	s.trailers = c.n_trailers;
	if (c.n_trailers)
		snprintf(s.first, sizeof(s.first), "%.*s=%.*s", (int)c.trailers[0].name.len,
			 c.trailers[0].name.p, (int)c.trailers[0].value.len, c.trailers[0].value.p);
	return s;
}

static struct seen read_text(const char *text)
{
	return read_all(text, strlen(text), SIZE_MAX);
}

static void test_body(void)
{
	static const char text[] =
		"5\r\nhello\r\nA;name=\"value\"\r\n, world!!!\r\n00\r\nGrpc-Status: 0\r\nX:\r\n\r\nNEXT";
	static const size_t steps[] = { 1, 2, 3, 7, 1000 };

	for (size_t i = 0; i < 5; i++) {
		struct seen s = read_all(text, sizeof(text) - 1, steps[i]);

		CHECKF(s.result == HTTP1_CHUNK_END && s.len == 15 && !memcmp(s.data, "hello, world!!!", 15) &&
			       s.used == sizeof(text) - 1 - 4,
		       "a chunked body is read in steps of %zu", steps[i]);
		CHECK(s.trailers == 2 && !strcmp(s.first, "Grpc-Status=0"));
	}
	CHECK(read_text("0\r\n\r\n").result == HTTP1_CHUNK_END);
	CHECK(read_text("0000000000000001\r\nx\r\n0\r\n\r\n").result == HTTP1_CHUNK_END);
	CHECK(read_text("1fffffffffffff\r\nx").result == HTTP1_CHUNK_DATA);
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"\r\n",
		"g\r\n",
		"-1\r\n",
		"+1\r\n",
		"0x1\r\n",
		" 1\r\n",
		"1 \r\n",
		"1\n",
		"1\rx",
		"1\r\nab",
		"1\r\na\n",
		"1\r\na\rb",
		"1\r\na\r\n\r\n",
		";x\r\n",
		"1;\x01\r\n",
		"1;a\nb",
		"00000000000000001\r\n",
		"20000000000000\r\n",
		"ffffffffffffffff\r\n",
		"0\r\nX: y\n",
		"0\r\n X: y\r\n\r\n",
		"0\r\nX y\r\n\r\n",
		"0\r\nX: \x01\r\n\r\n",
		"0\r\nContent-Length: 5\r\n\r\n",
		"0\r\nhost: x\r\n\r\n",
		"0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"0\r\nAuthorization: x\r\n\r\n",
		"0\r\n\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(read_text(bad[i]).result == -EBADMSG, "the chunk '%s' is refused", bad[i]);
}

static void test_limits(void)
{
	autobuf struct buf b = BUF_INIT;

	buf_adds(&b, "1;");
	while (b.len < 2 + HTTP1_EXT_MAX)
		buf_addc(&b, 'x');
	CHECK(read_text(b.data).result == HTTP1_CHUNK_MORE);
	buf_addc(&b, 'x');
	CHECKF(read_text(b.data).result == -EBADMSG, "an extension that is too long is refused");
	buf_clear(&b);
	buf_adds(&b, "0\r\n");
	for (int i = 0; i < HTTP1_TRAILERS_MAX; i++)
		buf_adds(&b, "X: y\r\n");
	buf_adds(&b, "\r\n");
	CHECK(read_text(b.data).result == HTTP1_CHUNK_END);
	b.len -= 2;
	buf_adds(&b, "X: y\r\n\r\n");
	CHECKF(read_text(b.data).result == -EBADMSG, "a body with too many trailers is refused");
	buf_clear(&b);
	buf_adds(&b, "0\r\nX: ");
	while (b.len < HTTP1_TRAILER_MAX + 10)
		buf_addc(&b, 'x');
	CHECKF(read_text(b.data).result == -EBADMSG,
	       "trailers that are too large are refused before their end");
}

static void test_again(void)
{
	struct http1_chunks c = HTTP1_CHUNKS_INIT;
	struct slice d;
	size_t used;

	CHECK(http1_chunks_next(&c, "0\r\n\r\n", 5, &used, &d) == HTTP1_CHUNK_END && used == 5);
	CHECKF(http1_chunks_next(&c, "5\r\n", 3, &used, &d) == HTTP1_CHUNK_END && used == 0,
	       "a body that has ended stays ended");
	http1_chunks_release(&c);
	c = HTTP1_CHUNKS_INIT;
	CHECK(http1_chunks_next(&c, "x", 1, &used, &d) == -EBADMSG);
	CHECKF(http1_chunks_next(&c, "5\r\n", 3, &used, &d) == -EBADMSG,
	       "a body that was refused stays refused");
	http1_chunks_release(&c);
}

static void test_writers(void)
{
	autobuf struct buf b = BUF_INIT;
	struct seen s;

	http1_add_chunk_head(&b, 26);
	buf_adds(&b, "abcdefghijklmnopqrstuvwxyz");
	http1_add_chunk_tail(&b);
	http1_add_last_chunk(&b);
	CHECK(http1_add_field(&b, slice_of("A"), slice_of("b")) == 0 && http1_add_end(&b) == 0);
	s = read_text(buf_cstr(&b));
	CHECK(s.result == HTTP1_CHUNK_END && s.len == 26 && s.trailers == 1 && s.used == b.len);
}

int main(void)
{
	test_body();
	test_refused();
	test_limits();
	test_again();
	test_writers();
	return tap_done();
}
