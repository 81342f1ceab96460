/* SPDX-License-Identifier: Apache-2.0 */
/* Journals folded into the log, replayed with a clock of the test's own: what is written, counted, and refused. */
#include "base/clock.h"
#include "netd/log/net_fold.h"
#include "tap.h"

#include <errno.h>
#include <jansson.h>

#define T0 (1000 * NSEC_PER_SEC)

struct log {
	struct buf text; /* "TYPE {FIELDS}\n" each */
	unsigned events, denied;
	uint64_t counted; /* by net.folded and net.garbled */
	int refuse_after; /* -1: never */
	char last_denied[64];
};

static struct netd_report table;

static int on_event(void *ctx, enum net_from from, uint64_t off, const void *packed, size_t len)
{
	struct log *l = ctx;
	autobuf struct buf o = BUF_INIT, fields = BUF_INIT;
	const char *type;
	enum net_ev ev;
	json_t *parsed;

	if (l->refuse_after == 0)
		return -ENOSPC;
	if (l->refuse_after > 0)
		l->refuse_after--;
	if (netd_event_format(packed, len, &ev, &fields) < 0 || (from == NET_FROM_COUNT) != (off == 0)) {
		CHECKF(false, "an event of the fold can be formatted, and only a count has no offset");
		return 0;
	}
	type = net_ev_log_type(ev);
	buf_addf(&o, "{%s}", buf_cstr(&fields));
	parsed = json_loadb(o.data, o.len, JSON_REJECT_DUPLICATES, NULL);
	if (!parsed) {
		CHECKF(false, "the fields of an event are JSON: %s", o.data);
		return 0;
	}
	if (strcmp(type, "net.folded") == 0 || strcmp(type, "net.garbled") == 0)
		l->counted += (uint64_t)json_integer_value(json_object_get(parsed, "count"));
	json_decref(parsed);
	buf_addf(&l->text, "%s %s\n", type, o.data);
	l->events++;
	return 0;
}

static void on_denied(void *ctx, const struct net_line *line)
{
	struct log *l = ctx;

	l->denied++;
	snprintf(l->last_denied, sizeof(l->last_denied), "%.40s:%u", line->name, line->port);
}

static struct net_fold *fold_new(struct log *l)
{
	const struct net_fold_out out = { on_event, on_denied, l };

	*l = (struct log){ .refuse_after = -1 };
	table = (struct netd_report){ 0 };
	return net_fold_new(T0, &out, &table);
}

static size_t feed(struct net_fold *f, const char *text, uint64_t now)
{
	size_t taken = 0;

	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, text, strlen(text), false }, now,
			    &taken) == 0);
	return taken;
}

static bool has(const struct log *l, const char *text)
{
	return strstr(buf_cstr(&l->text), text) != NULL;
}

static void test_lines(void)
{
	static const char good[] =
		"{\"t\":5,\"ev\":\"dns\",\"name\":\"a.test\",\"qtype\":\"A\",\"decision\":\"allow\"}\n"
		"{\"t\":5,\"ev\":\"dns\",\"name\":\"nx.test\",\"qtype\":\"A\",\"decision\":\"allow\",\"first\":1}\n"
		"{\"t\":6,\"ev\":\"dns\",\"name\":\"nx.test\",\"qtype\":\"A\",\"decision\":\"error\",\"first\":1}\n"
		"{\"ev\":\"open\",\"t\":6,\"c\":1,\"name\":\"a.test\",\"port\":443,\"decision\":\"allow\"}\n"
		"{\"t\":7,\"ev\":\"close\",\"c\":1,\"name\":\"a.test\",\"port\":443,\"up\":10,\"down\":20}\n"
		"{\"t\":8,\"ev\":\"open\",\"name\":\"evil.test\",\"port\":25,\"decision\":\"deny\",\"why\":\"no\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	autobuf struct buf report = BUF_INIT;
	struct json j = JSON_INIT(&report);
	struct log l;

	f = fold_new(&l);
	CHECK(feed(f, good, T0) == sizeof(good) - 1);
	CHECK(l.events == 6 && l.denied == 2); /* a name that does not exist is told to the terminal too */
	CHECK(has(&l, "net.open {\"t\":6,\"c\":1,\"name\":\"a.test\",\"port\":443,\"decision\":\"allow\"}"));
	CHECK_STR(l.last_denied, "evil.test:25");
	netd_report_format(&table, &j);
	CHECK(strstr(report.data,
		     "\"queries\":2,\"connections\":1,\"requests\":0,\"denied\":1,\"up\":10,\"down\":20"));
	CHECKF(strstr(report.data, "{\"name\":\"nx.test\",\"queries\":1,"),
	       "a failed lookup with two lines counts as one query");
	CHECK(strstr(report.data,
		     "{\"name\":\"evil.test\",\"queries\":0,\"connections\":0,\"requests\":0,\"denied\":1"));
	CHECKF(feed(f, "{\"t\":9,\"ev\":\"dns\"", T0) == 0, "a line that is not whole stays unread");
	buf_release(&l.text);
}

static void test_garbled(void)
{
	static const char *const bad[] = {
		"not JSON\n",
		"[]\n",
		"{}\n",
		"{\"ev\":\"dns\",\"ev\":\"open\"}\n",
		"{\"ev\":\"exec\"}\n",
		"{\"ev\":5}\n",
		"{\"ev\":\"dns\",\"seq\":1}\n",
		"{\"ev\":\"dns\",\"type\":\"run.end\"}\n",
		"{\"ev\":\"dns\",\"name\":5}\n",
		"{\"ev\":\"dns\",\"name\":[\"a\"]}\n",
		"{\"ev\":\"open\",\"port\":65536}\n",
		"{\"ev\":\"open\",\"port\":-1}\n",
		"{\"ev\":\"open\",\"port\":1.5}\n",
		"{\"ev\":\"open\",\"decision\":\"maybe\"}\n",
		"{\"ev\":\"dns\",\"name\":\"a\\u0000b\"}\n",
		"{\"ev\":\"dns\"} {\"ev\":\"dns\"}\n",
		"{\"ev\":\"dns\",\"name\":\"\xff\"}\n",
	};
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	autobuf struct buf longest = BUF_INIT;
	size_t taken;
	struct log l;

	f = fold_new(&l);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(feed(f, bad[i], T0) == strlen(bad[i]) && l.events == 0,
		       "a line is counted as garbled: %s", bad[i]);
	for (int i = 0; i < 5000; i++)
		buf_addc(&longest, 'x');
	CHECKF(feed(f, buf_cstr(&longest), T0) == 5000, "a line without end is not kept");
	CHECK(feed(f, "rest of it\n{\"ev\":\"dns\",\"name\":\"b\"}\n", T0) > 0);
	CHECKF(l.events == 1 && has(&l, "\"name\":\"b\""), "the line after an endless one is read");
	CHECK(net_fold_tick(f, T0 + NET_FOLDED_NS - 1, false) == 0 && l.events == 1);
	CHECK(net_fold_tick(f, T0 + NET_FOLDED_NS, false) == 0 && l.events == 2);
	CHECKF(l.counted == ARRAY_SIZE(bad) + 1, "each garbled line is counted once: %llu",
	       (unsigned long long)l.counted);
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_DIAL, 0, "cut", 3, true }, T0, &taken) == 0 &&
	      taken == 3);
	CHECK(net_fold_tick(f, T0, true) == 0 && has(&l, "net.garbled {\"from\":\"dial\",\"count\":1}"));
	buf_release(&l.text);
}

static void feed_many(struct net_fold *f, unsigned n, const char *decision, unsigned names, uint64_t now)
{
	char line[160];
	size_t taken;

	for (unsigned i = 0; i < n; i++) {
		snprintf(line, sizeof(line),
			 "{\"t\":1,\"ev\":\"open\",\"name\":\"n%u.test\",\"port\":443,\"decision\":\"%s\"}\n",
			 i % names, decision);
		if (net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, line, strlen(line), false },
				  now, &taken) != 0 ||
		    taken != strlen(line))
			CHECKF(false, "each line of the test is taken");
	}
}

static void test_budget(void)
{
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	struct log l;

	f = fold_new(&l);
	feed_many(f, NET_BURST + 700, "allow", 3, T0);
	CHECKF(l.events == NET_BURST, "a burst of lines is written without a fold: %u", l.events);
	feed_many(f, 1, "deny", 1, T0);
	CHECKF(l.events == NET_BURST + 1, "a denial has a bucket of its own");
	CHECK(net_fold_has_counts(f) && net_fold_tick(f, T0 + NET_FOLDED_NS, false) == 0 &&
	      !net_fold_has_counts(f));
	CHECKF(l.events == NET_BURST + 4 && l.counted == 700,
	       "three names over the burst are counted, with 700 lines");
	feed_many(f, 100, "allow", 1, T0 + 4 * NSEC_PER_SEC);
	CHECKF(l.events == NET_BURST + 4 + 4 * NET_RATE, "%u events a second are written after the burst: %u",
	       NET_RATE, l.events);
	feed_many(f, 2000, "deny", 2000, T0 + 4 * NSEC_PER_SEC);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(has(&l, "\"others\":true"), "the number of counted names has a bound");
	CHECKF(l.denied == 2001, "a denial reaches the terminal even when it is folded");
	CHECK(l.events < NET_BURST + NET_BURST_DENIED + NET_KEYS + 64);
	CHECKF(l.counted + l.events >= NET_BURST + 700 + 1 + 100 + 2000, "no line is lost from the counts");
	buf_release(&l.text);
}

/* Somebody who wants one line to be overlooked floods the log first. */
static void test_hiding(void)
{
	static const char alert[] = "{\"ev\":\"alert\",\"kind\":\"sni_mismatch\",\"name\":\"odd.test\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	struct log l;

	f = fold_new(&l);
	feed_many(f, NET_BURST, "allow", 1, T0);
	feed_many(f, NET_BURST_DENIED + 4 * NET_KEYS, "deny", NET_BURST_DENIED + 4 * NET_KEYS, T0);
	CHECK(feed(f, alert, T0) == sizeof(alert) - 1);
	CHECKF(has(&l, "net.alert {\"name\":\"odd.test\""), "a flood of denials does not hide an alert");
	feed_many(f, 1, "allow", 1, T0);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(has(&l, "net.folded {\"ev\":\"open\",\"name\":\"n0.test\",\"port\":443,\"decision\":\"allow\","
		       "\"count\":1,"),
	       "denied names do not hide allowed names");
	CHECKF(has(&l, "\"others\":true,\"decision\":\"deny\""),
	       "the sum of the other names has its decision");
	buf_release(&l.text);
}

static void feed_secret(struct net_fold *f, unsigned n, const char *secret, const char *host, uint64_t now)
{
	char line[200];

	snprintf(line, sizeof(line),
		 "{\"ev\":\"secret\",\"secret\":\"%s\",\"host\":\"%s\",\"port\":443,\"path\":\"/\"}\n",
		 secret, host);
	for (unsigned i = 0; i < n; i++) {
		if (feed(f, line, now) != strlen(line))
			CHECKF(false, "each secret line of the test is taken");
	}
}

/* A sandbox that wants to use one secret unseen uses another one often. */
static void test_secrets(void)
{
	static const char one[] =
		"{\"ev\":\"secret\",\"secret\":\"late\",\"host\":\"b.test\",\"port\":443}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken = 0;
	struct log l;

	f = fold_new(&l);
	feed_secret(f, NET_BURST, "loud", "a.test", T0);
	CHECKF(l.events == NET_BURST && !net_fold_has_counts(f),
	       "a burst of uses is written without a fold: %u", l.events);
	feed_secret(f, 10, "quiet", "a.test", T0);
	CHECKF(l.events == NET_BURST + 1 && has(&l, "secret.use {\"secret\":\"quiet\",\"host\":\"a.test\""),
	       "the first use of another secret at one host is not folded");
	feed_secret(f, 1, "quiet", "c.test", T0);
	feed_secret(f, 1, "loud", "a.test", T0);
	CHECKF(l.events == NET_BURST + 3,
	       "a use at another host and another use of the loud secret are not folded");
	l.refuse_after = 0;
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, one, strlen(one), false }, T0,
			    &taken) == -ENOSPC &&
	      taken == 0);
	l.refuse_after = -1;
	CHECKF(feed(f, one, T0) == strlen(one) && has(&l, "secret.use {\"secret\":\"late\""),
	       "a use that could not be written counts as the first when it comes again");
	CHECK(net_fold_has_counts(f) && net_fold_tick(f, T0 + NET_FOLDED_NS, false) == 0 &&
	      !net_fold_has_counts(f));
	CHECKF(has(&l, "net.folded {\"ev\":\"secret\",\"name\":\"a.test\",\"port\":443,\"decision\":\"\","
		       "\"secret\":\"quiet\",\"path\":\"/\",\"count\":9,"),
	       "folded uses are counted with the name of their secret");
	CHECKF(l.counted == 9 && l.events == NET_BURST + 5, "only the folded uses are counted: %u", l.events);
	feed_secret(f, 3 + 10 * NET_RATE, "quiet", "a.test", T0 + NET_FOLDED_NS);
	CHECKF(l.events == NET_BURST + 5 + 10 * NET_RATE + 1, "the first use of each interval is written: %u",
	       l.events);
	for (unsigned i = 0; i < 2 * NET_KEYS; i++) {
		char host[32];

		snprintf(host, sizeof(host), "h%u.test", i);
		feed_secret(f, 1, "quiet", host, T0 + NET_FOLDED_NS);
	}
	CHECKF(l.events == NET_BURST + 5 + 10 * NET_RATE + NET_KEYS,
	       "first uses in one interval have the bound NET_KEYS: %u", l.events);
	CHECK(net_fold_tick(f, T0, true) == 0 && has(&l, "\"others\":true,\"ev\":\"secret\""));
	buf_release(&l.text);
}

/* A sandbox that wants one line to be overlooked makes many others first: those of a new key are never folded,
 * whatever came before. */
static void test_first(void)
{
	static const char gets
		[] = "{\"ev\":\"request\",\"method\":\"GET\",\"path\":\"/%u\",\"host\":\"a.test\","
		     "\"port\":443,\"decision\":\"allow\"}\n",
	    delete[] = "{\"ev\":\"request\",\"method\":\"DELETE\",\"path\":\"/victim\",\"host\":\"a.test\","
		       "\"port\":443,\"decision\":\"allow\",\"first\":1}\n",
	    again[] = "{\"ev\":\"request\",\"method\":\"DELETE\",\"path\":\"/victim\",\"host\":\"a.test\","
		      "\"port\":443,\"decision\":\"allow\"}\n",
	    sum[] = "{\"ev\":\"open\",\"name\":\"*\",\"decision\":\"deny\",\"count\":7,\"top\":\"7 x:1\"}\n",
	    policy[] = "{\"ev\":\"policy\",\"generation\":2}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	char line[200];
	struct log l;

	f = fold_new(&l);
	for (unsigned i = 0; i < NET_BURST + 50; i++) {
		snprintf(line, sizeof(line), gets, i);
		(void)feed(f, line, T0);
	}
	feed_many(f, NET_BURST_DENIED + 10, "deny", 3, T0);
	(void)feed(f, delete, T0);
	CHECKF(has(&l, "\"method\":\"DELETE\",\"path\":\"/victim\",\"decision\":\"allow\",\"first\":1"),
	       "a line that is the first of its key is written after any flood");
	(void)feed(f, sum, T0);
	CHECKF(has(&l, "\"top\":\"7 x:1\""), "a sum of many events is written after any flood");
	(void)feed(f, policy, T0);
	CHECKF(has(&l, "net.policy {\"generation\":2}"), "a new policy has its line");
	for (int i = 0; i < 3; i++)
		(void)feed(f, again, T0);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(has(&l,
		   "net.folded {\"ev\":\"request\",\"name\":\"a.test\",\"port\":443,\"decision\":\"allow\",\"method\":"
		   "\"DELETE\",\"path\":\"/victim\",\"count\":3,"),
	       "repetitions of a request are counted with method and path");
	CHECKF(has(&l, "\"method\":\"GET\",\"count\":50,"),
	       "repetitions of requests that only read are counted by method alone");
	buf_release(&l.text);
}

/* Lines that may not be folded come at a pace, so that a program that was taken over does not fill the log of others. */
static void test_pace(void)
{
	static const char one[] =
		"{\"ev\":\"open\",\"name\":\"a.test\",\"decision\":\"allow\",\"first\":1}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken = 1;
	struct log l;

	f = fold_new(&l);
	for (unsigned i = 0; i < NET_BURST_KEPT; i++) {
		if (net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, one, strlen(one), false }, T0,
				  &taken) < 0 ||
		    !taken)
			CHECKF(false, "each line of a burst is taken");
	}
	CHECKF(feed(f, one, T0) == 0 && l.events == NET_BURST_KEPT, "lines over the pace stay unread");
	CHECKF(feed(f, one, T0 + NSEC_PER_SEC) == strlen(one), "a line over the pace is read a second later");
	for (unsigned i = 0; i < NET_RATE_KEPT; i++)
		(void)!net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, one, strlen(one), false },
				     T0 + NSEC_PER_SEC, &taken);
	CHECK(taken == 0);
	CHECKF(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, one, strlen(one), true },
			     T0 + NSEC_PER_SEC, &taken) == 0 &&
		       taken == strlen(one),
	       "all lines are read at the end of the run");
	CHECKF(!net_fold_has_counts(f), "no event was folded at the end");
	buf_release(&l.text);
}

/* The pace of lines that say `first` is not used up by the other program, nor by sums. */
static void test_apart(void)
{
	static const char
		open[] = "{\"ev\":\"open\",\"name\":\"a.test\",\"decision\":\"allow\",\"first\":1}\n",
		dial[] = "{\"ev\":\"dial\",\"name\":\"a.test\",\"port\":443,\"status\":0,\"first\":1}\n",
		star[] = "{\"ev\":\"dns\",\"name\":\"*\",\"qtype\":\"A\",\"decision\":\"deny\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken = 0;
	struct log l;

	f = fold_new(&l);
	for (unsigned i = 0; i < NET_BURST_KEPT + 1; i++)
		(void)feed(f, open, T0);
	CHECKF(feed(f, open, T0) == 0 &&
		       net_fold_feed(f, &(struct net_chunk){ NET_FROM_DIAL, 0, dial, strlen(dial), false },
				     T0, &taken) == 0 &&
		       taken == strlen(dial),
	       "coffer-dial has its own pace beside coffer-egress");
	l.events = 0;
	for (unsigned i = 0; i < NET_BURST_DENIED + 10; i++)
		(void)feed(f, star, T0);
	CHECKF(l.events == NET_BURST_DENIED,
	       "denied lookups of the name '*' are folded as other denials are: %u", l.events);
	buf_release(&l.text);
}

/* A program that was taken over says what the other one should. */
static void test_who(void)
{
	static const char dial[] = "{\"ev\":\"dial\",\"name\":\"a.test\",\"port\":443,\"status\":0}\n",
			  open[] = "{\"ev\":\"open\",\"name\":\"a.test\",\"port\":443}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken;
	struct log l;

	f = fold_new(&l);
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_DIAL, 0, open, strlen(open), false }, T0,
			    &taken) == 0 &&
	      net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, dial, strlen(dial), false }, T0,
			    &taken) == 0);
	CHECKF(l.events == 0, "a program is not believed about events of the other");
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, open, strlen(open), false }, T0,
			    &taken) == 0 &&
	      net_fold_feed(f, &(struct net_chunk){ NET_FROM_DIAL, 0, dial, strlen(dial), false }, T0,
			    &taken) == 0);
	CHECK(l.events == 2 && net_fold_tick(f, T0, true) == 0 && l.counted == 2);
	buf_release(&l.text);
}

/* The clock may stand still or go back: no tokens come of it, and none are taken. */
static void test_clock(void)
{
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	struct log l;

	f = fold_new(&l);
	feed_many(f, NET_BURST, "allow", 1, T0);
	feed_many(f, 10, "allow", 1, T0 - 500 * NSEC_PER_SEC);
	feed_many(f, 10, "allow", 1, T0);
	CHECK(l.events == NET_BURST);
	feed_many(f, 2 * NET_BURST, "allow", 1, T0 + 100000 * NSEC_PER_SEC);
	CHECKF(l.events == 2 * NET_BURST, "a long silence gives one burst, not more");
	buf_release(&l.text);
}

static void test_log_full(void)
{
	static const char two[] = "{\"ev\":\"dns\",\"name\":\"a\"}\n{\"ev\":\"dns\",\"name\":\"b\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken = 0;
	struct log l;

	f = fold_new(&l);
	l.refuse_after = 1;
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, two, strlen(two), false }, T0,
			    &taken) == -ENOSPC);
	CHECKF(taken == strlen(two) / 2, "only the lines that were written are taken when the log is full");
	l.refuse_after = -1;
	CHECK(feed(f, two + taken, T0) == strlen(two) - taken && l.events == 2);
	CHECK(feed(f, "garbage\n", T0) == 8);
	l.refuse_after = 0;
	CHECK(net_fold_tick(f, T0, true) == -ENOSPC && net_fold_has_counts(f));
	l.refuse_after = -1;
	CHECK(net_fold_tick(f, T0, true) == 0 && l.counted == 1);
	buf_release(&l.text);
}

/* After a crash: zeros where lines were punched out, anywhere. */
static void test_holes(void)
{
	static const char with_holes[] =
		"\0\0\0\0{\"ev\":\"dns\",\"name\":\"a\"}\n\0\0\0{\"ev\":\"dns\",\"name\":\"b\"}\n\0";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	size_t taken = 0;
	struct log l;

	f = fold_new(&l);
	CHECK(net_fold_feed(
		      f, &(struct net_chunk){ NET_FROM_EGRESS, 0, with_holes, sizeof(with_holes) - 1, true },
		      T0, &taken) == 0);
	CHECK(taken == sizeof(with_holes) - 1 && l.events == 2 && !net_fold_has_counts(f));
	buf_release(&l.text);
}

/* Lines as our programs write them are read the short way; it must not say anything else than the long one. */
static void test_short_way(void)
{
	static const char *const lines[] = {
		"{\"t\":1794880000000000000,\"ev\":\"open\",\"c\":1,\"name\":\"a.test\",\"port\":443}",
		"{\"t\":9223372036854775807,\"ev\":\"close\",\"up\":0,\"down\":7,\"how\":\"server\"}",
		"{\"t\":9223372036854775808,\"ev\":\"dns\"}",
		"{\"t\":99999999999999999999,\"ev\":\"dns\"}",
		"{\"ev\":\"dial\",\"status\":-13,\"why\":\"no\",\"ms\":12}",
		"{\"ev\":\"dial\",\"status\":-0}",
		"{\"ev\":\"dial\",\"status\":-2147483648}",
		"{\"ev\":\"dial\",\"status\":-2147483647}",
		"{\"ev\":\"dial\",\"status\":01}",
		"{\"ev\":\"dial\",\"status\":-}",
		"{\"ev\":\"dial\",\"status\":1.0}",
		"{\"ev\":\"dial\",\"status\":1e3}",
		"{\"ev\":\"open\",\"would_deny\":true}",
		"{\"ev\":\"open\",\"would_deny\":1}",
		"{\"ev\":\"open\",\"first\":1}",
		"{\"ev\":\"open\",\"first\":2}",
		"{\"ev\":\"dns\",\"name\":\"*\",\"again\":2,\"top\":\"2 a, 1 b\"}",
		"{\"ev\":\"open\",\"decision\":1}",
		"{\"ev\":\"open\",\"decision\":\"\"}",
		"{\"ev\":\"open\",\"decision\":null}",
		"{\"ev\":\"dns\",\"name\":\"\",\"addr\":\"1.2.3.4\"}",
		"{\"ev\":\"dns\",\"name\":\"a\\u0041\\\"b\"}",
		"{\"ev\":\"dns\",\"name\":\"\xc3\xa9\"}",
		"{\"ev\":\"dns\",\"name\":\"a\x7f\"}",
		"{\"ev\":\"dns\",\"name\":\"a\tb\"}",
		"{ \"ev\":\"dns\"}",
		"{\"ev\":\"dns\",}",
		"{\"ev\":\"dns\"}}",
		"{\"ev\":\"dns\"",
		"{\"ev\":\"dns\",\"\":1}",
		"{\"ev\":\"dns\",\"ev\":\"dns\"}",
		"{\"ev\":\"dns\",\"port\":1,\"port\":1}",
		"{\"port\":1}",
		"{",
		"",
	};
	unsigned good = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		autobuf struct buf f1 = BUF_INIT, f2 = BUF_INIT;
		struct net_line l1 = { 0 }, l2 = { 0 };
		int r1 = net_line_parse(lines[i], strlen(lines[i]), &l1, &f1);
		int r2 = net_line_parse_any(lines[i], strlen(lines[i]), &l2, &f2);

		CHECKF(r1 == r2 && strcmp(buf_cstr(&f1), buf_cstr(&f2)) == 0 && l1.ev == l2.ev &&
			       l1.decision == l2.decision && l1.port == l2.port && l1.up == l2.up &&
			       l1.down == l2.down && l1.count == l2.count && strcmp(l1.name, l2.name) == 0 &&
			       strcmp(l1.secret, l2.secret) == 0 && strcmp(l1.why, l2.why) == 0,
		       "a line is read by both parsers alike: %s", lines[i]);
		good += r1 == 0;
	}
	CHECKF(good == 14, "14 of the lines are good: %u", good);
}

/* What a reader that is started again does with lines that an earlier one had begun with. */
static void test_again(void)
{
	static const char kept[] =
		"{\"ev\":\"open\",\"name\":\"a.test\",\"decision\":\"allow\",\"first\":1}\n",
			  plain[] = "{\"ev\":\"open\",\"name\":\"b.test\",\"decision\":\"allow\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	autobuf struct buf text = BUF_INIT;
	size_t taken = 0;
	struct log l;

	f = fold_new(&l);
	buf_adds(&text, kept);
	buf_adds(&text, plain);
	buf_adds(&text, kept);
	net_fold_again(f, NET_FROM_EGRESS, 100 + sizeof(kept) - 1 + sizeof(plain) - 1);
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 100, text.data, text.len, false }, T0,
			    &taken) == 0 &&
	      taken == text.len);
	CHECKF(l.events == 1, "of lines that may be in the log, only the new one has an event: %u", l.events);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(l.counted == 1 && has(&l, "\"name\":\"b.test\""),
	       "a line that may have been counted only is counted again");
	CHECKF(table.total.connections == 3, "lines that the report has not seen are counted in it: %llu",
	       (unsigned long long)table.total.connections);
	CHECK(net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 100, text.data, text.len, false }, T0,
			    &taken) == 0);
	CHECKF(table.total.connections == 3, "lines that the report has seen are not counted in it again");
	buf_release(&l.text);
}

/* A line may have a long method in any event: its count must still be one that can be packed. */
static void test_long_method(void)
{
	static const char line[] =
		"{\"ev\":\"dns\",\"name\":\"a.test\",\"method\":\"0123456789012345678901234567890\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	struct log l;

	f = fold_new(&l);
	for (unsigned i = 0; i < NET_BURST + 2; i++)
		(void)feed(f, line, T0);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(l.counted == 2, "lookups with a method are counted as other lookups are: %llu",
	       (unsigned long long)l.counted);
	buf_release(&l.text);
}

int main(void)
{
	test_again();
	test_long_method();
	test_lines();
	test_short_way();
	test_garbled();
	test_budget();
	test_hiding();
	test_secrets();
	test_first();
	test_pace();
	test_apart();
	test_who();
	test_clock();
	test_log_full();
	test_holes();
	return tap_done();
}
