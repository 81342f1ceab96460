/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds hostile journal lines into log events within a budget (net_fold.h). Pure; drops nothing without
 * counting it.
 */
#include "netd/log/net_fold.h"

#include "base/bucket.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/top.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

/* A row of lines that were only counted (net_fold.F2). */
struct folded_row {
	enum net_ev ev;
	enum net_decision decision;
	uint16_t port;
	char name[NET_NAME_MAX + 1];
	char secret[NET_NAME_MAX + 1];
	char what[sizeof((struct net_line){ 0 }.what)];
	char path[sizeof((struct net_line){ 0 }.path)];
	uint64_t count, up, down;
};

/* net_fold.F1: lines of one class share a bucket and a table of counts. */
enum line_class { SORT_PLAIN, SORT_DENIED, SORT_ALERT, SORT_SECRET, SORT_COUNT };

#define SORT_KEPT SORT_COUNT /* net_fold.F0: it has no counts */

struct class_table {
	struct bucket bucket;
	struct folded_row *counted;
	size_t n_counted;
	uint32_t hash[NET_KEYS]; /* hash of each row */
	struct folded_row others;
	struct top top; /* of the others */
};

/* net_fold.F0, for one program: neither takes from the budget of the other. */
struct kept_budget {
	struct bucket pace;
	uint64_t first_bytes, other_bytes;
};

struct net_fold {
	struct net_fold_out out;
	struct class_table table[SORT_COUNT];
	struct kept_budget kept[NET_FROM_COUNT];
	bool is_last;
	uint64_t due; /* when counts are written; 0: there are none */
	uint64_t garbled[NET_FROM_COUNT];
	bool skipping[NET_FROM_COUNT];	/* within a line that is too long */
	uint64_t again[NET_FROM_COUNT]; /* net_fold.F6 */
	struct netd_report *report;
	struct buf event;
};

static const char *const from_names[] = { [NET_FROM_EGRESS] = "egress", [NET_FROM_DIAL] = "dial" };

struct net_fold *net_fold_new(uint64_t now, const struct net_fold_out *out, struct netd_report *report)
{
	struct net_fold *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->out = *out;
	f->report = report;
	for (int i = 0; i < NET_FROM_COUNT; i++)
		f->kept[i].pace = bucket_new(NET_BURST_KEPT, NET_RATE_KEPT, now);
	f->table[SORT_PLAIN].bucket = bucket_new(NET_BURST, NET_RATE, now);
	f->table[SORT_DENIED].bucket = bucket_new(NET_BURST_DENIED, NET_RATE_DENIED, now);
	f->table[SORT_SECRET].bucket = bucket_new(NET_BURST, NET_RATE, now);
	f->table[SORT_ALERT].bucket = bucket_new(NET_BURST_ALERT, NET_RATE_ALERT, now);
	return f;
}

void net_fold_free(struct net_fold *f)
{
	if (!f)
		return;
	for (int i = 0; i < SORT_COUNT; i++)
		free(f->table[i].counted);
	buf_release(&f->event);
	free(f);
}

void net_fold_again(struct net_fold *f, enum net_from from, uint64_t logged)
{
	f->again[from] = logged;
}

/* The table is in memory that the guard can read but only this process writes; an earlier one may have died while it did. */
static struct netd_counts *find_name_counts(struct netd_report *t, const char *name)
{
	struct netd_report_row *row;

	for (size_t i = 0; i < t->n_names; i++) {
		if (str_eq(t->names[i].name, name))
			return &t->names[i].n;
	}
	if (!*name || t->n_names >= NETD_REPORT_NAMES)
		return &t->rest;
	row = &t->names[t->n_names++];
	snprintf(row->name, sizeof(row->name), "%s", name);
	return &row->n;
}

/* Sums may not use up the budget of lines with `first`. */
static uint64_t *kept_bytes(struct kept_budget *k, const struct net_line *l)
{
	return l->first ? &k->first_bytes : &k->other_bytes;
}

static enum line_class classify_line(struct kept_budget *k, const struct net_line *l)
{
	if ((l->first || l->is_sum || l->ev == NET_EV_POLICY || l->ev == NET_EV_PROXY) &&
	    *kept_bytes(k, l) < NET_KEPT_BYTES)
		return SORT_KEPT;
	if (l->ev == NET_EV_ALERT)
		return SORT_ALERT;
	if (l->ev == NET_EV_SECRET || l->ev == NET_EV_ISSUED)
		return SORT_SECRET;
	return l->decision == NET_DENIED || l->ev == NET_EV_REFUSED ? SORT_DENIED : SORT_PLAIN;
}

/* net_fold.F3. Both programs may raise alerts, and both may have had a line that was too long. */
static bool may_write_event(enum net_from from, enum net_ev ev)
{
	const bool is_dials = ev == NET_EV_DIAL || ev == NET_EV_PROXY;

	return ev == NET_EV_ALERT || ev == NET_EV_GARBLED || is_dials == (from == NET_FROM_DIAL);
}

/* The outcome of a lookup that has a line already (egress/wire/journal.h). */
static bool is_lookup_outcome(const struct net_line *l)
{
	return l->ev == NET_EV_DNS && l->first && l->decision != NET_ALLOWED;
}

/* Lines claim what they like: a sum stops at its maximum, and is not small again. */
static void add_up(uint64_t *sum, uint64_t n)
{
	*sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n;
}

static void count_name(struct netd_counts *n, const struct net_line *l)
{
	add_up(&n->queries, l->ev == NET_EV_DNS && !is_lookup_outcome(l) ? l->count : 0);
	add_up(&n->connections, l->ev == NET_EV_OPEN && l->decision == NET_ALLOWED ? l->count : 0);
	add_up(&n->requests, l->ev == NET_EV_REQUEST ? l->count : 0);
	add_up(&n->denied, l->decision == NET_DENIED ? l->count : 0);
	if (l->ev == NET_EV_CLOSE) {
		add_up(&n->up, l->up);
		add_up(&n->down, l->down);
	}
}

/* `end`: the offset after the line, which an earlier process may have counted. */
static void count_for_report(struct netd_report *t, enum net_from from, uint64_t end,
			     const struct net_line *l)
{
	if (end <= t->seen[from])
		return;
	t->seen[from] = end;
	add_up(&t->refused, l->ev == NET_EV_REFUSED ? l->count : 0);
	add_up(&t->alerts, l->ev == NET_EV_ALERT ? l->count : 0);
	/* egress has already reported what dial repeats; refused packets have no name. */
	if (l->ev == NET_EV_DIAL || l->ev == NET_EV_REFUSED || l->ev == NET_EV_POLICY ||
	    l->ev == NET_EV_RESPONSE || l->ev == NET_EV_PROXY || l->ev == NET_EV_SECRET ||
	    l->ev == NET_EV_ISSUED)
		return;
	count_name(&t->total, l);
	count_name(find_name_counts(t, l->name), l);
}

/* net_fold.F2: the path of a denial, or of a request that only reads, is ignored. */
static const char *folded_path(const struct net_line *l)
{
	return l->decision == NET_DENIED || str_eq(l->what, "GET") || str_eq(l->what, "HEAD") ? "" : l->path;
}

static uint32_t hash_row_text(uint32_t h, const char *s)
{
	do
		h = (h ^ (unsigned char)*s) * 16777619u;
	while (*s++);
	return h;
}

/* To compare few rows only. */
static uint32_t row_hash(const struct net_line *l)
{
	uint32_t h = ((uint32_t)l->ev << 24) ^ ((uint32_t)l->decision << 20) ^ l->port ^ 2166136261u;

	return hash_row_text(hash_row_text(hash_row_text(hash_row_text(h, l->name), l->secret), l->what),
			     folded_path(l));
}

static bool is_row_of(const struct folded_row *c, const struct net_line *l)
{
	return c->ev == l->ev && c->port == l->port && c->decision == l->decision &&
	       str_eq(c->name, l->name) && str_eq(c->secret, l->secret) && str_eq(c->what, l->what) &&
	       str_eq(c->path, folded_path(l));
}

static struct folded_row *find_folded_row(struct class_table *f, const struct net_line *l)
{
	uint32_t hash = row_hash(l);
	struct folded_row *c;

	for (size_t i = 0; i < f->n_counted; i++) {
		if (f->hash[i] == hash && is_row_of(&f->counted[i], l))
			return &f->counted[i];
	}
	if (VEC_DOUBLE(f->counted, f->n_counted, NET_KEYS) < 0)
		return &f->others;
	f->hash[f->n_counted] = hash;
	c = &f->counted[f->n_counted++];
	*c = (struct folded_row){ .ev = l->ev, .decision = l->decision, .port = l->port };
	memcpy(c->name, l->name, sizeof(c->name));
	memcpy(c->secret, l->secret, sizeof(c->secret));
	memcpy(c->what, l->what, sizeof(c->what));
	snprintf(c->path, sizeof(c->path), "%s", folded_path(l));
	return c;
}

/* "open a.test:443", "request DELETE a.test:443/x" */
static void add_to_top(struct top *t, const struct net_line *l)
{
	autobuf struct buf text = BUF_INIT;

	buf_addf(&text, "%s %s%s%s", net_ev_name(l->ev), l->what, *l->what ? " " : "", l->name);
	if (l->port)
		buf_addf(&text, ":%u", l->port);
	buf_adds(&text, folded_path(l));
	top_add(t, buf_cstr(&text), text.len, l->count);
}

static void set_counts_due(struct net_fold *f, uint64_t now)
{
	if (!f->due)
		f->due = now + NET_FOLDED_NS;
}

static void count_line(struct net_fold *f, enum line_class class, const struct net_line *l, uint64_t now)
{
	struct class_table *t = &f->table[class];
	struct folded_row *c = find_folded_row(t, l);

	if (c == &t->others)
		add_to_top(&t->top, l);
	add_up(&c->count, l->count);
	add_up(&c->up, l->up);
	add_up(&c->down, l->down);
	set_counts_due(f, now);
}

/* A line of a journal: whose it is, and the offset after it. */
struct line_at {
	enum net_from from;
	uint64_t end;
};

static const struct line_at no_line = { NET_FROM_COUNT, 0 };

static int write_event(struct net_fold *f, struct line_at at)
{
	return buf_error(&f->event) ? -ENOMEM
				    : f->out.event(f->out.ctx, at.from, at.end, f->event.data, f->event.len);
}

/* net_fold.F5: its row, which counts nothing yet, records that it was written. 0: it was not the first. */
static int write_first_use(struct net_fold *f, struct line_at at, const struct net_line *l, uint64_t now)
{
	struct class_table *t = &f->table[SORT_SECRET];
	const size_t before = t->n_counted;
	int r;

	if (l->ev != NET_EV_SECRET && l->ev != NET_EV_ISSUED)
		return 0;
	(void)find_folded_row(t, l);
	if (t->n_counted == before)
		return 0;
	r = write_event(f, at);
	if (r < 0) {
		t->n_counted = before;
		return r;
	}
	set_counts_due(f, now);
	return 1;
}

/* Writes an event of its own, or counts the line. */
static int write_or_count(struct net_fold *f, enum line_class class, struct line_at at,
			  const struct net_line *l, uint64_t now)
{
	int r;

	if (bucket_take(&f->table[class].bucket, now))
		return write_event(f, at);
	r = write_first_use(f, at, l, now);
	if (r == 0)
		count_line(f, class, l, now);
	return r < 0 ? r : 0;
}

/* 1: the line comes too fast (net_fold.F0). */
static int write_kept(struct net_fold *f, struct line_at at, const struct net_line *l, size_t len, bool last,
		      uint64_t now)
{
	struct kept_budget *k = &f->kept[at.from];

	if (!bucket_take(&k->pace, now) && !last && !f->is_last)
		return 1;
	*kept_bytes(k, l) += len;
	return write_event(f, at);
}

/* The terminal shows these lines. */
static bool is_denial(const struct net_line *l)
{
	return l->decision == NET_DENIED || l->ev == NET_EV_ALERT ||
	       (l->decision == NET_ERROR && l->ev == NET_EV_DNS);
}

/* 1: the line comes too fast (net_fold.F0) and is not taken. */
static int take_journal_line(struct net_fold *f, struct line_at at, const char *line, size_t len, bool last,
			     uint64_t now)
{
	const bool again = at.end <= f->again[at.from];
	struct net_line l;
	enum line_class class;
	int r;

	buf_clear(&f->event);
	r = net_line_parse(line, len, &l, &f->event);
	if (r < 0 || !may_write_event(at.from, l.ev)) {
		f->garbled[at.from]++;
		set_counts_due(f, now);
		return 0;
	}
	class = classify_line(&f->kept[at.from], &l);
	r = 0;
	if (!again)
		r = class == SORT_KEPT ? write_kept(f, at, &l, len, last, now)
				       : write_or_count(f, class, at, &l, now);
	else if (class != SORT_KEPT)
		count_line(f, class, &l, now);
	if (r != 0)
		return r;
	count_for_report(f->report, at.from, at.end, &l);
	if (!again && is_denial(&l) && f->out.denied)
		f->out.denied(f->out.ctx, &l);
	return 0;
}

void net_fold_last(struct net_fold *f)
{
	f->is_last = true;
}

/* Handles the bytes after the last newline; 0: leave them for later. */
static size_t take_incomplete_line(struct net_fold *f, enum net_from from, size_t len, bool last,
				   uint64_t now)
{
	if (len == 0 || (!last && len <= NET_LINE_MAX && !f->skipping[from]))
		return 0;
	/* A line that was never ended is malformed; one that is too long is counted once. */
	if (!f->skipping[from]) {
		f->garbled[from]++;
		set_counts_due(f, now);
	}
	f->skipping[from] = !last;
	return len;
}

int net_fold_feed(struct net_fold *f, const struct net_chunk *c, uint64_t now, size_t *ret_taken)
{
	size_t at = 0;
	int r = 0;

	while (at < c->len && r == 0) {
		const char *line = c->data + at, *nl;

		if (!*line) {
			at++;
			continue;
		}
		nl = memchr(line, '\n', c->len - at);
		if (!nl) {
			at += take_incomplete_line(f, c->from, c->len - at, c->last, now);
			break;
		}
		if (f->skipping[c->from])
			f->skipping[c->from] = false;
		else
			r = take_journal_line(
				f, (struct line_at){ c->from, c->off + (size_t)(nl - c->data) + 1 }, line,
				(size_t)(nl - line), c->last, now);
		if (r == 0)
			at += (size_t)(nl - line) + 1;
	}
	*ret_taken = at;
	return r < 0 ? r : 0;
}

/* The member that held `what` (net_line.h) in a line of this event. */
static enum net_member member_of_what(enum net_ev ev, const char *what)
{
	const enum net_member m = ev == NET_EV_DNS	 ? NET_M_QTYPE
				  : ev == NET_EV_REFUSED ? NET_M_PROTO
				  : ev == NET_EV_ALERT	 ? NET_M_KIND
							 : NET_M_METHOD;

	/* A line may have had it as a method in any event, and a method may be longer. */
	return net_member_takes_text(m, what, strlen(what)) ? m : NET_M_METHOD;
}

static void add_text(struct net_fold *f, enum net_member m, const char *text)
{
	netd_event_text(&f->event, m, text, strlen(text));
}

/* A sum of what lines claim may be larger than a member may be. */
static void add_count(struct net_fold *f, enum net_member m, uint64_t n)
{
	netd_event_number(&f->event, m, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static void add_row_members(struct net_fold *f, const struct folded_row *c)
{
	add_text(f, NET_M_EV, net_ev_name(c->ev));
	add_text(f, NET_M_NAME, c->name);
	add_count(f, NET_M_PORT, c->port);
	add_text(f, NET_M_DECISION, net_decision_name(c->decision));
	if (*c->secret)
		add_text(f, NET_M_SECRET, c->secret);
	if (*c->what)
		add_text(f, member_of_what(c->ev, c->what), c->what);
	if (*c->path)
		add_text(f, NET_M_PATH, c->path);
}

static int add_others_members(struct net_fold *f, enum line_class class)
{
	autobuf struct buf top = BUF_INIT;

	netd_event_bool(&f->event, NET_M_OTHERS, true);
	if (class == SORT_ALERT)
		add_text(f, NET_M_EV, net_ev_name(NET_EV_ALERT));
	else if (class == SORT_SECRET)
		add_text(f, NET_M_EV, net_ev_name(NET_EV_SECRET));
	else if (class == SORT_DENIED)
		add_text(f, NET_M_DECISION, net_decision_name(NET_DENIED));
	top_format(&f->table[class].top, &top);
	if (top.len)
		add_text(f, NET_M_TOP, top.data);
	return buf_error(&top);
}

static int write_folded_row(struct net_fold *f, enum line_class class, const struct folded_row *c,
			    bool others)
{
	int r = 0;

	buf_clear(&f->event);
	netd_event_begin(&f->event, NET_EV_FOLDED);
	if (others)
		r = add_others_members(f, class);
	else
		add_row_members(f, c);
	add_count(f, NET_M_COUNT, c->count);
	add_count(f, NET_M_UP, c->up);
	add_count(f, NET_M_DOWN, c->down);
	return r < 0 ? r : write_event(f, no_line);
}

static int write_garbled_count(struct net_fold *f, enum net_from from)
{
	buf_clear(&f->event);
	netd_event_begin(&f->event, NET_EV_GARBLED);
	add_text(f, NET_M_FROM, from_names[from]);
	add_count(f, NET_M_COUNT, f->garbled[from]);
	return write_event(f, no_line);
}

static int write_class_counts(struct net_fold *f, enum line_class class)
{
	struct class_table *t = &f->table[class];
	int r = 0;

	while (t->n_counted && r == 0) {
		const struct folded_row *c = &t->counted[t->n_counted - 1];

		r = c->count ? write_folded_row(f, class, c, false) : 0;
		if (r == 0)
			t->n_counted--;
	}
	if (r == 0 && t->others.count) {
		r = write_folded_row(f, class, &t->others, true);
		if (r == 0) {
			t->others = (struct folded_row){ 0 };
			t->top = (struct top){ 0 };
		}
	}
	return r;
}

int net_fold_tick(struct net_fold *f, uint64_t now, bool all)
{
	int r = 0;

	if (!f->due || (now < f->due && !all))
		return 0;
	for (int i = 0; i < SORT_COUNT && r == 0; i++)
		r = write_class_counts(f, (enum line_class)i);
	for (int i = 0; i < NET_FROM_COUNT && r == 0; i++) {
		if (!f->garbled[i])
			continue;
		r = write_garbled_count(f, (enum net_from)i);
		if (r == 0) {
			f->report->garbled += f->garbled[i];
			f->garbled[i] = 0;
		}
	}
	if (r == 0)
		f->due = 0;
	return r;
}

bool net_fold_has_counts(const struct net_fold *f)
{
	return f->due != 0;
}
