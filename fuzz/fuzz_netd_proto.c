/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coffer-netd that was taken over: any messages in any order, with restarts and an end in between. Offsets never shrink and never pass
 * the journal, a line is an event once, no message is taken in a state that does not allow it, and what comes out is well formed.
 */
#include "base/cleanup.h"
#include "netd/wire/netd_proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct netd_peer p;
static uint64_t size_of[NET_FROM_COUNT], before[NET_FROM_COUNT];
static bool took_event, took_said;

static uint64_t on_size(void *ctx, enum net_from from)
{
	(void)ctx;
	if (from >= NET_FROM_COUNT)
		abort();
	return size_of[from];
}

static int on_event(void *ctx, const void *packed, size_t len)
{
	autobuf struct buf fields = BUF_INIT;
	enum net_ev ev;

	(void)ctx;
	BUG_ON(p.state != NETD_IS_UP && p.state != NETD_IS_ENDING);
	BUG_ON(len == 0 || len > NETD_EVENT_MAX);
	if (netd_event_format(packed, len, &ev, &fields) < 0)
		return -EPROTO;
	took_event = true;
	return 0;
}

static void on_logged(void *ctx)
{
	(void)ctx;
}

static void on_counted(void *ctx)
{
	(void)ctx;
	BUG_ON(p.state != NETD_IS_UP && p.state != NETD_IS_ENDING);
}

static void on_said(void *ctx, const struct netd_said *s)
{
	(void)ctx;
	BUG_ON(s->kind >= NETD_SAID_KINDS || s->about > NETD_SAID_KEYS || s->port > UINT16_MAX);
	BUG_ON(strlen(s->name) >= sizeof(s->name) || strlen(s->why) >= sizeof(s->why));
	took_said = true;
}

static void on_fail(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	(void)text;
	BUG_ON(len > NETD_FAIL_MAX);
}

static void check_offsets(const uint64_t counted[NET_FROM_COUNT])
{
	for (int i = 0; i < NET_FROM_COUNT; i++) {
		BUG_ON(p.logged[i] < before[i] || p.logged[i] > size_of[i]);
		BUG_ON(p.counted[i] < counted[i] || p.counted[i] > p.logged[i]);
	}
}

static void take_one(const uint8_t *message, size_t len, uint64_t now)
{
	const struct netd_calls calls = { on_size, on_event, on_logged, on_counted, on_said, on_fail, NULL };
	const enum netd_state was = p.state;
	uint64_t counted[NET_FROM_COUNT];
	int r;

	memcpy(before, p.logged, sizeof(before));
	memcpy(counted, p.counted, sizeof(counted));
	took_event = took_said = false;
	r = netd_take(&p, message, len, now, &calls);
	BUG_ON(r != 0 && r != -EPROTO && r != -EIO);
	BUG_ON(r < 0 && (p.state != was || memcmp(before, p.logged, sizeof(before)) != 0 ||
			 memcmp(counted, p.counted, sizeof(counted)) != 0));
	check_offsets(counted);
	BUG_ON(p.answered > p.asked);
	BUG_ON((took_event || took_said) && was != NETD_IS_UP && was != NETD_IS_ENDING);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t types[] = { NETD_READY,	 NETD_EVENT, NETD_COUNTED, NETD_SAYS,
					 NETD_CAUGHT_UP, NETD_DONE,  NETD_FAIL };
	uint8_t message[NETD_MESSAGE_MAX + 8];
	uint64_t now = 1000;

	p = (struct netd_peer){ 0 };
	size_of[NET_FROM_EGRESS] = 4096;
	size_of[NET_FROM_DIAL] = 100;
	netd_peer_begin(&p, now);
	/* Each step: what happens, two bytes of length, and a message whose type is nearly always one of the real ones. */
	while (size >= 3) {
		const uint8_t step = data[0];
		size_t len = (size_t)data[1] | (size_t)(data[2] & 0x1f) << 8;

		data += 3;
		size -= 3;
		len = len < size ? len : size;
		len = len < sizeof(message) ? len : sizeof(message);
		memcpy(message, data, len);
		data += len;
		size -= len;
		if (len >= 4 && (step & 7) != 7) {
			const uint32_t type = types[(step & 7) % ARRAY_SIZE(types)];

			memcpy(message, &type, sizeof(type));
		}
		if ((step & 0xf0) == 0x10)
			p.asked++;
		if ((step & 0xf0) == 0x20)
			netd_peer_begin(&p, now);
		if ((step & 0xf0) == 0x30 && p.state == NETD_IS_UP)
			p.state = NETD_IS_ENDING;
		if ((step & 0xf0) == 0x40)
			size_of[NET_FROM_DIAL] += 1000;
		now += (uint64_t)step << 20;
		take_one(message, len, now);
	}
	return 0;
}
