/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh-agent of a sandbox: init accepts each connection to the agent's socket inside as a channel (PROTO_ACCEPT), and
 * each whole message on it is forwarded to coffer-vault, which alone parses it (vault/serve/agent.h). This file only
 * splits the byte stream into messages; it holds no key.
 *
 * Invariants
 *  E1  A signature is in the audit log before a byte of it is sent inside; if the log cannot be written, the signature is
 *      withheld. Refusals are logged as well: the first of a kind at once, its repetitions as a count.
 *  E2  The vault has one message at a time. A program is hung up on if it sends more than one message before the response
 *      to the first, or one longer than VAULT_ASK_MAX, or if it does not read.
 *  E3  The number of connections and their rate are limited; further ones wait in the socket's backlog inside. When all
 *      places are taken, one that has been silent for SILENT is hung up on.
 *  E4  Without a vault every request fails, and the connection stays open.
 *  E5  A message that needs approval is held here while others proceed. It is sent to the vault again, marked as allowed,
 *      only after the guard reported an approval for it (net_sign.h). On denial, timeout or loss of the guard the request
 *      fails, with the reason in the log. A held connection keeps its place.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "ipc/fdpass.h"
#include "netd/wire/net_sign.h"
#include "run/supervise/supervise_int.h"
#include "vault/common/vaultproto.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PLACES 16
#define NEW_RATE 50.0 /* connections in a second */
#define NEW_BURST 100.0
#define SILENT (30 * NSEC_PER_SEC)
#define PAUSE NSEC_PER_SEC
#define SAY_AGAIN (30 * NSEC_PER_SEC) /* refusals that were counted */
#define LENGTH 4		      /* bytes before a message, big-endian */
#define SAID_MAX (VAULT_ASK_MAX + 8192)
#define AGENT_FAILURE 5

struct supervise_agent_conn {
	struct supervise_agent_conn *next;
	struct supervision *sv;
	struct chan *ch;
	struct buf in;	 /* not a whole message yet, or one that waits for its turn */
	bool known;	 /* the vault was sent a message of it */
	uint64_t heard;	 /* CLOCK_MONOTONIC ns */
	struct buf last; /* the message that the vault has or had: to be sent again when it is allowed */
	uint32_t ticket; /* not 0: approval of that message was requested */
	bool allowed;	 /* and granted */
	char ask[64];	 /* the question's id */
	struct net_sign sign;
};

static void send_next_to_vault(struct supervision *sv);
static void accept_next_agent_conn(struct supervision *sv);

/* --- the vault ---------------------------------------------------------------------------------------------------- */

static int send_to_vault(struct supervision *sv, uint32_t chan, bool allowed, const void *data, size_t len)
{
	struct vault_msg m = { .type = VAULT_ASK, .id = ++sv->agent.last_id, .num = { chan, allowed } };
	uint8_t out[VAULT_ASK_MAX + 64];
	long n;

	m.text[0] = (struct slice){ data, len };
	n = vault_msg_pack(VAULT_FROM_CLIENT, &m, out, sizeof(out));
	if (n < 0 || sv->agent.w.fd < 0)
		return -EPIPE;
	return send(sv->agent.w.fd, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n ? 0 : -errno;
}

/* --- the guard ---------------------------------------------------------------------------------------------------- */

static int send_to_guard(struct supervision *sv, const void *data, size_t len)
{
	int fd = sv->w_guard.events ? sv->w_guard.fd : -1;

	/* Never waits: the guard may be stopped. */
	return fd >= 0 && send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len ? 0 : -EPIPE;
}

/* Reports to the guard how the signature that was asked about ended, and forgets the message. */
static void close_sign_ask(struct supervise_agent_conn *a, enum net_msg_type how)
{
	const struct net_msg m = { .type = how, .level = a->ticket };

	if (a->ticket)
		(void)!send_to_guard(a->sv, &m, sizeof(m));
	a->ticket = 0;
	a->allowed = false;
	buf_clear(&a->last);
}

static struct supervise_agent_conn *find_agent_conn(struct supervision *sv, uint32_t chan)
{
	for (struct supervise_agent_conn *a = sv->agent.conns; a; a = a->next) {
		if (a->ch && a->ch->id == chan)
			return a;
	}
	return NULL;
}

/* Frees the connection. Its channel lives until init reports its end. */
static void forget_agent_conn(struct supervise_agent_conn *a)
{
	struct supervision *sv = a->sv;
	struct supervise_agent_conn **p = &sv->agent.conns;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	sv->agent.n_conns--;
	/* An approval whose message was sent to the vault already counts as used. */
	close_sign_ask(a, !a->allowed				  ? NET_SIGN_DROP
			  : a->ch && sv->agent.asked == a->ch->id ? NET_SIGN_TAKEN
								  : NET_SIGN_UNUSED);
	if (a->ch)
		a->ch->agent_conn = NULL;
	/* If this message is lost, the vault forgets the connection a little later by itself. */
	if (a->known && a->ch)
		(void)!send_to_vault(sv, a->ch->id, false, NULL, 0);
	buf_release(&a->in);
	buf_release(&a->last);
	free(a);
}

static void hang_up_agent_conn(struct supervise_agent_conn *a)
{
	struct supervision *sv = a->sv;

	proto_add_u32(&sv->init.out, PROTO_SIGNAL, a->ch->id, SIGHUP);
	supervise_flush_init(sv);
	forget_agent_conn(a);
	accept_next_agent_conn(sv);
}

static void reply_to_agent_conn(struct supervise_agent_conn *a, const void *data, size_t len)
{
	uint8_t out[LENGTH + VAULT_ASK_MAX];
	uint32_t be = __builtin_bswap32((uint32_t)len);
	struct chan *ch = a->ch;
	uint32_t cost = (uint32_t)(FRAME_HEAD + LENGTH + len);

	if (len > VAULT_ASK_MAX || ch->in_closed || cost > ch->in_room ||
	    conn_pending(&a->sv->init) > SUPERVISE_INIT_HIGH) {
		hang_up_agent_conn(a);
		return;
	}
	memcpy(out, &be, LENGTH);
	memcpy(out + LENGTH, data, len);
	frame_add(&a->sv->init.out, PROTO_STDIN, ch->id, out, (uint32_t)(LENGTH + len));
	ch->in_room -= cost;
	supervise_flush_init(a->sv);
}

static void fail_request(struct supervise_agent_conn *a)
{
	static const uint8_t failure = AGENT_FAILURE;

	reply_to_agent_conn(a, &failure, 1);
}

static void vault_is_gone(struct supervision *sv)
{
	struct supervise_agent_conn *a = find_agent_conn(sv, sv->agent.asked);

	loop_unwatch(&sv->loop, &sv->agent.w);
	sv->agent.w.fd = fd_close(sv->agent.w.fd);
	sv->agent.asked = 0;
	for (struct supervise_agent_conn *p = sv->agent.conns; p; p = p->next)
		p->known = false;
	if (a) {
		close_sign_ask(a, NET_SIGN_UNUSED);
		fail_request(a);
	}
	send_next_to_vault(sv);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static void put_slice(struct json *j, const char *key, struct slice s)
{
	if (s.len)
		json_bytes(j, key, s.p, s.len);
}

static void describe_signature(const struct vault_msg *m, const struct supervise_agent_conn *a,
			       struct buf *out)
{
	struct json j = JSON_INIT(out);

	put_slice(&j, "secret", m->text[1]);
	put_slice(&j, "host", m->text[2]);
	if (m->num[2])
		json_u64(&j, "port", m->num[2]);
	put_slice(&j, "user", m->text[3]);
	json_str(&j, "as", "ssh");
	put_slice(&j, "key", m->text[4]);
	put_slice(&j, "session", m->text[5]);
	put_slice(&j, "why", m->text[6]);
	if (a && a->allowed)
		json_str(&j, "ask", a->ask);
}

static void copy_slice(char *out, size_t size, struct slice s)
{
	snprintf(out, size, "%.*s", (int)s.len, s.len ? s.p : "");
}

/* True: a refusal of a new kind, to be logged now. False: it was added to the count of its kind. */
static bool is_new_refusal(struct supervision *sv, const struct vault_msg *m)
{
	struct supervise_agent *g = &sv->agent;
	struct supervise_refusal r = { 0 };

	copy_slice(r.name, sizeof(r.name), m->text[1]);
	copy_slice(r.host, sizeof(r.host), m->text[2]);
	copy_slice(r.why, sizeof(r.why), m->text[6]);
	for (size_t i = 0; i < g->n_refusals; i++) {
		struct supervise_refusal *o = &g->refusals[i];

		if (str_eq(o->name, r.name) && str_eq(o->host, r.host) && str_eq(o->why, r.why)) {
			o->more++;
			return false;
		}
	}
	/* When the table is full, its last row counts all further kinds. */
	if (g->n_refusals == SUPERVISE_REFUSALS) {
		g->refusals[SUPERVISE_REFUSALS - 1].more++;
		return false;
	}
	g->refusals[g->n_refusals++] = r;
	return true;
}

static void log_refusals(struct supervision *sv)
{
	for (size_t i = 0; i < sv->agent.n_refusals; i++) {
		struct supervise_refusal *r = &sv->agent.refusals[i];
		autobuf struct buf b = BUF_INIT;
		struct json j = JSON_INIT(&b);

		if (!r->more)
			continue;
		if (*r->name)
			json_str(&j, "secret", r->name);
		if (*r->host)
			json_str(&j, "host", r->host);
		json_str(&j, "as", "ssh");
		json_str(&j, "why", r->why);
		json_u64(&j, "count", r->more);
		r->more = 0;
		(void)!supervise_event(sv, "secret.refused", &b);
	}
}

static void on_refusals_timer(struct timer *t)
{
	log_refusals(t->ctx);
}

/* supervise_agent.E1: writes the log line for the vault's reply. Only on 0 may the reply be sent inside. */
static int log_vault_reply(struct supervision *sv, const struct vault_msg *m,
			   const struct supervise_agent_conn *a)
{
	autobuf struct buf b = BUF_INIT;

	if (m->num[1] == VAULT_SAID_NOTHING)
		return 0;
	if (m->num[1] == VAULT_SAID_REFUSED && !is_new_refusal(sv, m)) {
		if (!sv->agent.t_log.armed)
			loop_timer(&sv->loop, &sv->agent.t_log, clock_nsec(CLOCK_MONOTONIC) + SAY_AGAIN);
		return 0;
	}
	describe_signature(m, a, &b);
	if (buf_error(&b))
		return -ENOMEM;
	return supervise_event(sv, m->num[1] == VAULT_SAID_SIGNED ? "secret.use" : "secret.refused", &b);
}

/* --- approval by a person ------------------------------------------------------------------------------------------- */

/* Denials by a person or by the ask server are few, so each is logged by itself and not counted. */
static void log_denied_signature(struct supervise_agent_conn *a, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "secret", a->sign.key);
	if (a->sign.host[0]) {
		json_str(&j, "host", a->sign.host);
		json_u64(&j, "port", a->sign.port);
	}
	json_str(&j, "as", "ssh");
	json_str(&j, "key", a->sign.print);
	json_str(&j, "what", a->sign.what);
	json_str(&j, "why", why);
	if (a->ask[0])
		json_str(&j, "ask", a->ask);
	(void)!supervise_event(a->sv, "secret.refused", &b);
}

/* supervise_agent.E5: the vault requires approval. Asks the guard; the request waits here, or fails without a guard. */
static void hold_for_approval(struct supervise_agent_conn *a, const struct vault_msg *m)
{
	struct net_sign *s = &a->sign;

	*s = (struct net_sign){ .type = NET_SIGN, .port = (uint32_t)m->num[2] };
	copy_slice(s->key, sizeof(s->key), m->text[1]);
	copy_slice(s->host, sizeof(s->host), m->text[2]);
	copy_slice(s->print, sizeof(s->print), m->text[4]);
	copy_slice(s->what, sizeof(s->what), m->text[6]);
	s->ticket = ++a->sv->agent.last_ticket;
	a->ask[0] = '\0';
	if (send_to_guard(a->sv, s, sizeof(*s)) < 0) {
		log_denied_signature(a, "nobody can be asked: the sandbox's guard does not take questions");
		fail_request(a);
		return;
	}
	a->ticket = s->ticket;
	a->allowed = false;
}

static struct supervise_agent_conn *find_agent_conn_by_ticket(struct supervision *sv, uint32_t ticket)
{
	for (struct supervise_agent_conn *a = sv->agent.conns; a; a = a->next) {
		if (ticket && a->ticket == ticket && !a->allowed)
			return a;
	}
	return NULL;
}

static void deny_signature(struct supervise_agent_conn *a, const char *why)
{
	/* No report to the guard: the denial came from there, or the guard is gone. */
	a->ticket = 0;
	buf_clear(&a->last);
	log_denied_signature(a, why);
	fail_request(a);
}

void supervise_agent_verdict(struct supervision *sv, uint32_t ticket, bool allow, const char *text)
{
	struct supervise_agent_conn *a = find_agent_conn_by_ticket(sv, ticket);
	size_t n = strcspn(text, " ");

	/* The program has disconnected; its NET_SIGN_DROP may have crossed this verdict. The approval is returned unused. */
	if (!a) {
		const struct net_msg m = { .type = NET_SIGN_UNUSED, .level = ticket };

		if (allow)
			(void)!send_to_guard(sv, &m, sizeof(m));
		return;
	}
	snprintf(a->ask, sizeof(a->ask), "%.*s", (int)n, text);
	if (allow)
		a->allowed = true;
	else
		deny_signature(a, text[n] ? text + n + 1 : "it was denied");
	send_next_to_vault(sv);
}

void supervise_agent_unanswered(struct supervision *sv)
{
	struct supervise_agent_conn *a, *next;

	for (a = sv->agent.conns; a; a = next) {
		next = a->next;
		if (!a->ticket || a->allowed)
			continue;
		deny_signature(a, "nobody can be asked: the sandbox's guard is gone");
		/* A hang-up may have freed other connections: start again from the head. */
		next = sv->agent.conns;
	}
	send_next_to_vault(sv);
}

int supervise_agent_said(struct supervision *sv, const void *data, size_t len)
{
	struct supervise_agent_conn *a;
	struct vault_msg m;

	if (vault_msg_parse(VAULT_TO_CLIENT, data, len, 0, &m) < 0 || m.type != VAULT_SAID)
		return -EPROTO;
	/* The end of a connection is answered as well, by an empty reply. */
	if (m.num[0] != sv->agent.asked || m.text[0].len == 0)
		return 0;
	a = find_agent_conn(sv, sv->agent.asked);
	sv->agent.asked = 0;
	if (m.num[1] == VAULT_SAID_ASKS) {
		if (a && a->allowed)
			return -EPROTO;
		if (a)
			hold_for_approval(a, &m);
		send_next_to_vault(sv);
		return 0;
	}
	if (log_vault_reply(sv, &m, a) == 0 && a) {
		close_sign_ask(a, m.num[1] == VAULT_SAID_SIGNED ? NET_SIGN_TAKEN : NET_SIGN_UNUSED);
		reply_to_agent_conn(a, m.text[0].p, m.text[0].len);
	}
	send_next_to_vault(sv);
	return 0;
}

static void on_vault_message(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	uint8_t in[SAID_MAX];
	size_t len = 0;
	int r = fdpass_recv_some(w->fd, in, sizeof(in), &len, NULL, 0);

	(void)events;
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r < 0 || supervise_agent_said(sv, in, len) < 0)
		vault_is_gone(sv);
}

void supervise_agent_channel(struct supervision *sv, int fd)
{
	if (!sv->io->agent) {
		fd_close(fd);
		return;
	}
	if (sv->agent.w.fd >= 0)
		vault_is_gone(sv);
	sv->agent.w = (struct watch){ .fd = fd, .fn = on_vault_message, .ctx = sv };
	if (fd_set_nonblock(fd, true) < 0 || loop_watch(&sv->loop, &sv->agent.w, EPOLLIN) < 0)
		vault_is_gone(sv);
}

/* --- programs inside ---------------------------------------------------------------------------------------------- */

/* The length of the first message if all of it has arrived; 0: not yet, negative: its length is not legal. */
static long whole_message_length(const struct supervise_agent_conn *a)
{
	uint32_t be;

	if (a->in.len < LENGTH)
		return 0;
	memcpy(&be, a->in.data, LENGTH);
	be = __builtin_bswap32(be);
	if (be == 0 || be > VAULT_ASK_MAX)
		return -EMSGSIZE;
	return a->in.len - LENGTH >= be ? (long)be : 0;
}

/* 1: the message was sent to the vault; 0: there is none to send; negative: the request failed or the connection was hung up on. */
static int forward_message(struct supervise_agent_conn *a)
{
	struct supervision *sv = a->sv;
	long len = a->ticket ? 0 : whole_message_length(a);
	int r;

	if (len < 0) {
		hang_up_agent_conn(a);
		return -EPIPE;
	}
	if (len == 0 && !a->allowed)
		return 0;
	if (!a->allowed) {
		buf_clear(&a->last);
		buf_add(&a->last, a->in.data + LENGTH, (size_t)len);
		buf_consume(&a->in, LENGTH + (size_t)len);
	}
	r = buf_error(&a->last) ? -ENOMEM
				: send_to_vault(sv, a->ch->id, a->allowed, a->last.data, a->last.len);
	if (r < 0) {
		close_sign_ask(a, NET_SIGN_UNUSED);
		fail_request(a);
		return -EPIPE;
	}
	a->known = true;
	sv->agent.asked = a->ch->id;
	return 1;
}

/* If the vault is idle, sends it the next waiting message. The connection that was served moves to the end of the list. */
static void send_next_to_vault(struct supervision *sv)
{
	struct supervise_agent_conn *a = sv->agent.conns, *next;

	for (; a && !sv->agent.asked; a = next) {
		struct supervise_agent_conn **p;
		int r = forward_message(a);

		/* A hang-up may have freed other connections: start again from the head. */
		next = r < 0 ? sv->agent.conns : a->next;
		if (r <= 0)
			continue;
		for (p = &sv->agent.conns; *p != a; p = &(*p)->next)
			;
		*p = a->next;
		for (; *p; p = &(*p)->next)
			;
		a->next = NULL;
		*p = a;
	}
}

int supervise_agent_output(struct chan *ch, const struct frame *f)
{
	struct supervise_agent_conn *a = ch->agent_conn;
	uint32_t cost = f->len + FRAME_HEAD;

	if (!f->len || cost > ch->out_room || f->type == PROTO_STDERR)
		return -EPROTO;
	ch->out_room -= cost;
	supervise_drop_output(ch, cost);
	if (!a)
		return 0;
	a->heard = clock_nsec(CLOCK_MONOTONIC);
	buf_add(&a->in, f->data, f->len);
	/* supervise_agent.E2: more than one message may not be queued. */
	if (buf_error(&a->in) || a->in.len > LENGTH + VAULT_ASK_MAX) {
		hang_up_agent_conn(a);
		return 0;
	}
	send_next_to_vault(ch->sv);
	return 0;
}

void supervise_agent_started(struct chan *ch)
{
	struct supervision *sv = ch->sv;

	sv->agent.accepting = false;
	if (ch->agent_conn)
		ch->agent_conn->heard = clock_nsec(CLOCK_MONOTONIC);
	accept_next_agent_conn(sv);
}

static void report_agent_down(struct supervision *sv, const struct proto_exit *x)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (sv->agent.said_broken)
		return;
	sv->agent.said_broken = true;
	json_str(&j, "part", "ssh-agent");
	json_str(&j, "why", strerror((int)x->value)); // NOLINT(concurrency-mt-unsafe): one thread
	(void)!supervise_event(sv, "agent.down", &b);
}

void supervise_agent_ended(struct chan *ch, const struct proto_exit *x)
{
	struct supervision *sv = ch->sv;
	bool waited = ch->state == CHAN_STARTING;

	if (ch->agent_conn)
		forget_agent_conn(ch->agent_conn);
	supervise_chan_free(ch);
	if (!waited) {
		accept_next_agent_conn(sv);
		return;
	}
	/* Accepting failed. ENOENT and EEXIST: init has no such socket, for good; other errors are retried after a pause. */
	sv->agent.accepting = false;
	if (x->value == ENOENT || x->value == EEXIST) {
		report_agent_down(sv, x);
		return;
	}
	loop_timer(&sv->loop, &sv->agent.t, clock_nsec(CLOCK_MONOTONIC) + PAUSE);
}

/* supervise_agent.E3: is there a place for one more connection? If not, hangs up on the one that was silent longest. */
static bool has_agent_conn_place(struct supervision *sv, uint64_t now)
{
	struct supervise_agent_conn *a, *best = NULL;

	if (sv->agent.n_conns < PLACES && sv->n_chan < PROTO_CHANNELS - 1)
		return true;
	for (a = sv->agent.conns; a; a = a->next) {
		if (a->ch->id != sv->agent.asked && !a->ticket && (!best || a->heard < best->heard))
			best = a;
	}
	/* Not hang_up_agent_conn(), which would call back into this function. */
	if (best && now - best->heard > SILENT) {
		proto_add_u32(&sv->init.out, PROTO_SIGNAL, best->ch->id, SIGHUP);
		supervise_flush_init(sv);
		forget_agent_conn(best);
	}
	return sv->agent.n_conns < PLACES && sv->n_chan < PROTO_CHANNELS - 1;
}

/* supervise_agent.E3: a token bucket over new connections. */
static bool rate_allows_agent_conn(struct supervise_agent *g, uint64_t now)
{
	g->places += (double)(now - g->places_at) * NEW_RATE / (double)NSEC_PER_SEC;
	g->places = g->places > NEW_BURST ? NEW_BURST : g->places;
	g->places_at = now;
	if (g->places < 1)
		return false;
	g->places -= 1;
	return true;
}

static void accept_next_agent_conn(struct supervision *sv)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct supervise_agent_conn *a;

	if (sv->agent.accepting || sv->ended || sv->killed || sv->gone)
		return;
	a = has_agent_conn_place(sv, now) && rate_allows_agent_conn(&sv->agent, now) ? calloc(1, sizeof(*a))
										     : NULL;
	if (a)
		a->ch = supervise_chan_new(sv, NULL, 0);
	if (!a || !a->ch) {
		free(a);
		loop_timer(&sv->loop, &sv->agent.t, now + PAUSE);
		return;
	}
	a->sv = sv;
	a->heard = now;
	a->next = sv->agent.conns;
	sv->agent.conns = a;
	sv->agent.n_conns++;
	sv->agent.accepting = true;
	a->ch->agent_conn = a;
	a->ch->is_agent = true;
	a->ch->id = ++sv->last_chan;
	a->ch->state = CHAN_STARTING;
	a->ch->flags = PROTO_F_STDIN;
	frame_add(&sv->init.out, PROTO_ACCEPT, a->ch->id, NULL, 0);
	supervise_flush_init(sv);
}

static void on_accept_pause(struct timer *t)
{
	accept_next_agent_conn(t->ctx);
}

void supervise_agent_begin(struct supervision *sv)
{
	if (!sv->io->agent)
		return;
	sv->agent.t = (struct timer){ .fn = on_accept_pause, .ctx = sv };
	sv->agent.t_log = (struct timer){ .fn = on_refusals_timer, .ctx = sv };
	sv->agent.places = NEW_BURST;
	sv->agent.places_at = clock_nsec(CLOCK_MONOTONIC);
	if (sv->io->agent_fd >= 0)
		supervise_agent_channel(sv, sv->io->agent_fd);
	accept_next_agent_conn(sv);
}

void supervise_agent_close(struct supervision *sv)
{
	if (!sv->io->agent)
		return;
	if (sv->agent.w.fd >= 0) {
		loop_unwatch(&sv->loop, &sv->agent.w);
		sv->agent.w.fd = fd_close(sv->agent.w.fd);
	}
	while (sv->agent.conns)
		forget_agent_conn(sv->agent.conns);
	loop_timer_off(&sv->loop, &sv->agent.t);
	loop_timer_off(&sv->loop, &sv->agent.t_log);
	log_refusals(sv);
}
