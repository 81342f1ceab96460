/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs and formats an event of a run's network (netd_event.h). Pure. The packed bytes are hostile: netd_event_format() may not
 * read past their end, nor believe a number or a length in them.
 *
 * A packed event is one byte for the event, then for each member one byte for the member and its value: of a text two bytes of
 * length and the text, of a number eight bytes, of a boolean one. Both sides are one release on one machine, so numbers have the
 * machine's byte order.
 */
#include "netd/wire/netd_event.h"

#include "base/json.h"
#include "base/str.h"
#include "base/top.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const struct {
	const char *name, *log_type;
} events[] = {
	[NET_EV_DNS] = { "dns", "net.dns" },
	[NET_EV_OPEN] = { "open", "net.open" },
	[NET_EV_CLOSE] = { "close", "net.close" },
	[NET_EV_REQUEST] = { "request", "net.request" },
	[NET_EV_RESPONSE] = { "response", "net.response" },
	[NET_EV_SECRET] = { "secret", "secret.use" },
	[NET_EV_ISSUED] = { "issued", "secret.issued" },
	[NET_EV_DIAL] = { "dial", "net.dial" },
	[NET_EV_PROXY] = { "proxy", "net.proxy" },
	[NET_EV_REFUSED] = { "refused", "net.refused" },
	[NET_EV_ALERT] = { "alert", "net.alert" },
	[NET_EV_POLICY] = { "policy", "net.policy" },
	[NET_EV_GARBLED] = { "garbled", "net.garbled" },
	[NET_EV_FOLDED] = { "folded", "net.folded" },
};
static_assert(ARRAY_SIZE(events) == NET_EV_COUNT, "a row for each");

static const struct {
	const char *name;
	char type; /* s: text up to `max` bytes; u: number up to `max`; i: also negative; b: boolean */
	uint64_t max;
} members[] = {
	[NET_M_T] = { "t", 'u', INT64_MAX },
	[NET_M_C] = { "c", 'u', INT64_MAX },
	[NET_M_R] = { "r", 'u', INT64_MAX },
	[NET_M_NAME] = { "name", 's', NET_NAME_MAX },
	[NET_M_SECRET] = { "secret", 's', 255 },
	[NET_M_HOST] = { "host", 's', NET_NAME_MAX },
	[NET_M_ADDR] = { "addr", 's', 64 },
	[NET_M_PORT] = { "port", 'u', UINT16_MAX },
	[NET_M_PROTO] = { "proto", 's', 32 },
	[NET_M_QTYPE] = { "qtype", 's', 16 },
	[NET_M_METHOD] = { "method", 's', 32 },
	[NET_M_PATH] = { "path", 's', NET_PATH_MAX },
	[NET_M_ACT] = { "act", 's', 400 },
	[NET_M_DEPTH] = { "depth", 's', 16 },
	[NET_M_DECISION] = { "decision", 's', 16 },
	[NET_M_SAID] = { "said", 's', 8 },
	[NET_M_ASK] = { "ask", 's', 64 },
	[NET_M_RULE] = { "rule", 's', 512 },
	[NET_M_WHY] = { "why", 's', 512 },
	[NET_M_GENERATION] = { "generation", 'u', UINT32_MAX },
	[NET_M_DIGEST] = { "digest", 's', 80 },
	[NET_M_STATUS] = { "status", 'i', INT32_MAX },
	[NET_M_PROXY] = { "proxy", 's', 128 },
	[NET_M_POOL] = { "pool", 's', 64 },
	[NET_M_STATE] = { "state", 's', 32 },
	[NET_M_UP] = { "up", 'u', INT64_MAX },
	[NET_M_DOWN] = { "down", 'u', INT64_MAX },
	[NET_M_MS] = { "ms", 'u', INT64_MAX },
	[NET_M_HOW] = { "how", 's', 256 },
	[NET_M_COUNT] = { "count", 'u', INT64_MAX },
	[NET_M_AGAIN] = { "again", 'u', INT64_MAX },
	[NET_M_TOP] = { "top", 's', TOP_FORMAT_MAX },
	[NET_M_KIND] = { "kind", 's', 64 },
	[NET_M_TEXT] = { "text", 's', 1024 },
	[NET_M_SRC] = { "src", 's', 64 },
	[NET_M_SEEN] = { "seen", 's', NET_NAME_MAX },
	[NET_M_WOULD_DENY] = { "would_deny", 'b', 1 },
	[NET_M_FIRST] = { "first", 'u', 1 },
	[NET_M_EV] = { "ev", 's', 16 },
	[NET_M_OTHERS] = { "others", 'b', 1 },
	[NET_M_FROM] = { "from", 's', 16 },
};
static_assert(ARRAY_SIZE(members) == NET_MEMBERS, "a row for each");
static_assert(NET_MEMBERS <= 64, "a bit for each");

const char *net_ev_name(enum net_ev ev)
{
	return events[ev].name;
}

const char *net_ev_log_type(enum net_ev ev)
{
	return events[ev].log_type;
}

int net_member_find(const char *name, size_t len)
{
	for (int m = 0; m < NET_M_LINES; m++) {
		if (members[m].name[0] == name[0] && strlen(members[m].name) == len &&
		    memcmp(members[m].name, name, len) == 0)
			return m;
	}
	return -EBADMSG;
}

bool net_member_takes_text(enum net_member m, const char *text, size_t len)
{
	return members[m].type == 's' && len <= members[m].max && (len == 0 || !memchr(text, '\0', len));
}

bool net_member_takes_number(enum net_member m, int64_t n)
{
	if (members[m].type == 'i')
		return n >= -(int64_t)members[m].max && n <= (int64_t)members[m].max;
	return members[m].type == 'u' && n >= 0 && (uint64_t)n <= members[m].max;
}

bool net_member_takes_bool(enum net_member m)
{
	return members[m].type == 'b';
}

void netd_event_begin(struct buf *out, enum net_ev ev)
{
	buf_addc(out, (char)ev);
}

void netd_event_text(struct buf *out, enum net_member m, const char *text, size_t len)
{
	const uint16_t n = (uint16_t)len;

	buf_addc(out, (char)m);
	buf_add(out, &n, sizeof(n));
	buf_add(out, text, n);
}

void netd_event_number(struct buf *out, enum net_member m, int64_t n)
{
	buf_addc(out, (char)m);
	buf_add(out, &n, sizeof(n));
}

void netd_event_bool(struct buf *out, enum net_member m, bool yes)
{
	buf_addc(out, (char)m);
	buf_addc(out, (char)yes);
}

/* The packed bytes that are still unread. */
struct unread {
	const char *at, *end;
};

/* The next n bytes; NULL: there are fewer. */
static const char *take_packed(struct unread *u, size_t n)
{
	const char *p = u->at;

	if ((size_t)(u->end - p) < n)
		return NULL;
	u->at += n;
	return p;
}

static bool format_text(struct unread *u, enum net_member m, struct json *j)
{
	const char *head = take_packed(u, sizeof(uint16_t)), *text;
	uint16_t n = 0;

	if (!head)
		return false;
	memcpy(&n, head, sizeof(n));
	text = take_packed(u, n);
	if (!text || !net_member_takes_text(m, text, n))
		return false;
	json_strn(j, members[m].name, text, n);
	return true;
}

static bool format_number(struct unread *u, enum net_member m, struct json *j)
{
	const char *bytes = take_packed(u, sizeof(int64_t));
	int64_t n = 0;

	if (!bytes)
		return false;
	memcpy(&n, bytes, sizeof(n));
	if (!net_member_takes_number(m, n))
		return false;
	json_i64(j, members[m].name, n);
	return true;
}

static bool format_bool(struct unread *u, enum net_member m, struct json *j)
{
	const char *byte = take_packed(u, 1);

	if (!byte || (*byte != 0 && *byte != 1))
		return false;
	json_bool(j, members[m].name, *byte == 1);
	return true;
}

static bool format_members(struct unread *u, struct json *j)
{
	uint64_t seen = 0;

	while (u->at < u->end) {
		const unsigned m = (unsigned char)*u->at++;
		bool ok;

		if (m >= NET_MEMBERS || (seen & (1ULL << m)))
			return false;
		seen |= 1ULL << m;
		ok = members[m].type == 's'   ? format_text(u, (enum net_member)m, j)
		     : members[m].type == 'b' ? format_bool(u, (enum net_member)m, j)
					      : format_number(u, (enum net_member)m, j);
		if (!ok)
			return false;
	}
	return true;
}

int netd_event_format(const void *packed, size_t len, enum net_ev *ret, struct buf *fields)
{
	struct unread u = { packed, (const char *)packed + len };
	struct json j = JSON_INIT(fields);
	unsigned ev;

	buf_clear(fields);
	if (len == 0 || len > NETD_EVENT_MAX)
		return -EBADMSG;
	ev = (unsigned char)*u.at++;
	if (ev >= NET_EV_COUNT)
		return -EBADMSG;
	if (!format_members(&u, &j))
		return -EBADMSG;
	*ret = (enum net_ev)ev;
	return buf_error(fields);
}
