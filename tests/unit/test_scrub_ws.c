/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/scrub_ws.h"

#include "tap.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define SECRET "sk-Zq7x+Aa/Bb0123456789"

static struct scrub_set *set;

static void add_frame(struct buf *b, unsigned char first, const char *payload, size_t len)
{
	buf_addc(b, (char)first);
	if (len < 126) {
		buf_addc(b, (char)len);
	} else {
		buf_addc(b, 126);
		buf_addc(b, (char)(len >> 8));
		buf_addc(b, (char)(len & 255));
	}
	buf_add(b, payload, len);
}

/* The output for `in`, in pieces of `step`. */
static int through(const struct buf *in, size_t step, struct buf *out)
{
	struct scrub_ws *w = scrub_ws_new(set);
	const char *why = NULL;
	int r = w ? 0 : -ENOMEM;

	for (size_t at = 0; r == 0 && at < in->len; at += step)
		r = scrub_ws_feed(w, in->data + at, in->len - at < step ? in->len - at : step, out, &why);
	if (r == 0)
		r = scrub_ws_end(w, out);
	scrub_ws_free(w);
	return r;
}

/* The payload of data frames, one behind the other; false when a head is another than before. */
static bool payload_of(const struct buf *in, const struct buf *out, struct buf *ret)
{
	size_t at = 0;

	while (at < in->len) {
		const unsigned char *h = (const unsigned char *)in->data + at;
		size_t n = h[1] == 126 ? (size_t)h[2] << 8 | h[3] : h[1], head = h[1] == 126 ? 4 : 2;

		if (at + head + n > out->len || memcmp(h, out->data + at, head) != 0)
			return false;
		if (h[0] & 8)
			at += head + n;
		for (; !(h[0] & 8) && n; n--, at++)
			buf_addc(ret, out->data[at + head]);
		at += h[0] & 8 ? 0 : head;
	}
	return in->len == out->len;
}

static bool leaks(const struct buf *b, const char *text)
{
	return b->len && memmem(b->data, b->len, text, strlen(text)) != NULL;
}

/* A message with the secret, broken after `cut` bytes, with a control frame between. */
static void test_fragments(void)
{
	static const char text[] = "{\"you said\": \"" SECRET "\"} and goes on";
	unsigned bad = 0, changed = 0;

	for (size_t cut = 0; cut < sizeof(text); cut++) {
		autobuf struct buf in = BUF_INIT;

		add_frame(&in, 0x01, text, cut);
		add_frame(&in, 0x89, "ping", 4);
		add_frame(&in, 0x80, text + cut, sizeof(text) - 1 - cut);
		add_frame(&in, 0x81, "next", 4);
		for (size_t step = 1; step < in.len + 1; step += 1 + step / 8) {
			autobuf struct buf out = BUF_INIT, plain = BUF_INIT;

			if (through(&in, step, &out) < 0 || !payload_of(&in, &out, &plain))
				changed++;
			else if (leaks(&plain, "Zq7x+Aa/Bb0123456789") || !leaks(&plain, "and goes onnext"))
				bad++;
		}
	}
	CHECKF(bad == 0, "a secret that is broken into two fragments is replaced at any place (%u passed)",
	       bad);
	CHECKF(changed == 0, "headers, lengths and control frames are unchanged (%u changed)", changed);
}

static void test_every_byte(void)
{
	autobuf struct buf in = BUF_INIT, out = BUF_INIT, plain = BUF_INIT;

	for (size_t i = 0; i < strlen(SECRET); i++)
		add_frame(&in, i ? 0x00 : 0x01, SECRET + i, 1);
	add_frame(&in, 0x80, "", 0);
	CHECK(through(&in, 3, &out) == 0 && payload_of(&in, &out, &plain));
	CHECKF(!leaks(&plain, "Zq7x"), "a secret in frames of one byte does not pass");
}

static void test_control(void)
{
	autobuf struct buf in = BUF_INIT, out = BUF_INIT;

	add_frame(&in, 0x89, SECRET, strlen(SECRET));
	add_frame(&in, 0x88, "\x03\xe8" SECRET, strlen(SECRET) + 2);
	CHECK(through(&in, 5, &out) == 0 && out.len == in.len);
	CHECKF(!leaks(&out, "Zq7x"), "the payload of a control frame is searched too");
}

static void test_plain(void)
{
	autobuf struct buf in = BUF_INIT, out = BUF_INIT;
	char big[1000];

	memset(big, 'x', sizeof(big));
	add_frame(&in, 0x82, big, sizeof(big));
	add_frame(&in, 0x81, "hello", 5);
	CHECKF(through(&in, 7, &out) == 0 && out.len == in.len && memcmp(in.data, out.data, in.len) == 0,
	       "a stream without a secret is unchanged");
}

static void test_refused(void)
{
	static const struct {
		const char *what;
		unsigned char head[10];
		size_t n;
	} list[] = {
		{ "a masked frame", { 0x81, 0x85 }, 2 },
		{ "a compressed frame", { 0xc1, 0x05 }, 2 },
		{ "an unknown opcode", { 0x83, 0x05 }, 2 },
		{ "a fragment of a control frame", { 0x09, 0x00 }, 2 },
		{ "a long control frame", { 0x89, 126, 0, 200 }, 4 },
		{ "a length in two bytes that fits one", { 0x81, 126, 0, 5 }, 4 },
		{ "a length in eight bytes that fits two", { 0x81, 127, 0, 0, 0, 0, 0, 0, 1, 0 }, 10 },
		{ "a length past all bounds", { 0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0 }, 10 },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		autobuf struct buf in = BUF_INIT, out = BUF_INIT;

		add_frame(&in, 0x81, "good", 4);
		buf_add(&in, list[i].head, list[i].n);
		CHECKF(through(&in, 1, &out) == -EBADMSG && out.len == 6, "%s ends the stream", list[i].what);
	}
}

/* A server that never lets the payload go on. */
static void test_bounded(void)
{
	struct scrub_ws *w = scrub_ws_new(set);
	autobuf struct buf in = BUF_INIT, out = BUF_INIT;
	const char *why = NULL;
	int r = 0;

	add_frame(&in, 0x01, SECRET, 10);
	for (unsigned i = 0; i < 4096; i++)
		add_frame(&in, 0x89, "0123456789", 10);
	for (unsigned i = 0; r == 0 && i < 64; i++)
		r = scrub_ws_feed(w, in.data + (i ? 12 : 0), in.len - (i ? 12 : 0), &out, &why);
	CHECKF(r == -EMSGSIZE && scrub_ws_held(w) <= SCRUB_WS_LATE_MAX + 1024,
	       "the bytes that wait have a bound");
	scrub_ws_free(w);
}

static size_t in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Bytes that may begin a secret for as long as the server likes, a byte in each fragment: a head always waits. */
static void test_memory(void)
{
	static const char fragment[] = "\0\1a";
	struct scrub_set *a = calloc(1, sizeof(*a));
	struct scrub_ws *w = a ? scrub_ws_new(a) : NULL;
	autobuf struct buf out = BUF_INIT;
	const char *why = NULL;
	size_t before;
	int r = w ? scrub_set_add(a, slice_of("aaaaaaaaaaaaaaaaaaaaaaab"), NULL) : -ENOMEM;

	if (r < 0)
		abort();
	scrub_set_ready(a);
	before = in_use();
	for (unsigned i = 0; r == 0 && i < 200000; i++) {
		buf_clear(&out);
		r = scrub_ws_feed(w, fragment, 3, &out, &why);
	}
	CHECKF(r == 0 && in_use() < before + (size_t)4 * SCRUB_WS_LATE_MAX,
	       "headers that were sent take no room while one frame always waits: %zu bytes",
	       in_use() - before);
	scrub_ws_free(w);
	scrub_set_release(a);
	free(a);
}

int main(void)
{
	set = calloc(1, sizeof(*set));
	if (!set || scrub_set_add_loose(set, slice_of(SECRET), NULL, SCRUB_ESCAPED) < 0)
		abort();
	scrub_set_ready(set);
	test_fragments();
	test_every_byte();
	test_control();
	test_plain();
	test_refused();
	test_bounded();
	test_memory();
	scrub_set_release(set);
	free(set);
	return tap_done();
}
