/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/file/pack.h"
#include "tap.h"

#include <errno.h>

static void add(struct buf *b, enum pack_type type, const char *name, const char *data)
{
	struct pack_rec r = { .type = type, .mode = 0644, .mtime = -5, .data = (const uint8_t *)data };

	r.len = data ? (uint32_t)strlen(data) : 0;
	pack_set_name(r.name, name);
	pack_add(b, &r);
}

/* Parses all of b: how many records, or the error. */
static long parse_all(const struct buf *b, bool *ret_ended)
{
	struct pack_state s = { 0 };
	struct pack_rec r;
	size_t off = 0;
	long count = 0, n;

	while ((n = pack_parse(&s, b->data + off, b->len - off, &r)) > 0) {
		off += (size_t)n;
		count++;
	}
	*ret_ended = s.ended;
	return n < 0 ? n : count;
}

static void test_round_trip(void)
{
	autobuf struct buf b = BUF_INIT;
	struct pack_state s = { 0 };
	struct pack_rec r;
	bool ended, waits = true;
	long n;

	add(&b, PACK_DIR, "", NULL);
	n = pack_parse(&s, b.data, b.len, &r);
	CHECK(n == PACK_HEAD && r.type == PACK_DIR && r.mode == 0644 && r.mtime == -5 && r.name[0] == '\0');
	add(&b, PACK_FILE, "a\nb", NULL);
	add(&b, PACK_DATA, "", "bytes");
	add(&b, PACK_CLOSE, "", NULL);
	add(&b, PACK_LINK, "l", "../x");
	add(&b, PACK_DIR, "sub", NULL);
	add(&b, PACK_LEAVE, "", NULL);
	add(&b, PACK_LEAVE, "", NULL);
	add(&b, PACK_END, "", NULL);
	CHECK(parse_all(&b, &ended) == 9 && ended);
	for (size_t cut = 0; cut < b.len; cut++) {
		const struct buf part = { .data = b.data, .len = cut };

		waits = waits && parse_all(&part, &ended) >= 0 && !ended;
	}
	CHECKF(waits, "a stream that is cut at any place is incomplete and not wrong");
	buf_addc(&b, 'x');
	CHECKF(parse_all(&b, &ended) == -EPROTO, "a record behind the end is refused");
}

static void refused(const char *what, const struct buf *b)
{
	bool ended;

	CHECKF(parse_all(b, &ended) == -EPROTO, "a stream is refused with %s", what);
}

static void test_names(void)
{
	static const char *const bad[] = { ".", "..", "a/b", "/" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autobuf struct buf b = BUF_INIT;

		add(&b, PACK_DIR, "", NULL);
		add(&b, PACK_FILE, bad[i], NULL);
		refused(bad[i], &b);
	}
	{
		autobuf struct buf b = BUF_INIT;

		add(&b, PACK_DIR, "", NULL);
		add(&b, PACK_FILE, "ab", NULL);
		b.data[b.len - 1] = '\0';
		refused("a name with NUL", &b);
	}
	{
		autobuf struct buf b = BUF_INIT;

		add(&b, PACK_DIR, "", NULL);
		add(&b, PACK_FILE, "", NULL);
		refused("an inner entry without a name", &b);
	}
	{
		autobuf struct buf b = BUF_INIT;

		add(&b, PACK_DIR, "root", NULL);
		refused("an outermost entry with a name", &b);
	}
}

static void test_order(void)
{
	static const struct {
		const char *what;
		enum pack_type type[3];
	} cases[] = {
		{ "data without a file", { PACK_DATA } },
		{ "an end without an entry", { PACK_END } },
		{ "leaving what was not entered", { PACK_LEAVE } },
		{ "a second outermost entry", { PACK_LINK, PACK_LINK } },
		{ "an end inside a file", { PACK_FILE, PACK_END } },
		{ "an end inside a directory", { PACK_DIR, PACK_END } },
		{ "a type that does not exist", { 9 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autobuf struct buf b = BUF_INIT;

		for (int k = 0; k < 3 && cases[i].type[k]; k++) {
			bool data = cases[i].type[k] == PACK_DATA || cases[i].type[k] == PACK_LINK;

			add(&b, cases[i].type[k], "", data ? "x" : NULL);
		}
		refused(cases[i].what, &b);
	}
}

static void test_bits(void)
{
	autobuf struct buf b = BUF_INIT;
	struct pack_state s = { 0 };
	struct pack_rec r;

	add(&b, PACK_FILE, "", NULL);
	b.data[5] = 04; /* 0x0400: not 0777 */
	b.data[4] = 0;
	CHECKF(pack_parse(&s, b.data, b.len, &r) == -EPROTO, "set-id bits are refused");
	buf_clear(&b);
	for (int i = 0; i <= PACK_DEPTH_MAX; i++)
		add(&b, PACK_DIR, i ? "d" : "", NULL);
	refused("a tree that is too deep", &b);
}

int main(void)
{
	test_round_trip();
	test_names();
	test_order();
	test_bits();
	return tap_done();
}
