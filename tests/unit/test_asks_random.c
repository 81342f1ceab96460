/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences of questions, answers and time against models that know one sentence each: nobody is told "allow" but by a
 * person's answer to this question, and a rule is in force if and only if a person granted it. */
#include "asksrig.h"

/* ---- Random sequences. ---- */

#define QUESTIONS 6

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

/* The permissions that a person gave: by question, how many single uses and until when all of its subject. */
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
static unsigned n_changed;
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
	/* A run without a policy cannot grant a rule. */
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
	/* An asker that repeats its question is told, and fills no log. */
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

int main(void)
{
	test_rules();
	test_random();
	return tap_done();
}
