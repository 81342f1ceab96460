/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a place in the log by number, and reading it from its end: over segments, junk, torn and endless lines. */
#include "audit/line.h"
#include "audit/query.h"
#include "test_audit_log.h"

static const struct audit_filter all = { 0 };

/* In a long log not each number is tried, but all near its ends. */
static uint64_t step(uint64_t n, uint64_t first, uint64_t last)
{
	return n + (last < 300 || n < first + 3 || n + 60 > last ? 1 : 53);
}

/* From each number on: exactly those from there to the end, in order. */
static bool seeks(struct test_log *t, uint64_t first, uint64_t last)
{
	for (uint64_t from = first > 2 ? first - 2 : 1; from <= last + 2; from = step(from, first, last)) {
		CLEANUP(audit_query_freep) struct audit_query *q = NULL;
		uint64_t next = from < first ? first : from;
		struct audit_record rec;

		if (audit_query_open(&q, t->state_fd, &all, NULL) < 0 || audit_query_seek(q, from, NULL) < 0)
			return false;
		while (audit_query_next(q, &rec, NULL) > 0) {
			if (!rec.is_event || rec.line.seq != next++)
				return false;
		}
		if (next != (from > last ? from : last + 1))
			return false;
	}
	return true;
}

static bool backs(struct test_log *t, uint64_t first, uint64_t last)
{
	for (uint64_t before = first; before <= last + 2; before = step(before, first, last)) {
		CLEANUP(audit_back_freep) struct audit_back *b = NULL;
		uint64_t next = before == last + 2 ? last : before - 1;
		struct audit_record rec;

		if (audit_back_open(&b, t->state_fd, &all, before == last + 2 ? UINT64_MAX : before, NULL) <
		    0)
			return false;
		while (audit_back_next(b, &rec, NULL) > 0) {
			if (rec.is_event && rec.line.seq != next--)
				return false;
		}
		if (next != first - 1)
			return false;
	}
	return true;
}

/* From the end down to each number: exactly those, also where the first of a file is meant. */
static bool floors(struct test_log *t, uint64_t first, uint64_t last)
{
	for (uint64_t from = first; from <= last + 2; from = step(from, first, last)) {
		const struct audit_filter f = { .from = from };
		CLEANUP(audit_back_freep) struct audit_back *b = NULL;
		uint64_t next = last;
		struct audit_record rec;

		if (audit_back_open(&b, t->state_fd, &f, UINT64_MAX, NULL) < 0)
			return false;
		while (audit_back_next(b, &rec, NULL) > 0) {
			if (rec.is_event && rec.line.seq != next--)
				return false;
		}
		if (next != (from > last ? last : from - 1))
			return false;
	}
	return true;
}

static uint64_t last_of(struct test_log *t)
{
	uint64_t seq = 0;

	return audit_last_seq(t->state_fd, &seq, NULL) < 0 ? UINT64_MAX : seq;
}

static int count_back(struct test_log *t, const struct audit_filter *f)
{
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_record rec;
	int n = 0;

	if (audit_back_open(&b, t->state_fd, f, UINT64_MAX, NULL) < 0)
		return -1;
	while (audit_back_next(b, &rec, NULL) > 0)
		n++;
	return n;
}

static void test_segments(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 4096, .keep = 100, .head_every = 1000 };
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;
	uint64_t last;

	CHECKF(last_of(&t) == 0 && backs(&t, 1, 0) && seeks(&t, 1, 0),
	       "a log that does not exist has no events");
	CHECK(log_fill(&t, 120, &set, &e) == 0);
	last = last_of(&t);
	CHECKF(last > 120 && last < 200, "the number of the last event is found");
	CHECKF(seeks(&t, 1, last), "seeking to each number works over segments");
	CHECKF(backs(&t, 1, last), "reading backwards from each number works over segments");
	CHECKF(floors(&t, 1, last), "the event at or before each number is found over segments");
	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	CHECK(audit_append(a, "run.start", "ffffffffffff", NULL, &e) == 0);
	CHECK(audit_append(a, "run.end", "ffffffffffff", NULL, &e) == 0);
	CHECK(count_back(&t, &(struct audit_filter){ .sandbox = "ffff" }) == 2);
	CHECK(count_back(&t, &(struct audit_filter){ .type = "run.end" }) == 1);
	CHECK(count_back(&t, &(struct audit_filter){ .type = "test" }) == 120);
	CHECK(count_back(&t, &(struct audit_filter){ .sandbox = "b" }) == 0);
	/* Those that were pruned are gone from both ends. */
	CHECK(unlinkat(t.dir_fd, "log.000001.jsonl", 0) == 0);
	{
		CLEANUP(audit_query_freep) struct audit_query *q = NULL;
		struct audit_record rec = { 0 };

		CHECK(audit_query_open(&q, t.state_fd, &all, NULL) == 0 && audit_query_seek(q, 2, NULL) == 0);
		CHECK(audit_query_next(q, &rec, NULL) > 0 && rec.line.seq > 5);
		CHECKF(seeks(&t, rec.line.seq, last + 2),
		       "seeking to pruned events goes to the next one that exists");
	}
}

/* More than is read in one go, so that the place is halved in on. */
static void test_large(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	autobuf struct buf b = BUF_INIT, changed = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t last;
	size_t len;

	CHECK(log_fill(&t, 900, NULL, &e) == 0);
	last = last_of(&t);
	b = log_read(&t, "log.jsonl");
	CHECK(b.len > 3 * 65536UL);
	CHECKF(seeks(&t, 1, last) && backs(&t, 1, last) && floors(&t, 1, last),
	       "seeking works in a file larger than one piece");

	/* A torn line at the end, junk in the middle, a line without an end. */
	buf_add(&changed, b.data, (size_t)(line_at(&b, 450, &len) - b.data));
	buf_adds(&changed, "junk\n\n{}\n");
	for (int i = 0; i < 1500000; i++)
		buf_addc(&changed, 'x');
	buf_addc(&changed, '\n');
	buf_adds(&changed, line_at(&b, 450, &len));
	buf_adds(&changed, "{\"seq\":9999,\"time\":");
	log_write(&t, "log.jsonl", changed.data, changed.len);
	CHECKF(seeks(&t, 1, last), "seeking skips lines that are not events");
	CHECKF(backs(&t, 1, last), "reading backwards skips lines that are not events");
	CHECKF(count_back(&t, &all) == (int)last + 4,
	       "lines that are not events are returned when everything is asked for");

	/* The first line of a file is none: it is looked into all the same. */
	b.data[0] = 'x';
	log_write(&t, "log.jsonl", b.data, b.len);
	CHECKF(seeks(&t, 2, last) && backs(&t, 2, last), "seeking works when the first line is not an event");
	log_write(&t, "log.jsonl", "", 0);
	CHECKF(last_of(&t) == 0 && seeks(&t, 1, 0), "an empty file is an empty log");
	log_write(&t, "log.jsonl", "no newline", 10);
	CHECKF(last_of(&t) == 0 && seeks(&t, 1, 0), "a file without a whole line is an empty log");
}

/* Numbers that do not ascend: some answer, and an end. */
static void test_shuffled(void)
{
	CLEANUP(log_free) struct test_log t = log_with(900);
	autobuf struct buf b = log_read(&t, "log.jsonl"), changed = BUF_INIT;
	size_t len, half = (size_t)(line_at(&b, 450, &len) - b.data);
	bool good = true;

	buf_add(&changed, b.data + half, b.len - half);
	buf_add(&changed, b.data, half);
	log_write(&t, "log.jsonl", changed.data, changed.len);
	for (uint64_t seq = 1; seq < 910; seq += 7) {
		CLEANUP(audit_query_freep) struct audit_query *q = NULL;
		CLEANUP(audit_back_freep) struct audit_back *back = NULL;
		struct audit_record rec;

		good = good && audit_query_open(&q, t.state_fd, &all, NULL) == 0 &&
		       audit_query_seek(q, seq, NULL) == 0 &&
		       audit_back_open(&back, t.state_fd, &all, seq, NULL) == 0;
		while (good && audit_query_next(q, &rec, NULL) > 0)
			good = rec.line.seq >= seq;
		while (good && audit_back_next(back, &rec, NULL) > 0)
			good = rec.line.seq < seq;
	}
	CHECKF(good, "a shuffled log gives no event that was not asked for");
}

/* A place at the end, then what is appended. */
static void test_follow(void)
{
	CLEANUP(log_free) struct test_log t = log_with(20);
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct audit_settings set = { .segment_size = 3000, .keep = 100, .head_every = 1000 };
	uint64_t last = last_of(&t), next = last + 1;
	struct audit_record rec;
	struct err e = ERR_INIT;
	bool good = true;

	CHECK(audit_query_open(&q, t.state_fd, &all, NULL) == 0 && audit_query_seek(q, next, NULL) == 0);
	CHECKF(audit_query_next(q, &rec, NULL) == 0, "a query at the end of the log returns nothing");
	for (int i = 0; i < 6; i++) {
		CHECK(log_fill(&t, 7, &set, &e) == 0);
		while (audit_query_next(q, &rec, NULL) > 0)
			good = good && rec.is_event && rec.line.seq == next++;
	}
	CHECKF(good && next == last_of(&t) + 1 && next > last + 42,
	       "a query that follows returns all new events, over rotations");
}

int main(void)
{
	test_segments();
	test_large();
	test_shuffled();
	test_follow();
	return tap_done();
}
