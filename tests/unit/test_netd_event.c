/* SPDX-License-Identifier: Apache-2.0 */
/* Events between coffer-netd and the log: what is packed comes out, and nothing else can be packed. */
#include "base/json.h"
#include "netd/wire/netd_event.h"
#include "tap.h"

#include <errno.h>
#include <string.h>

static int format(const struct buf *packed, struct buf *fields)
{
	enum net_ev ev;

	return netd_event_format(packed->data, packed->len, &ev, fields);
}

static void test_round(void)
{
	autobuf struct buf packed = BUF_INIT, fields = BUF_INIT;
	enum net_ev ev = NET_EV_COUNT;

	netd_event_begin(&packed, NET_EV_OPEN);
	netd_event_text(&packed, NET_M_NAME, "a.test", 6);
	netd_event_number(&packed, NET_M_PORT, 443);
	netd_event_number(&packed, NET_M_STATUS, -13);
	netd_event_bool(&packed, NET_M_WOULD_DENY, true);
	netd_event_text(&packed, NET_M_WHY, "\033\"\xff", 3);
	CHECK(!buf_error(&packed) && netd_event_format(packed.data, packed.len, &ev, &fields) == 0);
	CHECK(ev == NET_EV_OPEN);
	CHECK_STR(buf_cstr(&fields), "\"name\":\"a.test\",\"port\":443,\"status\":-13,\"would_deny\":true,"
				     "\"why\":\"\\u001b\\\"\\ufffd\"");
	CHECK_STR(net_ev_log_type(NET_EV_SECRET), "secret.use");
	CHECK_STR(net_ev_log_type(NET_EV_FOLDED), "net.folded");
}

/* Every prefix of a good event, and every event with one byte changed, is refused or is JSON of the same table. */
static void test_cuts(void)
{
	autobuf struct buf packed = BUF_INIT, fields = BUF_INIT;
	enum net_ev ev;
	unsigned good = 0;

	netd_event_begin(&packed, NET_EV_DIAL);
	netd_event_text(&packed, NET_M_HOST, "a.test", 6);
	netd_event_number(&packed, NET_M_PORT, 25);
	for (size_t n = 0; n < packed.len; n++)
		good += netd_event_format(packed.data, n, &ev, &fields) == 0;
	CHECKF(good == 2, "an event that is cut within a member is refused: %u of its prefixes are not",
	       good);
}

static void test_refused(void)
{
	autobuf struct buf fields = BUF_INIT;
	char text[NETD_EVENT_MAX + 1];
	enum net_ev ev;

	memset(text, 'x', sizeof(text));
#define REFUSED(what, ...)                                                                         \
	do {                                                                                       \
		autobuf struct buf packed = BUF_INIT;                                              \
                                                                                                   \
		netd_event_begin(&packed, NET_EV_OPEN);                                            \
		__VA_ARGS__;                                                                       \
		CHECKF(format(&packed, &fields) == -EBADMSG, "an event with %s is refused", what); \
	} while (0)
	REFUSED("a member that comes twice", {
		netd_event_number(&packed, NET_M_PORT, 1);
		netd_event_number(&packed, NET_M_PORT, 1);
	});
	REFUSED("a member that is not in the table", buf_addc(&packed, (char)NET_MEMBERS));
	REFUSED("a port above 65535", netd_event_number(&packed, NET_M_PORT, 65536));
	REFUSED("a negative port", netd_event_number(&packed, NET_M_PORT, -1));
	REFUSED("a text that is longer than its maximum",
		netd_event_text(&packed, NET_M_NAME, text, NET_NAME_MAX + 1));
	REFUSED("a text with a NUL", netd_event_text(&packed, NET_M_NAME, "a\0b", 3));
	REFUSED("a boolean that is neither", {
		netd_event_bool(&packed, NET_M_WOULD_DENY, true);
		packed.data[packed.len - 1] = 2;
	});
	REFUSED("a length beyond the end", {
		netd_event_text(&packed, NET_M_NAME, "a", 1);
		packed.data[2] = 9;
	});
#undef REFUSED
	CHECKF(netd_event_format(text, sizeof(text), &ev, &fields) == -EBADMSG,
	       "an event over the maximum is refused");
	text[0] = NET_EV_COUNT;
	CHECKF(netd_event_format(text, 1, &ev, &fields) == -EBADMSG,
	       "an event that is not in the list is refused");
	text[0] = NET_EV_OPEN;
	CHECKF(netd_event_format(text, 1, &ev, &fields) == 0 && fields.len == 0,
	       "an event of the list without members is taken");
}

int main(void)
{
	test_round();
	test_cuts();
	test_refused();
	return tap_done();
}
