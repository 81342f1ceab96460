/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides every DNS query of the sandbox: policy, ledger, then coffer-dial for a new name (dns_serve.R1 to
 * R4). The reply never carries an address or text from upstream.
 */
#include "egress/core/dns_serve.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/str.h"
#include "egress/account/egress_fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_NAME "coffer.internal"
#define TUNNEL_NAMES 300 /* different names within a minute: probably data on its way out */
#define ZONES 256
#define BUCKETS 256

struct dns_waiter {
	struct dns_serve *s;
	struct dns_client *client;
	struct dns_query q;
	bool first; /* the name is new (ledger.h): its line was written when it was requested */
	struct ledger_wait turn;
	struct dns_waiter *next,
		**link; /* in the list of its name, or of the queries that wait for the ledger */
};

/* One name that coffer-dial is resolving. */
struct dns_pending {
	struct dns_serve *s;
	struct dialc_request lookup;
	struct host host;
	struct dns_waiter *waiters;
	struct dns_pending *next, **link; /* of its bucket */
};

/* How many names of a domain were resolved within the current minute. */
struct dns_zone {
	uint64_t key; /* of the domain and the rule that allows it; 0: unused */
	uint32_t n;
};

struct dns_serve {
	struct egress *eg;
	struct dns_pending *buckets[BUCKETS];
	struct dns_waiter *later; /* queries that wait for the ledger */
	unsigned n_pending, n_waiters;
	uint64_t tokens, filled; /* dns_serve.R4 */
	uint64_t minute, denied_names;
	uint64_t zones_minute;
	struct dns_zone zones[ZONES];
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

/* A decision, for the journal. */
struct dns_decision {
	enum egress_fold_kind kind;
	const char *word; /* allow, deny, error */
	const char *rule, *why;
	const struct egress_name *name;
	const struct policy_verdict *verdict; /* unless NULL: has the rule */
	const char *said;		      /* policy_journal_note() */
	bool first;
};

/* In the journal the name "*" represents many (journal.h). */
static const char *shown_name(const struct dns_query *q)
{
	return str_eq(q->text, "*") ? "*." : q->text;
}

static void journal_lookup(struct dns_serve *s, const struct dns_query *q, const struct dns_decision *d)
{
	struct egress *eg = s->eg;
	char type[16], addr[ADDR_TEXT_LEN], rule[POLICY_RULE_TEXT_MAX];
	size_t len = strlen(q->text);
	struct addr a;
	struct json *l;
	uint64_t count = 0;

	if (d->first)
		egress_fold_note(eg->fold, d->kind, q->text, len, q->type, eg->now);
	else if (!egress_fold_is_due(eg->fold, d->kind, q->text, len, q->type, eg->now, &count))
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

static void reply_servfail(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			   const char *why, bool first)
{
	const struct dns_decision d = { .kind = FOLD_DNS_ERROR, .word = "error", .why = why, .first = first };

	s->eg->stats.dns_failed++;
	journal_lookup(s, q, &d);
	reply_empty(c, q, DNS_SERVFAIL, 0);
}

/* Many different denied names look like data on its way out. It reaches nobody, but a person should know. */
static void count_denied_name(struct dns_serve *s, const struct dns_query *q)
{
	uint64_t minute = s->eg->now / (60 * NSEC_PER_SEC);

	if (s->minute != minute) {
		s->minute = minute;
		s->denied_names = 0;
	}
	if (++s->denied_names == TUNNEL_NAMES)
		egress_alert(s->eg, "dns_tunnel_suspected", shown_name(q),
			     "%d names that are denied or do not exist were looked up within a minute",
			     TUNNEL_NAMES);
}

/*
 * The last two labels: a name server of an attacker would serve these, even where they are a public suffix.
 */
static const char *last_two_labels(const struct host *h)
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
 * An allowed wildcard lets the owner of a domain below it, or of its name server, read the names that are
 * looked up. That cannot be told from normal use, and only dns_serve.R4 bounds it. But many names of one
 * domain within a minute are no known use. When two domains share a slot, the more frequent one stays.
 */
static void count_resolved_name(struct dns_serve *s, const struct host *h, const struct policy_verdict *v)
{
	uint64_t minute = s->eg->now / (60 * NSEC_PER_SEC), key = zone_key(last_two_labels(h), v->rule_id);
	struct dns_zone *z = &s->zones[key % ZONES];

	if (s->zones_minute != minute) {
		s->zones_minute = minute;
		memset(s->zones, 0, sizeof(s->zones));
	}
	if (z->key != key && z->n > 1) {
		z->n--;
		return;
	}
	if (z->key != key)
		*z = (struct dns_zone){ .key = key };
	if (++z->n == TUNNEL_NAMES)
		egress_alert(
			s->eg, "dns_tunnel_suspected", h->text,
			"%d different names below %s, which a rule allows, were looked up within a minute",
			TUNNEL_NAMES, last_two_labels(h));
}

/* said: "allow" where something other than the policy refused it. */
static void deny_name(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, const char *said,
		      const char *rule, const char *why, bool first)
{
	const struct dns_decision d = {
		.kind = FOLD_DNS_DENY, .word = "deny", .rule = rule, .why = why, .said = said, .first = first
	};

	s->eg->stats.dns_denied++;
	count_denied_name(s, q);
	journal_lookup(s, q, &d);
	reply_empty(c, q, DNS_NXDOMAIN, DNS_TTL_NEGATIVE);
}

/*
 * The ledger has no room for a new name: the client sees a failure of ours (SERVFAIL), which says nothing
 * about the name.
 */
static void refuse_unlogged(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			    const struct policy_verdict *v)
{
	const struct dns_decision d = { .kind = FOLD_DNS_DENY,
					.word = "deny",
					.why = egress_ledger_why(s->eg),
					.said = policy_journal_note(v, v->action, false) };

	s->eg->stats.dns_denied++;
	journal_lookup(s, q, &d);
	reply_empty(c, q, DNS_SERVFAIL, 0);
}

/* The name is allowed but does not exist. It counts like a denied name: data can leave in such names too. */
static void reply_absent(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, bool first)
{
	const struct dns_decision d = {
		.kind = FOLD_DNS_ERROR, .word = "error", .why = "there is no such name", .first = first
	};

	s->eg->stats.dns_failed++;
	count_denied_name(s, q);
	journal_lookup(s, q, &d);
	reply_empty(c, q, DNS_NXDOMAIN, DNS_TTL_NEGATIVE);
}

/* name: NULL before the lookup, when its existence is unknown. */
static void log_allowed(struct dns_serve *s, const struct dns_query *q, const struct policy_verdict *v,
			const struct egress_name *name, bool first)
{
	const struct dns_decision d = { .kind = FOLD_DNS_ALLOW,
					.word = "allow",
					.name = name,
					.verdict = v,
					.said = policy_journal_note(v, v->action, true),
					.first = first };

	journal_lookup(s, q, &d);
}

static void reply_name(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
		       const struct egress_name *name)
{
	struct addr a = addr_from_v4(name->addr);

	s->eg->stats.dns_allowed++;
	reply_addr(c, q, &a);
}

static void allow_name(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
		       const struct policy_verdict *v, const struct egress_name *name, bool first)
{
	log_allowed(s, q, v, name, first);
	reply_name(s, c, q, name);
}

static unsigned pending_bucket(const struct host *h)
{
	unsigned hash = 5381;

	for (unsigned i = 0; i < h->len; i++)
		hash = hash * 33 + (unsigned char)h->text[i];
	return hash % BUCKETS;
}

static struct dns_pending *find_pending(struct dns_serve *s, const struct host *h)
{
	struct dns_pending *p = s->buckets[pending_bucket(h)];

	while (p && !host_eq(&p->host, h))
		p = p->next;
	return p;
}

static void unlink_pending(struct dns_pending *p)
{
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	p->s->n_pending--;
}

static void free_dns_waiter(struct dns_waiter *w)
{
	ledger_unwait(&w->s->eg->ledger, &w->turn);
	w->client->ops->drop(w->client);
	w->s->n_waiters--;
	free(w);
}

/* Replies to one waiting query with dial's result. */
static void conclude_waiter(struct dns_serve *s, struct dns_waiter *w, const struct host *h,
			    const struct dial_rep *rep)
{
	struct policy_verdict v = { 0 };
	const struct egress_name *name = NULL;
	char rule[POLICY_RULE_TEXT_MAX];

	/* The policy may have changed since. */
	if (s->eg->policy)
		policy_name_quietly(s->eg->policy, h, &v);
	if (!policy_may_allow(&v))
		deny_name(s, w->client, &w->q, NULL, v.rule_text, v.why, w->first);
	else if (rep->status == -ENOENT)
		reply_absent(s, w->client, &w->q, w->first);
	else if (rep->status == -EACCES || rep->status == -EPERM)
		deny_name(s, w->client, &w->q, policy_journal_note(&v, v.action, false),
			  policy_verdict_rule(&v, rule), rep->why, w->first);
	else if (rep->status < 0)
		reply_servfail(s, w->client, &w->q, rep->why[0] ? rep->why : strerror(-rep->status),
			       w->first);
	else if (egress_names_add(&s->eg->names, h, &name) < 0)
		reply_servfail(s, w->client, &w->q, "the table of names is full", w->first);
	else if (w->first)
		reply_name(s, w->client, &w->q, name); /* its line is written already */
	else
		allow_name(s, w->client, &w->q, &v, name, false);
}

static void on_resolved(struct dialc_request *a, const struct dial_rep *rep, int fd)
{
	struct dns_pending *p = a->ctx;
	struct dns_serve *s = p->s;

	(void)fd;
	unlink_pending(p);
	while (p->waiters) {
		struct dns_waiter *w = p->waiters;

		p->waiters = w->next;
		conclude_waiter(s, w, &p->host, rep);
		free_dns_waiter(w);
	}
	free(p);
}

static bool take_resolve_token(struct dns_serve *s)
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

static struct dns_pending *new_pending(struct dns_serve *s, const struct host *h,
				       const struct policy_verdict *v)
{
	struct dns_pending *p =
		s->n_pending < DNS_PENDING_MAX && take_resolve_token(s) ? calloc(1, sizeof(*p)) : NULL;
	struct dns_pending **bucket = &s->buckets[pending_bucket(h)];

	if (!p)
		return NULL;
	p->s = s;
	p->host = *h;
	p->lookup = (struct dialc_request){ .done = on_resolved, .ctx = p };
	if (dialc_dial(&s->eg->dial, &p->lookup, h, 0, DIAL_RESOLVE_ONLY, s->eg->generation,
		       v->terms.proxy_set, NULL) < 0) {
		free(p);
		return NULL;
	}
	p->next = *bucket;
	p->link = bucket;
	if (p->next)
		p->next->link = &p->next;
	*bucket = p;
	s->n_pending++;
	count_resolved_name(s, h, v);
	return p;
}

/* A persistent copy of the query; NULL: too many wait, or no memory. */
static struct dns_waiter *new_waiter(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct dns_waiter *w = s->n_waiters < DNS_WAITERS_MAX ? calloc(1, sizeof(*w)) : NULL;

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
static void wait_for_lookup(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			    const struct policy_verdict *v, uint64_t key)
{
	struct dns_waiter *w = new_waiter(s, c, q);
	struct dns_pending *p = find_pending(s, &q->host);

	if (w && !p)
		p = new_pending(s, &q->host, v);
	if (!w || !p) {
		if (w)
			free_dns_waiter(w);
		reply_servfail(s, c, q, "too many names are being looked up", false);
		return;
	}
	/* The line is in the journal before dialc_flush() sends the request (dns_serve.R3). */
	w->first = key != 0;
	if (key) {
		ledger_take(&s->eg->ledger, key, 1);
		log_allowed(s, q, v, NULL, true);
	}
	w->next = p->waiters;
	p->waiters = w;
}

static bool is_below_name(const struct host *h, const char *suffix)
{
	size_t n = strlen(suffix);

	return h->len > n && h->text[h->len - n - 1] == '.' && memcmp(h->text + h->len - n, suffix, n) == 0;
}

/* Names that do not depend on the policy. */
static bool reply_own_name(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct addr own = egress_names_own(&s->eg->names), loop = addr_from_v4(0x7f000001);

	if (str_eq(q->host.text, OWN_NAME))
		reply_addr(c, q, &own);
	else if (str_eq(q->host.text, "localhost"))
		reply_addr(c, q, &loop);
	else if (is_below_name(&q->host, OWN_NAME) || is_below_name(&q->host, "localhost"))
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

static void unlink_ledger_waiter(struct dns_waiter *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
}

static void on_dns_turn(struct ledger_wait *turn, int status);

static void dns_wait_for_room(struct dns_serve *s, struct dns_client *c, const struct dns_query *q,
			      uint64_t until)
{
	struct dns_waiter *w = new_waiter(s, c, q);

	if (!w) {
		reply_servfail(s, c, q, LEDGER_WHY_LATE, false);
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

/* until: its deadline, if it has waited for the ledger already; else 0. */
static void reply_host(struct dns_serve *s, struct dns_client *c, const struct dns_query *q, uint64_t until)
{
	enum ledger_verdict answer;
	const struct egress_name *known;
	struct policy_verdict v;
	uint64_t key;

	if (reply_own_name(s, c, q))
		return;
	if (!s->eg->policy) {
		deny_name(s, c, q, NULL, "default", s->eg->why_none, false);
		return;
	}
	memset(&v, 0, sizeof(v));
	policy_name_quietly(s->eg->policy, &q->host, &v);
	if (!policy_may_allow(&v)) {
		deny_name(s, c, q, NULL, v.rule_text, v.why, false);
		return;
	}
	key = dns_ledger_key(s, &q->host);
	answer = ledger_check(&s->eg->ledger, key, 1);
	if (answer == LEDGER_LATER) {
		dns_wait_for_room(s, c, q, until);
		return;
	}
	if (answer == LEDGER_DENY) {
		refuse_unlogged(s, c, q, &v);
		return;
	}
	known = egress_names_find(&s->eg->names, &q->host);
	/*
	 * For a name that needs an approval nothing is sent before that: whether it exists shows when it is
	 * dialled.
	 */
	if (!known && v.action == POLICY_ASK && egress_names_add(&s->eg->names, &q->host, &known) < 0) {
		reply_servfail(s, c, q, "the table of names is full", false);
		return;
	}
	if (!known) {
		wait_for_lookup(s, c, q, &v, answer == LEDGER_FIRST ? key : 0);
		return;
	}
	if (answer == LEDGER_FIRST)
		ledger_take(&s->eg->ledger, key, 1);
	allow_name(s, c, q, &v, known, answer == LEDGER_FIRST);
}

static void on_dns_turn(struct ledger_wait *turn, int status)
{
	struct dns_waiter *w = CONTAINER_OF(turn, struct dns_waiter, turn);

	unlink_ledger_waiter(w);
	if (status < 0)
		reply_servfail(w->s, w->client, &w->q, LEDGER_WHY_LATE, false);
	else
		reply_host(w->s, w->client, &w->q, w->turn.until);
	free_dns_waiter(w);
}

static void reply_ptr(struct dns_serve *s, struct dns_client *c, const struct dns_query *q)
{
	struct addr own = egress_names_own(&s->eg->names);
	const struct egress_name *name = egress_names_at(&s->eg->names, &q->addr);
	uint8_t out[DNS_REPLY_MAX];
	struct host h = { .kind = HOST_NAME };

	if (addr_eq(&q->addr, &own)) {
		h.len = sizeof(OWN_NAME) - 1;
		memcpy(h.text, OWN_NAME, sizeof(OWN_NAME));
	} else if (name) {
		h.len = name->len;
		memcpy(h.text, name->text, name->len + 1u);
	} else {
		deny_name(s, c, q, NULL, NULL, "no name that was looked up has this address", false);
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
		reply_host(s, c, &q, 0);
		break;
	case DNS_NAME_PTR:
		reply_ptr(s, c, &q);
		break;
	case DNS_NAME_ROOT:
		reply_empty(c, &q, DNS_NOERROR, DNS_TTL);
		break;
	case DNS_NAME_ODD:
		deny_name(s, c, &q, NULL, NULL, "it is not a host name", false);
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

static void free_pending(struct dns_serve *s, struct dns_pending *p)
{
	const struct dns_decision ended = { .kind = FOLD_DNS_ERROR,
					    .word = "error",
					    .why = "the run ended before the lookup was answered",
					    .first = true };

	dialc_cancel(&s->eg->dial, &p->lookup);
	while (p->waiters) {
		struct dns_waiter *w = p->waiters;

		p->waiters = w->next;
		/* The lookup may have reached a server already. */
		if (w->first)
			journal_lookup(s, &w->q, &ended);
		free_dns_waiter(w);
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
		struct dns_waiter *w = s->later;

		s->later = w->next;
		free_dns_waiter(w);
	}
	dns_udp_free(s);
	dns_tcp_free(s);
	free(s);
	eg->dns = NULL;
}
