/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard takes from coffer-netd: each message in its states, offsets that only grow, and budgets. */
#include "base/buf.h"
#include "base/clock.h"
#include "netd/wire/netd_proto.h"
#include "tap.h"

#include <errno.h>
#include <string.h>

#define T0 (1000 * NSEC_PER_SEC)
#define JOURNAL 100000u

static struct netd_peer p;
static unsigned n_events, n_counted, n_said, n_failed;
static int log_error;

static uint64_t on_size(void *ctx, enum net_from from)
{
	(void)ctx;
	return from == NET_FROM_EGRESS ? JOURNAL : 0;
}

static int on_event(void *ctx, const void *packed, size_t len)
{
	autobuf struct buf fields = BUF_INIT;
	enum net_ev ev;

	(void)ctx;
	if (log_error)
		return log_error;
	if (netd_event_format(packed, len, &ev, &fields) < 0)
		return -EPROTO;
	n_events++;
	return 0;
}

static void on_logged(void *ctx)
{
	(void)ctx;
}

static void on_counted(void *ctx)
{
	(void)ctx;
	n_counted++;
}

static void on_said(void *ctx, const struct netd_said *s)
{
	(void)ctx;
	(void)s;
	n_said++;
}

static void on_fail(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	(void)text;
	(void)len;
	n_failed++;
}

static const struct netd_calls calls = { on_size, on_event, on_logged, on_counted, on_said, on_fail, NULL };

static void begin(enum netd_state state)
{
	p = (struct netd_peer){ 0 };
	netd_peer_begin(&p, T0);
	p.state = state;
	log_error = 0;
}

static int take(const void *m, size_t len)
{
	return netd_take(&p, m, len, T0, &calls);
}

static int take_head(enum netd_type type, uint32_t from, uint64_t off)
{
	const struct netd_head h = { type, from, off };

	return take(&h, sizeof(h));
}

static int take_event(uint32_t from, uint64_t off)
{
	char m[sizeof(struct netd_head) + 1];
	const struct netd_head h = { NETD_EVENT, from, off };

	memcpy(m, &h, sizeof(h));
	m[sizeof(h)] = NET_EV_OPEN;
	return take(m, sizeof(m));
}

static int take_counted(uint64_t egress, uint64_t dial)
{
	const struct netd_counted m = { { .type = NETD_COUNTED }, { egress, dial } };

	return take(&m, sizeof(m));
}

static struct netd_said good_line(void)
{
	struct netd_said s = { .kind = NETD_SAID_DENIED, .about = 1, .port = 443, .count = 1 };

	strcpy(s.name, "evil.test");
	return s;
}

static int take_said(const struct netd_said *s)
{
	struct {
		struct netd_head h;
		struct netd_said s;
	} m = { { .type = NETD_SAYS }, *s };

	return take(&m, sizeof(m));
}

/* Each message that has the right form, by type. */
static int take_good(enum netd_type type)
{
	struct netd_said s = good_line();

	p.asked = 1;
	p.answered = 0;
	switch (type) {
	case NETD_EVENT:
		return take_event(NET_FROM_EGRESS, 50);
	case NETD_COUNTED:
		return take_counted(60, 0);
	case NETD_SAYS:
		return take_said(&s);
	case NETD_CAUGHT_UP:
		return take_head(type, 0, 1);
	default:
		return take_head(type, 0, 0);
	}
}

static void test_states(void)
{
	/* The table of netd_proto.h. */
	static const char *const allowed[NETD_TYPE_END - NETD_READY] = {
		"s---", "-ue-", "-ue-", "-ue-", "-ue-", "--e-", "sue-",
	};

	for (int type = NETD_READY; type < NETD_TYPE_END; type++) {
		for (int state = 0; state < NETD_STATES; state++) {
			const bool ok = allowed[type - NETD_READY][state] != '-';
			int r;

			begin((enum netd_state)state);
			r = take_good((enum netd_type)type);
			CHECKF((r != -EPROTO) == ok, "message %d is %s in state %d: %d", type,
			       ok ? "taken" : "refused", state, r);
		}
	}
	begin(NETD_IS_UP);
	CHECKF(take_head((enum netd_type)0, 0, 0) == -EPROTO && take_head(NETD_TYPE_END, 0, 0) == -EPROTO,
	       "an unknown message is refused");
	CHECKF(take("short", 5) == -EPROTO, "a message that is shorter than its head is refused");
	CHECKF(take_head(NETD_FAIL, 0, 0) == -EIO && n_failed > 0, "a failure is told and ends it");
}

static void test_offsets(void)
{
	begin(NETD_IS_UP);
	CHECK(take_event(NET_FROM_EGRESS, 50) == 0 && p.logged[NET_FROM_EGRESS] == 50);
	CHECKF(take_event(NET_FROM_EGRESS, 50) == -EPROTO, "a line is logged once");
	CHECKF(take_event(NET_FROM_EGRESS, 51) == -EPROTO, "a line has at least a byte and its newline");
	CHECKF(take_event(NET_FROM_EGRESS, JOURNAL + 1) == -EPROTO, "a line beyond the journal is refused");
	CHECKF(take_event(NET_FROM_DIAL, 50) == -EPROTO, "a line of a journal that is empty is refused");
	CHECKF(take_event(NET_FROM_COUNT + 1, 0) == -EPROTO, "a journal that does not exist is refused");
	CHECKF(take_event(NET_FROM_COUNT, 0) == 0, "a count has no journal");
	CHECKF(take_event(NET_FROM_COUNT, 5) == -EPROTO, "a count with an offset is refused");
	CHECK(take_counted(40, 0) == 0 && p.logged[NET_FROM_EGRESS] == 50);
	CHECKF(take_counted(40, 0) == -EPROTO, "counted bytes must grow");
	CHECKF(take_counted(30, 0) == -EPROTO, "counted bytes never go back");
	CHECKF(take_counted(JOURNAL + 1, 0) == -EPROTO, "bytes beyond the journal are not counted");
	CHECKF(take_counted(80, 1) == -EPROTO && p.counted[NET_FROM_EGRESS] == 40,
	       "a refused message changes nothing");
	CHECK(take_counted(80, 0) == 0);
	CHECKF(take_event(NET_FROM_EGRESS, 70) == -EPROTO, "a line that is counted is not logged any more");
	netd_peer_begin(&p, T0);
	p.state = NETD_IS_UP;
	CHECKF(take_event(NET_FROM_EGRESS, 81) == -EPROTO && take_event(NET_FROM_EGRESS, 82) == 0,
	       "offsets outlive a coffer-netd");
	log_error = -ENOSPC;
	CHECKF(take_event(NET_FROM_EGRESS, 90) == -ENOSPC && p.logged[NET_FROM_EGRESS] == 82,
	       "a line that the log did not take is not logged");
}

static void test_budgets(void)
{
	struct netd_said s = good_line();
	unsigned n = 0;

	begin(NETD_IS_UP);
	while (n < 1u << 20 && take_event(NET_FROM_COUNT, 0) == 0)
		n++;
	CHECKF(n > 2000 && n < 100000, "counts beyond their budget are refused: after %u", n);
	for (n = 0; n < 1u << 20 && take_said(&s) == 0; n++)
		;
	CHECKF(n > 60 && n < 1000, "lines for the terminal beyond their budget are refused: after %u", n);
	for (n = 0; n < JOURNAL / 2 && netd_peer_has_pace(&p, T0); n++) {
		if (take_event(NET_FROM_EGRESS, 2 * n + 2) != 0)
			CHECKF(false, "each line within the pace is taken");
	}
	CHECKF(n > 40000 && n < JOURNAL / 2, "lines have a pace: %u at once", n);
	netd_peer_begin(&p, T0);
	CHECKF(!netd_peer_has_pace(&p, T0) && netd_peer_has_pace(&p, T0 + NSEC_PER_SEC),
	       "a new coffer-netd has no new pace");
	p.state = NETD_IS_ENDING;
	CHECKF(netd_peer_has_pace(&p, T0), "at the end everything comes into the log");
	begin(NETD_IS_UP);
	p.bytes = 1ULL << 40;
	for (n = 0; n < JOURNAL / 2 && netd_peer_has_pace(&p, T0); n++)
		(void)!take_event(NET_FROM_EGRESS, 2 * n + 2);
	CHECKF(n < 10000, "a run that has filled its share of the log has a slow pace: %u at once", n);
}

static void test_answers(void)
{
	begin(NETD_IS_UP);
	CHECKF(take_head(NETD_CAUGHT_UP, 0, 1) == -EPROTO, "an answer that nobody asked for is refused");
	p.asked = 3;
	CHECK(take_head(NETD_CAUGHT_UP, 0, 2) == 0 && p.answered == 2);
	CHECKF(take_head(NETD_CAUGHT_UP, 0, 2) == -EPROTO, "an answer comes once");
	CHECKF(take_head(NETD_CAUGHT_UP, 0, 4) == -EPROTO, "an answer to a later question is refused");
	CHECK(take_head(NETD_CAUGHT_UP, 0, 3) == 0);
}

static void test_lines(void)
{
	struct netd_said s;

	begin(NETD_IS_UP);
#define REFUSED(what, change)                                                        \
	do {                                                                         \
		s = good_line();                                                     \
		change;                                                              \
		CHECKF(take_said(&s) == -EPROTO, "a line with %s is refused", what); \
	} while (0)
	REFUSED("an unknown kind", s.kind = NETD_SAID_KINDS);
	REFUSED("no number of its subject", s.about = 0);
	REFUSED("a number beyond the subjects", s.about = NETD_SAID_KEYS + 1);
	REFUSED("a count of nothing", s.count = 0);
	REFUSED("a port above 65535", s.port = 65536);
	REFUSED("a name without an end", memset(s.name, 'x', sizeof(s.name)));
	REFUSED("a reason without an end", memset(s.why, 'x', sizeof(s.why)));
	REFUSED("a path without an end", memset(s.path, 'x', sizeof(s.path)));
	REFUSED("a method without an end", memset(s.method, 'x', sizeof(s.method)));
	REFUSED("a subject for the rest", s.kind = NETD_SAID_REST);
#undef REFUSED
	s = good_line();
	CHECK(take_said(&s) == 0);
}

int main(void)
{
	test_states();
	test_offsets();
	test_budgets();
	test_answers();
	test_lines();
	CHECK(n_events > 0 && n_counted > 0 && n_said > 0);
	return tap_done();
}
