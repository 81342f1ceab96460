/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request from its arrival to its reply: plan, resolve, judge, connect; or plan and a proxy.
 *
 * Every path ends in dial_request_end(), which alone writes the line, queues the reply and frees; so each
 * request gets exactly one reply (dialproto.D3), whatever it was waiting for. It must not connect to an
 * address that was not judged, nor past a proxy set (dial.L3).
 */
#include "dial/dial_int.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>

struct dial_request *dial_request_find(struct dial *d, uint32_t id)
{
	struct dial_request *r = d->by_id[id % REQUEST_BUCKETS];

	while (r && r->q.id != id)
		r = r->chain;
	return r;
}

static void request_unlink(struct dial_request *r)
{
	struct dial *d = r->dial;
	struct dial_request **p = &d->by_id[r->q.id % REQUEST_BUCKETS];

	while (*p != r)
		p = &(*p)->chain;
	*p = r->chain;
	TAILQ_REMOVE(*r->plan.proxy_set ? &d->proxied : &d->direct, r, link);
	d->n_requests--;
}

static void request_cancel_work(struct dial_request *r)
{
	resolver_cancel(r->dial->resolver, &r->lookup);
	race_cancel(&r->race);
	proxy_use_cancel(&r->use);
}

void dial_request_drop_all(struct dial *d)
{
	struct dial_requests *lists[] = { &d->direct, &d->proxied };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		while (!TAILQ_EMPTY(lists[i])) {
			struct dial_request *r = TAILQ_FIRST(lists[i]);

			request_cancel_work(r);
			request_unlink(r);
			free(r);
		}
	}
}

static void count_outcome(struct dial *d, const struct dial_req *q, int status)
{
	struct dial_counts *c = &d->counts;

	if (status == 0)
		(*(q->flags & DIAL_RESOLVE_ONLY ? &c->resolved : &c->connected))++;
	else if (status == -EPERM || status == -EACCES)
		c->refused++;
	else if (status == -ECANCELED)
		c->cancelled++;
	else
		c->failed++;
}

/*
 * Each name and port is new to coffer-egress before it comes here, so these are few, and none has to wait
 * here. The address does not count: the name's server chooses it, each time another one.
 */
static bool is_first_dial(struct dial *d, const struct dial_req *q, const struct dial_plan *p, bool reached)
{
	uint64_t key;

	seen_begin(&d->seen, reached);
	seen_add(&d->seen, p->name.text, p->name.len);
	seen_add(&d->seen, &q->port, sizeof(q->port));
	seen_adds(&d->seen, p->proxy_set);
	key = seen_key(&d->seen);
	if (key && seen_has(&d->seen, key))
		return false;
	/* Without memory it counts as the first again. */
	if (key && seen_reserve(&d->seen) == 0)
		seen_put(&d->seen, key);
	return true;
}

static void write_dial_line(struct dial *d, const struct dial_req *q, const struct dial_plan *p,
			    const struct dial_rep *rep, uint64_t ms)
{
	struct json *l = journal_begin(&d->journal, "dial");
	char text[ADDR_TEXT_LEN];
	struct addr a;

	memcpy(a.b, rep->addr, sizeof(a.b));
	journal_str(l, "name", p->name.text, HOST_MAX);
	json_u64(l, "port", q->port);
	if (addr_special(&a) != ADDR_UNSPECIFIED)
		journal_str(l, "addr", addr_format(&a, text), sizeof(text));
	journal_str(l, "pool", p->proxy_set, sizeof(p->proxy_set));
	journal_str(l, "proxy", rep->proxy, sizeof(rep->proxy));
	json_i64(l, "status", rep->status);
	journal_str(l, "why", rep->why, sizeof(rep->why));
	json_u64(l, "ms", ms);
	if (is_first_dial(d, q, p, rep->status == 0))
		json_u64(l, "first", 1);
	journal_end(&d->journal);
}

/*
 * Texts from resolvers and proxies were checked, but a policy may quote anything: bytes that dialproto.D1
 * forbids become "?".
 */
static void set_reply_text(char *out, size_t size, const char *s)
{
	size_t n = strnlen(s, size - 1);

	for (size_t i = 0; i < n; i++) {
		out[i] = '?';
		if (s[i] >= 0x20 && s[i] <= 0x7e)
			out[i] = s[i];
	}
}

static unsigned reply_flags(struct dial *d, const struct dial_req *q, const struct dial_plan *p, int status)
{
	const struct proxy_set *set = *p->proxy_set ? proxy_sets_find(d->proxy_sets, p->proxy_set) : NULL;
	unsigned flags = p->is_pinned ? DIAL_PINNED : 0;

	if (status == 0 && *p->proxy_set && !(q->flags & DIAL_RESOLVE_ONLY))
		flags |= DIAL_VIA_PROXY;
	if (set && set->rotate == POLICY_ROTATE_REQUEST)
		flags |= DIAL_ONE_REQUEST;
	if (status == 0 && *p->proxy_set && (q->flags & DIAL_RESOLVE_ONLY) && !p->is_pinned &&
	    q->kind == DIAL_NAME)
		flags |= DIAL_UNRESOLVED;
	return flags;
}

/* Replies to a request that may never have been stored. Takes fd. */
static void send_reply(struct dial *d, const struct dial_req *q, const struct dial_plan *p,
		       struct dial_rep *rep, int fd, uint64_t started)
{
	bool has_line = !(q->flags & DIAL_RESOLVE_ONLY);

	rep->type = DIAL_REP;
	rep->id = q->id;
	rep->flags = reply_flags(d, q, p, rep->status);
	count_outcome(d, q, rep->status);
	if (has_line)
		write_dial_line(d, q, p, rep, (clock_nsec(CLOCK_MONOTONIC) - started) / NSEC_PER_MSEC);
	dial_queue(d, rep, fd, has_line);
}

void dial_request_end(struct dial_request *r, int status, int fd, const struct addr *a, const char *proxy,
		      const char *why)
{
	struct dial *d = r->dial;
	struct dial_rep rep = { .ttl = status == 0 ? r->ttl : 0 };
	char changed[DIAL_WHY_LEN];
	int r_now = status == 0 ? dial_plan_holds(d, &r->plan, &r->q, a, changed) : 0;

	request_cancel_work(r);
	request_unlink(r);
	if (r_now < 0) {
		fd = fd_close(fd);
		status = r_now;
		why = changed;
	}
	rep.status = status;
	if (a)
		memcpy(rep.addr, a->b, sizeof(rep.addr));
	set_reply_text(rep.proxy, sizeof(rep.proxy), proxy ? proxy : "");
	if (status < 0)
		set_reply_text(rep.why, sizeof(rep.why), why && *why ? why : strerror(-status));
	send_reply(d, &r->q, &r->plan, &rep, fd, r->started);
	free(r);
}

static void fail_dial(struct dial_request *r, int status, const char *why)
{
	dial_request_end(r, status, -1, NULL, NULL, why);
}

static void on_race_done(struct race *race, int status, int fd, const struct addr *a)
{
	struct dial_request *r = race->ctx;
	char why[DIAL_WHY_LEN] = "";

	if (status < 0)
		snprintf(why, sizeof(why), "cannot connect: %s", strerror(-status));
	dial_request_end(r, status, fd, a, NULL, why);
}

static void connect_to(struct dial_request *r, const struct addr *addrs, size_t n)
{
	int status;

	if (r->q.flags & DIAL_RESOLVE_ONLY) {
		dial_request_end(r, 0, -1, &addrs[0], NULL, NULL);
		return;
	}
	r->race.done = on_race_done;
	r->race.ctx = r;
	status = race_start(&r->race, &r->dial->loop, addrs, n, r->plan.port);
	if (status < 0)
		on_race_done(&r->race, status, -1, NULL);
}

static void on_name_resolved(struct resolve_lookup *l, struct resolve_answer *a)
{
	struct dial_request *r = l->ctx;
	struct addr addrs[RACE_ADDRS_MAX];
	char why[DIAL_WHY_LEN] = "";
	size_t n = 0;
	int status = a->status;

	if (status < 0) {
		fail_dial(r, status, a->why);
		return;
	}
	status = dial_judge(r->dial, &r->plan, a, addrs, &n, why);
	r->ttl = a->ttl;
	if (status < 0)
		fail_dial(r, status, why);
	else
		connect_to(r, addrs, n);
}

static void resolve_name(struct dial_request *r)
{
	struct resolve_answer *a = NULL;
	int status;

	r->lookup = (struct resolve_lookup){ .fn = on_name_resolved, .ctx = r };
	status = resolver_lookup(r->dial->resolver, &r->plan.name, &r->lookup, &a);
	if (status == 1)
		on_name_resolved(&r->lookup, a);
	else if (status < 0)
		fail_dial(r, status, "too many names are being resolved");
}

static void on_proxy_done(struct proxy_use *u, int status, int fd, const char *proxy, const char *why)
{
	struct dial_request *r = u->ctx;
	const bool has_addr = r->plan.is_pinned || r->q.kind == DIAL_ADDR;

	dial_request_end(r, status, fd, has_addr ? &r->plan.addr : NULL, proxy, why);
}

/* dial.L3: nothing here may fall through to resolve_name() or connect_to(). */
static void dial_through_proxy(struct dial_request *r)
{
	struct proxy_set *set = proxy_sets_find(r->dial->proxy_sets, r->plan.proxy_set);
	struct host target = r->plan.name;

	if (!set) {
		fail_dial(r, -ENOTCONN, "the policy requires a proxy set that does not exist");
		return;
	}
	if (r->plan.is_pinned)
		host_from_addr(&r->plan.addr, &target);
	if (r->q.flags & DIAL_RESOLVE_ONLY) {
		r->ttl = RESOLVE_TTL_MIN;
		dial_request_end(r, 0, -1, target.kind == HOST_ADDR ? &target.addr : NULL, NULL, NULL);
		return;
	}
	r->use.done = on_proxy_done;
	r->use.ctx = r;
	proxy_use_start(&r->use, set, &target, r->plan.port, *r->q.sticky ? r->q.sticky : r->plan.name.text);
}

static void begin_dial(struct dial_request *r)
{
	const bool has_addr = r->plan.is_pinned || r->q.kind == DIAL_ADDR;
	char why[DIAL_WHY_LEN] = "";
	int status = has_addr ? dial_judge_one(r->dial, &r->plan, &r->plan.addr, why) : 0;

	if (status < 0) {
		fail_dial(r, status, why);
	} else if (*r->plan.proxy_set) {
		dial_through_proxy(r);
	} else if (has_addr) {
		r->ttl = RESOLVE_TTL_MAX;
		connect_to(r, &r->plan.addr, 1);
	} else {
		resolve_name(r);
	}
}

static void refuse_dial(struct dial *d, const struct dial_req *q, const struct dial_plan *p, int status,
			const char *why)
{
	struct dial_rep rep = { .status = status };

	set_reply_text(rep.why, sizeof(rep.why), why);
	send_reply(d, q, p, &rep, -1, clock_nsec(CLOCK_MONOTONIC));
}

static void on_request_deadline(struct timer *t);

/* Arms the timer for the earlier of the two lists' first deadlines. */
static void arm_request_deadline(struct dial *d)
{
	const struct dial_request *a = TAILQ_FIRST(&d->direct), *b = TAILQ_FIRST(&d->proxied);
	const struct dial_request *first = !a ? b : !b || a->deadline < b->deadline ? a : b;

	d->expire.fn = on_request_deadline;
	d->expire.ctx = d;
	if (first)
		loop_timer(&d->loop, &d->expire, first->deadline);
	else
		loop_timer_off(&d->loop, &d->expire);
}

static void on_request_deadline(struct timer *t)
{
	struct dial *d = t->ctx;
	struct dial_requests *lists[] = { &d->direct, &d->proxied };
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct dial_request *r;

		while ((r = TAILQ_FIRST(lists[i])) && r->deadline <= now)
			fail_dial(r, -ETIMEDOUT,
				  r->lookup.entry ? "the resolver did not respond in time"
						  : "no response in time");
	}
	arm_request_deadline(d);
}

void dial_request_new(struct dial *d, const struct dial_req *q)
{
	char why[DIAL_WHY_LEN] = "";
	struct dial_request *r = NULL;
	struct dial_plan plan;
	int status = dial_plan(d, q, &plan, why);

	d->counts.requests++;
	if (status == 0 && d->n_requests >= DIAL_IN_FLIGHT_MAX) {
		status = -EBUSY;
		snprintf(why, sizeof(why), "too many connections are being made");
		d->counts.busy++;
	}
	if (status == 0)
		r = malloc(sizeof(*r));
	if (!r) {
		refuse_dial(d, q, &plan, status ? status : -ENOMEM, status ? why : "no memory");
		return;
	}
	*r = (struct dial_request){
		.dial = d, .q = *q, .plan = plan, .started = clock_nsec(CLOCK_MONOTONIC)
	};
	r->plan.to.name = &r->plan.name;
	r->deadline = r->started + (*plan.proxy_set ? PROXY_TIMEOUT_MS : DIAL_TIMEOUT_MS) * NSEC_PER_MSEC;
	r->chain = d->by_id[q->id % REQUEST_BUCKETS];
	d->by_id[q->id % REQUEST_BUCKETS] = r;
	TAILQ_INSERT_TAIL(*plan.proxy_set ? &d->proxied : &d->direct, r, link);
	d->n_requests++;
	if (!d->expire.armed || d->expire.at > r->deadline)
		arm_request_deadline(d);
	begin_dial(r);
}
