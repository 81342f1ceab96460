/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses journal lines (net_line.h): a fast scanner for the form that our programs write, and jansson for
 * anything else. Pure. The bytes are hostile: an unknown event or member is refused.
 */
#include "netd/log/net_line.h"

#include "base/str.h"

#include <assert.h>
#include <jansson.h>

static const char *const decision_names[] = {
	[NET_NO_DECISION] = "",
	[NET_ALLOWED] = "allow",
	[NET_DENIED] = "deny",
	[NET_ERROR] = "error",
};
static_assert(ARRAY_SIZE(decision_names) == NET_DECISION_COUNT, "a name for each");

const char *net_decision_name(enum net_decision d)
{
	return decision_names[d];
}

/* The place of `ev` beside the members of a line. */
#define EV_PLACE NET_M_LINES
#define PLACES (NET_M_LINES + 1)

/* A member's value as in the line, or as jansson read it. */
struct net_value {
	char type; /* s: text; i: number; b: boolean; 0: absent */
	const char *text;
	size_t len;
	int64_t n; /* of b: 0 or 1 */
};

static bool value_is_named(const struct net_value *v, const char *name)
{
	return strlen(name) == v->len && memcmp(name, v->text, v->len) == 0;
}

static int find_ev(const struct net_value *v)
{
	for (int i = 0; v->type == 's' && i < NET_EV_LINES; i++) {
		if (value_is_named(v, net_ev_name((enum net_ev)i)))
			return i;
	}
	return -EBADMSG;
}

static int find_decision(const struct net_value *v)
{
	if (!v->type)
		return NET_NO_DECISION;
	for (int i = 0; i < NET_DECISION_COUNT; i++) {
		if (value_is_named(v, decision_names[i]))
			return i;
	}
	return -EBADMSG;
}

static bool member_is_valid(enum net_member m, const struct net_value *v)
{
	return v->type == 's'	? net_member_takes_text(m, v->text, v->len)
	       : v->type == 'b' ? net_member_takes_bool(m)
				: v->type == 'i' && net_member_takes_number(m, v->n);
}

static int find_place(const char *name, size_t len)
{
	return len == 2 && memcmp(name, "ev", 2) == 0 ? EV_PLACE : net_member_find(name, len);
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
static bool scan_plain_line(const char *line, size_t len, struct net_value v[PLACES])
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
		k = find_place(p + 1, (size_t)(close - p - 1));
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

static int take_json_members(json_t *o, struct net_value v[PLACES])
{
	const char *name;
	json_t *value;

	json_object_foreach(o, name, value)
	{
		int k = find_place(name, strlen(name));

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
static int check_line_members(const struct net_value v[PLACES], int *ret_ev, int *ret_decision)
{
	for (int m = 0; m < NET_M_LINES; m++) {
		if (v[m].type && !member_is_valid((enum net_member)m, &v[m]))
			return -EBADMSG;
	}
	*ret_ev = find_ev(&v[EV_PLACE]);
	*ret_decision = find_decision(&v[NET_M_DECISION]);
	return *ret_ev < 0 || *ret_decision < 0 ? -EBADMSG : 0;
}

/* Sets every member: the struct is as large as a line and is not cleared first. */
static void fill_net_line(struct net_line *l, const struct net_value v[PLACES])
{
	const struct net_value *name =
		v[NET_M_NAME].len ? &v[NET_M_NAME] : first_net_value(&v[NET_M_HOST], &v[NET_M_ADDR]);

	copy_value_text(l->name, sizeof(l->name), name);
	copy_value_text(l->secret, sizeof(l->secret), &v[NET_M_SECRET]);
	copy_value_text(l->what, sizeof(l->what),
			first_net_value(&v[NET_M_METHOD],
					first_net_value(&v[NET_M_QTYPE],
							first_net_value(&v[NET_M_PROTO], &v[NET_M_KIND]))));
	copy_value_text(l->path, sizeof(l->path), &v[NET_M_PATH]);
	copy_value_text(l->why, sizeof(l->why), first_net_value(&v[NET_M_WHY], &v[NET_M_TEXT]));
	l->port = (uint16_t)v[NET_M_PORT].n;
	l->up = (uint64_t)v[NET_M_UP].n;
	l->down = (uint64_t)v[NET_M_DOWN].n;
	l->count = v[NET_M_COUNT].type ? (uint64_t)v[NET_M_COUNT].n : 1;
	l->first = v[NET_M_FIRST].n != 0;
	/* A name "*" that was looked up is no sum. */
	l->is_sum = v[NET_M_COUNT].type && value_is_star(v[NET_M_KIND].type ? &v[NET_M_KIND] : name);
}

static void pack_line(struct buf *out, enum net_ev ev, const struct net_value v[PLACES])
{
	netd_event_begin(out, ev);
	for (int m = 0; m < NET_M_LINES; m++) {
		if (v[m].type == 's')
			netd_event_text(out, (enum net_member)m, v[m].text, v[m].len);
		else if (v[m].type == 'b')
			netd_event_bool(out, (enum net_member)m, v[m].n);
		else if (v[m].type)
			netd_event_number(out, (enum net_member)m, v[m].n);
	}
}

static int finish_line(const struct net_value v[PLACES], struct net_line *ret, struct buf *event)
{
	int ev, decision, r = check_line_members(v, &ev, &decision);

	if (r < 0)
		return r;
	pack_line(event, (enum net_ev)ev, v);
	if (buf_error(event))
		return buf_error(event);
	ret->ev = (enum net_ev)ev;
	ret->decision = (enum net_decision)decision;
	fill_net_line(ret, v);
	return 0;
}

static void drop_json(json_t **o)
{
	json_decref(*o);
}

int net_line_parse_any(const char *line, size_t len, struct net_line *ret, struct buf *event)
{
	CLEANUP(drop_json) json_t *o = NULL;
	struct net_value v[PLACES] = { 0 };
	int r;

	if (len > NET_LINE_MAX)
		return -EBADMSG;
	/* A NUL within a text is refused: C code would read a shorter text. */
	o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (!o || !json_is_object(o))
		return -EBADMSG;
	r = take_json_members(o, v);
	return r < 0 ? r : finish_line(v, ret, event);
}

int net_line_parse(const char *line, size_t len, struct net_line *ret, struct buf *event)
{
	struct net_value v[PLACES] = { 0 };

	if (len <= NET_LINE_MAX && scan_plain_line(line, len, v))
		return finish_line(v, ret, event);
	return net_line_parse_any(line, len, ret, event);
}
