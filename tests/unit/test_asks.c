/* SPDX-License-Identifier: Apache-2.0 */
/* The list of questions: its states one by one, on a clock of its own, then random sequences against a model that knows one
 * sentence: nobody is told "allow" but by a person's answer to this question. */
#include "base/clock.h"
#include "base/str.h"
#include "gateway/askproto.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

#define RUN "3f9a2c0011aa"
#define TOLD 4096

static struct asks_now now;
static int event_fails;
static char last_event[32];
static unsigned n_events, n_changed;

static struct told {
	int n; /* how often */
	bool allow;
	char why[ASK_WHY_MAX];
} told[TOLD];

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	(void)ctx;
	(void)fields;
	if (event_fails)
		return -EIO;
	snprintf(last_event, sizeof(last_event), "%s", type);
	n_events++;
	return 0;
}

static void on_tell(void *ctx, uint64_t w, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)id;
	told[w].n++;
	told[w].allow = allow;
	snprintf(told[w].why, sizeof(told[w].why), "%s", why);
}

static const struct asks_out out = { .event = on_event, .tell = on_tell };

static struct ask_question question(const char *path, const char *body)
{
	struct ask_question q = { .kind = ASK_REQUEST,
				  .generation = 1,
				  .port = 443,
				  .tls = true,
				  .has_body = true,
				  .body_len = strlen(body),
				  .host = "api.github.com",
				  .method = "PUT",
				  .path = path,
				  .what = "",
				  .type = "",
				  .rule = "ask PUT (p.yaml:7)",
				  .reason = "",
				  .preview = body,
				  .preview_len = strlen(body) };

	hash_sha256(body, strlen(body), q.body);
	return q;
}

static struct asks *begin(void)
{
	memset(told, 0, sizeof(told));
	now = (struct asks_now){ 1000 * NSEC_PER_SEC, 1700000000ULL * NSEC_PER_SEC };
	event_fails = 0;
	n_events = 0;
	return asks_new(RUN, 0, &out);
}

static void pass(struct asks *l, uint64_t s)
{
	now.mono += s * NSEC_PER_SEC;
	now.real += s * NSEC_PER_SEC;
	(void)asks_tick(l, now);
}

static void digest_of(const struct ask_question *q, char hex[HASH_HEX_LEN + 1])
{
	unsigned char d[HASH_LEN];

	ask_question_digest(q, d);
	hash_hex(d, HASH_LEN, hex);
}

static int answer(struct asks *l, const char *id, const struct ask_question *q, bool allow, enum ask_scope s,
		  uint64_t n)
{
	struct ask_answer a = {
		.allow = allow, .scope = s, .seconds = n, .uses = n, .who = { .uid = 7, .via = "cli" }
	};
	char hex[HASH_HEX_LEN + 1];
	struct err e = ERR_INIT;

	digest_of(q, hex);
	return asks_answer(l, now, id, hex, &a, &e);
}

static enum ask_state state_of(struct asks *l, const char *id)
{
	const struct ask *a = asks_find(l, id);
	struct ask_view v;

	if (!a)
		return ASK_STATE_COUNT;
	ask_view(l, a, &v);
	return v.state;
}

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
	/* Whoever dies with it has used it. */
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

/* What somebody submits is never taken for another's, nor for the sandbox's own. */
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
		       "'%s' asks for itself", by[i]);
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
	CHECK(asks_pending(l) == ASKS_PENDING_MAX && asks_shed(l) == 10000 - ASKS_PENDING_MAX);
	/* What others submit has places of its own, and one of them cannot take all. */
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

static void test_file(void)
{
	struct ask_question q = question("/a\x1b[31m<b>", "\xff\xe2\x80\xae"), p = question("/p", "");
	struct asks *l = begin(), *again;
	autobuf struct buf b = BUF_INIT, c = BUF_INIT;
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];

	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(answer(l, "1", &q, true, ASK_SANDBOX, 0) == 0);
	asks_put(l, now, &p, 2, 0, NULL);
	asks_store(l, &b);
	asks_free(l);
	again = asks_new(RUN, 0, &out);
	CHECK(asks_load(again, now, buf_cstr(&b), b.len, &e) == 0);
	CHECK(state_of(again, "1") == ASK_LAPSED && state_of(again, "2") == ASK_GONE);
	asks_put(again, now, &q, 3, 0, id);
	CHECK(str_eq(id, "3f9a2c-3") &&
	      told[3].n == 0); /* what a life before was granted is not granted now */
	CHECK(asks_load(again, now, "{\"kind\":\"x\"}\nrubbish\n", 21, &e) == -EBADMSG);
	asks_store(again, &c);
	CHECK(!buf_error(&c) && c.len > b.len / 2);
	asks_free(again);
}

/* ---- Random sequences. ---- */

#define QUESTIONS 6

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

/* What a person has allowed: by question, how many single uses and until when all of its subject. */
struct model {
	uint64_t singles[QUESTIONS], uses[QUESTIONS], until[QUESTIONS];
	uint64_t allowed;
};

static bool one_round(uint64_t s, unsigned steps)
{
	static const char *const paths[QUESTIONS] = { "/a", "/a?q", "/b", "/b?q", "/c", "/c?q" };
	struct ask_question q[QUESTIONS];
	int of[TOLD];
	struct asks *l = begin();
	struct model m = { 0 };
	uint64_t next = 1, budget = 0, spent = 0;
	bool good = true;

	seed = s;
	for (int i = 0; i < QUESTIONS; i++)
		q[i] = question(paths[i], i & 1 ? "x" : "y");
	for (unsigned k = 0; k < steps && next < TOLD - 2; k++) {
		unsigned i = pick(QUESTIONS);
		char id[ASK_ID_MAX];

		event_fails = pick(20) == 0;
		switch (pick(8)) {
		case 0:
		case 1:
		case 2:
			of[next] = (int)i;
			asks_put(l, now, &q[i], next, 0, NULL);
			next++;
			break;
		case 3: /* an answer to something, perhaps not to what it is shown as */
			snprintf(id, sizeof(id), "%u", 1 + pick(40));
			{
				enum ask_scope scope = (enum ask_scope)pick(ASK_SCOPE_COUNT);
				bool allow = pick(2);
				unsigned n = 1 + pick(3);

				if (answer(l, id, &q[i], allow, scope, n) == 0 && allow) {
					if (scope == ASK_ONCE)
						m.singles[i]++, budget++;
					else if (scope == ASK_USES)
						m.uses[i / 2] += n, budget += n;
					else if (scope == ASK_FOR)
						m.until[i / 2] = now.mono + n * NSEC_PER_SEC;
					else
						m.until[i / 2] = UINT64_MAX;
				}
			}
			break;
		case 4:
			asks_drop(l, now, 1 + pick((unsigned)next));
			break;
		case 5: {
			uint64_t w = 1 + pick((unsigned)next);

			if (asks_unused(l, now, w) == 0 && spent)
				spent--;
			break;
		}
		case 6:
			asks_taken(l, 1 + pick((unsigned)next));
			break;
		default:
			pass(l, pick(200));
		}
		/* Everybody is told once, and "allow" only where somebody said so of this question or subject. */
		for (uint64_t w = 1; w < next; w++) {
			if (told[w].n > 1)
				good = false;
			if (!told[w].n || !told[w].allow)
				continue;
			i = (unsigned)of[w];
			if (!m.singles[i] && !m.uses[i / 2] && !m.until[i / 2])
				good = false;
		}
	}
	(void)budget;
	asks_end(l, now);
	asks_free(l);
	return good;
}

/* Without a word of anybody's nothing is ever allowed, whatever else happens. */
static bool silent_round(uint64_t s)
{
	struct ask_question q = question("/a", "b");
	struct asks *l = begin();

	seed = s;
	for (uint64_t w = 1; w < 600; w++) {
		char path[16];

		snprintf(path, sizeof(path), "/%u", pick(30));
		q = question(path, "b");
		asks_put(l, now, &q, w, 0, NULL);
		if (pick(3) == 0)
			asks_drop(l, now, pick(600));
		if (pick(5) == 0)
			pass(l, pick(100));
		if (pick(9) == 0)
			asks_new_policy(l, now, 1 + pick(3));
		if (asks_unused(l, now, pick(600)) == 0)
			return false;
	}
	asks_end(l, now);
	asks_free(l);
	for (int w = 0; w < 600; w++) {
		if (told[w].allow)
			return false;
	}
	return true;
}

/* `once`: never more uses than answers. */
static bool once_round(uint64_t s)
{
	struct ask_question q = question("/a", "b");
	struct asks *l = begin();
	unsigned answers = 0, allowed = 0, back = 0;

	seed = s;
	for (uint64_t w = 1; w < 1000; w++) {
		char id[ASK_ID_MAX] = "";

		asks_put(l, now, &q, w, 0, id);
		if (pick(4) == 0)
			asks_drop(l, now, w);
		if (pick(3) == 0 && id[0])
			answers += answer(l, id, &q, true, ASK_ONCE, 0) == 0;
		if (pick(6) == 0)
			back += asks_unused(l, now, 1 + pick((unsigned)w)) == 0;
		if (pick(7) == 0)
			asks_taken(l, 1 + pick((unsigned)w));
		if (pick(20) == 0)
			pass(l, pick(300));
	}
	for (int w = 0; w < 1000; w++)
		allowed += told[w].allow;
	asks_free(l);
	return allowed <= answers + back;
}

/* ---- Rules. ---- */

#define RULES 5

static struct asks *widening;
static bool in_force[RULES + 1]; /* as the policy has it: what stood as granted when it was looked at last */
static int widen_fails;
static bool early; /* somebody was told of a rule that is not in force */
static int rule_of[TOLD];

static struct ask_question rule(unsigned i)
{
	static const char *const texts[RULES] = { "a.test:443", "b.test:443", "c.test:443", "d.test:443",
						  "e.test:443" };

	return (struct ask_question){ .kind = ASK_WIDEN,
				      .host = "",
				      .method = "",
				      .path = "",
				      .what = texts[i],
				      .type = "",
				      .rule = "",
				      .reason = "please",
				      .preview = "" };
}

static int apply_rules(void *ctx, struct err *e)
{
	const struct ask *a = NULL;

	(void)ctx;
	if (widen_fails)
		return err_set(e, -EIO, "it fails");
	memset(in_force, 0, sizeof(in_force));
	while ((a = asks_next(widening, a)) != NULL) {
		struct ask_view v;

		ask_view(widening, a, &v);
		if (v.state == ASK_GRANTED)
			in_force[v.q.what[0] - 'a'] = true;
	}
	return 0;
}

static void tell_rule(void *ctx, uint64_t w, bool allow, const char *id, const char *why)
{
	on_tell(ctx, w, allow, id, why);
	early = early || (allow && !in_force[rule_of[w]]);
}

static void rule_changed(void *ctx, const struct ask *a)
{
	struct ask_view v;

	(void)ctx;
	n_changed++;
	ask_view(widening, a, &v);
	/* As askserve does, but that this is never refused: what is over has to go. */
	if (v.answered && v.answer.allow && v.state != ASK_GRANTED)
		in_force[v.q.what[0] - 'a'] = false;
}

static struct asks *begin_rules(bool can)
{
	const struct asks_out o = { .event = on_event,
				    .tell = tell_rule,
				    .changed = rule_changed,
				    .widened = can ? apply_rules : NULL };

	asks_free(begin());
	memset(in_force, 0, sizeof(in_force));
	early = false;
	widen_fails = 0;
	widening = asks_new(RUN, 0, &o);
	return widening;
}

static void test_rules(void)
{
	struct ask_question q = rule(0);
	struct ask_who who = { .via = "cli" };
	struct asks *l = begin_rules(false);
	struct err e = ERR_INIT;
	unsigned before;
	bool good = true;

	asks_put(l, now, &q, 1, 0, NULL);
	CHECK(answer(l, "1", &q, true, ASK_ONCE, 0) == -EINVAL &&
	      answer(l, "1", &q, true, ASK_USES, 2) == -EINVAL);
	CHECK(state_of(l, "1") == ASK_PENDING);
	/* Who has no policy cannot grant a rule. */
	CHECK(answer(l, "1", &q, true, ASK_SANDBOX, 0) == -EINVAL && told[1].n == 1 && !told[1].allow);
	CHECK(state_of(l, "1") == ASK_LAPSED);
	asks_free(l);

	l = begin_rules(true);
	asks_put(l, now, &q, 1, 0, NULL);
	widen_fails = 1;
	CHECK(answer(l, "1", &q, true, ASK_SANDBOX, 0) == -EINVAL && told[1].n == 1 && !told[1].allow &&
	      strstr(told[1].why, "not put in force") && state_of(l, "1") == ASK_LAPSED);
	widen_fails = 0;
	asks_put(l, now, &q, 2, 0, NULL);
	CHECK(told[2].n == 0 && answer(l, "2", &q, true, ASK_FOR, 60) == 0 && told[2].allow && in_force[0]);
	asks_put(l, now, &q, 3, 0, NULL);
	CHECK(told[3].allow); /* granted already */
	/* Who asks for it again and again is told, and fills no log. */
	before = n_events;
	n_changed = 0;
	for (uint64_t w = 100; w < 1000; w++) {
		asks_put(l, now, &q, w, 0, NULL);
		asks_taken(l, w);
		good = good && told[w].n == 1 && told[w].allow;
	}
	CHECK(good && n_events == before && n_changed == 0);
	asks_new_policy(l, now, 2);
	CHECK(state_of(l, "2") == ASK_GRANTED); /* over a policy that changes */
	pass(l, 61);
	CHECK(!in_force[0] && state_of(l, "2") == ASK_LAPSED);
	asks_put(l, now, &q, 4, 0, NULL);
	CHECK(answer(l, "3", &q, true, ASK_SANDBOX, 0) == 0 && in_force[0]);
	CHECK(asks_revoke(l, now, "3", &who, &e) == 0 && !in_force[0] && !early);
	asks_free(l);
}

/* A rule is in force if and only if a person granted it, and it has neither lapsed nor been taken back. */
static bool rules_round(uint64_t s)
{
	struct ask_who who = { .via = "cli" };
	struct asks *l = begin_rules(true);
	uint64_t until[RULES] = { 0 }, next = 1;
	unsigned of[512] = { 0 }, n_ids = 0;
	struct err e = ERR_INIT;
	bool good = true;

	seed = s;
	for (unsigned k = 0; k < 300 && good; k++) {
		unsigned i = pick(RULES);
		struct ask_question q = rule(i);
		char id[ASK_ID_MAX] = "";

		event_fails = pick(15) == 0;
		widen_fails = pick(10) == 0;
		switch (pick(5)) {
		case 0:
		case 1:
			rule_of[next] = (int)i;
			asks_put(l, now, &q, next++, 0, id);
			if (id[0] && strrchr(id, '-')) {
				n_ids = (unsigned)atoi(strrchr(id, '-') + 1); // NOLINT(cert-err34-c)
				of[n_ids % 512] = i;
			}
			break;
		case 2: { /* an answer to something, perhaps not to what it is shown as */
			enum ask_scope scope = (enum ask_scope)pick(ASK_SCOPE_COUNT);
			bool allow = pick(4) != 0;
			unsigned n = 1 + pick(100);

			snprintf(id, sizeof(id), "%u", 1 + pick(n_ids + 1));
			if (answer(l, id, &q, allow, scope, n) == 0 && allow)
				until[i] = scope == ASK_FOR ? now.mono + n * NSEC_PER_SEC : UINT64_MAX;
			break;
		}
		case 3: {
			unsigned which = 1 + pick(n_ids + 1);

			snprintf(id, sizeof(id), "%u", which);
			if (asks_revoke(l, now, id, &who, &e) == 0)
				until[of[which % 512]] = 0;
			break;
		}
		default:
			pass(l, pick(60));
		}
		for (unsigned r = 0; r < RULES; r++)
			good = good && in_force[r] == (until[r] > now.mono);
		good = good && !early;
	}
	asks_free(l);
	return good;
}

static void test_random(void)
{
	bool good = true, silent = true, once = true, rules = true;

	for (uint64_t s = 1; s <= 300; s++) {
		good = good && one_round(s * 7919, 400);
		silent = silent && silent_round(s * 104729);
		once = once && once_round(s * 1299709);
		rules = rules && rules_round(s * 15485863);
	}
	CHECK(rules);  /* a rule is in force iff a person granted it, and it is not over */
	CHECK(good);   /* no allow without a matching answer */
	CHECK(silent); /* none at all without one */
	CHECK(once);   /* and not more often than was said */
}

static void test_proto(void)
{
	static const struct {
		enum askp_type type;
		const char *text;
		bool good;
	} v[] = {
		{ ASKP_LIST, "{}", true },
		{ ASKP_LIST, "{\"all\":true}", true },
		{ ASKP_LIST, "{\"all\":1}", false },
		{ ASKP_LIST, "[]", false },
		{ ASKP_LIST, "{\"all\":true,\"all\":false}", false },
		{ ASKP_SHOW, "{}", false },
		{ ASKP_SHOW, "{\"id\":\"1\"}", true },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\"}", true },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"via\":\"cli\"}", false },
		{ ASKP_ANSWER,
		  "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"scop\":\"once\"}", false },
		{ ASKP_ANSWER,
		  "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"scope\":\"ever\"}",
		  false },
		{ ASKP_ANSWER, "{\"id\":\"1\",\"digest\":\"x\",\"allow\":true,\"via\":\"cli\",\"uses\":-1}",
		  false },
		{ ASKP_SUBMIT, "{\"kind\":\"question\",\"what\":\"w\"}", true },
		{ ASKP_SUBMIT, "{\"kind\":\"request\",\"what\":\"w\"}", false },
		{ ASKP_ASK, "{}", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct frame f = { .type = (uint8_t)v[i].type,
				   .data = (const uint8_t *)v[i].text,
				   .len = (uint32_t)strlen(v[i].text) };
		struct askp_request q;
		struct err e = ERR_INIT;
		int r = askp_request_parse(&f, &q, &e);

		tap_ok((r == 0) == v[i].good, __FILE__, __LINE__, "request %s", v[i].text);
		if (r == 0)
			askp_request_release(&q);
	}
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
	test_file();
	test_proto();
	test_rules();
	test_random();
	return tap_done();
}
