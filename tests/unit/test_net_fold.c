/* SPDX-License-Identifier: Apache-2.0 */
/* Journals folded into the log, replayed with a clock of the test's own: what is written, counted, and refused. */
#include "base/clock.h"
#include "gateway/net_fold.h"
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

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct log *l = ctx;
	autobuf struct buf o = BUF_INIT;
	json_t *parsed;

	if (l->refuse_after == 0)
		return -ENOSPC;
	if (l->refuse_after > 0)
		l->refuse_after--;
	buf_addf(&o, "{%s}", buf_cstr(fields));
	parsed = json_loadb(o.data, o.len, JSON_REJECT_DUPLICATES, NULL);
	if (!parsed) {
		CHECKF(false, "fields are JSON: %s", o.data);
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
	return net_fold_new(T0, &out);
}

static size_t feed(struct net_fold *f, const char *text, uint64_t now)
{
	size_t taken = 0;

	CHECK(net_fold_feed(f, NET_FROM_EGRESS, text, strlen(text), false, now, &taken) == 0);
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
		"{\"ev\":\"open\",\"t\":6,\"c\":1,\"name\":\"a.test\",\"port\":443,\"decision\":\"allow\"}\n"
		"{\"t\":7,\"ev\":\"close\",\"c\":1,\"name\":\"a.test\",\"port\":443,\"up\":10,\"down\":20}\n"
		"{\"t\":8,\"ev\":\"open\",\"name\":\"evil.test\",\"port\":25,\"decision\":\"deny\",\"why\":\"no\"}\n";
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	autobuf struct buf report = BUF_INIT;
	struct json j = JSON_INIT(&report);
	struct log l;

	f = fold_new(&l);
	CHECK(feed(f, good, T0) == sizeof(good) - 1);
	CHECK(l.events == 4 && l.denied == 1);
	CHECK(has(&l, "net.open {\"t\":6,\"c\":1,\"name\":\"a.test\",\"port\":443,\"decision\":\"allow\"}"));
	CHECK_STR(l.last_denied, "evil.test:25");
	net_fold_report(f, &j);
	CHECK(strstr(report.data,
		     "\"queries\":1,\"connections\":1,\"requests\":0,\"denied\":1,\"up\":10,\"down\":20"));
	CHECK(strstr(report.data,
		     "{\"name\":\"evil.test\",\"queries\":0,\"connections\":0,\"requests\":0,\"denied\":1"));
	CHECKF(feed(f, "{\"t\":9,\"ev\":\"dns\"", T0) == 0, "a line that is not whole is left");
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
		CHECKF(feed(f, bad[i], T0) == strlen(bad[i]) && l.events == 0, "refused: %s", bad[i]);
	for (int i = 0; i < 5000; i++)
		buf_addc(&longest, 'x');
	CHECKF(feed(f, buf_cstr(&longest), T0) == 5000, "a line without end is not kept");
	CHECK(feed(f, "rest of it\n{\"ev\":\"dns\",\"name\":\"b\"}\n", T0) > 0);
	CHECKF(l.events == 1 && has(&l, "\"name\":\"b\""), "and the next line is read again");
	CHECK(net_fold_tick(f, T0 + NET_FOLDED_NS - 1, false) == 0 && l.events == 1);
	CHECK(net_fold_tick(f, T0 + NET_FOLDED_NS, false) == 0 && l.events == 2);
	CHECKF(l.counted == ARRAY_SIZE(bad) + 1, "each is counted once: %llu", (unsigned long long)l.counted);
	CHECK(net_fold_feed(f, NET_FROM_DIAL, "cut", 3, true, T0, &taken) == 0 && taken == 3);
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
		if (net_fold_feed(f, NET_FROM_EGRESS, line, strlen(line), false, now, &taken) != 0 ||
		    taken != strlen(line))
			CHECKF(false, "a line is taken");
	}
}

static void test_budget(void)
{
	CLEANUP(net_fold_freep) struct net_fold *f = NULL;
	struct log l;

	f = fold_new(&l);
	feed_many(f, NET_BURST + 700, "allow", 3, T0);
	CHECKF(l.events == NET_BURST, "a burst is written as it is: %u", l.events);
	feed_many(f, 1, "deny", 1, T0);
	CHECKF(l.events == NET_BURST + 1, "a denial has a bucket of its own");
	CHECK(net_fold_waits(f) && net_fold_tick(f, T0 + NET_FOLDED_NS, false) == 0 && !net_fold_waits(f));
	CHECKF(l.events == NET_BURST + 4 && l.counted == 700, "the rest is counted: three names, 700 lines");
	feed_many(f, 100, "allow", 1, T0 + 4 * NSEC_PER_SEC);
	CHECKF(l.events == NET_BURST + 4 + 4 * NET_RATE, "and %u a second come again: %u", NET_RATE,
	       l.events);
	feed_many(f, 2000, "deny", 2000, T0 + 4 * NSEC_PER_SEC);
	CHECK(net_fold_tick(f, T0, true) == 0);
	CHECKF(has(&l, "\"others\":true"), "keys are bounded");
	CHECKF(l.denied == 2001, "the terminal hears of every denial: it has bounds of its own");
	CHECK(l.events < NET_BURST + NET_BURST_DENIED + NET_KEYS + 64);
	CHECKF(l.counted + l.events >= NET_BURST + 700 + 1 + 100 + 2000, "nothing is lost");
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
	CHECK(net_fold_feed(f, NET_FROM_EGRESS, two, strlen(two), false, T0, &taken) == -ENOSPC);
	CHECKF(taken == strlen(two) / 2, "no byte behind what could not be written is taken");
	l.refuse_after = -1;
	CHECK(feed(f, two + taken, T0) == strlen(two) - taken && l.events == 2);
	CHECK(feed(f, "garbage\n", T0) == 8);
	l.refuse_after = 0;
	CHECK(net_fold_tick(f, T0, true) == -ENOSPC && net_fold_waits(f));
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
	CHECK(net_fold_feed(f, NET_FROM_EGRESS, with_holes, sizeof(with_holes) - 1, true, T0, &taken) == 0);
	CHECK(taken == sizeof(with_holes) - 1 && l.events == 2 && !net_fold_waits(f));
	buf_release(&l.text);
}

int main(void)
{
	test_lines();
	test_garbled();
	test_budget();
	test_clock();
	test_log_full();
	test_holes();
	return tap_done();
}
