/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays bytes both ways between a client and a server, unchanged.
 *
 *  1. Each socket is armed once, edge-triggered; its state is kept in readable, blocked and ending. EPOLLOUT
 *  is added only when a socket did not accept everything.
 *  2. Nothing is read that cannot be passed on at once, except the rest of one read (`held`, or a pipe's
 *  contents): a slow reader slows its writer down.
 *  3. Small pieces are copied through eg->scratch; once reads come back full, a pipe is borrowed and the
 *  kernel moves pages. An idle connection holds neither pipe nor buffer. A handed socket is never spliced:
 *  splice() waits where the flags of the socket say so, and its sender can change them.
 *  4. The end of one direction is passed on as it is; the other direction continues.
 *  5. Bytes up are granted before they are read, so bytes in `held` or a pipe have been granted.
 *  6. An end that is known to follow right after some bytes leaves with them, in one packet (MSG_MORE, then
 *  shutdown()).
 *  7. Bytes that a server sent before it reset reach the client, as they would without us: before the reset.
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
#define STEPS_MAX 16 /* then other flows get their turn */
#define FULL_READS 2

enum pump_result {
	PUMP_DEAD = -2,	 /* the connection is broken */
	PUMP_LIMIT = -1, /* bytes_up is used up */
	PUMP_WAIT = 0,
	PUMP_AGAIN = 1,
};

static enum limit_way relay_way(const struct flow *f, const struct flow_side *from)
{
	return from == &f->client ? LIMIT_UP : LIMIT_DOWN;
}

static int wait_for_socket_room(struct flow *f, struct flow_side *to)
{
	to->blocked = true;
	return loop_watch(&f->eg->loop, &to->w, RELAY_EVENTS | EPOLLOUT) < 0 ? PUMP_DEAD : PUMP_WAIT;
}

/* PUMP_AGAIN: nothing is held any more. */
static int relay_send_held(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	ssize_t n;

	if (from->held.len == 0)
		return PUMP_AGAIN;
	n = send(to->w.fd, from->held.data, from->held.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? wait_for_socket_room(f, to) : PUMP_DEAD;
	from->bytes += (uint64_t)n;
	if ((size_t)n == from->held.len) {
		buf_release(&from->held);
		return PUMP_AGAIN;
	}
	buf_consume(&from->held, (size_t)n);
	return wait_for_socket_room(f, to);
}

static int relay_send_piped(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	while (from->in_pipe) {
		ssize_t n = splice(from->pipe->r, NULL, to->w.fd, NULL, from->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? wait_for_socket_room(f, to) : PUMP_DEAD;
		if (n == 0)
			return PUMP_DEAD;
		from->bytes += (uint64_t)n;
		from->in_pipe -= (uint32_t)n;
	}
	return PUMP_AGAIN;
}

static void relay_return_pipe(struct flow *f, struct flow_side *from)
{
	if (!from->pipe)
		return;
	pipes_put(f->eg->pipes, from->pipe, from->in_pipe != 0);
	from->pipe = NULL;
	from->in_pipe = 0;
}

/* Interprets the result of a read: bytes, the end, or nothing now. */
static int relay_note_read(struct flow_side *from, ssize_t n)
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

static int relay_step_splice(struct flow *f, struct flow_side *from, struct flow_side *to, size_t grant)
{
	size_t want = grant < from->pipe->size ? grant : from->pipe->size;
	ssize_t n = splice(from->w.fd, NULL, from->pipe->w, NULL, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	int saved = errno, r;

	flow_return(f, relay_way(f, from), grant - (n > 0 ? (size_t)n : 0));
	errno = saved;
	if (n <= 0) {
		relay_return_pipe(f, from);
		from->full_reads = n == 0 ? 0 : from->full_reads;
		/* splice() returns 0 also when it cannot take what is there: only recv() tells the end. */
		return n == 0 ? PUMP_AGAIN : relay_note_read(from, n);
	}
	/* Few bytes are cheaper to copy. */
	from->full_reads = n < 16384 ? (uint8_t)(from->full_reads - (from->full_reads > 0)) : FULL_READS + 2;
	from->in_pipe += (uint32_t)n;
	r = relay_send_piped(f, from, to);
	if (r == PUMP_AGAIN && from->full_reads < FULL_READS)
		relay_return_pipe(f, from);
	return r;
}

/*
 * Reads on when the end is known to follow; bytes read before an error are passed on before the error counts
 * (*ret_then).
 */
static ssize_t relay_read_to_end(struct flow_side *from, char *to, size_t room, int *ret_then)
{
	ssize_t n = recv(from->w.fd, to, room, MSG_DONTWAIT);

	*ret_then = relay_note_read(from, n) == PUMP_DEAD ? PUMP_DEAD : PUMP_AGAIN;
	return n > 0 ? n : 0;
}

static int relay_step_copy(struct flow *f, struct flow_side *from, struct flow_side *to, size_t grant)
{
	char *scratch = f->eg->scratch;
	ssize_t n = recv(from->w.fd, scratch, grant, MSG_DONTWAIT), m;
	int saved = errno, then = PUMP_AGAIN;

	if (n > 0 && (size_t)n < grant && from->ending)
		n += relay_read_to_end(from, scratch + n, grant - (size_t)n, &then);
	flow_return(f, relay_way(f, from), grant - (n > 0 ? (size_t)n : 0));
	errno = saved;
	if (n <= 0)
		return relay_note_read(from, n);
	from->full_reads = (size_t)n == COPY_SIZE ? (uint8_t)(from->full_reads + 1) : 0;
	if ((size_t)n < grant && !from->ending)
		from->readable = false;
	/* relay_run() passes the end on unless the whole connection ends. */
	m = send(to->w.fd, scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | (from->eof ? MSG_MORE : 0));
	if (m == n) {
		from->bytes += (uint64_t)m;
		return then;
	}
	if (m < 0 && errno != EAGAIN && errno != EINTR) {
		flow_return(f, relay_way(f, from), (size_t)n);
		return PUMP_DEAD;
	}
	m = m > 0 ? m : 0;
	from->bytes += (uint64_t)m;
	buf_add(&from->held, scratch + m, (size_t)(n - m));
	return then == PUMP_DEAD || buf_error(&from->held) ? PUMP_DEAD : wait_for_socket_room(f, to);
}

static int relay_step(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	size_t want = COPY_SIZE;
	long grant;

	if (from->full_reads >= FULL_READS && !from->pipe && !f->is_handed)
		from->pipe = pipes_get(f->eg->pipes);
	if (from->pipe)
		want = from->pipe->size;
	grant = flow_grant(f, relay_way(f, from), want);
	if (grant <= 0)
		return grant < 0 ? PUMP_LIMIT : PUMP_WAIT;
	return from->pipe ? relay_step_splice(f, from, to, (size_t)grant)
			  : relay_step_copy(f, from, to, (size_t)grant);
}

static int relay_pump(struct flow *f, struct flow_side *from, struct flow_side *to)
{
	int r;

	if (to->blocked)
		return PUMP_WAIT;
	r = relay_send_held(f, from, to);
	if (r == PUMP_AGAIN)
		r = relay_send_piped(f, from, to);
	for (int i = 0; r == PUMP_AGAIN && from->readable && !from->eof; i++) {
		if (i == STEPS_MAX)
			return PUMP_AGAIN;
		r = relay_step(f, from, to);
	}
	return r == PUMP_AGAIN ? PUMP_WAIT : r;
}

static bool side_is_finished(const struct flow_side *from)
{
	return from->eof && from->held.len == 0 && from->in_pipe == 0;
}

/* Rule 4. False: the connection is broken. */
static bool relay_pass_end(struct flow_side *from, struct flow_side *to)
{
	if (!side_is_finished(from) || to->shut)
		return true;
	to->shut = true;
	return shutdown(to->w.fd, SHUT_WR) == 0;
}

static void relay_mark_busy(struct flow *f)
{
	struct egress *eg = f->eg;

	if (f->is_busy)
		return;
	f->is_busy = true;
	TAILQ_INSERT_TAIL(&eg->busy, f, in_busy);
	if (!eg->soon.armed)
		loop_timer(&eg->loop, &eg->soon, 0);
}

/*
 * A server that accepts no more may have sent the reason before it reset: passes on as much of it as the
 * client has room for.
 */
static void relay_pass_last_bytes(struct flow *f)
{
	f->server.readable = true; /* its event may come after this one */
	while (relay_pump(f, &f->server, &f->client) == PUMP_AGAIN)
		;
}

static void relay_run(struct flow *f)
{
	int up, down;

	flow_touch(f);
	up = relay_pump(f, &f->client, &f->server);
	if (up == PUMP_DEAD)
		relay_pass_last_bytes(f);
	down = up < 0 ? up : relay_pump(f, &f->server, &f->client);
	if (up < 0 || down < 0) {
		if (up == PUMP_LIMIT)
			f->eg->stats.limited++;
		flow_reset(f, up == PUMP_LIMIT ? "limit" : "reset");
		return;
	}
	if (side_is_finished(&f->client) && side_is_finished(&f->server)) {
		flow_end(f, f->server.shut ? "client" : "server");
		return;
	}
	if (!relay_pass_end(&f->client, &f->server) || !relay_pass_end(&f->server, &f->client)) {
		flow_reset(f, "reset");
		return;
	}
	if ((f->client.shut || f->server.shut) && !f->is_half) {
		f->is_half = true;
		flow_set_timeout(f, f->eg->times.half);
	}
	if (up == PUMP_AGAIN || down == PUMP_AGAIN)
		relay_mark_busy(f);
}

static void on_relay_socket(struct watch *w, uint32_t events)
{
	struct flow *f = w->ctx;
	struct flow_side *s = w == &f->client.w ? &f->client : &f->server;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->ending = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		s->blocked = false;
	relay_run(f);
}

/* While there is no server. A client that has reset ends the flow. */
static void on_client_before_server(struct watch *w, uint32_t events)
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
	f->client.w.fn = on_client_before_server;
}

static int relay_arm(struct flow *f, struct flow_side *s)
{
	s->w.fn = on_relay_socket;
	return loop_watch(&f->eg->loop, &s->w, RELAY_EVENTS | (s->blocked ? (uint32_t)EPOLLOUT : 0));
}

/* Bytes read before the server was connected are sent first, and count. */
static int relay_send_first(struct flow *f)
{
	if (f->is_limited && limits_charge_up(&f->eg->limits, f->limit, f->first.len) < 0)
		return PUMP_LIMIT;
	f->client.held = f->first;
	f->first = BUF_INIT;
	return relay_send_held(f, &f->client, &f->server);
}

void relay_begin(struct flow *f, int fd)
{
	int r;

	f->state = FLOW_RELAY;
	f->server.w.fd = fd;
	f->wake = relay_run;
	flow_touch(f);
	flow_set_timeout(f, f->eg->times.idle);
	if (f->hello) {
		tls_hello_release(f->hello);
		free(f->hello);
		f->hello = NULL;
	}
	/* So that wait_for_socket_room() arms on_relay_socket. */
	f->server.w.fn = on_relay_socket;
	r = f->first.len ? relay_send_first(f) : PUMP_AGAIN;
	if (r < 0) {
		flow_reset(f, r == PUMP_LIMIT ? "limit" : "reset");
		return;
	}
	if (relay_arm(f, &f->server) < 0 || relay_arm(f, &f->client) < 0)
		flow_reset(f, "error: the connection cannot be watched");
	else if (f->client.readable)
		relay_run(f); /* noted while there was no server: that edge does not come again */
}

void relay_release(struct flow *f)
{
	if (f->is_limited) {
		flow_return(f, LIMIT_UP, f->client.held.len + f->client.in_pipe);
		flow_return(f, LIMIT_DOWN, f->server.held.len + f->server.in_pipe);
	}
	relay_return_pipe(f, &f->client);
	relay_return_pipe(f, &f->server);
}

/* Runs the flows that were busy when it was called; one with more to move comes again in the next round. */
void relay_soon(struct timer *t)
{
	struct egress *eg = t->ctx;
	struct flow *f, *last = TAILQ_LAST(&eg->busy, flow_list);
	bool more = last != NULL;

	while (more && (f = TAILQ_FIRST(&eg->busy)) != NULL) {
		more = f != last;
		TAILQ_REMOVE(&eg->busy, f, in_busy);
		f->is_busy = false;
		relay_run(f);
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
