/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net_line.h"

#include "base/json.h"
#include "base/str.h"

#include <assert.h>
#include <jansson.h>

/* Ours begin with json_ too; those of jansson that are used here do not collide with them. */

static const char *const ev_names[] = {
	[NET_EV_DNS] = "dns",	      [NET_EV_OPEN] = "open",	      [NET_EV_CLOSE] = "close",
	[NET_EV_REQUEST] = "request", [NET_EV_RESPONSE] = "response", [NET_EV_DIAL] = "dial",
	[NET_EV_PROXY] = "proxy",     [NET_EV_REFUSED] = "refused",   [NET_EV_ALERT] = "alert",
	[NET_EV_POLICY] = "policy",   [NET_EV_GARBLED] = "garbled",
};
static_assert(ARRAY_SIZE(ev_names) == NET_EV_COUNT, "a name for each");

static const char *const decision_names[] = {
	[NET_NO_DECISION] = "",
	[NET_ALLOWED] = "allow",
	[NET_DENIED] = "deny",
	[NET_ERROR] = "error",
};
static_assert(ARRAY_SIZE(decision_names) == NET_DECISION_COUNT, "a name for each");

const char *net_ev_name(enum net_ev ev)
{
	return ev_names[ev];
}

const char *net_decision_name(enum net_decision d)
{
	return decision_names[d];
}

/* The members that a line may have, in the order in which the log gets them. */
enum key {
	K_T,
	K_C,
	K_R,
	K_NAME,
	K_HOST,
	K_ADDR,
	K_PORT,
	K_PROTO,
	K_QTYPE,
	K_METHOD,
	K_PATH,
	K_DEPTH,
	K_DECISION,
	K_RULE,
	K_WHY,
	K_GENERATION,
	K_DIGEST,
	K_STATUS,
	K_PROXY,
	K_POOL,
	K_STATE,
	K_UP,
	K_DOWN,
	K_MS,
	K_HOW,
	K_COUNT,
	K_KIND,
	K_TEXT,
	K_SRC,
	K_SEEN,
	K_WOULD_DENY,
	KEY_COUNT
};

static const struct {
	const char *name;
	char type; /* s: text of at most `max` bytes; u: a number up to `max`; i: the same, also below 0; b: yes or no */
	uint64_t max;
} keys[] = {
	[K_T] = { "t", 'u', INT64_MAX },
	[K_C] = { "c", 'u', INT64_MAX },
	[K_R] = { "r", 'u', INT64_MAX },
	[K_NAME] = { "name", 's', NET_NAME_MAX },
	[K_HOST] = { "host", 's', NET_NAME_MAX },
	[K_ADDR] = { "addr", 's', 64 },
	[K_PORT] = { "port", 'u', UINT16_MAX },
	[K_PROTO] = { "proto", 's', 32 },
	[K_QTYPE] = { "qtype", 's', 16 },
	[K_METHOD] = { "method", 's', 32 },
	[K_PATH] = { "path", 's', 1024 },
	[K_DEPTH] = { "depth", 's', 16 },
	[K_DECISION] = { "decision", 's', 16 },
	[K_RULE] = { "rule", 's', 512 },
	[K_WHY] = { "why", 's', 512 },
	[K_GENERATION] = { "generation", 'u', UINT32_MAX },
	[K_DIGEST] = { "digest", 's', 80 },
	[K_STATUS] = { "status", 'i', INT32_MAX },
	[K_PROXY] = { "proxy", 's', 128 },
	[K_POOL] = { "pool", 's', 64 },
	[K_STATE] = { "state", 's', 32 },
	[K_UP] = { "up", 'u', INT64_MAX },
	[K_DOWN] = { "down", 'u', INT64_MAX },
	[K_MS] = { "ms", 'u', INT64_MAX },
	[K_HOW] = { "how", 's', 256 },
	[K_COUNT] = { "count", 'u', INT64_MAX },
	[K_KIND] = { "kind", 's', 64 },
	[K_TEXT] = { "text", 's', 1024 },
	[K_SRC] = { "src", 's', 64 },
	[K_SEEN] = { "seen", 's', NET_NAME_MAX },
	[K_WOULD_DENY] = { "would_deny", 'b', 1 },
};
static_assert(ARRAY_SIZE(keys) == KEY_COUNT, "a row for each");

static int find(const char *const *names, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(names[i], text))
			return (int)i;
	}
	return -EBADMSG;
}

static bool fits(enum key k, const json_t *v)
{
	json_int_t n;

	if (keys[k].type == 's')
		return json_is_string(v) && json_string_length(v) <= keys[k].max;
	if (keys[k].type == 'b')
		return json_is_boolean(v);
	if (!json_is_integer(v))
		return false;
	n = json_integer_value(v);
	if (n < 0)
		return keys[k].type == 'i' && n >= -(json_int_t)keys[k].max;
	return (uint64_t)n <= keys[k].max;
}

static int sort_members(json_t *o, const json_t *v[KEY_COUNT], enum net_ev *ret_ev)
{
	int ev = -EBADMSG;
	const char *name;
	json_t *value;

	json_object_foreach(o, name, value)
	{
		int k = 0;

		if (str_eq(name, "ev")) {
			ev = json_is_string(value) ? find(ev_names, NET_EV_COUNT, json_string_value(value))
						   : -EBADMSG;
			continue;
		}
		while (k < KEY_COUNT && !str_eq(keys[k].name, name))
			k++;
		if (k == KEY_COUNT || !fits((enum key)k, value))
			return -EBADMSG;
		v[k] = value;
	}
	*ret_ev = (enum net_ev)ev;
	return ev < 0 ? ev : 0;
}

static void copy_text(char *out, size_t size, const json_t *v)
{
	snprintf(out, size, "%s", v ? json_string_value(v) : "");
}

static uint64_t number(const json_t *v)
{
	return v ? (uint64_t)json_integer_value(v) : 0;
}

static int fill(struct net_line *l, const json_t *const v[KEY_COUNT])
{
	const json_t *name = v[K_NAME] && json_string_length(v[K_NAME]) ? v[K_NAME]
			     : v[K_HOST]				? v[K_HOST]
									: v[K_ADDR];
	const json_t *what = v[K_METHOD] ? v[K_METHOD] : v[K_QTYPE] ? v[K_QTYPE] : v[K_PROTO];
	int d = v[K_DECISION] ? find(decision_names, NET_DECISION_COUNT, json_string_value(v[K_DECISION]))
			      : NET_NO_DECISION;

	if (d < 0)
		return d;
	l->decision = (enum net_decision)d;
	copy_text(l->name, sizeof(l->name), name);
	copy_text(l->what, sizeof(l->what), what);
	copy_text(l->path, sizeof(l->path), v[K_PATH]);
	copy_text(l->why, sizeof(l->why), v[K_WHY] ? v[K_WHY] : v[K_TEXT]);
	l->port = (uint16_t)number(v[K_PORT]);
	l->up = number(v[K_UP]);
	l->down = number(v[K_DOWN]);
	l->count = v[K_COUNT] ? number(v[K_COUNT]) : 1;
	return 0;
}

static void add_members(struct buf *out, const json_t *const v[KEY_COUNT])
{
	struct json j = JSON_INIT(out);

	for (int k = 0; k < KEY_COUNT; k++) {
		if (!v[k])
			continue;
		if (keys[k].type == 's')
			json_strn(&j, keys[k].name, json_string_value(v[k]), json_string_length(v[k]));
		else if (keys[k].type == 'b')
			json_bool(&j, keys[k].name, json_is_true(v[k]));
		else
			json_i64(&j, keys[k].name, json_integer_value(v[k]));
	}
}

static void drop(json_t **o)
{
	json_decref(*o);
}

int net_line_parse(const char *line, size_t len, struct net_line *ret, struct buf *fields)
{
	CLEANUP(drop) json_t *o = NULL;
	const json_t *v[KEY_COUNT] = { 0 };
	struct net_line l = { 0 };
	int r;

	if (len > NET_LINE_MAX)
		return -EBADMSG;
	/* A NUL within a text is refused: it would be a shorter text for whoever reads it in C. */
	o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (!o || !json_is_object(o))
		return -EBADMSG;
	r = sort_members(o, v, &l.ev);
	if (r == 0)
		r = fill(&l, v);
	if (r < 0)
		return r;
	add_members(fields, v);
	if (buf_error(fields))
		return buf_error(fields);
	*ret = l;
	return 0;
}
