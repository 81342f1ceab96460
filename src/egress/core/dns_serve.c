/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core/dns_serve.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/str.h"
#include "egress/account/fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_NAME "coffer.internal"
#define TUNNEL_NAMES 300 /* names in a minute, each another one: somebody sends data in them */
#define ZONES 256
#define BUCKETS 256

struct waiter {
	struct dns_serve *s;
	struct dns_client *client;
	struct dns_query q;
	bool first; /* the name is new (ledger.h): its line was written when it was asked for */
	struct ledger_wait turn;
	struct waiter *next, **link; /* of its name, or of those that wait for room in the log */
};

/* One name at coffer-dial. */
struct pending {
	struct dns_serve *s;
	struct dial_ask ask;
	struct host host;
	struct waiter *waiters;
	struct pending *next, **link; /* of its bucket */
};

/* How many names of a domain were resolved within the minute. */
struct zone {
	uint64_t key; /* of the domain and the rule that allows it; 0: none */
	uint32_t n;
};

struct dns_serve {
	struct egress *eg;
	struct pending *buckets[BUCKETS];
	struct waiter *later; /* for room in the log */
	unsigned n_pending, n_waiters;
	uint64_t tokens, filled; /* R4 */
	uint64_t minute, denied_names;
	uint64_t zones_minute;
	struct zone zones[ZONES];
	struct dns_udp *udp;
	struct dns_tcp *tcp;
};

struct egress *dns_serve_egress(struct dns_serve *s)
{
	return s->eg;
}

struct dns_udp **dns_serve_udp(struct dns_serve *s)
{
	return &s->udp;
}

struct dns_tcp **dns_serve_tcp(struct dns_serve *s)
{
	return &s->tcp;
}

/* What was decided, for the journal. */
struct decision {
	enum fold_kind kind;
	const char *word; /* allow, deny, error */
	const char *rule, *why;
	const struct name *name;
	const struct policy_verdict *verdict; /* unless NULL: the rule is there */
	const char *said;		      /* policy_said() */
	bool first;
};

/* In a journal a name of "*" stands for many (journal.h). */
static const char *shown_name(const struct dns_query *q)
{
	return str_eq(q->text, "*") ? "*." : q->text;
}

static void journal(struct dns_serve *s, const struct dns_query *q, const struct decision *d)
{
	struct egress *eg = s->eg;
	char type[16], addr[ADDR_TEXT_LEN], rule[POLICY_RULE_TEXT_MAX];
	size_t len = strlen(q->text);
	struct addr a;
	struct json *l;
	uint64_t count = 0;

	if (d->first)
		fold_note(eg->fold, d->kind, q->text, len, q->type, eg->now);
	else if (!fold_is_due(eg->fold, d->kind, q->text, len, q->type, eg->now, &count))
		return;
	l = journal_begin(&eg->journal, "dns");
	json_str(l, "name", shown_name(q));
	json_str(l, "qtype", dns_type_name(q->type, type));
	json_str(l, "decision", d->word);
	journal_str(l, "said", d->said, 8);
	journal_str(l, "rule", d->verdict ? policy_verdict_rule(d->verdict, rule) : d->rule,
		    POLICY_RULE_TEXT_MAX);
	journal_str(l, "why", d->why, POLICY_WHY_MAX);
	if (d->name) {
		a = addr_from_v4(d->name->addr);
		json_str(l, "addr", addr_format(&a, addr));
	}
	if (count)
		json_u64(l, "count", count);
	egress_end_line(eg, d->first);
}

static void reply_empty(struct dns_client *c, const struct dns_query *q, enum dns_rcode rcode, uint32_t ttl)
{
	uint8_t out[DNS_REPLY_MAX];

	c->ops->send(c, out, dns_reply_empty(q, rcode, ttl, c->ops->max(c, q), out));
}

static void reply_addr(struct dns_client *c, const struct dns_query *q, const struct addr *a)
{
	uint8_t out[DNS_REPLY_MAX];

	if (q->type == DNS_A)
		c->ops->send(c, out, dns_reply_addrs(q, a, 1, DNS_TTL, c->ops->max(c, q), out));
	else
		reply_empty(c, q, DNS_NOERROR, DNS_TTL);
}

static void fail(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, const char *why,
		 bool first)
{
	const struct decision d = { .kind = FOLD_DNS_DENY, .word = "error", .why = why, .first = first };

	s->eg->stats.dns_failed++;
	journal(s, q, &d);
	reply_empty(c, q, DNS_SERVFAIL, 0);
}

/* Many different names that are all denied look like data on its way out. It goes nowhere, but somebody should know. */
static void count_in_vain(struct dns_serve *s, const struct dns_query *q)
{
	uint64_t minute = s->eg->now / (60 * NSEC_PER_SEC);

	if (s->minute != minute) {
		s->minute = minute;
		s->denied_names = 0;
	}
	if (++s->denied_names == TUNNEL_NAMES)
		egress_alert(
			s->eg, "dns_tunnel_suspected", shown_name(q),
			"%d names that are denied, or that there are not, were asked for within a minute",
			TUNNEL_NAMES);
}

/* The last two labels: where an attacker's server of names would be, also where that is a public suffix. */
static const char *domain_of(const struct host *h)
{
	const char *at = h->text + h->len;
	unsigned dots = 0;

	while (at > h->text && (at[-1] != '.' || ++dots < 2))
		at--;
	return at;
}

static uint64_t zone_key(const char *domain, uint32_t rule_id)
{
	uint64_t h = 0xcbf29ce484222325ull ^ rule_id;

	for (; *domain; domain++)
		h = (h ^ (unsigned char)*domain) * 0x100000001b3ull;
	h = (h ^ (h >> 29)) * 0x9e3779b97f4a7c15ull;
	return h ? h : 1;
}

/*
 * A wildcard that is allowed lets whoever has a domain below it, or serves its names, read what is looked up: that cannot be told from
 * use, and is bounded by R4 alone. But many names of one domain within a minute are no use that is known. Of two domains at one place the
 * one that is asked more stays.
 */
static void count_resolved(struct dns_serve *s, const struct host *h, const struct policy_verdict *v)
{
	uint64_t minute = s->eg->now / (60 * NSEC_PER_SEC), key = zone_key(domain_of(h), v->rule_id);
	struct zone *z = &s->zones[key % ZONES];

	if (s->zones_minute != minute) {
		s->zones_minute = minute;
		memset(s->zones, 0, sizeof(s->zones));
	}
	if (z->key != key && z->n > 1) {
		z->n--;
		return;
	}
	if (z->key != key)
		*z = (struct zone){ .key = key };
	if (++z->n == TUNNEL_NAMES)
		egress_alert(
			s->eg, "dns_tunnel_suspected", h->text,
			"%d names below %s, which a rule allows, were looked up within a minute, each another one",
			TUNNEL_NAMES, domain_of(h));
}

/* said: "allow" where it was not the policy that refused it. */
static void deny(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, const char *said,
		 const char *rule, const char *why, bool first)
{
	const struct decision d = {
		.kind = FOLD_DNS_DENY, .word = "deny", .rule = rule, .why = why, .said = said, .first = first
	};

	s->eg->stats.dns_denied++;
	count_in_vain(s, q);
	journal(s, q, &d);
	reply_empty(c, q, DNS_NXDOMAIN, DNS_TTL_NEGATIVE);
}

/* The ledger has no room for a new name: for who asks that is a failure of ours, and says nothing about the name. */
static void refuse_unlogged(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			    const struct policy_verdict *v)
{
	const struct decision d = { .kind = FOLD_DNS_DENY,
				    .word = "deny",
				    .why = egress_ledger_why(s->eg),
				    .said = policy_said(v, v->action, false) };

	s->eg->stats.dns_denied++;
	journal(s, q, &d);
	reply_empty(c, q, DNS_SERVFAIL, 0);
}

/* Allowed, and nowhere: the policy has not said no. It counts as a name that was asked for in vain, as a denied one does: data leaves that way. */
static void absent(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, bool first)
{
	const struct decision d = {
		.kind = FOLD_DNS_DENY, .word = "error", .why = "there is no such name", .first = first
	};

	s->eg->stats.dns_failed++;
	count_in_vain(s, q);
	journal(s, q, &d);
	reply_empty(c, q, DNS_NXDOMAIN, DNS_TTL_NEGATIVE);
}

/* name: NULL before the lookup, when nobody knows whether there is one. */
static void log_allowed(struct dns_serve *s, const struct dns_query *q, const struct policy_verdict *v,
			const struct name *name, bool first)
{
	const struct decision d = { .kind = FOLD_DNS_ALLOW,
				    .word = "allow",
				    .name = name,
				    .verdict = v,
				    .said = policy_said(v, v->action, true),
				    .first = first };

	journal(s, q, &d);
}

static void answer_name(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			const struct name *name)
{
	struct addr a = addr_from_v4(name->addr);

	s->eg->stats.dns_allowed++;
	reply_addr(c, q, &a);
}

static void allow(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
		  const struct policy_verdict *v, const struct name *name, bool first)
{
	log_allowed(s, q, v, name, first);
	answer_name(s, c, q, name);
}

static unsigned bucket_of(const struct host *h)
{
	unsigned hash = 5381;

	for (unsigned i = 0; i < h->len; i++)
		hash = hash * 33 + (unsigned char)h->text[i];
	return hash % BUCKETS;
}

static struct pending *find_pending(struct dns_serve *s, const struct host *h)
{
	struct pending *p = s->buckets[bucket_of(h)];

	while (p && !host_eq(&p->host, h))
		p = p->next;
	return p;
}

static void unlink_pending(struct pending *p)
{
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	p->s->n_pending--;
}

static void free_waiter(struct waiter *w)
{
	ledger_unwait(&w->s->eg->ledger, &w->turn);
	w->client->ops->drop(w->client);
	w->s->n_waiters--;
	free(w);
}

/* What dial said, for one who waits. */
static void conclude(struct dns_serve *s, struct waiter *w, const struct host *h, const struct dial_rep *rep)
{
	struct policy_verdict v = { 0 };
	const struct name *name = NULL;
	char rule[POLICY_RULE_TEXT_MAX];

	/* The policy may be another one by now. */
	if (s->eg->policy)
		policy_name_quietly(s->eg->policy, h, &v);
	if (!policy_may_allow(&v))
		deny(s, w->client, &w->q, NULL, v.rule_text, v.why, w->first);
	else if (rep->status == -ENOENT)
		absent(s, w->client, &w->q, w->first);
	else if (rep->status == -EACCES || rep->status == -EPERM)
		deny(s, w->client, &w->q, policy_said(&v, v.action, false), policy_verdict_rule(&v, rule),
		     rep->why, w->first);
	else if (rep->status < 0)
		fail(s, w->client, &w->q, rep->why[0] ? rep->why : strerror(-rep->status), w->first);
	else if (names_add(&s->eg->names, h, &name) < 0)
		fail(s, w->client, &w->q, "the table of names is full", w->first);
	else if (w->first)
		answer_name(s, w->client, &w->q, name); /* its line is there */
	else
		allow(s, w->client, &w->q, &v, name, false);
}

static void on_resolved(struct dial_ask *a, const struct dial_rep *rep, int fd)
{
	struct pending *p = a->ctx;
	struct dns_serve *s = p->s;

	(void)fd;
	unlink_pending(p);
	while (p->waiters) {
		struct waiter *w = p->waiters;

		p->waiters = w->next;
		conclude(s, w, &p->host, rep);
		free_waiter(w);
	}
	free(p);
}

static bool take_token(struct dns_serve *s)
{
	uint64_t add = (s->eg->now - s->filled) / (NSEC_PER_SEC / DNS_RESOLVE_RATE);

	if (s->filled == 0 || add >= DNS_RESOLVE_BURST) {
		s->tokens = DNS_RESOLVE_BURST;
		s->filled = s->eg->now;
	} else {
		s->tokens = s->tokens + add < DNS_RESOLVE_BURST ? s->tokens + add : DNS_RESOLVE_BURST;
		s->filled += add * (NSEC_PER_SEC / DNS_RESOLVE_RATE);
	}
	if (s->tokens == 0)
		return false;
	s->tokens--;
	return true;
}

static struct pending *new_pending(struct dns_serve *s, const struct host *h, const struct policy_verdict *v)
{
	struct pending *p = s->n_pending < DNS_PENDING_MAX && take_token(s) ? calloc(1, sizeof(*p)) : NULL;
	struct pending **bucket = &s->buckets[bucket_of(h)];

	if (!p)
		return NULL;
	p->s = s;
	p->host = *h;
	p->ask = (struct dial_ask){ .done = on_resolved, .ctx = p };
	if (dialc_ask(&s->eg->dial, &p->ask, h, 0, DIAL_RESOLVE_ONLY, s->eg->generation, v->terms.pool,
		      NULL) < 0) {
		free(p);
		return NULL;
	}
	p->next = *bucket;
	p->link = bucket;
	if (p->next)
		p->next->link = &p->next;
	*bucket = p;
	s->n_pending++;
	count_resolved(s, h, v);
	return p;
}

/* A copy of the query that lasts; NULL: there is no room for it. */
static struct waiter *new_waiter(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct waiter *w = s->n_waiters < DNS_WAITERS_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (w && (w->client = c->ops->keep(c)) == NULL) {
		free(w);
		return NULL;
	}
	if (w) {
		w->s = s;
		w->q = *q;
		s->n_waiters++;
	}
	return w;
}

/* key: of a name that is looked up for the first time, else 0. */
static void wait_for(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
		     const struct policy_verdict *v, uint64_t key)
{
	struct waiter *w = new_waiter(s, c, q);
	struct pending *p = find_pending(s, &q->host);

	if (w && !p)
		p = new_pending(s, &q->host, v);
	if (!w || !p) {
		if (w)
			free_waiter(w);
		fail(s, c, q, "too many names are being looked up", false);
		return;
	}
	/* The line is in the journal before dialc_flush() lets the question go (R3). */
	w->first = key != 0;
	if (key) {
		ledger_take(&s->eg->ledger, key, 1);
		log_allowed(s, q, v, NULL, true);
	}
	w->next = p->waiters;
	p->waiters = w;
}

static bool is_below(const struct host *h, const char *suffix)
{
	size_t n = strlen(suffix);

	return h->len > n && h->text[h->len - n - 1] == '.' && memcmp(h->text + h->len - n, suffix, n) == 0;
}

/* Names that are answered without a policy. */
static bool answer_own(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct addr own = names_own(&s->eg->names), loop = addr_from_v4(0x7f000001);

	if (str_eq(q->host.text, OWN_NAME))
		reply_addr(c, q, &own);
	else if (str_eq(q->host.text, "localhost"))
		reply_addr(c, q, &loop);
	else if (is_below(&q->host, OWN_NAME) || is_below(&q->host, "localhost"))
		reply_empty(c, q, DNS_NXDOMAIN, DNS_TTL);
	else
		return false;
	return true;
}

static uint64_t dns_ledger_key(struct dns_serve *s, const struct host *h)
{
	struct seen *seen = &s->eg->ledger.seen;

	seen_begin(seen, LEDGER_DNS);
	seen_add(seen, h->text, h->len);
	return seen_key(seen);
}

static void unlink_later(struct waiter *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
}

static void on_dns_turn(struct ledger_wait *turn, int status);

static void dns_wait_for_room(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			      uint64_t until)
{
	struct waiter *w = new_waiter(s, c, q);

	if (!w) {
		fail(s, c, q, LEDGER_WHY_LATE, false);
		return;
	}
	w->next = s->later;
	w->link = &s->later;
	if (w->next)
		w->next->link = &w->next;
	s->later = w;
	w->turn.fn = on_dns_turn;
	w->turn.until = until;
	ledger_wait(&s->eg->ledger, &w->turn, 1);
}

/* until: it has waited for room in the log, and does so until then; 0: it has not. */
static void answer_host(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, uint64_t until)
{
	enum ledger_answer answer;
	const struct name *known;
	struct policy_verdict v;
	uint64_t key;

	if (answer_own(s, c, q))
		return;
	if (!s->eg->policy) {
		deny(s, c, q, NULL, "default", s->eg->why_none, false);
		return;
	}
	memset(&v, 0, sizeof(v));
	policy_name_quietly(s->eg->policy, &q->host, &v);
	if (!policy_may_allow(&v)) {
		deny(s, c, q, NULL, v.rule_text, v.why, false);
		return;
	}
	key = dns_ledger_key(s, &q->host);
	answer = ledger_ask(&s->eg->ledger, key, 1);
	if (answer == LEDGER_LATER) {
		dns_wait_for_room(s, c, q, until);
		return;
	}
	if (answer == LEDGER_DENY) {
		refuse_unlogged(s, c, q, &v);
		return;
	}
	known = names_find(&s->eg->names, &q->host);
	/* Of a name that a person is to be asked about nothing leaves before: whether there is one shows when it is dialled. */
	if (!known && v.action == POLICY_ASK && names_add(&s->eg->names, &q->host, &known) < 0) {
		fail(s, c, q, "the table of names is full", false);
		return;
	}
	if (!known) {
		wait_for(s, c, q, &v, answer == LEDGER_FIRST ? key : 0);
		return;
	}
	if (answer == LEDGER_FIRST)
		ledger_take(&s->eg->ledger, key, 1);
	allow(s, c, q, &v, known, answer == LEDGER_FIRST);
}

static void on_dns_turn(struct ledger_wait *turn, int status)
{
	struct waiter *w = CONTAINER_OF(turn, struct waiter, turn);

	unlink_later(w);
	if (status < 0)
		fail(w->s, w->client, &w->q, LEDGER_WHY_LATE, false);
	else
		answer_host(w->s, w->client, &w->q, w->turn.until);
	free_waiter(w);
}

static void answer_ptr(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct addr own = names_own(&s->eg->names);
	const struct name *name = names_at(&s->eg->names, &q->addr);
	uint8_t out[DNS_REPLY_MAX];
	struct host h = { .kind = HOST_NAME };

	if (addr_eq(&q->addr, &own)) {
		h.len = sizeof(OWN_NAME) - 1;
		memcpy(h.text, OWN_NAME, sizeof(OWN_NAME));
	} else if (name) {
		h.len = name->len;
		memcpy(h.text, name->text, name->len + 1u);
	} else {
		deny(s, c, q, NULL, NULL, "no name that was looked up has this address", false);
		return;
	}
	if (q->type == DNS_PTR)
		c->ops->send(c, out, dns_reply_ptr(q, &h, DNS_TTL, c->ops->max(c, q), out));
	else
		reply_empty(c, q, DNS_NOERROR, DNS_TTL);
}

void dns_serve_query(struct dns_serve *s, struct dns_client *c, const uint8_t *msg, size_t len)
{
	struct dns_query q;
	int r = dns_parse(msg, len, &q);

	s->eg->stats.dns_queries++;
	if (r != 0) {
		s->eg->stats.dns_bad++;
		if (r > 0)
			reply_empty(c, &q, (enum dns_rcode)r, 0);
		return;
	}
	switch (q.kind) {
	case DNS_NAME_HOST:
		answer_host(s, c, &q, 0);
		break;
	case DNS_NAME_PTR:
		answer_ptr(s, c, &q);
		break;
	case DNS_NAME_ROOT:
		reply_empty(c, &q, DNS_NOERROR, DNS_TTL);
		break;
	case DNS_NAME_ODD:
		deny(s, c, &q, NULL, NULL, "it is no host's name", false);
		break;
	}
}

void dns_serve_tick(struct dns_serve *s)
{
	dns_tcp_tick(s);
}

int dns_serve_new(struct egress *eg, struct err *e)
{
	eg->dns = calloc(1, sizeof(*eg->dns));
	if (!eg->dns)
		return err_sys(e, -ENOMEM, "cannot serve names");
	eg->dns->eg = eg;
	return 0;
}

static void free_pending(struct dns_serve *s, struct pending *p)
{
	const struct decision ended = { .kind = FOLD_DNS_DENY,
					.word = "error",
					.why = "the run ended before there was an answer",
					.first = true };

	dialc_cancel(&s->eg->dial, &p->ask);
	while (p->waiters) {
		struct waiter *w = p->waiters;

		p->waiters = w->next;
		/* It may be on its way to a server already. */
		if (w->first)
			journal(s, &w->q, &ended);
		free_waiter(w);
	}
	unlink_pending(p);
	free(p);
}

void dns_serve_free(struct egress *eg)
{
	struct dns_serve *s = eg->dns;

	if (!s)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (s->buckets[i])
			free_pending(s, s->buckets[i]);
	}
	while (s->later) {
		struct waiter *w = s->later;

		s->later = w->next;
		free_waiter(w);
	}
	dns_udp_free(s);
	dns_tcp_free(s);
	free(s);
	eg->dns = NULL;
}
