/* SPDX-License-Identifier: Apache-2.0 */
#include "netd/log/net_fold.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/top.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

struct bucket {
	uint64_t burst, rate; /* lines; lines a second */
	uint64_t left;	      /* ns of credit: a line costs NSEC_PER_SEC / rate */
	uint64_t at;
};

/* What was only counted (F2). */
struct counted {
	enum net_ev ev;
	enum net_decision decision;
	uint16_t port;
	char name[NET_NAME_MAX + 1];
	char secret[NET_NAME_MAX + 1];
	char what[sizeof((struct net_line){ 0 }.what)];
	char path[sizeof((struct net_line){ 0 }.path)];
	uint64_t count, up, down;
};

struct named {
	char name[NET_NAME_MAX + 1];
	uint64_t queries, connections, requests, denied, up, down;
};

/* F1: what shares a bucket and a table of counts. */
enum sort { SORT_PLAIN, SORT_DENIED, SORT_ALERT, SORT_SECRET, SORT_COUNT };

#define SORT_KEPT SORT_COUNT /* F0: it has no counts */

struct table {
	struct bucket bucket;
	struct counted *counted;
	size_t n_counted;
	uint32_t hash[NET_KEYS]; /* of each that is counted */
	struct counted others;
	struct top top; /* of the others */
};

/* F0, of one program: what the one writes takes nothing from the other. */
struct kept {
	struct bucket pace;
	uint64_t first_bytes, other_bytes;
};

struct net_fold {
	struct net_fold_out out;
	struct table table[SORT_COUNT];
	struct kept kept[NET_FROM_COUNT];
	bool is_last;
	uint64_t due; /* when counts are written; 0: nothing was counted */
	uint64_t garbled[NET_FROM_COUNT];
	bool skipping[NET_FROM_COUNT]; /* in the middle of a line that is too long */
	struct named *names;
	size_t n_names;
	struct named rest, total;
	uint64_t refused, alerts, lost_lines;
	struct buf fields;
};

static const char *const from_names[] = { [NET_FROM_EGRESS] = "egress", [NET_FROM_DIAL] = "dial" };

static struct bucket bucket_new(uint64_t burst, uint64_t rate, uint64_t now)
{
	return (struct bucket){ burst, rate, burst * (NSEC_PER_SEC / rate), now };
}

static bool bucket_take(struct bucket *b, uint64_t now)
{
	const uint64_t cost = NSEC_PER_SEC / b->rate, most = b->burst * cost;
	uint64_t gained = now > b->at ? now - b->at : 0;

	b->left = gained > most - b->left ? most : b->left + gained;
	b->at = now > b->at ? now : b->at;
	if (b->left < cost)
		return false;
	b->left -= cost;
	return true;
}

struct net_fold *net_fold_new(uint64_t now, const struct net_fold_out *out)
{
	struct net_fold *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->out = *out;
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
	free(f->names);
	buf_release(&f->fields);
	free(f);
}

static struct named *find_name(struct net_fold *f, const char *name)
{
	for (size_t i = 0; i < f->n_names; i++) {
		if (str_eq(f->names[i].name, name))
			return &f->names[i];
	}
	if (!*name || VEC_DOUBLE(f->names, f->n_names, NET_NAMES) < 0)
		return &f->rest;
	f->names[f->n_names] = (struct named){ 0 };
	snprintf(f->names[f->n_names].name, sizeof(f->names[0].name), "%s", name);
	return &f->names[f->n_names++];
}

/* Sums may not use up what lines that say `first` may have. */
static uint64_t *kept_bytes(struct kept *k, const struct net_line *l)
{
	return l->first ? &k->first_bytes : &k->other_bytes;
}

static enum sort sort_of(struct kept *k, const struct net_line *l)
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

/* F3. Both may warn, and both may have had a line that was too long. */
static bool may_say(enum net_from from, enum net_ev ev)
{
	const bool is_dials = ev == NET_EV_DIAL || ev == NET_EV_PROXY;

	return ev == NET_EV_ALERT || ev == NET_EV_GARBLED || is_dials == (from == NET_FROM_DIAL);
}

/* What became of a lookup that has a line already (egress/wire/journal.h). */
static bool is_outcome(const struct net_line *l)
{
	return l->ev == NET_EV_DNS && l->first && l->decision != NET_ALLOWED;
}

static void tally(struct named *n, const struct net_line *l)
{
	n->queries += l->ev == NET_EV_DNS && !is_outcome(l) ? l->count : 0;
	n->connections += l->ev == NET_EV_OPEN && l->decision == NET_ALLOWED ? l->count : 0;
	n->requests += l->ev == NET_EV_REQUEST ? l->count : 0;
	n->denied += l->decision == NET_DENIED ? l->count : 0;
	if (l->ev == NET_EV_CLOSE) {
		n->up += l->up;
		n->down += l->down;
	}
}

static void count_for_report(struct net_fold *f, const struct net_line *l)
{
	f->refused += l->ev == NET_EV_REFUSED ? l->count : 0;
	f->alerts += l->ev == NET_EV_ALERT ? l->count : 0;
	/* What dial says again, egress has said before; refused packets have no name. */
	if (l->ev == NET_EV_DIAL || l->ev == NET_EV_REFUSED || l->ev == NET_EV_POLICY ||
	    l->ev == NET_EV_RESPONSE || l->ev == NET_EV_PROXY || l->ev == NET_EV_SECRET ||
	    l->ev == NET_EV_ISSUED)
		return;
	tally(&f->total, l);
	tally(find_name(f, l->name), l);
}

/* F2: the path of a denial, or of what only reads, does not count. */
static const char *folded_path(const struct net_line *l)
{
	return l->decision == NET_DENIED || str_eq(l->what, "GET") || str_eq(l->what, "HEAD") ? "" : l->path;
}

static uint32_t hash_text(uint32_t h, const char *s)
{
	do
		h = (h ^ (unsigned char)*s) * 16777619u;
	while (*s++);
	return h;
}

/* To look at few rows only. */
static uint32_t row_hash(const struct net_line *l)
{
	uint32_t h = ((uint32_t)l->ev << 24) ^ ((uint32_t)l->decision << 20) ^ l->port ^ 2166136261u;

	return hash_text(hash_text(hash_text(hash_text(h, l->name), l->secret), l->what), folded_path(l));
}

static bool is_row_of(const struct counted *c, const struct net_line *l)
{
	return c->ev == l->ev && c->port == l->port && c->decision == l->decision &&
	       str_eq(c->name, l->name) && str_eq(c->secret, l->secret) && str_eq(c->what, l->what) &&
	       str_eq(c->path, folded_path(l));
}

static struct counted *find_counted(struct table *f, const struct net_line *l)
{
	uint32_t hash = row_hash(l);
	struct counted *c;

	for (size_t i = 0; i < f->n_counted; i++) {
		if (f->hash[i] == hash && is_row_of(&f->counted[i], l))
			return &f->counted[i];
	}
	if (VEC_DOUBLE(f->counted, f->n_counted, NET_KEYS) < 0)
		return &f->others;
	f->hash[f->n_counted] = hash;
	c = &f->counted[f->n_counted++];
	*c = (struct counted){ .ev = l->ev, .decision = l->decision, .port = l->port };
	memcpy(c->name, l->name, sizeof(c->name));
	memcpy(c->secret, l->secret, sizeof(c->secret));
	memcpy(c->what, l->what, sizeof(c->what));
	snprintf(c->path, sizeof(c->path), "%s", folded_path(l));
	return c;
}

/* "open a.test:443", "request DELETE a.test:443/x" */
static void add_top(struct top *t, const struct net_line *l)
{
	autobuf struct buf text = BUF_INIT;

	buf_addf(&text, "%s %s%s%s", net_ev_name(l->ev), l->what, *l->what ? " " : "", l->name);
	if (l->port)
		buf_addf(&text, ":%u", l->port);
	buf_adds(&text, folded_path(l));
	top_add(t, buf_cstr(&text), text.len, l->count);
}

static void set_due(struct net_fold *f, uint64_t now)
{
	if (!f->due)
		f->due = now + NET_FOLDED_NS;
}

static void count_only(struct net_fold *f, enum sort sort, const struct net_line *l, uint64_t now)
{
	struct table *t = &f->table[sort];
	struct counted *c = find_counted(t, l);

	if (c == &t->others)
		add_top(&t->top, l);
	c->count += l->count;
	c->up += l->up;
	c->down += l->down;
	set_due(f, now);
}

static int write_line(struct net_fold *f, const struct net_line *l)
{
	char type[32];

	if (l->ev == NET_EV_SECRET)
		snprintf(type, sizeof(type), "secret.use");
	else
		snprintf(type, sizeof(type), l->ev == NET_EV_ISSUED ? "secret.%s" : "net.%s",
			 net_ev_name(l->ev));
	return f->out.event(f->out.ctx, type, &f->fields);
}

/* F5: its row, which counts nothing yet, says that it was written. 0: it was not the first. */
static int write_first(struct net_fold *f, const struct net_line *l, uint64_t now)
{
	struct table *t = &f->table[SORT_SECRET];
	const size_t before = t->n_counted;
	int r;

	if (l->ev != NET_EV_SECRET && l->ev != NET_EV_ISSUED)
		return 0;
	(void)find_counted(t, l);
	if (t->n_counted == before)
		return 0;
	r = write_line(f, l);
	if (r < 0) {
		t->n_counted = before;
		return r;
	}
	set_due(f, now);
	return 1;
}

/* An event of its own, or counted. */
static int place_line(struct net_fold *f, enum sort sort, const struct net_line *l, uint64_t now)
{
	int r;

	if (bucket_take(&f->table[sort].bucket, now))
		return write_line(f, l);
	r = write_first(f, l, now);
	if (r == 0)
		count_only(f, sort, l, now);
	return r;
}

/* 1: it comes too fast (F0), and is not taken. */
static int take_line(struct net_fold *f, enum net_from from, const char *line, size_t len, bool last,
		     uint64_t now)
{
	struct kept *k = &f->kept[from];
	struct net_line l;
	enum sort sort;
	int r;

	buf_clear(&f->fields);
	r = net_line_parse(line, len, &l, &f->fields);
	if (r < 0 || !may_say(from, l.ev)) {
		f->garbled[from]++;
		set_due(f, now);
		return 0;
	}
	sort = sort_of(k, &l);
	if (sort != SORT_KEPT) {
		r = place_line(f, sort, &l, now);
	} else if (!bucket_take(&k->pace, now) && !last && !f->is_last) {
		return 1;
	} else {
		*kept_bytes(k, &l) += f->fields.len;
		r = write_line(f, &l);
	}
	if (r < 0)
		return r;
	count_for_report(f, &l);
	if ((l.decision == NET_DENIED || l.ev == NET_EV_ALERT ||
	     (l.decision == NET_ERROR && l.ev == NET_EV_DNS)) &&
	    f->out.denied)
		f->out.denied(f->out.ctx, &l);
	return 0;
}

void net_fold_last(struct net_fold *f)
{
	f->is_last = true;
}

/* The piece that stands behind the last newline: 0 when it is to be left for later. */
static size_t take_rest(struct net_fold *f, enum net_from from, size_t len, bool last, uint64_t now)
{
	if (len == 0 || (!last && len <= NET_LINE_MAX && !f->skipping[from]))
		return 0;
	/* A line that was never ended is none; one that is too long is told once. */
	if (!f->skipping[from]) {
		f->garbled[from]++;
		set_due(f, now);
	}
	f->skipping[from] = !last;
	return len;
}

int net_fold_feed(struct net_fold *f, enum net_from from, const char *data, size_t len, bool last,
		  uint64_t now, size_t *ret_taken)
{
	size_t at = 0;
	int r = 0;

	while (at < len && r == 0) {
		const char *line = data + at, *nl;

		if (!*line) {
			at++;
			continue;
		}
		nl = memchr(line, '\n', len - at);
		if (!nl) {
			at += take_rest(f, from, len - at, last, now);
			break;
		}
		if (f->skipping[from])
			f->skipping[from] = false;
		else
			r = take_line(f, from, line, (size_t)(nl - line), last, now);
		if (r == 0)
			at += (size_t)(nl - line) + 1;
	}
	*ret_taken = at;
	return r < 0 ? r : 0;
}

/* Which member a line of this event had it in: net_line.h, `what`. */
static const char *what_key(enum net_ev ev)
{
	return ev == NET_EV_DNS	      ? "qtype"
	       : ev == NET_EV_REFUSED ? "proto"
	       : ev == NET_EV_ALERT   ? "kind"
				      : "method";
}

static int write_counted(struct net_fold *f, enum sort sort, const struct counted *c, bool others)
{
	autobuf struct buf top = BUF_INIT;
	struct json j = JSON_INIT(&f->fields);

	buf_clear(&f->fields);
	if (!others) {
		json_str(&j, "ev", net_ev_name(c->ev));
		json_str(&j, "name", c->name);
		json_u64(&j, "port", c->port);
		json_str(&j, "decision", net_decision_name(c->decision));
		if (*c->secret)
			json_str(&j, "secret", c->secret);
		if (*c->what)
			json_str(&j, what_key(c->ev), c->what);
		if (*c->path)
			json_str(&j, "path", c->path);
	} else {
		json_bool(&j, "others", true);
		if (sort == SORT_ALERT)
			json_str(&j, "ev", net_ev_name(NET_EV_ALERT));
		else if (sort == SORT_SECRET)
			json_str(&j, "ev", net_ev_name(NET_EV_SECRET));
		else if (sort == SORT_DENIED)
			json_str(&j, "decision", net_decision_name(NET_DENIED));
		top_format(&f->table[sort].top, &top);
		if (top.len)
			json_str(&j, "top", buf_cstr(&top));
	}
	json_u64(&j, "count", c->count);
	json_u64(&j, "up", c->up);
	json_u64(&j, "down", c->down);
	return buf_error(&f->fields) || buf_error(&top) ? -ENOMEM
							: f->out.event(f->out.ctx, "net.folded", &f->fields);
}

static int write_garbled(struct net_fold *f, enum net_from from)
{
	struct json j = JSON_INIT(&f->fields);

	buf_clear(&f->fields);
	json_str(&j, "from", from_names[from]);
	json_u64(&j, "count", f->garbled[from]);
	return buf_error(&f->fields) ? -ENOMEM : f->out.event(f->out.ctx, "net.garbled", &f->fields);
}

static int write_table(struct net_fold *f, enum sort sort)
{
	struct table *t = &f->table[sort];
	int r = 0;

	while (t->n_counted && r == 0) {
		const struct counted *c = &t->counted[t->n_counted - 1];

		r = c->count ? write_counted(f, sort, c, false) : 0;
		if (r == 0)
			t->n_counted--;
	}
	if (r == 0 && t->others.count) {
		r = write_counted(f, sort, &t->others, true);
		if (r == 0) {
			t->others = (struct counted){ 0 };
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
		r = write_table(f, (enum sort)i);
	for (int i = 0; i < NET_FROM_COUNT && r == 0; i++) {
		if (!f->garbled[i])
			continue;
		r = write_garbled(f, (enum net_from)i);
		if (r == 0) {
			f->lost_lines += f->garbled[i];
			f->garbled[i] = 0;
		}
	}
	if (r == 0)
		f->due = 0;
	return r;
}

bool net_fold_waits(const struct net_fold *f)
{
	return f->due != 0;
}

static void add_counts(struct json *j, const struct named *n)
{
	json_u64(j, "queries", n->queries);
	json_u64(j, "connections", n->connections);
	json_u64(j, "requests", n->requests);
	json_u64(j, "denied", n->denied);
	json_u64(j, "up", n->up);
	json_u64(j, "down", n->down);
}

void net_fold_report(const struct net_fold *f, struct json *j)
{
	add_counts(j, &f->total);
	json_u64(j, "refused_packets", f->refused);
	json_u64(j, "alerts", f->alerts);
	json_u64(j, "garbled", f->lost_lines);
	json_arr(j, "names");
	for (size_t i = 0; i < f->n_names; i++) {
		json_obj(j, NULL);
		json_str(j, "name", f->names[i].name);
		add_counts(j, &f->names[i]);
		json_end_obj(j);
	}
	json_end_arr(j);
	if (f->rest.queries || f->rest.connections || f->rest.denied || f->rest.requests) {
		json_obj(j, "other_names");
		add_counts(j, &f->rest);
		json_end_obj(j);
	}
}
