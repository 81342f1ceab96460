/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/net/socks.h"
#include "tap.h"

#include <errno.h>

static struct host host_of(const char *s)
{
	struct host h = { 0 };

	if (host_canon(s, strlen(s), &h, NULL) < 0)
		CHECKF(false, "the host %s can be parsed", s);
	return h;
}

/* The whole talk; the server's bytes come `step` at a time. */
static int talk(struct socks *s, const char *server, size_t len, size_t step, struct buf *out,
		size_t *ret_used)
{
	struct err e = ERR_INIT;
	size_t at = 0, have = 0;
	int r = socks_start(s, out, &e);

	while (r == 0 && have < len) {
		size_t used;

		have = len - have < step ? len : have + step;
		r = socks_feed(s, (const uint8_t *)server + at, have - at, &used, out, &e);
		at += used;
	}
	*ret_used = at;
	return r;
}

static void test_connect(void)
{
	static const char reply[] = "\5\0\5\0\0\1\1\2\3\4\0\x50tunnel";
	struct host name = host_of("Example.org"), v4 = host_of("1.2.3.4"), v6 = host_of("2001:db8::1");

	for (size_t step = 1; step < sizeof(reply); step++) {
		struct socks s = SOCKS_INIT(&name, 443, NULL, NULL);
		autobuf struct buf out = BUF_INIT;
		size_t used;

		CHECKF(talk(&s, reply, sizeof(reply) - 1, step, &out, &used) == 1 && used == 12,
		       "a SOCKS dialogue works with %zu bytes at a time, and the tunnel's bytes are left",
		       step);
		CHECK(out.len == 3 + 18 && !memcmp(out.data,
						   "\5\1\0\5\1\0\3\x0b"
						   "example.org\1\xbb",
						   21));
	}
	struct socks a = SOCKS_INIT(&v4, 80, NULL, NULL), b = SOCKS_INIT(&v6, 80, NULL, NULL);
	autobuf struct buf o4 = BUF_INIT, o6 = BUF_INIT;
	size_t used;
	CHECK(talk(&a, "\5\0\5\0\0\3\1x\0\0", 10, 100, &o4, &used) == 1 && used == 10);
	CHECK(!memcmp(o4.data + 3, "\5\1\0\1\1\2\3\4\0\x50", 10));
	CHECK(talk(&b, "\5\0\5\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24, 100, &o6, &used) == 1 &&
	      used == 24);
	CHECK(o6.len == 3 + 22 && !memcmp(o6.data + 3, "\5\1\0\4\x20\1\x0d\xb8", 8));
}

static void test_password(void)
{
	struct host name = host_of("a.example");
	struct socks s = SOCKS_INIT(&name, 443, "me", "secret"), t = s, u = s;
	autobuf struct buf out = BUF_INIT, none = BUF_INIT, no = BUF_INIT;
	size_t used;

	CHECK(talk(&s, "\5\2\1\0\5\0\0\1\0\0\0\0\0\0", 14, 1, &out, &used) == 1 && s.wants_auth);
	CHECK(!memcmp(out.data, "\5\2\0\2\1\2me\6secret\5\1\0\3", 19));
	CHECKF(talk(&t, "\5\0\5\0\0\1\0\0\0\0\0\0", 12, 1, &none, &used) == 1 &&
		       !memmem(none.data, none.len, "secret", 6),
	       "credentials that the proxy does not want are not sent");
	CHECK(talk(&u, "\5\2\1\1", 4, 1, &no, &used) == -EACCES);
	char longest[257];
	memset(longest, 'x', 256);
	longest[256] = '\0';
	struct socks v = SOCKS_INIT(&name, 1, "me", longest), w = SOCKS_INIT(&name, 1, "", "x"),
		     x = SOCKS_INIT(&name, 1, "me", NULL);
	CHECK(socks_start(&v, &no, NULL) == -EINVAL && socks_start(&w, &no, NULL) == -EINVAL &&
	      socks_start(&x, &no, NULL) == -EINVAL);
}

static int says(const char *bytes, size_t len, bool auth)
{
	struct host name = host_of("a.example");
	struct socks s = SOCKS_INIT(&name, 443, auth ? "a" : NULL, auth ? "b" : NULL);
	autobuf struct buf out = BUF_INIT;
	size_t used;

	return talk(&s, bytes, len, SIZE_MAX, &out, &used);
}

static void test_refused(void)
{
	CHECK(says("\4\0", 2, false) == -EBADMSG && says("HTTP/1.1 400", 12, false) == -EBADMSG);
	CHECK(says("\5\xff", 2, false) == -EACCES && says("\5\xff", 2, true) == -EACCES);
	CHECKF(says("\5\2", 2, false) == -EBADMSG, "a method that was not offered is refused");
	CHECK(says("\5\1", 2, true) == -EBADMSG);
	CHECK(says("\5\2\5\0", 4, true) == -EBADMSG);
	CHECK(says("\5\0\4\0\0\1", 6, false) == -EBADMSG && says("\5\0\5\0\1\1", 6, false) == -EBADMSG &&
	      says("\5\0\5\0\0\2", 6, false) == -EBADMSG);
	CHECK(says("\5\0\5\5", 4, false) == -ECONNREFUSED && says("\5\0\5\0", 4, false) == 0);
	CHECK_STR(socks_reply_text(2), "not allowed by its rules");
	CHECK_STR(socks_reply_text(99), "an unknown reason");
}

int main(void)
{
	test_connect();
	test_password();
	test_refused();
	return tap_done();
}
