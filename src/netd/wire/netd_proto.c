/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the messages of coffer-netd (netd_proto.h). Pure but for the calls it is given. The bytes are hostile: each field is checked
 * before it is used, and no state is changed by a message that is refused.
 */
#include "netd/wire/netd_proto.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* An honest coffer-netd keeps the budgets of net_fold.h, which are lower: about 1000 lines a second after a burst, and
 * NET_KEYS rows of each class once a second at most. */
#define LINES_BURST 48000u
#define LINES_RATE 1100u
#define COUNTS_BURST 16384u
#define COUNTS_RATE 1100u
/* After this many bytes of lines (NET_KEPT_BYTES of both kinds and programs) it has no line that may not be folded. */
#define LINES_BYTES (12ULL << 30)
#define LATE_BURST 4096u
#define LATE_RATE 32u
#define SAID_BURST 256u
#define SAID_RATE 16u
#define LINE_LEAST 2u /* bytes of a line and its newline */

#define IN(state) (1u << (state))

static const struct {
	unsigned states; /* where it is allowed */
	size_t least, most;
} messages[] = {
	[0] = { IN(NETD_IS_STARTING), sizeof(struct netd_head), sizeof(struct netd_head) },
	[NETD_EVENT - NETD_READY] = { IN(NETD_IS_UP) | IN(NETD_IS_ENDING), sizeof(struct netd_head) + 1,
				      NETD_MESSAGE_MAX },
	[NETD_COUNTED - NETD_READY] = { IN(NETD_IS_UP) | IN(NETD_IS_ENDING), sizeof(struct netd_counted),
					sizeof(struct netd_counted) },
	[NETD_SAYS - NETD_READY] = { IN(NETD_IS_UP) | IN(NETD_IS_ENDING),
				     sizeof(struct netd_head) + sizeof(struct netd_said),
				     sizeof(struct netd_head) + sizeof(struct netd_said) },
	[NETD_CAUGHT_UP - NETD_READY] = { IN(NETD_IS_UP) | IN(NETD_IS_ENDING), sizeof(struct netd_head),
					  sizeof(struct netd_head) },
	[NETD_DONE - NETD_READY] = { IN(NETD_IS_ENDING), sizeof(struct netd_head), sizeof(struct netd_head) },
	[NETD_FAIL - NETD_READY] = { IN(NETD_IS_STARTING) | IN(NETD_IS_UP) | IN(NETD_IS_ENDING),
				     sizeof(struct netd_head), sizeof(struct netd_head) + NETD_FAIL_MAX },
};
static_assert(sizeof(messages) / sizeof(messages[0]) == NETD_TYPE_END - NETD_READY, "a row for each");

void netd_peer_begin(struct netd_peer *p, uint64_t now)
{
	p->state = NETD_IS_STARTING;
	p->asked = p->answered = 0;
	/* The budgets outlive it too: its restart is no way to get new ones. */
	if (p->lines.rate)
		return;
	p->lines = bucket_new(LINES_BURST, LINES_RATE, now);
	p->late = bucket_new(LATE_BURST, LATE_RATE, now);
	p->counts = bucket_new(COUNTS_BURST, COUNTS_RATE, now);
	p->said = bucket_new(SAID_BURST, SAID_RATE, now);
}

bool netd_peer_has_pace(struct netd_peer *p, uint64_t now)
{
	/* At the end the rest of the journals is bounded, and everything in it comes into the log. */
	return p->state == NETD_IS_ENDING || bucket_has(p->bytes < LINES_BYTES ? &p->lines : &p->late, now);
}

static bool is_within_journal(struct netd_peer *p, enum net_from from, uint64_t off,
			      const struct netd_calls *c)
{
	if (off > p->size[from])
		p->size[from] = c->size(c->ctx, from);
	return off <= p->size[from];
}

static int take_event(struct netd_peer *p, const struct netd_head *h, const char *packed, size_t len,
		      uint64_t now, const struct netd_calls *c)
{
	int r;

	if (h->from > NET_FROM_COUNT)
		return -EPROTO;
	if (h->from == NET_FROM_COUNT) {
		if (h->off || !bucket_take(&p->counts, now))
			return -EPROTO;
		return c->event(c->ctx, packed, len);
	}
	if (h->off < LINE_LEAST || h->off - LINE_LEAST < p->logged[h->from] ||
	    !is_within_journal(p, (enum net_from)h->from, h->off, c))
		return -EPROTO;
	(void)bucket_take(p->bytes < LINES_BYTES ? &p->lines : &p->late, now);
	p->bytes += len;
	r = c->event(c->ctx, packed, len);
	if (r < 0)
		return r;
	p->logged[h->from] = h->off;
	c->logged(c->ctx);
	return 0;
}

static int take_counted(struct netd_peer *p, const char *message, const struct netd_calls *c)
{
	struct netd_counted m;
	bool grows = false;

	memcpy(&m, message, sizeof(m));
	for (int i = 0; i < NET_FROM_COUNT; i++) {
		if (m.counted[i] < p->counted[i] || !is_within_journal(p, (enum net_from)i, m.counted[i], c))
			return -EPROTO;
		grows = grows || m.counted[i] > p->counted[i];
	}
	/* A message that says nothing costs us more than its sender. */
	if (!grows)
		return -EPROTO;
	for (int i = 0; i < NET_FROM_COUNT; i++) {
		p->counted[i] = m.counted[i];
		if (p->logged[i] < m.counted[i])
			p->logged[i] = m.counted[i];
	}
	c->counted(c->ctx);
	return 0;
}

static bool is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static int take_said(struct netd_peer *p, const char *text, uint64_t now, const struct netd_calls *c)
{
	struct netd_said s;

	memcpy(&s, text, sizeof(s));
	if (s.kind >= NETD_SAID_KINDS || s.again > 1 || s.port > UINT16_MAX || s.count == 0 ||
	    !is_text(s.name, sizeof(s.name)) || !is_text(s.method, sizeof(s.method)) ||
	    !is_text(s.path, sizeof(s.path)) || !is_text(s.why, sizeof(s.why)))
		return -EPROTO;
	if (s.kind == NETD_SAID_REST ? s.about != 0 : s.about < 1 || s.about > NETD_SAID_KEYS)
		return -EPROTO;
	if (!bucket_take(&p->said, now))
		return -EPROTO;
	c->said(c->ctx, &s);
	return 0;
}

static int take_caught_up(struct netd_peer *p, const struct netd_head *h)
{
	if (h->off > UINT32_MAX || h->off <= p->answered || h->off > p->asked)
		return -EPROTO;
	p->answered = (uint32_t)h->off;
	return 0;
}

int netd_take(struct netd_peer *p, const void *message, size_t len, uint64_t now, const struct netd_calls *c)
{
	const char *rest = (const char *)message + sizeof(struct netd_head);
	struct netd_head h;
	size_t i;

	if (len < sizeof(h))
		return -EPROTO;
	memcpy(&h, message, sizeof(h));
	if (h.type < NETD_READY || h.type >= NETD_TYPE_END)
		return -EPROTO;
	i = h.type - NETD_READY;
	if (!(messages[i].states & IN(p->state)) || len < messages[i].least || len > messages[i].most)
		return -EPROTO;
	switch ((enum netd_type)h.type) {
	case NETD_READY:
		p->state = NETD_IS_UP;
		return 0;
	case NETD_EVENT:
		return take_event(p, &h, rest, len - sizeof(h), now, c);
	case NETD_COUNTED:
		return take_counted(p, message, c);
	case NETD_SAYS:
		return take_said(p, rest, now, c);
	case NETD_CAUGHT_UP:
		return take_caught_up(p, &h);
	case NETD_DONE:
		p->state = NETD_IS_OVER;
		return 0;
	case NETD_FAIL:
		c->fail(c->ctx, rest, len - sizeof(h));
		return -EIO;
	default:
		return -EPROTO;
	}
}
