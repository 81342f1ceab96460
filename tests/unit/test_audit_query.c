/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the log: segments in order, filters, following over rotations, torn lines; the readers of its texts. */
#include "audit/anchor.h"
#include "audit/line.h"
#include "audit/lines.h"
#include "audit/query.h"
#include "base/clock.h"
#include "crypto/hash.h"
#include "crypto/sign.h"
#include "test_audit_log.h"

#include <signal.h>
#include <sys/wait.h>

static struct audit_query *query(struct test_log *t, const struct audit_filter *f)
{
	struct audit_query *q = NULL;

	if (audit_query_open(&q, t->state_fd, f, NULL) < 0)
		printf("Bail out! cannot open the log\n");
	return q;
}

/* Reads what is there; returns how many, and checks that numbers ascend by one when `all`. */
static int drain(struct audit_query *q, uint64_t *last, bool all)
{
	struct audit_record rec;
	int n = 0;

	while (audit_query_next(q, &rec, NULL) > 0) {
		if (!rec.is_event || (all && rec.line.seq != *last + 1))
			return -1;
		*last = rec.line.seq;
		n++;
	}
	return n;
}

static int count(struct test_log *t, const struct audit_filter *f)
{
	CLEANUP(audit_query_freep) struct audit_query *q = query(t, f);
	uint64_t last = 0;

	return drain(q, &last, false);
}

static void test_filters(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 4096, .keep = 100, .head_every = 1000 };
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;
	uint64_t now, last = 0;

	CHECKF(count(&t, &(struct audit_filter){ 0 }) == 0, "a log that is not there yet is empty");
	CHECK(log_fill(&t, 50, &set, &e) == 0);
	CHECK(usleep(2000) == 0);
	now = clock_nsec(CLOCK_REALTIME);
	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	CHECK(audit_append(a, "run.start", "ffffffffffff", NULL, &e) == 0);
	CHECK(audit_append(a, "run.end", "ffffffffffff", NULL, &e) == 0);
	CHECK(audit_append(a, "runner", NULL, NULL, &e) == 0);
	CLEANUP(audit_query_freep) struct audit_query *q = query(&t, &(struct audit_filter){ 0 });
	CHECKF(drain(q, &last, true) > 53, "all events of all segments come in order");
	CHECK(count(&t, &(struct audit_filter){ .type = "test.event" }) == 50);
	CHECK(count(&t, &(struct audit_filter){ .type = "run" }) == 2);
	CHECK(count(&t, &(struct audit_filter){ .type = "run.end" }) == 1);
	CHECK(count(&t, &(struct audit_filter){ .sandbox = "ffffffffffff" }) == 2);
	CHECK(count(&t, &(struct audit_filter){ .sandbox = "a1b2" }) == 50);
	CHECK(count(&t, &(struct audit_filter){ .sandbox = "b" }) == 0);
	CHECK(count(&t, &(struct audit_filter){ .since = now }) == 3);
	CHECK(count(&t, &(struct audit_filter){ .since = now, .type = "run", .sandbox = "ffff" }) == 2);
}

static void test_follow(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	CLEANUP(audit_query_freep) struct audit_query *q = query(&t, &(struct audit_filter){ 0 });
	struct audit_settings set = { .segment_size = 3000, .keep = 100, .head_every = 1000 };
	struct err e = ERR_INIT;
	uint64_t last = 0, began;
	int total = 0, status = -1, got;
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < 50; i++) {
			if (log_fill(&t, 10, &set, &e) < 0)
				_exit(1);
			usleep(1000);
		}
		_exit(0);
	}
	began = clock_nsec(CLOCK_MONOTONIC);
	while (total < 501 && clock_nsec(CLOCK_MONOTONIC) - began < 120 * NSEC_PER_SEC) {
		got = drain(q, &last, true);
		if (got < 0)
			break;
		total += got;
		if (audit_query_wait(q, 100, &e) < 0)
			break;
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	got = drain(q, &last, true);
	CHECKF(got >= 0 && total + got > 501, "following sees every event once, over rotations (%d)",
	       total + got);
	CHECK(log_is_ok(&t));
}

static void test_torn(void)
{
	CLEANUP(log_free) struct test_log t = log_with(3);
	CLEANUP(audit_query_freep) struct audit_query *q = query(&t, &(struct audit_filter){ 0 });
	struct err e = ERR_INIT;
	uint64_t last = 0;

	CHECK(drain(q, &last, true) == 4);
	autoclose int fd = openat(t.dir_fd, "log.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(fd_write_all(fd, "{\"seq\":5,\"ti", 12) == 0);
	CHECKF(drain(q, &last, true) == 0, "half a line is not returned");
	CHECK(drain(q, &last, true) == 0);
	CHECK(log_fill(&t, 1, NULL, &e) == 0);
	CHECKF(drain(q, &last, true) == 2, "lines that replace half a line are returned");

	struct audit_record rec;
	CHECK(fd_write_all(fd, "junk\n", 5) == 0);
	CHECK(audit_query_next(q, &rec, &e) == 1 && !rec.is_event && rec.len == 4);
}

static void test_lines(void)
{
	static const char text[] = "a\n\nlast";
	autolines struct lines l = LINES_MEM(text, sizeof(text) - 1);
	enum lines_state state;
	const char *p;
	size_t len;

	CHECK(lines_next(&l, &p, &len, &state) == 1 && len == 1 && *p == 'a' && state == LINES_WHOLE);
	CHECK(lines_offset(&l) == 2);
	CHECK(lines_next(&l, &p, &len, &state) == 1 && len == 0 && state == LINES_WHOLE);
	CHECK(lines_next(&l, &p, &len, &state) == 1 && len == 4 && state == LINES_TORN);
	CHECK(lines_next(&l, &p, &len, &state) == 0);

	size_t size = (4u << 20) + 3;
	autofree char *big = malloc(size);
	memset(big, 'x', size);
	big[size - 3] = '\n';
	big[size - 2] = 'y';
	big[size - 1] = '\n';
	autolines struct lines m = LINES_MEM(big, size);
	CHECK(lines_next(&m, &p, &len, &state) == 1 && state == LINES_LONG && !p);
	CHECKF(m.buf.cap < 4u << 20, "a long line is not held in memory");
	CHECK(lines_next(&m, &p, &len, &state) == 1 && len == 1 && *p == 'y' && state == LINES_WHOLE);
}

static void test_line(void)
{
	autobuf struct buf b = BUF_INIT, fields = BUF_INIT;
	struct line_head h = { 7,
			       1700000000ULL * NSEC_PER_SEC,
			       42,
			       "01234567-89ab-cdef-0123-456789abcdef",
			       "a.b",
			       NULL,
			       LINE_HASH_NONE };
	struct line l;
	bool ok = true;

	line_format(&h, NULL, &b);
	CHECK(line_parse(b.data, b.len - 1, &l) == 0 && l.seq == 7 && l.boot == 42 && l.fields_len == 0 &&
	      !l.sandbox);
	buf_adds(&fields, "\"x\":{\"prev\":\"y\"}");
	h.sandbox = "s1";
	line_format(&h, &fields, &b);
	CHECK(line_parse(b.data, b.len - 1, &l) == 0 && l.fields_len == fields.len && l.sandbox_len == 2);
	CHECK(line_parse(b.data, b.len, &l) == -EINVAL);
	for (size_t n = 0; n < b.len - 1; n++)
		ok = ok && line_parse(b.data, n, &l) == -EINVAL;
	CHECKF(ok, "no beginning of an event is parsed as an event");
	h.seq = 0;
	line_format(&h, NULL, &b);
	CHECK(line_parse(b.data, b.len - 1, &l) == -EINVAL);
}

static void test_crypto(void)
{
	CLEANUP(sign_key_wipe) struct sign_key k = { 0 };
	unsigned char sig[SIGN_SIG_LEN] = { 0 }, raw[4];
	char hex[HASH_HEX_LEN + 1];

	hash_sha256_hex("abc", 3, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	CHECK(hash_unhex("00ff10a9", 4, raw) == 0 && raw[1] == 0xff && raw[3] == 0xa9);
	CHECK(hash_unhex("00FF10a9", 4, raw) == -EINVAL);
	CHECK(sign_key_new(&k) == 0 && sign_make(&k, "abc", 3, sig) == 0);
	CHECK(sign_is_valid(k.pub, "abc", 3, sig));
	CHECK(!sign_is_valid(k.pub, "abd", 3, sig));
	sig[5] ^= 1;
	CHECK(!sign_is_valid(k.pub, "abc", 3, sig));

	/* RFC 8032, 7.1, test 1 */
	static const char seed_hex[] = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
	unsigned char seed[SIGN_SEED_LEN];
	CHECK(hash_unhex(seed_hex, sizeof(seed), seed) == 0 && sign_key_from_seed(&k, seed) == 0);
	hash_hex(k.pub, sizeof(k.pub), hex);
	CHECK_STR(hex, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
}

int main(void)
{
	test_crypto();
	test_line();
	test_lines();
	test_filters();
	test_follow();
	test_torn();
	return tap_done();
}
