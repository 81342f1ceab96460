/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries to DNS servers, and the delivery of their answers. Addresses are not judged here.
 *
 * c-ares keeps one socket per server while it has queries open, so under load every query would use one
 * source port, and an answer would be only as hard to forge as its 16-bit id. So a few channels take turns:
 * each is left idle after a number of queries, and closes its sockets when the last of them is answered.
 */
#include "dial/connect/resolve_ares.h"
#include "dial/connect/resolve_cache.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <ares.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#define CHANNELS 4
#define TURN 32 /* queries before the next channel */
/* When the connection to a server breaks, c-ares fails everything that is open there, whatever it was. */
#define TRIES 3
#define AGAIN_NS (100 * NSEC_PER_MSEC)

struct resolver {
	struct loop *loop;
	struct ares_link channel[CHANNELS];
	unsigned at, turn;
	struct resolve_cache cache;
	size_t n_servers;
	bool is_changing; /* a cancelled query will be repeated, not answered */
	uint64_t queries, hits;
};

/* One query to the servers. It outlives its entry when that did not wait for it. */
struct resolve_query {
	struct resolver *resolver;
	struct ares_link *channel;
	struct resolve_entry *entry;
	int slot; /* 0: IPv6, 1: IPv4 */
	bool is_done;
	unsigned tries;
	struct timer again; /* armed: it waits for a retry, and c-ares does not know it */
	int status;	    /* of c-ares */
	uint32_t ttl;
	size_t n_addrs;
	struct addr addrs[RESOLVE_ADDRS_MAX];
};

int resolver_open(struct resolver **ret, struct loop *loop, struct err *e)
{
	CLEANUP(resolver_freep) struct resolver *r = calloc(1, sizeof(*r));
	unsigned char key[CACHE_KEY_LEN];
	int ret_r = ares_link_check_random(e);

	if (!r)
		return err_set(e, -ENOMEM, "no memory");
	r->loop = loop;
	randombytes_buf(key, sizeof(key));
	resolve_cache_init(&r->cache, key);
	if (ret_r == 0 && ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		ret_r = err_set(e, -EIO, "cannot set up the resolver");
	for (size_t i = 0; ret_r == 0 && i < CHANNELS; i++) {
		ret_r = ares_link_open(&r->channel[i], loop, e);
	}
	if (ret_r < 0)
		return ret_r;
	*ret = TAKE_PTR(r);
	return 0;
}

/* For a query that c-ares does not hold. */
static void free_query(struct resolver *r, struct resolve_query *q)
{
	if (q)
		loop_timer_off(r->loop, &q->again);
	free(q);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	r->is_changing = true;
	for (size_t i = 0; i < CHANNELS; i++) {
		ares_link_close(&r->channel[i]);
	}
	for (struct resolve_entry *x = TAILQ_FIRST(&r->cache.lru); x; x = TAILQ_NEXT(x, lru)) {
		loop_timer_off(r->loop, &x->grace);
		for (int i = 0; i < 2; i++)
			free_query(r, x->query[i]);
	}
	resolve_cache_release(&r->cache);
	ares_library_cleanup();
	free(r);
}

size_t resolver_read_conf(const char *text, size_t len, struct resolve_server ret[RESOLVE_SERVERS_MAX])
{
	static const char word[] = "nameserver";
	const char *end = text + len;
	size_t n = 0;

	while (text < end && n < RESOLVE_SERVERS_MAX) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		const char *stop = nl ? nl : end, *p = text;

		text = nl ? nl + 1 : end;
		if ((size_t)(stop - p) <= sizeof(word) || memcmp(p, word, sizeof(word) - 1) != 0)
			continue;
		p += sizeof(word) - 1;
		while (p < stop && (*p == ' ' || *p == '\t'))
			p++;
		while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
			stop--;
		ret[n].port = 53;
		n += addr_parse(p, (size_t)(stop - p), &ret[n].addr, NULL) == 0;
	}
	return n;
}

/* Translates the failure into an errno and a text. */
static int ares_to_status(int ares, char *why, size_t size)
{
	static const struct {
		int ares, status;
		const char *why;
	} table[] = {
		{ ARES_ENOTFOUND, -ENOENT, "there is no such name" },
		{ ARES_ENODATA, -ENOENT, "the name has no address" },
		{ ARES_ETIMEOUT, -ETIMEDOUT, "the resolver did not respond" },
		{ ARES_ESERVFAIL, -EREMOTEIO, "the resolver failed (SERVFAIL)" },
		{ ARES_EREFUSED, -EREMOTEIO, "the resolver refused the lookup" },
		/* c-ares skips servers that fail or refuse, and reports this when none is left. */
		{ ARES_ECONNREFUSED, -EREMOTEIO,
		  "no resolver resolved it: each failed, refused or cannot be reached" },
		{ ARES_EBADRESP, -EREMOTEIO, "the resolver's response is malformed" },
		{ ARES_EFORMERR, -EREMOTEIO, "the resolver's response is malformed" },
		{ ARES_ENOMEM, -ENOMEM, "no memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].ares == ares) {
			snprintf(why, size, "%s", table[i].why);
			return table[i].status;
		}
	}
	snprintf(why, size, "the resolver failed: %s", ares_strerror(ares));
	return -EREMOTEIO;
}

/* The failure to report, of the two families': a missing name only when both of them report it. */
static int worse_status(int a, int b)
{
	const bool a_mild = a == ARES_ENOTFOUND || a == ARES_ENODATA;
	const bool b_mild = b == ARES_ENOTFOUND || b == ARES_ENODATA;

	if (a_mild && b_mild)
		return a == ARES_ENOTFOUND ? a : b;
	return a_mild ? b : a;
}

static void call_waiting(struct resolve_entry *x)
{
	struct resolve_lookup *l = TAKE_PTR(x->waiting);

	/* Each callback may cancel itself or others; the list is detached by now. */
	while (l) {
		struct resolve_lookup *next = l->next;

		x->waiting = next;
		l->entry = NULL;
		l->next = NULL;
		l->fn(l, &x->answer);
		next = x->waiting;
		x->waiting = NULL;
		l = next;
	}
}

static void finish_entry(struct resolve_entry *x)
{
	struct resolver *r = x->resolver;
	struct resolve_query *q6 = x->query[0], *q4 = x->query[1];
	struct resolve_answer *a = &x->answer;

	loop_timer_off(r->loop, &x->grace);
	if (a->status == 0) {
		resolve_interleave(a, q6->addrs, q6->n_addrs, q4->addrs, q4->n_addrs);
		a->ttl = !q6->n_addrs ? q4->ttl : !q4->n_addrs || q6->ttl < q4->ttl ? q6->ttl : q4->ttl;
		if (!a->n_addrs)
			a->status =
				ares_to_status(worse_status(q6->status, q4->status), a->why, sizeof(a->why));
	}
	for (int i = 0; i < 2; i++) {
		if (x->query[i]->is_done || x->query[i]->again.armed)
			free_query(r, x->query[i]);
		else
			x->query[i]->entry = NULL;
		x->query[i] = NULL;
	}
	resolve_cache_answered(&r->cache, x, clock_nsec(CLOCK_MONOTONIC));
	call_waiting(x);
}

static void on_grace_over(struct timer *t)
{
	finish_entry(t->ctx);
}

/* Adds CNAME targets, each once; an invalid or endless chain invalidates the answer. */
static void take_aliases(struct resolve_answer *a, const struct ares_addrinfo_cname *c)
{
	for (; c && a->status == 0; c = c->next) {
		struct host h;
		bool known = false;

		if (!c->name)
			continue;
		if (host_canon(c->name, strlen(c->name), &h, NULL) < 0 || h.kind != HOST_NAME) {
			a->status = -EREMOTEIO;
			snprintf(a->why, sizeof(a->why), "the name is an alias of an invalid name");
			return;
		}
		for (size_t i = 0; i < a->n_aliases; i++)
			known = known || host_eq(&a->aliases[i], &h);
		if (known)
			continue;
		if (a->n_aliases == RESOLVE_ALIASES_MAX) {
			a->status = -ELOOP;
			snprintf(a->why, sizeof(a->why), "the name has a chain of more than %d aliases",
				 RESOLVE_ALIASES_MAX);
			return;
		}
		if (!a->aliases)
			a->aliases = calloc(RESOLVE_ALIASES_MAX, sizeof(*a->aliases));
		if (!a->aliases) {
			a->status = ares_to_status(ARES_ENOMEM, a->why, sizeof(a->why));
			return;
		}
		a->aliases[a->n_aliases++] = h;
	}
}

static void take_addrs(struct resolve_query *q, const struct ares_addrinfo *ai)
{
	q->ttl = UINT32_MAX;
	for (const struct ares_addrinfo_node *n = ai->nodes; n && q->n_addrs < RESOLVE_ADDRS_MAX;
	     n = n->ai_next) {
		struct addr *a = &q->addrs[q->n_addrs];

		if (addr_from_sockaddr(n->ai_addr, n->ai_addrlen, a, &(uint16_t){ 0 }) < 0)
			continue;
		q->n_addrs++;
		if (n->ai_ttl >= 0 && (uint32_t)n->ai_ttl < q->ttl)
			q->ttl = (uint32_t)n->ai_ttl;
	}
	for (const struct ares_addrinfo_cname *c = ai->cnames; c; c = c->next) {
		if (c->ttl >= 0 && (uint32_t)c->ttl < q->ttl)
			q->ttl = (uint32_t)c->ttl;
	}
}

static void on_ares_answer(void *ctx, int status, int timeouts, struct ares_addrinfo *ai)
{
	struct resolve_query *q = ctx;
	struct resolve_entry *x = q->entry;
	struct resolver *r = q->resolver;

	(void)timeouts;
	q->channel->open--;
	if (x && !r->is_changing && status == ARES_ECONNREFUSED && q->tries < TRIES) {
		loop_timer(r->loop, &q->again, clock_nsec(CLOCK_MONOTONIC) + AGAIN_NS * q->tries);
		if (ai)
			ares_freeaddrinfo(ai);
		return;
	}
	q->is_done = true;
	q->status = status;
	if (x && status == ARES_SUCCESS && ai) {
		take_addrs(q, ai);
		take_aliases(&x->answer, ai->cnames);
	}
	if (ai)
		ares_freeaddrinfo(ai);
	if (!x) {
		free(q);
		return;
	}
	if (r->is_changing) {
		x->was_cancelled = true;
		x->query[q->slot] = NULL;
		free(q);
		return;
	}
	if (x->query[!q->slot] && x->query[!q->slot]->is_done)
		finish_entry(x);
	else if (q->n_addrs && x->query[!q->slot])
		loop_timer(r->loop, &x->grace,
			   clock_nsec(CLOCK_MONOTONIC) + RESOLVE_GRACE_MS * NSEC_PER_MSEC);
}

/* The channel whose turn it is: the next one that is idle, or the current one where none is. */
static struct ares_link *next_channel(struct resolver *r)
{
	if (++r->turn >= TURN) {
		for (unsigned i = 1; i < CHANNELS; i++) {
			unsigned next = (r->at + i) % CHANNELS;

			if (r->channel[next].open == 0) {
				r->at = next;
				r->turn = 0;
				break;
			}
		}
	}
	return &r->channel[r->at];
}

/* c-ares 1.18 leaks memory when it is queried without a server. */
static void fail_without_servers(struct resolver *r, struct resolve_entry *x)
{
	x->answer.status = -EREMOTEIO;
	snprintf(x->answer.why, sizeof(x->answer.why), "no resolver is configured");
	resolve_cache_answered(&r->cache, x, clock_nsec(CLOCK_MONOTONIC));
	call_waiting(x);
}

static void send_query(struct resolver *r, struct resolve_query *q)
{
	static const int family[2] = { AF_INET6, AF_INET };
	const struct ares_addrinfo_hints hints = { .ai_family = family[q->slot],
						   .ai_socktype = SOCK_STREAM,
						   .ai_flags = ARES_AI_NOSORT };

	q->channel = next_channel(r);
	q->channel->open++;
	q->tries++;
	r->queries++;
	ares_link_tick(q->channel);
	ares_getaddrinfo(q->channel->ares, q->entry->name.text, NULL, &hints, on_ares_answer, q);
}

static void on_query_retry(struct timer *t)
{
	struct resolve_query *q = t->ctx;

	send_query(q->resolver, q);
}

static int send_queries(struct resolver *r, struct resolve_entry *x)
{
	struct resolve_query *q[2];

	if (r->n_servers == 0) {
		fail_without_servers(r, x);
		return 0;
	}
	for (int i = 0; i < 2; i++)
		q[i] = calloc(1, sizeof(*q[i]));
	if (!q[0] || !q[1]) {
		free(q[0]);
		free(q[1]);
		return -ENOMEM;
	}
	/* Both exist before the first query: c-ares may call back from inside the call. */
	for (int i = 0; i < 2; i++) {
		*q[i] = (struct resolve_query){ .resolver = r, .entry = x, .slot = i };
		q[i]->again = (struct timer){ .fn = on_query_retry, .ctx = q[i] };
		x->query[i] = q[i];
	}
	for (int i = 0; i < 2; i++)
		send_query(r, q[i]);
	return 0;
}

static void wait_for_entry(struct resolve_entry *x, struct resolve_lookup *l)
{
	l->entry = x;
	l->next = x->waiting;
	x->waiting = l;
}

int resolver_lookup(struct resolver *r, const struct host *h, struct resolve_lookup *l,
		    struct resolve_answer **ret)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct resolve_entry *x = resolve_cache_find(&r->cache, h, now);
	int status = 0;

	BUG_ON(h->kind != HOST_NAME || l->entry);
	if (!x) {
		x = resolve_cache_add(&r->cache, h, &status);
		if (!x)
			return status;
		x->resolver = r;
		x->grace = (struct timer){ .fn = on_grace_over, .ctx = x };
		status = send_queries(r, x);
		if (status < 0) {
			x->answer.status = status;
			resolve_cache_answered(&r->cache, x, now);
			return status;
		}
	} else {
		r->hits++;
	}
	if (x->is_pending) {
		wait_for_entry(x, l);
		return 0;
	}
	x->answer.ttl = resolve_cache_left(x, now);
	*ret = &x->answer;
	return 1;
}

void resolver_cancel(struct resolver *r, struct resolve_lookup *l)
{
	(void)r;
	if (!l->entry)
		return;
	for (struct resolve_lookup **p = &l->entry->waiting; *p; p = &(*p)->next) {
		if (*p == l) {
			*p = l->next;
			break;
		}
	}
	l->entry = NULL;
	l->next = NULL;
}

static int repeat_queries(struct resolver *r, struct resolve_entry *x)
{
	loop_timer_off(r->loop, &x->grace);
	x->was_cancelled = false;
	x->answer.status = 0;
	x->answer.n_addrs = x->answer.n_aliases = 0;
	for (int i = 0; i < 2; i++) {
		free_query(r, x->query[i]); /* the other family was answered already, or waits */
		x->query[i] = NULL;
	}
	return send_queries(r, x);
}

static struct resolve_entry *next_cancelled(const struct resolver *r)
{
	struct resolve_entry *x;

	for (x = TAILQ_FIRST(&r->cache.lru); x; x = TAILQ_NEXT(x, lru)) {
		if (x->is_pending && x->was_cancelled)
			return x;
	}
	return NULL;
}

/* The query could not be repeated: fails the waiting lookups. */
static void fail_entry(struct resolve_entry *x, int status)
{
	x->answer.status = status;
	resolve_cache_answered(&x->resolver->cache, x, clock_nsec(CLOCK_MONOTONIC));
	call_waiting(x);
}

int resolver_set_servers(struct resolver *r, const struct resolve_server *s, size_t n, struct err *e)
{
	struct resolve_entry *x;
	int status = ARES_SUCCESS;

	if (n > RESOLVE_SERVERS_MAX)
		n = RESOLVE_SERVERS_MAX;
	/* c-ares accepts new servers only when nothing is open. */
	r->is_changing = true;
	for (size_t i = 0; i < CHANNELS && status == ARES_SUCCESS; i++) {
		ares_cancel(r->channel[i].ares);
		status = ares_link_servers(&r->channel[i], s, n);
	}
	r->is_changing = false;
	r->n_servers = n;
	resolve_cache_forget(&r->cache);
	/* From the beginning each time: callbacks run in between, and may change the list. */
	while ((x = next_cancelled(r)) != NULL) {
		int failed = repeat_queries(r, x);

		if (failed < 0)
			fail_entry(x, failed);
	}
	if (status != ARES_SUCCESS)
		return err_set(e, -EIO, "cannot set the resolvers: %s", ares_strerror(status));
	return 0;
}

struct resolver_stats resolver_stats(const struct resolver *r)
{
	return (struct resolver_stats){ .queries = r->queries,
					.hits = r->hits,
					.kept = r->cache.n - r->cache.n_pending,
					.pending = r->cache.n_pending };
}
