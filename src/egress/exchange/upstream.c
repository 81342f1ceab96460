/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, dials, verifies and closes connections to servers, and queues the exchanges that wait for one
 * (upstream.U1 to U5). Sends nothing itself: the backs do.
 */
#include "egress/exchange/upstream.h"

#include "base/container.h"
#include "egress/exchange/http_secret.h"
#include "egress/tls/tls_ctx.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdio.h>

static void make_upstream_key(const struct exch *e, struct upstream_key *k)
{
	*k = (struct upstream_key){ .host = e->conn->host,
				    .port = e->conn->port,
				    .tls = e->conn->tls,
				    .generation = e->in->eg->generation,
				    .rule_id = e->verdict.rule_id };
	secret_digest(e, k->secrets);
}

#define SEEN_UPSTREAM 7u /* besides enum ledger_kind */
#define FAILED_KEPT 256u

static_assert(SEEN_UPSTREAM > LEDGER_DIAL && SEEN_UPSTREAM < SEEN_KINDS, "a kind of its own");

/* Keyed hash: nobody outside can choose keys of one bucket (seen.h). 0: out of memory. */
static uint64_t hash_upstream_key(struct inspect *in, const struct upstream_key *k)
{
	const uint32_t more[] = { k->port, k->tls, k->generation, k->rule_id };
	struct seen *s = &in->eg->ledger.seen;

	seen_begin(s, SEEN_UPSTREAM);
	seen_add(s, k->host.text, k->host.len);
	seen_add(s, more, sizeof(more));
	seen_add(s, k->secrets, sizeof(k->secrets));
	return seen_key(s);
}

static void bucket_insert(struct upstream *u, uint64_t hash)
{
	struct upstream **bucket = &u->in->up_buckets[hash % INSPECT_UP_BUCKETS];

	u->hash = hash;
	u->also = *bucket;
	u->also_link = bucket;
	if (u->also)
		u->also->also_link = &u->also;
	*bucket = u;
}

static void bucket_remove(struct upstream *u)
{
	*u->also_link = u->also;
	if (u->also)
		u->also->also_link = u->also_link;
}

static bool has_upstream_key(const struct upstream *u, const struct upstream_key *k)
{
	return u->key.port == k->port && u->key.tls == k->tls && u->key.generation == k->generation &&
	       u->key.rule_id == k->rule_id && memcmp(u->key.secrets, k->secrets, HASH_LEN) == 0 &&
	       host_eq(&u->key.host, &k->host);
}

static void upstream_bury(struct task *t)
{
	free(CONTAINER_OF(t, struct upstream, grave));
}

void upstream_free(struct upstream *u)
{
	if (!u->link)
		return;
	u->state = UP_DEAD;
	dialc_cancel(&u->in->eg->dial, &u->dial);
	h1_client_close(u);
	h2_client_close(u);
	if (u->is_io) {
		io_finish(&u->io);
		io_close(&u->io);
	}
	*u->link = u->next;
	if (u->next)
		u->next->link = u->link;
	u->link = NULL;
	bucket_remove(u);
	u->in->n_ups--;
	runq_bury(&u->in->q, &u->grave, upstream_bury);
}

void upstream_fail(struct upstream *u, bool again, const char *why)
{
	struct exch *e = TAKE_PTR(u->first);
	struct inspect *in = u->in;

	if (u->state == UP_DEAD)
		return;
	if (why != u->why)
		snprintf(u->why, sizeof(u->why), "%s", why);
	u->state = UP_DEAD;
	if (u->h1 && !e)
		e = h1_client_take(u);
	if (u->h2)
		h2_client_fail_all(u, again, u->why);
	upstream_free(u);
	if (e)
		exch_back_failed(e, again, u->why);
	upstream_serve(in);
}

/* The protocol is known: starts the exchange it was opened for, then serves the waiting ones. */
static void upstream_live(struct upstream *u)
{
	struct exch *e = TAKE_PTR(u->first);
	bool h2 = u->io.ssl ? tls_is_h2(u->io.ssl) : u->in->clear_h2_back;
	int r = h2 ? h2_client_open(u) : h1_client_open(u);

	u->verified = u->io.ssl && !tls_verify_error(u->io.ssl) && SSL_get0_peer_certificate(u->io.ssl);
	u->state = UP_LIVE;
	u->since = u->in->eg->now;
	if (e)
		e->up_conn = NULL;
	if (r < 0) {
		u->first = e;
		upstream_fail(u, false, "out of memory");
		return;
	}
	if (e && h2)
		h2_client_start(u, e);
	else if (e)
		h1_client_start(u, e);
	upstream_serve(u->in);
}

static void fail_handshake(struct upstream *u)
{
	const char *cert = tls_verify_error(u->io.ssl);

	if (cert)
		snprintf(u->why, sizeof(u->why), "its certificate is not accepted: %s", cert);
	else
		snprintf(u->why, sizeof(u->why), "TLS failed: %s", u->io.why);
	if (cert)
		egress_alert(u->in->eg, "certificate", u->key.host.text, "port %u: %s", u->key.port, cert);
	/* A server that speaks only HTTP/2 sends this alert: retry with h2 offered. */
	if (!cert && !u->offers_h2 && !u->only_h1 && u->first &&
	    strstr(u->io.why, "no application protocol")) {
		u->first->need_h2 = true;
		upstream_fail(u, true, u->why);
		return;
	}
	upstream_fail(u, false, u->why);
}

static void upstream_run(struct io *io)
{
	struct upstream *u = io->owner;
	int r;

	if (u->state == UP_SHAKE) {
		r = io_handshake(io);
		if (r < 0) {
			fail_handshake(u);
			return;
		}
		if (r == 0) {
			io_arm(io);
			return;
		}
		if (io->ssl) {
			u->in->handshakes++;
			u->in->resumed += SSL_session_reused(io->ssl) != 0;
		}
		upstream_live(u);
		if (u->state == UP_DEAD)
			return;
	}
	if (u->h1)
		h1_client_run(u);
	else if (u->h2)
		h2_client_run(u);
}

static enum tls_alpn upstream_alpn(const struct upstream *u)
{
	return u->only_h1 || !u->offers_h2 ? TLS_ALPN_H1 : TLS_ALPN_BOTH;
}

static int upstream_begin_io(struct upstream *u, int fd, struct err *e)
{
	const struct exch *x = u->first;
	SSL *ssl = NULL;
	int r;

	if (u->key.tls) {
		/* Only the exchange that waits for the connection tells which certificates are accepted. */
		r = x ? inspect_need_tls(u->in, e) : err_set(e, -EIO, "no exchange waits for it");
		if (x && r == 0)
			r = tls_ctx_connect(u->in->tls, &u->key.host, u->key.port, x->verdict.terms.ca,
					    upstream_alpn(u), &ssl, e);
		if (r < 0) {
			fd_close(fd);
			return r;
		}
	}
	u->is_io = true;
	r = io_open(&u->io, &u->in->q, fd, ssl, upstream_run, u);
	if (r == 0 && ssl && http_secrets_want(u->in, &u->key.host, u->key.port))
		io_set_wipe(&u->io);
	return r;
}

static void on_upstream_dialled(struct dialc_request *a, const struct dial_rep *rep, int fd)
{
	struct upstream *u = a->ctx;
	struct inspect *in = u->in;
	struct err e = ERR_INIT;

	runq_enter(&in->q);
	if (rep->status < 0 || fd < 0) {
		snprintf(u->why, sizeof(u->why), "%s",
			 rep->why[0] ? rep->why : strerror(rep->status < 0 ? -rep->status : EIO));
		fd_close(fd);
		upstream_fail(u, false, u->why);
	} else if (upstream_begin_io(u, fd, &e) < 0) {
		upstream_fail(u, false, e.msg);
	} else {
		u->one_request = (rep->flags & DIAL_ONE_REQUEST) != 0;
		u->state = UP_SHAKE;
		u->since = in->eg->now;
		io_kick(&u->io);
	}
	runq_leave(&in->q);
}

static bool prefers_h2(const struct exch *e)
{
	return e->conn->h2 != NULL || e->need_h2;
}

static void upstream_open(struct exch *e, const struct upstream_key *k, uint64_t hash)
{
	struct upstream *u = calloc(1, sizeof(*u));
	const char *proxy_set = e->verdict.terms.proxy_set;
	struct inspect *in = e->in;

	if (!u) {
		exch_back_failed(e, false, "out of memory");
		return;
	}
	u->in = in;
	u->key = *k;
	u->since = in->eg->now;
	u->offers_h2 = prefers_h2(e) && !e->req.websocket;
	u->only_h1 = e->req.websocket;
	u->dial.done = on_upstream_dialled;
	u->dial.ctx = u;
	u->next = in->ups;
	u->link = &in->ups;
	if (in->ups)
		in->ups->link = &u->next;
	in->ups = u;
	bucket_insert(u, hash);
	in->n_ups++;
	in->dialled++;
	u->first = e;
	e->state = EXCH_WAIT;
	if (dialc_dial(&in->eg->dial, &u->dial, &k->host, k->port, 0, in->eg->generation, proxy_set, NULL) <
	    0)
		upstream_fail(u, false, "too many connections are being opened");
}

static bool upstream_is_idle(const struct upstream *u)
{
	return (u->h1 && h1_client_is_idle(u)) || (u->h2 && h2_client_is_idle(u));
}

/* The connections that exist for one request. */
struct upstream_look {
	struct upstream_key key;
	uint64_t hash;
	unsigned n;		/* connections of its key */
	unsigned n_idle;	/* of those */
	bool is_coming;		/* one of those may turn out to have room for many requests */
	struct upstream *live;	/* one that can take it now; NULL: none */
	struct upstream *spare; /* of its key, idle for longest; NULL: none */
};

static struct upstream *older_upstream(struct upstream *a, struct upstream *b)
{
	return !a || b->since < a->since ? b : a;
}

static void upstream_look(const struct exch *e, struct upstream_look *l)
{
	struct upstream *idle_h1 = NULL;

	*l = (struct upstream_look){ 0 };
	make_upstream_key(e, &l->key);
	l->hash = hash_upstream_key(e->in, &l->key);
	for (struct upstream *u = e->in->up_buckets[l->hash % INSPECT_UP_BUCKETS]; u; u = u->also) {
		bool idle;

		e->in->looked++;
		if (u->hash != l->hash || !has_upstream_key(u, &l->key))
			continue;
		idle = u->state == UP_LIVE && upstream_is_idle(u);
		l->n++;
		l->n_idle += idle;
		l->spare = idle ? older_upstream(l->spare, u) : l->spare;
		if (u->state == UP_DIAL || u->state == UP_SHAKE)
			l->is_coming |= u->offers_h2;
		if (u->state != UP_LIVE || (e->fresh && u->used))
			continue;
		if (u->h2 && !l->live && !e->req.websocket && h2_client_has_room(u))
			l->live = u;
		if (u->h1 && h1_client_is_idle(u))
			idle_h1 = u;
	}
	l->live = l->live ? l->live : idle_h1;
}

/* The connection idle for longest; searched only when the limit is reached. */
static struct upstream *longest_idle(struct inspect *in)
{
	struct upstream *spare = NULL;

	for (struct upstream *u = in->none_idle ? NULL : in->ups; u; u = u->next) {
		in->looked++;
		if (u->state == UP_LIVE && upstream_is_idle(u))
			spare = older_upstream(spare, u);
	}
	in->none_idle = !spare;
	return spare;
}

/* upstream.U4: the connection to close before one more is dialled; NULL: none needed, or none idle. */
static struct upstream *upstream_to_close(struct inspect *in, const struct upstream_look *l)
{
	if (l->n >= UPSTREAM_KEY_MAX || l->n_idle >= UPSTREAM_IDLE_KEY_MAX)
		return l->spare;
	if (in->n_ups >= UPSTREAM_MAX)
		return l->spare ? l->spare : longest_idle(in);
	return NULL;
}

/* upstream.U5: requests with the same number find the same connections. */
static uint64_t alike_number(const struct exch *e, uint64_t hash)
{
	uint64_t wants = prefers_h2(e) | (unsigned)e->req.websocket << 1 | (unsigned)e->fresh << 2;

	return hash ^ (wants + 1) * 0x9e3779b97f4a7c15ull;
}

enum upstream_got { GOT, GOT_NONE, GOT_MUST_END /* an idle one: retry in serve_waiting() */ };

static enum upstream_got try_get_upstream(struct exch *e, bool may_end)
{
	struct inspect *in = e->in;
	struct upstream *spare;
	struct upstream_look l;

	upstream_look(e, &l);
	if (!l.hash) {
		exch_back_failed(e, false, "out of memory");
		return GOT;
	}
	e->alike = alike_number(e, l.hash);
	if (l.live) {
		in->reused += l.live->used;
		if (l.live->h2)
			h2_client_start(l.live, e);
		else
			h1_client_start(l.live, e);
		return GOT;
	}
	/* One that is being opened may have room for all. */
	if (l.is_coming && prefers_h2(e) && !e->req.websocket && !e->fresh)
		return GOT_NONE;
	spare = upstream_to_close(in, &l);
	if (spare && !may_end)
		return GOT_MUST_END;
	if (spare)
		upstream_free(spare);
	else if (l.n >= UPSTREAM_KEY_MAX || in->n_ups >= UPSTREAM_MAX)
		return GOT_NONE;
	upstream_open(e, &l.key, l.hash);
	return GOT;
}

static void waiting_insert(struct exch *e)
{
	struct inspect *in = e->in;

	e->state = EXCH_WAIT;
	e->next = NULL;
	e->link = in->waiting_end;
	*in->waiting_end = e;
	in->waiting_end = &e->next;
}

static void waiting_remove(struct exch *e)
{
	struct inspect *in = e->in;

	if (!e->link)
		return;
	*e->link = e->next;
	if (e->next)
		e->next->link = e->link;
	else
		in->waiting_end = e->link;
	e->link = NULL;
}

/*
 * The caller may be running on a connection that is idle by now, so none is closed from here: serve_waiting()
 * does that.
 */
static void get_or_wait(struct exch *e)
{
	struct inspect *in = e->in;
	enum upstream_got r;

	in->none_idle = false;
	r = try_get_upstream(e, false);
	in->none_idle = false;
	if (r != GOT)
		waiting_insert(e);
	if (r == GOT_MUST_END)
		upstream_serve(in);
}

bool upstream_is_waiting(const struct exch *e)
{
	return e->state == EXCH_WAIT && e->link;
}

void upstream_get(struct exch *e)
{
	e->tries++;
	/* From here on it waits for servers, not for a person. */
	e->active = e->in->eg->now;
	get_or_wait(e);
}

void upstream_forget(struct exch *e)
{
	/* An exchange in the waiting list has no connection being opened for it. */
	if (e->link || e->state != EXCH_WAIT) {
		waiting_remove(e);
		return;
	}
	for (struct upstream *u = e->in->ups; u; u = u->next) {
		if (u->first == e) {
			u->first = NULL;
			upstream_free(u);
			upstream_serve(e->in);
			return;
		}
	}
}

void upstream_again(struct exch *e)
{
	/* Connections of the older policy do not count for it any more. */
	e->alike = 0;
	if (upstream_is_waiting(e))
		upstream_serve(e->in);
	if (e->state != EXCH_WAIT || e->link)
		return;
	upstream_forget(e);
	get_or_wait(e);
}

static void serve_waiting(struct task *t)
{
	struct inspect *in = CONTAINER_OF(t, struct inspect, serve);
	uint64_t failed[FAILED_KEPT] = { 0 };
	struct exch *stop = NULL;

	in->none_idle = false;
	while (in->waiting && in->waiting != stop) {
		struct exch *e = in->waiting;
		uint64_t *same = &failed[e->alike % FAILED_KEPT];
		bool fails = e->alike && *same == e->alike;

		waiting_remove(e);
		/* A later change that helps one that failed calls this function again. */
		if (!fails && try_get_upstream(e, true) == GOT)
			continue;
		failed[e->alike % FAILED_KEPT] = e->alike;
		waiting_insert(e);
		if (!stop)
			stop = e;
	}
	in->none_idle = false;
}

void upstream_serve(struct inspect *in)
{
	in->serve.fn = serve_waiting;
	if (in->waiting)
		runq_add(&in->q, &in->serve);
}

void upstream_tick(struct inspect *in, uint64_t now)
{
	struct upstream *next;

	for (struct upstream *u = in->ups; u; u = next) {
		uint64_t age = (now - u->since) / 1000000000;

		next = u->next;
		if (u->state == UP_LIVE && upstream_is_idle(u) && age > in->times.idle)
			upstream_fail(u, false, "idle");
		else if (u->state != UP_LIVE && age > in->times.upstream)
			upstream_fail(u, false, "it did not respond in time");
	}
}

void upstream_new_policy(struct inspect *in)
{
	struct upstream *next;

	for (struct upstream *u = in->ups; u; u = next) {
		next = u->next;
		if (u->state == UP_LIVE && upstream_is_idle(u) && u->key.generation != in->eg->generation)
			upstream_free(u);
	}
}

void upstream_close_all(struct inspect *in)
{
	while (in->ups) {
		struct exch *e = TAKE_PTR(in->ups->first);

		if (e)
			e->up_conn = NULL;
		upstream_free(in->ups);
	}
}
