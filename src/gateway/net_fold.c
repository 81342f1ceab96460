/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net_fold.h"

#include "base/clock.h"
#include "base/str.h"

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
	uint64_t count, up, down;
};

struct named {
	char name[NET_NAME_MAX + 1];
	uint64_t queries, connections, requests, denied, up, down;
};

struct net_fold {
	struct net_fold_out out;
	struct bucket plain, denied;
	uint64_t due; /* when counts are written; 0: nothing was counted */
	struct counted *counted;
	size_t n_counted;
	struct counted others;
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
	f->plain = bucket_new(NET_BURST, NET_RATE, now);
	f->denied = bucket_new(NET_BURST_DENIED, NET_RATE_DENIED, now);
	return f;
}

void net_fold_free(struct net_fold *f)
{
	if (!f)
		return;
	free(f->counted);
	free(f->names);
	buf_release(&f->fields);
	free(f);
}

/* Grows by doubling up to `max`; false when there is no more to be had: the caller has a row for the rest. */
static bool grow(void **v, size_t n, size_t max, size_t size)
{
	void *more;

	if (n == max)
		return false;
	if (n && (n & (n - 1)))
		return true;
	more = realloc(*v, (n ? n * 2 : 1) * size);
	if (!more)
		return false;
	*v = more;
	return true;
}

static struct named *find_name(struct net_fold *f, const char *name)
{
	for (size_t i = 0; i < f->n_names; i++) {
		if (str_eq(f->names[i].name, name))
			return &f->names[i];
	}
	if (!*name || !grow((void **)&f->names, f->n_names, NET_NAMES, sizeof(*f->names)))
		return &f->rest;
	f->names[f->n_names] = (struct named){ 0 };
	snprintf(f->names[f->n_names].name, sizeof(f->names[0].name), "%s", name);
	return &f->names[f->n_names++];
}

static bool is_denial(const struct net_line *l)
{
	return l->decision == NET_DENIED || l->ev == NET_EV_ALERT;
}

static void tally(struct named *n, const struct net_line *l)
{
	n->queries += l->ev == NET_EV_DNS ? l->count : 0;
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
	    l->ev == NET_EV_RESPONSE || l->ev == NET_EV_PROXY)
		return;
	tally(&f->total, l);
	tally(find_name(f, l->name), l);
}

static struct counted *find_counted(struct net_fold *f, const struct net_line *l)
{
	struct counted *c;

	for (size_t i = 0; i < f->n_counted; i++) {
		c = &f->counted[i];
		if (c->ev == l->ev && c->port == l->port && c->decision == l->decision &&
		    str_eq(c->name, l->name))
			return c;
	}
	if (!grow((void **)&f->counted, f->n_counted, NET_KEYS, sizeof(*f->counted)))
		return &f->others;
	c = &f->counted[f->n_counted++];
	*c = (struct counted){ .ev = l->ev, .decision = l->decision, .port = l->port };
	memcpy(c->name, l->name, sizeof(c->name));
	return c;
}

static void set_due(struct net_fold *f, uint64_t now)
{
	if (!f->due)
		f->due = now + NET_FOLDED_NS;
}

static void count_only(struct net_fold *f, const struct net_line *l, uint64_t now)
{
	struct counted *c = find_counted(f, l);

	c->count += l->count;
	c->up += l->up;
	c->down += l->down;
	set_due(f, now);
}

static int take_line(struct net_fold *f, enum net_from from, const char *line, size_t len, uint64_t now)
{
	struct net_line l;
	char type[32];
	int r;

	buf_clear(&f->fields);
	r = net_line_parse(line, len, &l, &f->fields);
	if (r < 0) {
		f->garbled[from]++;
		set_due(f, now);
		return 0;
	}
	if (bucket_take(is_denial(&l) ? &f->denied : &f->plain, now)) {
		snprintf(type, sizeof(type), "net.%s", net_ev_name(l.ev));
		r = f->out.event(f->out.ctx, type, &f->fields);
		if (r < 0)
			return r;
	} else {
		count_only(f, &l, now);
	}
	count_for_report(f, &l);
	if (is_denial(&l) && f->out.denied)
		f->out.denied(f->out.ctx, &l);
	return 0;
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
			r = take_line(f, from, line, (size_t)(nl - line), now);
		if (r == 0)
			at += (size_t)(nl - line) + 1;
	}
	*ret_taken = at;
	return r;
}

static int write_counted(struct net_fold *f, const struct counted *c, bool others)
{
	struct json j = JSON_INIT(&f->fields);

	buf_clear(&f->fields);
	if (!others) {
		json_str(&j, "ev", net_ev_name(c->ev));
		json_str(&j, "name", c->name);
		json_u64(&j, "port", c->port);
		json_str(&j, "decision", net_decision_name(c->decision));
	} else {
		json_bool(&j, "others", true);
	}
	json_u64(&j, "count", c->count);
	json_u64(&j, "up", c->up);
	json_u64(&j, "down", c->down);
	return buf_error(&f->fields) ? -ENOMEM : f->out.event(f->out.ctx, "net.folded", &f->fields);
}

static int write_garbled(struct net_fold *f, enum net_from from)
{
	struct json j = JSON_INIT(&f->fields);

	buf_clear(&f->fields);
	json_str(&j, "from", from_names[from]);
	json_u64(&j, "count", f->garbled[from]);
	return buf_error(&f->fields) ? -ENOMEM : f->out.event(f->out.ctx, "net.garbled", &f->fields);
}

int net_fold_tick(struct net_fold *f, uint64_t now, bool all)
{
	int r = 0;

	if (!f->due || (now < f->due && !all))
		return 0;
	while (f->n_counted && r == 0) {
		r = write_counted(f, &f->counted[f->n_counted - 1], false);
		if (r == 0)
			f->n_counted--;
	}
	if (r == 0 && f->others.count) {
		r = write_counted(f, &f->others, true);
		if (r == 0)
			f->others = (struct counted){ 0 };
	}
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
