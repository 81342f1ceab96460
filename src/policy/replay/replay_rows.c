/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums up what changes: one row for each kind, target, method, old and new rule (replay.h). Pure. The number
 * of rows is capped, since a sandbox chose the names.
 */
#include "policy/replay/replay_int.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_FIRST 256

static const char *const kind_names[] = {
	[REPLAY_LOOKUP] = "lookup",   [REPLAY_CONNECT] = "connection", [REPLAY_ADDRESS] = "address",
	[REPLAY_REQUEST] = "request", [REPLAY_SECRET] = "secret",      [REPLAY_TOOL] = "tool",
	[REPLAY_APPLY] = "apply"
};
static_assert(ARRAY_SIZE(kind_names) == REPLAY_KIND_COUNT, "a name for each");

static const char *const now_names[] = {
	[REPLAY_DENY] = "deny", [REPLAY_ASK] = "ask", [REPLAY_ALLOW] = "allow", [REPLAY_UNKNOWN] = "unknown"
};
static_assert(ARRAY_SIZE(now_names) == REPLAY_NOW_COUNT, "a name for each");

const char *replay_kind_name(enum replay_kind k)
{
	return kind_names[k];
}

const char *replay_now_name(enum replay_now n)
{
	return now_names[n];
}

int replay_new(struct replay **ret, const struct policy *p, const struct acts *acts, struct err *e)
{
	struct replay *r = calloc(1, sizeof(*r));

	if (!r)
		return err_set(e, -ENOMEM, "out of memory");
	r->p = p;
	r->acts = acts;
	if (acts)
		acts_digest(acts, r->list);
	*ret = r;
	return 0;
}

static void row_release(struct replay_row *row)
{
	free(row->key);
	free(row->host);
	free(row->method);
	free(row->what);
	free(row->was_rule);
	free(row->rule);
	free(row->why);
	for (size_t i = 0; i < row->n_paths; i++)
		free(row->paths[i]);
}

void replay_free(struct replay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_rows; i++)
		row_release(&r->rows[i]);
	free(r->rows);
	free(r->index);
	buf_release(&r->key);
	buf_release(&r->path);
	buf_release(&r->slashed);
	free(r);
}

static const char *text_or_empty(const char *s)
{
	return s ? s : "";
}

static uint64_t row_hash(const struct buf *b)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < b->len; i++)
		h = (h ^ (unsigned char)b->data[i]) * 0x100000001b3ULL;
	return h ^ (h >> 32);
}

/* The index slot of the key's row, or the free one where it belongs. There is always a free slot. */
static uint32_t *row_slot(const struct replay *r, const struct buf *key)
{
	size_t i = (size_t)row_hash(key) & (r->n_index - 1);

	while (r->index[i] && !str_eq(r->rows[r->index[i] - 1].key, buf_cstr(key)))
		i = (i + 1) & (r->n_index - 1);
	return &r->index[i];
}

/* Makes room for one more row; at most half of the slots are used. Not by base/vec.h: rows and index have one capacity. */
static int grow_rows(struct replay *r)
{
	size_t n = r->n_index ? r->n_index * 2 : INDEX_FIRST;
	struct replay_row *rows;
	uint32_t *index;

	if (r->n_index && r->n_rows < r->n_index / 2)
		return 0;
	rows = realloc(r->rows, n / 2 * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	r->rows = rows;
	index = calloc(n, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(r->index);
	r->index = index;
	r->n_index = n;
	for (size_t i = 0; i < r->n_rows; i++) {
		struct buf key = { .data = r->rows[i].key, .len = strlen(r->rows[i].key) };

		*row_slot(r, &key) = (uint32_t)i + 1;
	}
	return 0;
}

/* Copies everything that a new row needs. */
static int fill_row(struct replay_row *row, const struct replay_seen *s, const struct buf *key,
		    const char *rule, const char *why)
{
	row->key = strdup(buf_cstr(key));
	row->host = strdup(text_or_empty(s->host));
	row->method = strdup(text_or_empty(s->method));
	row->what = strdup(text_or_empty(s->what));
	row->was_rule = strdup(text_or_empty(s->rule));
	row->rule = strdup(rule);
	row->why = strdup(why);
	row->kind = s->kind;
	row->was = s->was;
	row->port = s->port;
	return row->key && row->host && row->method && row->what && row->was_rule && row->rule && row->why
		       ? 0
		       : -ENOMEM;
}

/* Stores a few different paths of a row as examples. */
static int store_example_path(struct replay_row *row, const struct replay_seen *s)
{
	const char *path = s->kind == REPLAY_ADDRESS ? text_or_empty(s->addr) : text_or_empty(s->path);

	for (size_t i = 0; i < row->n_paths; i++) {
		if (str_eq(row->paths[i], path))
			return 0;
	}
	if (!*path)
		return 0;
	if (row->n_paths == REPLAY_EXAMPLES) {
		row->more_paths = true;
		return 0;
	}
	row->paths[row->n_paths] = strdup(path);
	return row->paths[row->n_paths++] ? 0 : -ENOMEM;
}

static int add_replay_row(struct replay *r, uint32_t *at, const struct replay_seen *s, enum replay_now now,
			  const char *rule, const char *why)
{
	struct replay_row row = { .now = now };

	if (fill_row(&row, s, &r->key, rule, why) < 0) {
		row_release(&row);
		return -ENOMEM;
	}
	r->rows[r->n_rows] = row;
	*at = (uint32_t)++r->n_rows;
	return 0;
}

/* Adds the event to the row of its key; makes the row if it is new and there is room. */
static int count_in_row(struct replay *r, const struct replay_seen *s, enum replay_now now, const char *rule,
			const char *why)
{
	struct replay_row *row;
	uint32_t *at;
	int e = r->n_rows < REPLAY_ROWS_MAX ? grow_rows(r) : 0;

	buf_clear(&r->key);
	buf_addf(&r->key, "%d %d %d %s %u %s %s\n%s\n%s\n%s", (int)s->kind, (int)s->was, (int)now,
		 text_or_empty(s->host), s->port, text_or_empty(s->method), text_or_empty(s->what),
		 text_or_empty(s->rule), rule, now == REPLAY_UNKNOWN ? why : "");
	if (e < 0 || buf_error(&r->key))
		return -ENOMEM;
	at = row_slot(r, &r->key);
	if (!*at && r->n_rows >= REPLAY_ROWS_MAX) {
		r->sums.others += s->count;
		return 0;
	}
	if (!*at)
		e = add_replay_row(r, at, s, now, rule, why);
	if (e < 0)
		return e;
	row = &r->rows[*at - 1];
	row->count += s->count;
	return store_example_path(row, s);
}

static bool is_change(enum policy_action was, enum replay_now now)
{
	static const enum replay_now of[] = {
		[POLICY_DENY] = REPLAY_DENY, [POLICY_ASK] = REPLAY_ASK, [POLICY_ALLOW] = REPLAY_ALLOW
	};

	return of[was] != now;
}

int replay_add(struct replay *r, const struct replay_seen *s)
{
	char rule[POLICY_RULE_TEXT_MAX];
	struct policy_verdict v;
	const char *why = "";
	enum replay_now now = replay_decide(r, s, &v, &why);

	r->sums.decisions += s->count;
	if (!is_change(s->was, now)) {
		r->sums.same += s->count;
		return 0;
	}
	r->sums.to[now] += s->count;
	r->differs[s->kind][s->was] = true;
	if (now == REPLAY_UNKNOWN)
		return count_in_row(r, s, now, "", why);
	return count_in_row(r, s, now, policy_verdict_rule(&v, rule), v.why);
}

void replay_add_again(struct replay *r, const struct replay_seen *s, uint64_t count)
{
	r->again[s->kind][s->was] += count;
}

int replay_settle(struct replay *r)
{
	int e = 0;

	for (int k = 0; e == 0 && k < REPLAY_KIND_COUNT; k++) {
		for (int was = POLICY_DENY; e == 0 && was <= POLICY_ALLOW; was++) {
			const struct replay_seen s = { .kind = (enum replay_kind)k,
						       .was = (enum policy_action)was,
						       .host = "*",
						       .count = r->again[k][was] };

			r->again[k][was] = 0;
			if (!s.count)
				continue;
			if (r->differs[k][was]) {
				e = replay_add(r, &s);
			} else {
				r->sums.decisions += s.count;
				r->sums.same += s.count;
			}
		}
	}
	return e;
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct replay_row *a = pa, *b = pb;

	if (a->now != b->now)
		return a->now < b->now ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->key, b->key);
}

size_t replay_rows(struct replay *r, const struct replay_row **ret)
{
	if (r->n_rows)
		qsort(r->rows, r->n_rows, sizeof(*r->rows), compare_rows);
	/* The index refers to the old positions: rebuild it for later additions. */
	if (r->n_index)
		memset(r->index, 0, r->n_index * sizeof(*r->index));
	for (size_t i = 0; i < r->n_rows; i++) {
		struct buf key = { .data = r->rows[i].key, .len = strlen(r->rows[i].key) };

		*row_slot(r, &key) = (uint32_t)i + 1;
	}
	*ret = r->rows;
	return r->n_rows;
}

struct replay_sums replay_sums(const struct replay *r)
{
	return r->sums;
}
