/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes both ways between a client and a server, as they are.
 *
 *  1. Each socket is armed once, edge-triggered; what is known about it stays in readable, blocked and ending. EPOLLOUT is
 *     added only when a socket did not take everything.
 *  2. Nothing is read that cannot be passed on at once, but for one read's rest (`held`, or a pipe's contents): a
 *     slow reader slows its writer down.
 *  3. Small pieces are copied through eg->scratch; once reads come back full, a pipe is lent and the kernel moves pages. An
 *     idle connection holds neither pipe nor buffer.
 *  4. The end of one direction is passed on as it is; the other goes on.
 *  5. Bytes that go up are granted before they are read, so what lies in `held` or a pipe was granted.
 *  6. An end that is known to stand right behind some bytes leaves with them, in one packet (MSG_MORE, then shutdown()).
 *  7. What a server said before it broke off reaches the client as it would without us: before the reset.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "egress/account/pipes.h"
#include "egress/core/flow_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define COPY_SIZE (64u << 10)
#define STEPS_MAX 16 /* then others have their turn */
#define FULL_READS 2

enum pump_result {
	PUMP_DEAD = -2,	 /* the connection is broken */
	PUMP_LIMIT = -1, /* bytes_up is used up */
	PUMP_WAIT = 0,
	PUMP_AGAIN = 1,
};

static enum limit_way way_of(const struct flow *f, const struct flow_side *from)
{
	return from == &f->client ? LIMIT_UP : LIMIT_DOWN;
}

static int wait_for_room(struct flow *f, struct flow_side *to)
{
	to->blocked = true;
	return loop_watch(&f->eg->loop, &to->w, RELAY_EVENTS | EPOLLOUT) < 0 ? PUMP_DEAD : PUMP_WAIT;
}

/* PUMP_AGAIN: nothing is held any more. */
static int send_held(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	ssize_t n;

	if (from->held.len == 0)
		return PUMP_AGAIN;
	n = send(to->w.fd, from->held.data, from->held.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? wait_for_room(f, to) : PUMP_DEAD;
	from->bytes += (uint64_t)n;
	if ((size_t)n == from->held.len) {
		buf_release(&from->held);
		return PUMP_AGAIN;
	}
	buf_consume(&from->held, (size_t)n);
	return wait_for_room(f, to);
}

static int send_piped(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	while (from->in_pipe) {
		ssize_t n = splice(from->pipe->r, NULL, to->w.fd, NULL, from->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? wait_for_room(f, to) : PUMP_DEAD;
		if (n == 0)
			return PUMP_DEAD;
		from->bytes += (uint64_t)n;
		from->in_pipe -= (uint32_t)n;
	}
	return PUMP_AGAIN;
}

static void put_pipe(struct flow *f, struct flow_side *from)
{
	if (!from->pipe)
		return;
	pipes_put(f->eg->pipes, from->pipe, from->in_pipe != 0);
	from->pipe = NULL;
	from->in_pipe = 0;
}

/* What a read said: bytes, the end, nothing now. */
static int took(struct flow_side *from, ssize_t n)
{
	if (n > 0)
		return PUMP_AGAIN;
	if (n == 0) {
		from->eof = true;
		from->readable = false;
		return PUMP_WAIT;
	}
	if (errno == EINTR)
		return PUMP_AGAIN;
	from->readable = false;
	return errno == EAGAIN ? PUMP_WAIT : PUMP_DEAD;
}

static int step_splice(struct flow *f, struct flow_side *from, struct flow_side *to, size_t grant)
{
	size_t want = grant < from->pipe->size ? grant : from->pipe->size;
	ssize_t n = splice(from->w.fd, NULL, from->pipe->w, NULL, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	int saved = errno, r;

	flow_return(f, way_of(f, from), grant - (n > 0 ? (size_t)n : 0));
	errno = saved;
	if (n <= 0) {
		put_pipe(f, from);
		from->full_reads = n == 0 ? 0 : from->full_reads;
		/* splice() says 0 also when it can take nothing of what is there: only recv() tells the end. */
		return n == 0 ? PUMP_AGAIN : took(from, n);
	}
	/* A trickle is cheaper to copy. */
	from->full_reads = n < 16384 ? (uint8_t)(from->full_reads - (from->full_reads > 0)) : FULL_READS + 2;
	from->in_pipe += (uint32_t)n;
	r = send_piped(f, from, to);
	if (r == PUMP_AGAIN && from->full_reads < FULL_READS)
		put_pipe(f, from);
	return r;
}

/* Reads on when its end is known to come; what was read before an error is passed on before that counts (*ret_then). */
static ssize_t read_to_end(struct flow_side *from, char *to, size_t room, int *ret_then)
{
	ssize_t n = recv(from->w.fd, to, room, MSG_DONTWAIT);

	*ret_then = took(from, n) == PUMP_DEAD ? PUMP_DEAD : PUMP_AGAIN;
	return n > 0 ? n : 0;
}

static int step_copy(struct flow *f, struct flow_side *from, struct flow_side *to, size_t grant)
{
	char *scratch = f->eg->scratch;
	ssize_t n = recv(from->w.fd, scratch, grant, MSG_DONTWAIT), m;
	int saved = errno, then = PUMP_AGAIN;

	if (n > 0 && (size_t)n < grant && from->ending)
		n += read_to_end(from, scratch + n, grant - (size_t)n, &then);
	flow_return(f, way_of(f, from), grant - (n > 0 ? (size_t)n : 0));
	errno = saved;
	if (n <= 0)
		return took(from, n);
	from->full_reads = (size_t)n == COPY_SIZE ? (uint8_t)(from->full_reads + 1) : 0;
	if ((size_t)n < grant && !from->ending)
		from->readable = false;
	/* run() passes the end on in any case where this is not the connection's own end. */
	m = send(to->w.fd, scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | (from->eof ? MSG_MORE : 0));
	if (m == n) {
		from->bytes += (uint64_t)m;
		return then;
	}
	if (m < 0 && errno != EAGAIN && errno != EINTR) {
		flow_return(f, way_of(f, from), (size_t)n);
		return PUMP_DEAD;
	}
	m = m > 0 ? m : 0;
	from->bytes += (uint64_t)m;
	buf_add(&from->held, scratch + m, (size_t)(n - m));
	return then == PUMP_DEAD || buf_error(&from->held) ? PUMP_DEAD : wait_for_room(f, to);
}

static int step(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	size_t want = COPY_SIZE;
	long grant;

	if (from->full_reads >= FULL_READS && !from->pipe)
		from->pipe = pipes_get(f->eg->pipes);
	if (from->pipe)
		want = from->pipe->size;
	grant = flow_grant(f, way_of(f, from), want);
	if (grant <= 0)
		return grant < 0 ? PUMP_LIMIT : PUMP_WAIT;
	return from->pipe ? step_splice(f, from, to, (size_t)grant) : step_copy(f, from, to, (size_t)grant);
}

static int pump(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	int r;

	if (to->blocked)
		return PUMP_WAIT;
	r = send_held(f, from, to);
	if (r == PUMP_AGAIN)
		r = send_piped(f, from, to);
	for (int i = 0; r == PUMP_AGAIN && from->readable && !from->eof; i++) {
		if (i == STEPS_MAX)
			return PUMP_AGAIN;
		r = step(f, from, to);
	}
	return r == PUMP_AGAIN ? PUMP_WAIT : r;
}

static bool is_through(const struct flow_side *from)
{
	return from->eof && from->held.len == 0 && from->in_pipe == 0;
}

/* Rule 4. False: the connection is broken. */
static bool pass_end(struct flow_side *from, struct flow_side *to)
{
	if (!is_through(from) || to->shut)
		return true;
	to->shut = true;
	return shutdown(to->w.fd, SHUT_WR) == 0;
}

static void be_busy(struct flow *f)
{
	struct egress *eg = f->eg;

	if (f->is_busy)
		return;
	f->is_busy = true;
	TAILQ_INSERT_TAIL(&eg->busy, f, in_busy);
	if (!eg->soon.armed)
		loop_timer(&eg->loop, &eg->soon, 0);
}

/* A server that takes no more may have said why before it broke off: as much of that as the client has room for. */
static void pass_last_words(struct flow *f)
{
	f->server.readable = true; /* its event may be behind ours */
	while (pump(f, &f->server, &f->client) == PUMP_AGAIN)
		;
}

static void run(struct flow *f)
{
	int up, down;

	flow_touch(f);
	up = pump(f, &f->client, &f->server);
	if (up == PUMP_DEAD)
		pass_last_words(f);
	down = up < 0 ? up : pump(f, &f->server, &f->client);
	if (up < 0 || down < 0) {
		if (up == PUMP_LIMIT)
			f->eg->stats.limited++;
		flow_reset(f, up == PUMP_LIMIT ? "limit" : "reset");
		return;
	}
	if (is_through(&f->client) && is_through(&f->server)) {
		flow_end(f, f->server.shut ? "client" : "server");
		return;
	}
	if (!pass_end(&f->client, &f->server) || !pass_end(&f->server, &f->client)) {
		flow_reset(f, "reset");
		return;
	}
	if ((f->client.shut || f->server.shut) && !f->is_half) {
		f->is_half = true;
		flow_set_timeout(f, f->eg->times.half);
	}
	if (up == PUMP_AGAIN || down == PUMP_AGAIN)
		be_busy(f);
}

static void on_side(struct watch *w, uint32_t events)
{
	struct flow *f = w->ctx;
	struct flow_side *s = w == &f->client.w ? &f->client : &f->server;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->ending = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		s->blocked = false;
	run(f);
}

/* Before there is a server. A client that is gone is not waited for any longer. */
static void on_waiting(struct watch *w, uint32_t events)
{
	struct flow *f = w->ctx;

	f->client.readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		f->client.ending = true;
	if (events & (EPOLLHUP | EPOLLERR))
		flow_reset(f, "client");
}

void relay_wait(struct flow *f)
{
	f->client.w.fn = on_waiting;
}

static int arm(struct flow *f, struct flow_side *s)
{
	s->w.fn = on_side;
	return loop_watch(&f->eg->loop, &s->w, RELAY_EVENTS | (s->blocked ? (uint32_t)EPOLLOUT : 0));
}

/* What was read before the server was there goes first, and counts. */
static int send_first(struct flow *f)
{
	if (f->is_limited && limits_charge_up(&f->eg->limits, f->limit, f->first.len) < 0)
		return PUMP_LIMIT;
	f->client.held = f->first;
	f->first = BUF_INIT;
	return send_held(f, &f->client, &f->server);
}

static void on_wake(struct flow *f)
{
	run(f);
}

void relay_begin(struct flow *f, int fd)
{
	int r;

	f->state = FLOW_RELAY;
	f->server.w.fd = fd;
	f->wake = on_wake;
	flow_touch(f);
	flow_set_timeout(f, f->eg->times.idle);
	if (f->hello) {
		tls_hello_release(f->hello);
		free(f->hello);
		f->hello = NULL;
	}
	/* So that waiting for room finds on_side. */
	f->server.w.fn = on_side;
	r = f->first.len ? send_first(f) : PUMP_AGAIN;
	if (r < 0) {
		flow_reset(f, r == PUMP_LIMIT ? "limit" : "reset");
		return;
	}
	if (arm(f, &f->server) < 0 || arm(f, &f->client) < 0)
		flow_reset(f, "error: it cannot be waited for");
	else if (f->client.readable)
		run(f); /* noted while there was no server: that edge does not come again */
}

void relay_release(struct flow *f)
{
	if (f->is_limited) {
		flow_return(f, LIMIT_UP, f->client.held.len + f->client.in_pipe);
		flow_return(f, LIMIT_DOWN, f->server.held.len + f->server.in_pipe);
	}
	put_pipe(f, &f->client);
	put_pipe(f, &f->server);
}

/* Those that were there when it began; one that is not through comes again in the next round. */
void relay_soon(struct timer *t)
{
	struct egress *eg = t->ctx;
	struct flow *f, *last = TAILQ_LAST(&eg->busy, flow_list);
	bool more = last != NULL;

	while (more && (f = TAILQ_FIRST(&eg->busy)) != NULL) {
		more = f != last;
		TAILQ_REMOVE(&eg->busy, f, in_busy);
		f->is_busy = false;
		run(f);
	}
}

void relay_refill(struct timer *t)
{
	struct egress *eg = t->ctx;
	struct flow *f, *last = TAILQ_LAST(&eg->paused, flow_list);
	bool more = last != NULL;

	while (more && (f = TAILQ_FIRST(&eg->paused)) != NULL) {
		more = f != last;
		TAILQ_REMOVE(&eg->paused, f, in_paused);
		f->is_paused = false;
		f->wake(f);
	}
}
