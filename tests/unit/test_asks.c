/* SPDX-License-Identifier: Apache-2.0 */
/* The list of questions: its states one by one, on a clock of its own. test_asks_random.c has sequences of all of them. */
#include "asksrig.h"

static void test_once(void)
{
	struct ask_question q = question("/repos/o/r/pulls/7/merge", "{\"sha\":1}"),
			    other = question("/x", "b");
	struct asks *l = begin();
	char id[ASK_ID_MAX];

	asks_put(l, now, &q, 1, 0, id);
	CHECK(str_eq(id, "3f9a2c-1") && told[1].n == 0 && state_of(l, "1") == ASK_PENDING);
	CHECK(str_eq(last_event, "ask.new"));
	for (uint64_t w = 2; w <= 10; w++)
		asks_put(l, now, &q, w, 0, id);
	CHECK(asks_pending(l) == 1 && str_eq(id, "3f9a2c-1")); /* ten retries, one entry */
	CHECK(answer(l, "1", &other, true, ASK_ONCE, 0) == -ESTALE && told[1].n == 0);
	CHECK(answer(l, "9", &q, true, ASK_ONCE, 0) == -ENOENT);
	CHECK(answer(l, "aa-1", &q, true, ASK_ONCE, 0) == -ENOENT);
	event_fails = 1;
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == -EIO && state_of(l, "1") == ASK_PENDING &&
	      told[1].n == 0);
	event_fails = 0;
	CHECK(answer(l, "3f-1", &q, true, ASK_ONCE, 0) == 0);
	CHECK(told[1].n == 1 && told[1].allow && state_of(l, "1") == ASK_SPENT);
	for (int w = 2; w <= 10; w++) {
		if (told[w].n != 1 || told[w].allow)
			CHECK(!"only one of the ten goes");
	}
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == -EALREADY); /* the second person is told */
	asks_taken(l, 1);
	asks_put(l, now, &q, 11, 0, id);
	CHECK(str_eq(id, "3f9a2c-2") && told[11].n == 0); /* asked again */
	CHECK(answer(l, id, &q, false, ASK_ONCE, 0) == 0 && told[11].n == 1 && !told[11].allow);
	asks_free(l);
}

static void test_gone(void)
{
	struct ask_question q = question("/a", "b");
	struct asks *l = begin();

	asks_put(l, now, &q, 1, 0, NULL);
	asks_drop(l, now, 1);
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == 0 && state_of(l, "1") == ASK_PARKED && told[1].n == 0);
	asks_put(l, now, &q, 2, 0, NULL);
	CHECK(told[2].allow && state_of(l, "1") == ASK_SPENT);
	CHECK(asks_unused(l, now, 2) == 0 && state_of(l, "1") == ASK_PARKED); /* nothing was sent */
	pass(l, ASKS_PARKED_FOR + 1);
	CHECK(state_of(l, "1") == ASK_LAPSED);
	asks_put(l, now, &q, 3, 0, NULL);
	CHECK(told[3].n == 0 && state_of(l, "2") == ASK_PENDING);
	CHECK(asks_unused(l, now, 3) == -ENOENT && asks_unused(l, now, 99) == -ENOENT);
	/* An asker that dies with its answer has used it. */
	CHECK(answer(l, "2", &q, true, ASK_ONCE, 0) == 0 && told[3].allow);
	asks_drop_range(l, now, 1, 100);
	CHECK(state_of(l, "2") == ASK_SPENT && asks_unused(l, now, 3) == -ENOENT);
	asks_free(l);
}

/* Handed out and given back again and again, it ends when the answer said. */
static void test_kept_alive(void)
{
	struct ask_question q = question("/a", "b");
	struct asks *l = begin();
	uint64_t w = 2;

	asks_put(l, now, &q, 1, 0, NULL);
	asks_drop(l, now, 1);
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == 0);
	for (int t = 0; t + 40 < ASKS_PARKED_FOR; t += 40, w++) {
		asks_put(l, now, &q, w, 0, NULL);
		CHECK(told[w].allow && asks_unused(l, now, w) == 0 && state_of(l, "1") == ASK_PARKED);
		pass(l, 40);
	}
	asks_put(l, now, &q, w, 0, NULL);
	CHECK(told[w].allow);
	now.mono += 60 * NSEC_PER_SEC;
	CHECK(asks_unused(l, now, w) == 0 && state_of(l, "1") == ASK_LAPSED);
	asks_put(l, now, &q, 99, 0, NULL);
	CHECK(told[99].n == 0 && state_of(l, "2") == ASK_PENDING);
	asks_free(l);
}

static void test_time(void)
{
	struct ask_question q = question("/a", "b"), c = question("/c", "d");
	struct asks *l = begin();

	asks_put(l, now, &q, 1, 0, NULL);
	pass(l, ASKS_TIMEOUT_DEFAULT - 1);
	CHECK(told[1].n == 0);
	pass(l, 2);
	CHECK(told[1].n == 1 && !told[1].allow && state_of(l, "1") == ASK_EXPIRED &&
	      str_eq(last_event, "ask.expire"));
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == -ETIME);
	/* An answer that comes late, before anybody has looked at the clock. */
	asks_put(l, now, &q, 2, 0, NULL);
	now.mono += (ASKS_TIMEOUT_DEFAULT + 1) * NSEC_PER_SEC;
	CHECK(answer(l, "2", &q, true, ASK_SANDBOX, 0) == -ETIME && !told[2].allow);
	asks_put(l, now, &q, 3, 0, NULL);
	CHECK(answer(l, "3", &q, true, ASK_FOR, 60) == 0 && told[3].allow);
	asks_put(l, now, &q, 4, 0, NULL);
	CHECK(told[4].allow);
	asks_put(l, now, &c, 5, 0, NULL);
	CHECK(told[5].n == 0); /* another path */
	now.mono += 61 * NSEC_PER_SEC;
	asks_put(l, now, &q, 6, 0, NULL);
	CHECK(told[6].n == 0 && state_of(l, "3") == ASK_LAPSED);
	asks_free(l);
}

static void test_grants(void)
{
	struct ask_question q = question("/a?x=1", "b"), v = question("/a?x=2", "other"),
			    m = question("/a", "b");
	struct ask_who who = { .via = "cli" };
	struct asks *l = begin();
	struct err e = ERR_INIT;

	m.method = "DELETE";
	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(answer(l, "1", &q, true, ASK_USES, 2) == 0 && told[1].allow && state_of(l, "1") == ASK_GRANTED);
	asks_put(l, now, &v, 2, 0, NULL); /* any query and body */
	CHECK(told[2].allow && state_of(l, "1") == ASK_SPENT);
	asks_put(l, now, &v, 3, 0, NULL);
	CHECK(told[3].n == 0);
	CHECK(answer(l, "2", &v, true, ASK_SANDBOX, 0) == 0 && told[3].allow);
	asks_put(l, now, &m, 4, 0, NULL);
	CHECK(told[4].n == 0); /* another method */
	event_fails = 1;
	asks_put(l, now, &q, 5, 0, NULL);
	CHECK(told[5].n == 1 && !told[5].allow); /* a use that cannot be logged is none */
	event_fails = 0;
	CHECK(asks_revoke(l, now, "2", &who, &e) == 0);
	CHECK(asks_revoke(l, now, "2", &who, &e) == -ECANCELED);
	asks_put(l, now, &q, 6, 0, NULL);
	CHECK(told[6].n == 0);
	asks_end(l, now);
	CHECK(told[6].n == 1 && !told[6].allow && told[4].n == 1 && !told[4].allow && asks_pending(l) == 0);
	CHECK(answer(l, "4", &q, true, ASK_ONCE, 0) == -ECANCELED);
	asks_free(l);
}

/* A question that somebody submits is never taken for another's, nor for the sandbox's own. */
static void test_by(void)
{
	static const char *const by[] = { "", "bot (api)", "other (api)" };
	unsigned char digest[3][HASH_LEN], subject[3][HASH_LEN];

	for (size_t i = 0; i < 3; i++) {
		struct ask_question q = {
			.kind = ASK_TOOL, .what = "deploy", .rule = "ask: deploy", .by = by[i]
		};

		ask_question_digest(&q, digest[i]);
		ask_question_subject(&q, subject[i]);
	}
	for (size_t i = 0; i < 3; i++) {
		size_t k = (i + 1) % 3;

		CHECKF(memcmp(digest[i], digest[k], HASH_LEN) != 0 &&
			       memcmp(subject[i], subject[k], HASH_LEN) != 0,
		       "a question by '%s' is nobody else's", by[i]);
	}
}

static void test_policy(void)
{
	struct ask_question q = question("/a", "b"), n;
	struct asks *l = begin();

	asks_new_policy(l, now, 1);
	asks_put(l, now, &q, 1, 0, NULL);
	asks_new_policy(l, now, 2);
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == -ESTALE && told[1].n == 0);
	asks_drop(l, now, 1);
	CHECK(state_of(l, "1") == ASK_GONE);
	n = q;
	n.generation = 2;
	asks_put(l, now, &n, 2, 0, NULL);
	CHECK(state_of(l, "2") == ASK_PENDING);
	asks_drop(l, now, 2);
	CHECK(answer(l, "2", &n, true, ASK_ONCE, 0) == 0 && state_of(l, "2") == ASK_PARKED);
	asks_new_policy(l, now, 3);
	CHECK(state_of(l, "2") == ASK_LAPSED);
	asks_free(l);
}

static void test_bounds(void)
{
	static char longer[ASK_PATH_MAX + 8];
	struct asks *l = begin();
	struct ask_question q;
	char path[32];

	memset(longer, 'x', sizeof(longer) - 1);
	q = question(longer, "");
	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(told[1].n == 1 && !told[1].allow && strstr(told[1].why, "longer than"));
	for (int i = 0; i < 10000; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		q = question(path, "");
		asks_put(l, now, &q, 2 + (uint64_t)(i % 4000), 0, NULL);
	}
	CHECK(asks_pending(l) == ASKS_PENDING_MAX && asks_shed_count(l) == 10000 - ASKS_PENDING_MAX);
	/* Questions that others submit have places of their own, and one submitter cannot take all. */
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/s%d", i);
		q = question(path, "");
		q.submitted = true;
		q.by = i < 50 ? "bot (api)" : "";
		asks_put(l, now, &q, 4001 - 100 + (uint64_t)i, 0, NULL);
		if (i == 49)
			CHECK(asks_pending(l) == ASKS_PENDING_MAX + ASKS_BY_MAX);
	}
	CHECK(asks_pending(l) == ASKS_OPEN_MAX);
	asks_free(l);
	l = begin();
	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/s%d", i);
		q = question(path, "");
		q.submitted = true;
		asks_put(l, now, &q, 100 + (uint64_t)i, 0, NULL);
	}
	CHECK(asks_pending(l) == ASKS_SUBMITTED_MAX);
	q = question("/own", "");
	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(told[1].n == 0 && asks_pending(l) == ASKS_SUBMITTED_MAX + 1);
	asks_free(l);
	/* Tired. */
	l = begin();
	for (uint64_t i = 1; i <= ASKS_TIRED_AFTER; i++) {
		char id[ASK_ID_MAX];

		snprintf(path, sizeof(path), "/%d", (int)i);
		q = question(path, "");
		asks_put(l, now, &q, i, 0, id);
		CHECK(told[i].n == 0 && answer(l, id, &q, false, ASK_ONCE, 0) == 0);
	}
	q = question("/again", "");
	asks_put(l, now, &q, 50, 0, NULL);
	CHECK(told[50].n == 1 && !told[50].allow && strstr(told[50].why, "without asking"));
	q.rule = "ask another";
	asks_put(l, now, &q, 51, 0, NULL);
	CHECK(told[51].n == 0);
	q.rule = "ask PUT (p.yaml:7)";
	pass(l, ASKS_TIRED_FOR + 1);
	asks_put(l, now, &q, 52, 0, NULL);
	CHECK(told[52].n == 0);
	asks_free(l);
}

/* The number of grants has a bound: the list is written down as a whole with each answer. */
static void test_grants_max(void)
{
	struct asks *l = begin();
	struct ask_question q;
	char path[32], id[ASK_ID_MAX];
	uint64_t w = 1;

	for (int i = 0; i < ASKS_GRANTS_MAX; i++, w++) {
		snprintf(path, sizeof(path), "/%d", i);
		q = question(path, "");
		asks_put(l, now, &q, w, 0, id);
		if (answer(l, id, &q, true, ASK_SANDBOX, 0) < 0)
			break;
		asks_taken(l, w);
	}
	CHECKF(w == ASKS_GRANTS_MAX + 1, "exactly ASKS_GRANTS_MAX grants are given");
	q = question("/more", "");
	asks_put(l, now, &q, w, 0, id);
	CHECKF(answer(l, id, &q, true, ASK_SANDBOX, 0) == -EBUSY && state_of(l, id) == ASK_PENDING &&
		       told[w].n == 0,
	       "a grant beyond the limit is not given, and its question waits");
	CHECKF(answer(l, id, &q, true, ASK_ONCE, 0) == 0 && told[w].allow,
	       "a full table still allows a question once");
	asks_taken(l, w);
	asks_put(l, now, &q, ++w, 0, id);
	asks_drop(l, now, w);
	CHECKF(answer(l, id, &q, true, ASK_ONCE, 0) == -EBUSY,
	       "a full table does not park an answer for an asker that is gone");
	CHECKF(answer(l, id, &q, false, ASK_ONCE, 0) == 0, "a full table accepts a denial");
	CHECK(asks_revoke(l, now, "7", &(struct ask_who){ .uid = 7 }, &(struct err){ 0 }) == 0);
	q = question("/again", "");
	asks_put(l, now, &q, ++w, 0, id);
	CHECKF(answer(l, id, &q, true, ASK_SANDBOX, 0) == 0, "a revoked grant makes room for a new one");
	asks_free(l);
}

/* Ten thousand one after the other, and eight at a time: whoever was told and said what came of it leaves nothing behind. */
static void test_ten_thousand(void)
{
	struct asks *l = begin();
	unsigned bad = 0;

	for (unsigned i = 0; i < 10000; i += 8) {
		struct ask_question q[8];
		char path[8][32], id[8][ASK_ID_MAX];

		memset(told, 0, sizeof(told));
		for (unsigned k = 0; k < 8; k++) {
			snprintf(path[k], sizeof(path[k]), "/%u", i + k);
			q[k] = question(path[k], "");
			asks_put(l, now, &q[k], 1 + k, 0, id[k]);
		}
		/* Sent; given up after the answer, sent later; given up before it; denied by nobody in time. */
		for (unsigned k = 0; k < 8; k++) {
			if (k % 4 == 2)
				asks_drop(l, now, 1 + k);
			if (k % 4 != 3)
				bad += answer(l, id[k], &q[k], true, ASK_ONCE, 0) < 0;
			if (k % 4 == 1)
				bad += asks_unused(l, now, 1 + k) < 0;
			else if (k % 4 == 0)
				asks_taken(l, 1 + k);
			bad += told[1 + k].allow != (k % 4 < 2);
		}
		pass(l, ASKS_TIMEOUT_DEFAULT + 1);
		bad += asks_pending(l) != 0;
	}
	CHECKF(bad == 0, "each of 10000 questions has the right outcome: %u do not", bad);
	CHECK(asks_shed_count(l) == 0);
	/* All places of those who wait are free. */
	for (uint64_t w = 1; w <= ASKS_WAITERS_MAX; w++) {
		struct ask_question q = question("/all", "");

		told[w].n = 0;
		asks_put(l, now, &q, w, 0, NULL);
		bad += told[w].n != 0;
	}
	CHECKF(bad == 0, "all places of askers are free again: %u are not", bad);
	asks_free(l);
}

/* A submitter whose questions are denied tires nobody but himself: the rule is the sandbox's, and so are its own
 * calls. */
static void test_tired_by(void)
{
	struct ask_question q = question("", "");
	struct asks *l = begin();
	char what[16], id[ASK_ID_MAX];

	q.kind = ASK_TOOL;
	q.rule = "ask: deploy";
	q.what = what;
	q.submitted = true;
	q.by = "bot (api)";
	for (uint64_t i = 1; i <= ASKS_TIRED_AFTER; i++) {
		snprintf(what, sizeof(what), "deploy%d", (int)i);
		asks_put(l, now, &q, i, 0, id);
		CHECK(told[i].n == 0 && answer(l, id, &q, false, ASK_ONCE, 0) == 0);
	}
	snprintf(what, sizeof(what), "deploy");
	asks_put(l, now, &q, 50, 0, NULL);
	CHECK(told[50].n == 1 && !told[50].allow && strstr(told[50].why, "without asking"));
	q.by = "other (api)";
	asks_put(l, now, &q, 51, 0, NULL);
	CHECK(told[51].n == 0);
	q.by = "";
	asks_put(l, now, &q, 52, 0, NULL);
	CHECK(told[52].n == 0);
	asks_free(l);
}

static void test_file(void)
{
	struct ask_question q = question("/a\x1b[31m<b>", "\xff\xe2\x80\xae"), p = question("/p", "");
	struct asks *l = begin(), *again;
	autobuf struct buf b = BUF_INIT, c = BUF_INIT;
	struct err e = ERR_INIT;
	struct ask_view v;
	char id[ASK_ID_MAX];

	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(answer(l, "1", &q, true, ASK_SANDBOX, 0) == 0);
	asks_put(l, now, &p, 2, 0, NULL);
	asks_store(l, &b);
	asks_free(l);
	again = asks_new(RUN, 0, &out);
	CHECK(asks_load(again, now, buf_cstr(&b), b.len, &e) == 0);
	CHECK(state_of(again, "1") == ASK_LAPSED && state_of(again, "2") == ASK_GONE);
	ask_view(again, asks_find(again, "1"), &v);
	CHECKF(v.seq == 1001, "a question keeps its place in the log: %llu", (unsigned long long)v.seq);
	asks_put(again, now, &q, 3, 0, id);
	CHECK(str_eq(id, "3f9a2c-3") &&
	      told[3].n == 0); /* what a life before was granted is not granted now */
	CHECK(asks_load(again, now, "{\"kind\":\"x\"}\nrubbish\n", 21, &e) == -EBADMSG);
	asks_store(again, &c);
	CHECK(!buf_error(&c) && c.len > b.len / 2);
	asks_free(again);
}

int main(void)
{
	test_once();
	test_gone();
	test_kept_alive();
	test_time();
	test_grants();
	test_by();
	test_policy();
	test_bounds();
	test_grants_max();
	test_ten_thousand();
	test_tired_by();
	test_file();
	return tap_done();
}
