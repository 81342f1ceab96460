/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses journal lines (net_line.h): a fast scanner for the form that our programs write, and jansson for
 * anything else. Pure. The bytes are hostile: an unknown event or member is refused.
 */
#include "netd/log/net_line.h"

#include "base/json.h"
#include "base/str.h"
#include "base/top.h"

#include <assert.h>
#include <jansson.h>

/* json.h and jansson share the prefix json_, but the functions used here do not collide. */

static const char *const ev_names[] = {
	[NET_EV_DNS] = "dns",	      [NET_EV_OPEN] = "open",	      [NET_EV_CLOSE] = "close",
	[NET_EV_REQUEST] = "request", [NET_EV_RESPONSE] = "response", [NET_EV_DIAL] = "dial",
	[NET_EV_SECRET] = "secret",   [NET_EV_PROXY] = "proxy",	      [NET_EV_REFUSED] = "refused",
	[NET_EV_ALERT] = "alert",     [NET_EV_POLICY] = "policy",     [NET_EV_GARBLED] = "garbled",
	[NET_EV_ISSUED] = "issued",
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
enum line_key {
	K_T,
	K_C,
	K_R,
	K_NAME,
	K_SECRET,
	K_HOST,
	K_ADDR,
	K_PORT,
	K_PROTO,
	K_QTYPE,
	K_METHOD,
	K_PATH,
	K_ACT,
	K_DEPTH,
	K_DECISION,
	K_SAID,
	K_ASK,
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
	K_AGAIN,
	K_TOP,
	K_KIND,
	K_TEXT,
	K_SRC,
	K_SEEN,
	K_WOULD_DENY,
	K_FIRST,
	KEY_COUNT
};

static const struct {
	const char *name;
	char type; /* s: text up to `max` bytes; u: number up to `max`; i: also negative; b: boolean */
	uint64_t max;
} line_keys[] = {
	[K_T] = { "t", 'u', INT64_MAX },
	[K_C] = { "c", 'u', INT64_MAX },
	[K_R] = { "r", 'u', INT64_MAX },
	[K_NAME] = { "name", 's', NET_NAME_MAX },
	[K_SECRET] = { "secret", 's', 255 },
	[K_HOST] = { "host", 's', NET_NAME_MAX },
	[K_ADDR] = { "addr", 's', 64 },
	[K_PORT] = { "port", 'u', UINT16_MAX },
	[K_PROTO] = { "proto", 's', 32 },
	[K_QTYPE] = { "qtype", 's', 16 },
	[K_METHOD] = { "method", 's', 32 },
	[K_PATH] = { "path", 's', NET_PATH_MAX },
	[K_ACT] = { "act", 's', 400 },
	[K_DEPTH] = { "depth", 's', 16 },
	[K_DECISION] = { "decision", 's', 16 },
	[K_SAID] = { "said", 's', 8 },
	[K_ASK] = { "ask", 's', 64 },
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
	[K_AGAIN] = { "again", 'u', INT64_MAX },
	[K_TOP] = { "top", 's', TOP_FORMAT_MAX },
	[K_KIND] = { "kind", 's', 64 },
	[K_TEXT] = { "text", 's', 1024 },
	[K_SRC] = { "src", 's', 64 },
	[K_SEEN] = { "seen", 's', NET_NAME_MAX },
	[K_WOULD_DENY] = { "would_deny", 'b', 1 },
	[K_FIRST] = { "first", 'u', 1 },
};
static_assert(ARRAY_SIZE(line_keys) == KEY_COUNT, "a row for each");

/* A member's value as in the line, or as jansson read it. */
struct net_value {
	char type; /* as in line_keys; a number is always i; 0: absent */
	const char *text;
	size_t len;
	int64_t n; /* of b: 0 or 1 */
};

static int find_value_name(const char *const *names, size_t n, const struct net_value *v)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(names[i]) == v->len && memcmp(names[i], v->text, v->len) == 0)
			return (int)i;
	}
	return -EBADMSG;
}

static bool member_is_valid(enum line_key k, const struct net_value *v)
{
	if (line_keys[k].type == 's')
		return v->type == 's' && v->len <= line_keys[k].max;
	if (line_keys[k].type == 'b')
		return v->type == 'b';
	if (v->type != 'i')
		return false;
	if (v->n < 0)
		return line_keys[k].type == 'i' && v->n >= -(int64_t)line_keys[k].max;
	return (uint64_t)v->n <= line_keys[k].max;
}

/* KEY_COUNT stands for `ev`. */
static int find_line_key(const char *name, size_t len)
{
	for (int k = 0; k < KEY_COUNT; k++) {
		if (line_keys[k].name[0] == name[0] && strlen(line_keys[k].name) == len &&
		    memcmp(line_keys[k].name, name, len) == 0)
			return k;
	}
	return len == 2 && memcmp(name, "ev", 2) == 0 ? KEY_COUNT : -EBADMSG;
}

/* The end of a text of printable ASCII without escapes; NULL: another form. */
static const char *end_of_plain_text(const char *p, const char *end)
{
	while (p < end && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
		p++;
	return p < end && *p == '"' ? p : NULL;
}

static const char *scan_number(const char *p, const char *end, struct net_value *ret)
{
	const bool is_negative = p < end && *p == '-';
	const char *digits = p + is_negative;
	uint64_t n = 0;

	/* This many digits cannot overflow. */
	for (p = digits; p < end && *p >= '0' && *p <= '9' && p - digits < 19; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	if (p == digits || n > INT64_MAX || (*digits == '0' && (p - digits > 1 || is_negative)))
		return NULL;
	*ret = (struct net_value){ .type = 'i', .n = is_negative ? -(int64_t)n : (int64_t)n };
	return p;
}

static const char *scan_value(const char *p, const char *end, struct net_value *ret)
{
	const char *close;

	if (p == end || *p != '"')
		return scan_number(p, end, ret);
	close = end_of_plain_text(p + 1, end);
	if (!close)
		return NULL;
	*ret = (struct net_value){ .type = 's', .text = p + 1, .len = (size_t)(close - p - 1) };
	return close + 1;
}

/*
 * Scans a line in the form that our programs usually write: known members, each once, numbers and plain
 * texts, no blanks. Anything else is not refused but left to jansson. v has one more place, for `ev`.
 */
static bool scan_plain_line(const char *line, size_t len, struct net_value v[KEY_COUNT + 1])
{
	const char *p = line, *end = line + len, *close;
	int k;

	if (p == end || *p != '{')
		return false;
	do {
		p++;
		close = p < end && *p == '"' ? end_of_plain_text(p + 1, end) : NULL;
		if (!close || close == p + 1 || close + 1 == end || close[1] != ':')
			return false;
		k = find_line_key(p + 1, (size_t)(close - p - 1));
		if (k < 0 || v[k].type)
			return false;
		p = scan_value(close + 2, end, &v[k]);
	} while (p && p < end && *p == ',');
	return p && p + 1 == end && *p == '}';
}

static struct net_value value_from_json(const json_t *j)
{
	if (json_is_string(j))
		return (struct net_value){ 's', json_string_value(j), json_string_length(j), 0 };
	if (json_is_integer(j))
		return (struct net_value){ .type = 'i', .n = json_integer_value(j) };
	return (struct net_value){ .type = json_is_boolean(j) ? 'b' : '?', .n = json_is_true(j) };
}

static int take_json_members(json_t *o, struct net_value v[KEY_COUNT + 1])
{
	const char *name;
	json_t *value;

	json_object_foreach(o, name, value)
	{
		int k = find_line_key(name, strlen(name));

		if (k < 0)
			return k;
		v[k] = value_from_json(value);
	}
	return 0;
}

static void copy_value_text(char *out, size_t size, const struct net_value *v)
{
	size_t n = v->len < size ? v->len : size - 1;

	if (n)
		memcpy(out, v->text, n);
	out[n] = '\0';
}

/* The first of two members that the line has; the second when it has neither. */
static const struct net_value *first_net_value(const struct net_value *a, const struct net_value *b)
{
	return a->type ? a : b;
}

static bool value_is_star(const struct net_value *v)
{
	return v->len == 1 && v->text[0] == '*';
}

/* Checks types and lengths, and that the event is known. */
static int check_line_members(const struct net_value v[KEY_COUNT + 1], int *ret_ev, int *ret_decision)
{
	for (int k = 0; k < KEY_COUNT; k++) {
		if (v[k].type && !member_is_valid((enum line_key)k, &v[k]))
			return -EBADMSG;
	}
	*ret_ev =
		v[KEY_COUNT].type == 's' ? find_value_name(ev_names, NET_EV_COUNT, &v[KEY_COUNT]) : -EBADMSG;
	*ret_decision = v[K_DECISION].type
				? find_value_name(decision_names, NET_DECISION_COUNT, &v[K_DECISION])
				: NET_NO_DECISION;
	return *ret_ev < 0 || *ret_decision < 0 ? -EBADMSG : 0;
}

/* Sets every member: the struct is as large as a line and is not cleared first. */
static void fill_net_line(struct net_line *l, const struct net_value v[KEY_COUNT + 1])
{
	const struct net_value *name = v[K_NAME].len ? &v[K_NAME] : first_net_value(&v[K_HOST], &v[K_ADDR]);

	copy_value_text(l->name, sizeof(l->name), name);
	copy_value_text(l->secret, sizeof(l->secret), &v[K_SECRET]);
	copy_value_text(
		l->what, sizeof(l->what),
		first_net_value(&v[K_METHOD],
				first_net_value(&v[K_QTYPE], first_net_value(&v[K_PROTO], &v[K_KIND]))));
	copy_value_text(l->path, sizeof(l->path), &v[K_PATH]);
	copy_value_text(l->why, sizeof(l->why), first_net_value(&v[K_WHY], &v[K_TEXT]));
	l->port = (uint16_t)v[K_PORT].n;
	l->up = (uint64_t)v[K_UP].n;
	l->down = (uint64_t)v[K_DOWN].n;
	l->count = v[K_COUNT].type ? (uint64_t)v[K_COUNT].n : 1;
	l->first = v[K_FIRST].n != 0;
	/* A name "*" that was looked up is no sum. */
	l->is_sum = v[K_COUNT].type && value_is_star(v[K_KIND].type ? &v[K_KIND] : name);
}

static void add_line_members(struct buf *out, const struct net_value v[KEY_COUNT + 1])
{
	struct json j = JSON_INIT(out);

	for (int k = 0; k < KEY_COUNT; k++) {
		if (v[k].type == 's')
			json_strn(&j, line_keys[k].name, v[k].text, v[k].len);
		else if (v[k].type == 'b')
			json_bool(&j, line_keys[k].name, v[k].n);
		else if (v[k].type)
			json_i64(&j, line_keys[k].name, v[k].n);
	}
}

static int finish_line(const struct net_value v[KEY_COUNT + 1], struct net_line *ret, struct buf *fields)
{
	int ev, decision, r = check_line_members(v, &ev, &decision);

	if (r < 0)
		return r;
	add_line_members(fields, v);
	if (buf_error(fields))
		return buf_error(fields);
	ret->ev = (enum net_ev)ev;
	ret->decision = (enum net_decision)decision;
	fill_net_line(ret, v);
	return 0;
}

static void drop_json(json_t **o)
{
	json_decref(*o);
}

int net_line_parse_any(const char *line, size_t len, struct net_line *ret, struct buf *fields)
{
	CLEANUP(drop_json) json_t *o = NULL;
	struct net_value v[KEY_COUNT + 1] = { 0 };
	int r;

	if (len > NET_LINE_MAX)
		return -EBADMSG;
	/* A NUL within a text is refused: C code would read a shorter text. */
	o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (!o || !json_is_object(o))
		return -EBADMSG;
	r = take_json_members(o, v);
	return r < 0 ? r : finish_line(v, ret, fields);
}

int net_line_parse(const char *line, size_t len, struct net_line *ret, struct buf *fields)
{
	struct net_value v[KEY_COUNT + 1] = { 0 };

	if (len <= NET_LINE_MAX && scan_plain_line(line, len, v))
		return finish_line(v, ret, fields);
	return net_line_parse_any(line, len, ret, fields);
}
