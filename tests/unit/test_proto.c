/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "sandbox/init/proto.h"
#include "tap.h"

#include <errno.h>
#include <string.h>

static struct frame parse(const struct buf *b)
{
	struct frame f = { 0 };

	CHECK(frame_parse(b->data, b->len, &f) == (long)b->len);
	return f;
}

static void test_payloads(void)
{
	autobuf struct buf b = BUF_INIT;
	const struct proto_start s = { PROTO_F_TTY | PROTO_F_MAIN, 3, 2, 24, 80 };
	const struct proto_exit x = { PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_CWD };
	struct proto_start s2;
	struct proto_exit x2;
	struct frame f;
	unsigned rows, cols;

	proto_add_start(&b, 5, &s);
	f = parse(&b);
	CHECK(proto_get_start(&f, &s2) == 0 && memcmp(&s, &s2, sizeof(s)) == 0);
	buf_clear(&b);
	proto_add_exit(&b, 5, &x);
	f = parse(&b);
	CHECK(proto_get_exit(&f, &x2) == 0 && memcmp(&x, &x2, sizeof(x)) == 0);
	buf_clear(&b);
	proto_add_resize(&b, 5, 50, 132);
	f = parse(&b);
	CHECK(proto_get_resize(&f, &rows, &cols) == 0 && rows == 50 && cols == 132);
	CHECK(proto_get_exit(&f, &x2) == -EPROTO && proto_get_start(&f, &s2) == -EPROTO);
}

static void test_impossible_exits(void)
{
	static const uint32_t bad[][3] = {
		{ PROTO_EXITED, 256, 0 },
		{ PROTO_EXITED, 0, PROTO_WHAT_EXEC },
		{ PROTO_SIGNALED, 0, 0 },
		{ PROTO_SIGNALED, 128, 0 },
		{ PROTO_NOT_STARTED, 2, PROTO_WHAT_NONE },
		{ PROTO_NOT_STARTED, 2, PROTO_WHAT_CUT },
		{ PROTO_NOT_STARTED, 2, PROTO_WHAT_PIDS },
		{ PROTO_EXITED, 0, PROTO_WHAT_PIDS },
		{ PROTO_NOT_STARTED, 4096, PROTO_WHAT_EXEC },
		{ PROTO_NOT_STARTED, 0, PROTO_WHAT_EXEC },
		{ PROTO_EXIT_KINDS, 0, 0 },
		{ PROTO_EXITED, 0, PROTO_WHAT_COUNT },
		{ UINT32_MAX, UINT32_MAX, UINT32_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autobuf struct buf b = BUF_INIT;
		struct proto_exit x;
		struct frame f;

		frame_add_u32s(&b, PROTO_EXIT, 1, bad[i], 3);
		CHECK(frame_parse(b.data, b.len, &f) > 0);
		CHECKF(proto_get_exit(&f, &x) == -EPROTO,
		       "an exit of kind %u, value %u and what %u is refused", bad[i][0], bad[i][1],
		       bad[i][2]);
	}
}

static void test_impossible_starts(void)
{
	static const uint32_t bad[][5] = {
		{ 128, 1, 0, 0, 0 },   { UINT32_MAX, 1, 0, 0, 0 }, { 0, 0, 0, 0, 0 },
		{ 0, 1, 0, 65536, 0 }, { 0, 1, 0, 0, 65536 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autobuf struct buf b = BUF_INIT;
		struct proto_start s;
		struct frame f;

		frame_add_u32s(&b, PROTO_START, 1, bad[i], 5);
		CHECK(frame_parse(b.data, b.len, &f) > 0 && proto_get_start(&f, &s) == -EPROTO);
	}
}

static void test_codes(void)
{
	const struct {
		struct proto_exit x;
		int code;
	} cases[] = {
		{ { PROTO_EXITED, 7, 0 }, 7 },
		{ { PROTO_SIGNALED, 15, 0 }, 143 },
		{ { PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_EXEC }, 127 },
		{ { PROTO_NOT_STARTED, EACCES, PROTO_WHAT_EXEC }, 126 },
		{ { PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_INTERP }, 126 },
		{ { PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_CWD }, 125 },
		{ { PROTO_NOT_STARTED, EAGAIN, PROTO_WHAT_FORK }, 125 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECKF(proto_exit_code(&cases[i].x) == cases[i].code,
		       "an exit of kind %u, value %u and what %u has code %d", cases[i].x.kind,
		       cases[i].x.value, cases[i].x.what, cases[i].code);
	}
}

static void test_texts(void)
{
	struct err e;

	for (unsigned what = 1; what < PROTO_WHAT_CUT; what++) {
		const struct proto_exit x = { PROTO_NOT_STARTED, EAGAIN, what };

		e = ERR_INIT;
		proto_exit_text(&x, "cmd\033[2J", "/dir", &e);
		CHECKF(e.code == -EAGAIN && e.msg[0] && !strchr(e.msg, '\033'),
		       "the reason %u of a failed start has a harmless text", what);
	}
}

#define SPLIT(text, argc, envc, b) split(text, sizeof(text) - 1, argc, envc, b)

static int split(const char *text, size_t len, unsigned argc, unsigned envc, struct proto_body *b)
{
	static char copy[64];
	const struct proto_start s = { 0, argc, envc, 0, 0 };

	memcpy(copy, text, len);
	return proto_body_split(copy, len, &s, b);
}

static void test_bodies(void)
{
	struct proto_body b = { 0 };

	CHECK(SPLIT("/w\0ls\0-l\0A=1\0", 2, 1, &b) == 0);
	CHECK(strcmp(b.cwd, "/w") == 0 && strcmp(b.argv[0], "ls") == 0 && strcmp(b.argv[1], "-l") == 0);
	CHECK(strcmp(b.env[0], "A=1") == 0);
	CHECK(b.argv[2] == NULL && b.argv[-1] == NULL && b.env[1] == NULL);
	proto_body_release(&b);
	CHECK(SPLIT("\0\0", 1, 0, &b) == 0 && b.argv[0][0] == '\0');
	proto_body_release(&b);
}

static void test_bad_bodies(void)
{
	struct proto_body b = { 0 };

	CHECKF(SPLIT("/w\0ls\0-l\0A=1\0", 2, 0, &b) == -EPROTO,
	       "a body with more strings than announced is refused");
	CHECKF(SPLIT("/w\0ls\0-l\0A=1\0", 2, 2, &b) == -EPROTO,
	       "a body with fewer strings than announced is refused");
	CHECKF(SPLIT("/w\0ls", 1, 0, &b) == -EPROTO, "a last string without its end is refused");
	CHECKF(SPLIT("", 1, 0, &b) == -EPROTO, "an empty start body is refused");
	CHECKF(SPLIT("/w\0ls\0", UINT32_MAX, 0, &b) == -E2BIG, "four thousand million arguments are refused");
	CHECKF(SPLIT("/w\0ls\0", 1, UINT32_MAX, &b) == -E2BIG, "four thousand million variables are refused");
}

static void test_data(void)
{
	static char big[FRAME_MAX_PAYLOAD * 2 + 1];
	autobuf struct buf b = BUF_INIT;
	struct frame f;
	size_t off = 0, sum = 0;
	long n;

	proto_add_data(&b, PROTO_START_DATA, 3, big, sizeof(big));
	while ((n = frame_parse(b.data + off, b.len - off, &f)) > 0) {
		off += (size_t)n;
		sum += f.len;
	}
	CHECK(n == 0 && off == b.len && sum == sizeof(big) && b.len == sizeof(big) + 3 * (size_t)FRAME_HEAD);
}

int main(void)
{
	test_payloads();
	test_impossible_exits();
	test_impossible_starts();
	test_codes();
	test_texts();
	test_bodies();
	test_bad_bodies();
	test_data();
	return tap_done();
}
