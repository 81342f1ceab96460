/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published ports (-p, ports.h): each accepted connection becomes a channel on which init connects to the port inside.
 *
 * Both ends are hostile: the peer that connects, and the sandbox. Bytes queued for either are bounded by the channel's
 * credit (proto.P3), and so is the number of connections: when all places are taken, the one that has been silent longest
 * is reset if it was silent for SILENT, otherwise the new one is. A peer that has half-closed its connection and then
 * neither sends nor receives for LINGER is reset, too.
 */
#include "base/clock.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PLACES 128 /* the others of PROTO_CHANNELS are for commands */
#define SILENT (30 * NSEC_PER_SEC)
#define LINGER (60 * NSEC_PER_SEC) /* half-closed and silent */
#define PAUSE (100 * NSEC_PER_MSEC)
#define CHUNK (16u << 10)

struct port_conn {
	struct port_conn *next;
	struct supervision *sv;
	struct chan *ch;
	struct watch w;
	struct buf out; /* what the client has not taken */
	size_t off;
	bool closing;	/* the port has closed it: what is left goes out, then it ends */
	uint64_t heard; /* CLOCK_MONOTONIC ns of the last byte, either way */
	struct timer t_linger;
};

struct port_listener {
	struct supervision *sv;
	struct watch w;
	struct timer t;
	uint16_t inside;
};

static void watch_port_conn(struct port_conn *p);

static void reset_and_close(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	/* Best effort: without it the peer sees an ordinary close. */
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

/* Closes the peer's socket and frees the connection; `hard`: by a reset. The channel lives until init ends it. */
static void forget_port_conn(struct port_conn *p, bool hard)
{
	struct supervision *sv = p->sv;
	struct port_conn **at = &sv->port_conns;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	sv->n_port_conns--;
	loop_unwatch(&sv->loop, &p->w);
	loop_timer_off(&sv->loop, &p->t_linger);
	if (hard)
		reset_and_close(p->w.fd);
	else
		fd_close(p->w.fd);
	if (p->ch)
		p->ch->port = NULL;
	buf_release(&p->out);
	free(p);
}

/* Tells init to close the channel, and grants its outstanding output, which is then dropped. Frees the connection. */
static void hang_up_port_conn(struct port_conn *p, bool hard)
{
	struct supervision *sv = p->sv;
	struct chan *ch = p->ch;

	if (ch) {
		uint32_t owed = PROTO_WINDOW - ch->out_room;

		proto_add_u32(&sv->init.out, PROTO_SIGNAL, ch->id, SIGKILL);
		if (owed >= PROTO_CREDIT_MIN) {
			proto_add_u32(&sv->init.out, PROTO_CREDIT, ch->id, owed);
			ch->out_room = PROTO_WINDOW;
			ch->out_owed = 0;
		} else {
			ch->out_owed = owed;
		}
	}
	forget_port_conn(p, hard);
	supervise_flush_init(sv);
}

static void on_linger_deadline(struct timer *t)
{
	struct port_conn *p = t->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (now - p->heard < LINGER)
		loop_timer(&p->sv->loop, t, p->heard + LINGER);
	else
		hang_up_port_conn(p, true);
}

/* Grants init as much output as the peer has taken. */
static void grant_port_output(struct port_conn *p)
{
	struct chan *ch = p->ch;
	uint32_t waits = (uint32_t)(p->out.len - p->off), give;

	if (!ch || ch->state != CHAN_RUNNING || PROTO_WINDOW - ch->out_room <= waits)
		return;
	give = PROTO_WINDOW - ch->out_room - waits;
	if (give < PROTO_CREDIT_STEP && !(waits == 0 && give >= PROTO_CREDIT_MIN))
		return;
	ch->out_room += give;
	proto_add_u32(&p->sv->init.out, PROTO_CREDIT, ch->id, give);
	supervise_flush_init(p->sv);
}

/* Writes queued output. Negative: the peer is gone. */
static int send_to_peer(struct port_conn *p)
{
	while (p->off < p->out.len) {
		ssize_t n =
			send(p->w.fd, p->out.data + p->off, p->out.len - p->off, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		p->off += (size_t)n;
		p->heard = clock_nsec(CLOCK_MONOTONIC);
	}
	if (p->off == p->out.len) {
		buf_clear(&p->out);
		p->off = 0;
	} else if (p->off > PROTO_WINDOW / 4) {
		buf_consume(&p->out, p->off);
		p->off = 0;
	}
	return 0;
}

static bool may_read_peer(const struct port_conn *p)
{
	const struct chan *ch = p->ch;

	return ch && ch->state == CHAN_RUNNING && !ch->in_eof && !ch->in_closed && ch->in_room > FRAME_HEAD &&
	       conn_pending(&p->sv->init) < SUPERVISE_INIT_HIGH;
}

static void half_close_peer(struct port_conn *p)
{
	frame_add(&p->sv->init.out, PROTO_STDIN, p->ch->id, NULL, 0);
	p->ch->in_eof = true;
	p->heard = clock_nsec(CLOCK_MONOTONIC);
	loop_timer(&p->sv->loop, &p->t_linger, p->heard + LINGER);
}

/* Passes input on to init, within its credit. Negative: the peer is gone. */
static int read_from_peer(struct port_conn *p)
{
	struct chan *ch = p->ch;
	char chunk[CHUNK];
	size_t most = ch->in_room - FRAME_HEAD;
	ssize_t n = recv(p->w.fd, chunk, most < sizeof(chunk) ? most : sizeof(chunk), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		half_close_peer(p);
	} else {
		frame_add(&p->sv->init.out, PROTO_STDIN, ch->id, chunk, (uint32_t)n);
		ch->in_room -= FRAME_HEAD + (uint32_t)n;
		p->heard = clock_nsec(CLOCK_MONOTONIC);
	}
	supervise_flush_init(p->sv);
	return 0;
}

static void on_port_conn(struct watch *w, uint32_t events)
{
	struct port_conn *p = w->ctx;
	int r = events & EPOLLERR ? -ECONNRESET : 0;

	if (r == 0 && events & EPOLLOUT)
		r = send_to_peer(p);
	if (r == 0 && events & (EPOLLIN | EPOLLHUP) && may_read_peer(p))
		r = read_from_peer(p);
	/* Closed in both directions: hang up even though the credit forbids reading now. */
	if (r == 0 && events & EPOLLHUP && !may_read_peer(p))
		r = -EPIPE;
	if (r < 0) {
		hang_up_port_conn(p, true);
		return;
	}
	if (p->closing && p->out.len == 0) {
		forget_port_conn(p, false);
		return;
	}
	grant_port_output(p);
	watch_port_conn(p);
}

static void watch_port_conn(struct port_conn *p)
{
	uint32_t ev = (may_read_peer(p) ? EPOLLIN : 0) | (p->out.len > p->off ? EPOLLOUT : 0) | LOOP_HANG_UP;

	if (loop_watch(&p->sv->loop, &p->w, ev) < 0)
		hang_up_port_conn(p, true);
}

static struct port_conn *find_longest_silent(struct supervision *sv)
{
	struct port_conn *best = NULL;

	for (struct port_conn *p = sv->port_conns; p; p = p->next) {
		if (!best || p->heard < best->heard)
			best = p;
	}
	return best;
}

/* Is there a place for one more connection? If not, resets the one that was silent longest, to free one. */
static bool has_port_place(struct supervision *sv)
{
	struct port_conn *p;

	if (sv->n_port_conns < PLACES && sv->n_chan < PROTO_CHANNELS - 1)
		return true;
	p = find_longest_silent(sv);
	/* The channel becomes free only when init reports its end, so it may serve the next connection, not this one. */
	if (p && clock_nsec(CLOCK_MONOTONIC) - p->heard > SILENT)
		hang_up_port_conn(p, true);
	return sv->n_port_conns < PLACES && sv->n_chan < PROTO_CHANNELS - 1;
}

void supervise_port_begin(struct supervision *sv, int fd, uint16_t inside)
{
	struct port_conn *p = calloc(1, sizeof(*p));
	int one = 1;

	if (p)
		p->ch = supervise_chan_new(sv, NULL, 0);
	if (!p || !p->ch) {
		free(p);
		reset_and_close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	p->sv = sv;
	p->w = (struct watch){ .fd = fd, .fn = on_port_conn, .ctx = p };
	p->t_linger = (struct timer){ .fn = on_linger_deadline, .ctx = p };
	p->heard = clock_nsec(CLOCK_MONOTONIC);
	p->next = sv->port_conns;
	sv->port_conns = p;
	sv->n_port_conns++;
	p->ch->port = p;
	p->ch->is_port = true;
	p->ch->id = ++sv->last_chan;
	p->ch->state = CHAN_STARTING;
	p->ch->flags = PROTO_F_STDIN;
	proto_add_u32(&sv->init.out, PROTO_DIAL, p->ch->id, inside);
	supervise_flush_init(sv);
}

static void on_port_accept(struct watch *w, uint32_t events)
{
	struct port_listener *l = w->ctx;
	struct supervision *sv = l->sv;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			loop_unwatch(&sv->loop, w);
			loop_timer(&sv->loop, &l->t, clock_nsec(CLOCK_MONOTONIC) + PAUSE);
		}
		return;
	}
	if (sv->ended || sv->killed || !has_port_place(sv))
		reset_and_close(fd);
	else
		supervise_port_begin(sv, fd, l->inside);
}

static void listen_on_port_again(struct timer *t)
{
	struct port_listener *l = t->ctx;

	if (loop_watch(&l->sv->loop, &l->w, EPOLLIN) < 0)
		loop_timer(&l->sv->loop, t, clock_nsec(CLOCK_MONOTONIC) + PAUSE);
}

int supervise_ports_open(struct supervision *sv)
{
	const struct ports *ports = sv->io->ports;

	if (!ports || !ports->n)
		return 0;
	sv->listeners = calloc(ports->n, sizeof(*sv->listeners));
	if (!sv->listeners)
		return -ENOMEM;
	for (size_t i = 0; i < ports->n; i++) {
		struct port_listener *l = &sv->listeners[i];

		l->sv = sv;
		l->inside = ports->v[i].inside;
		l->w = (struct watch){ .fd = ports->v[i].fd, .fn = on_port_accept, .ctx = l };
		l->t = (struct timer){ .fn = listen_on_port_again, .ctx = l };
		listen_on_port_again(&l->t);
	}
	return 0;
}

void supervise_ports_close(struct supervision *sv)
{
	while (sv->port_conns)
		forget_port_conn(sv->port_conns, false);
	for (size_t i = 0; sv->listeners && i < sv->io->ports->n; i++) {
		loop_unwatch(&sv->loop, &sv->listeners[i].w);
		loop_timer_off(&sv->loop, &sv->listeners[i].t);
	}
	free(sv->listeners);
	sv->listeners = NULL;
}

size_t supervise_port_waiting(const struct chan *ch)
{
	return ch->port ? ch->port->out.len - ch->port->off : 0;
}

void supervise_port_started(struct chan *ch)
{
	if (ch->port)
		watch_port_conn(ch->port);
}

int supervise_port_output(struct chan *ch, const struct frame *f)
{
	struct port_conn *p = ch->port;
	uint32_t cost = f->len + FRAME_HEAD;

	if (!f->len || cost > ch->out_room || f->type == PROTO_STDERR)
		return -EPROTO;
	if (!p) {
		ch->out_room -= cost;
		supervise_drop_output(ch, cost);
		return 0;
	}
	ch->out_room -= cost;
	buf_add(&p->out, f->data, f->len);
	if (buf_error(&p->out) || send_to_peer(p) < 0) {
		hang_up_port_conn(p, true);
		return 0;
	}
	grant_port_output(p);
	watch_port_conn(p);
	return 0;
}

int supervise_port_input(struct chan *ch)
{
	if (!ch->port)
		return 0;
	/* The program inside reads no more: with SHUT_RD the kernel refuses further input of the peer. */
	if (ch->in_closed)
		(void)shutdown(ch->port->w.fd, SHUT_RD);
	watch_port_conn(ch->port);
	return 0;
}

void supervise_port_ended(struct chan *ch, const struct proto_exit *x)
{
	struct port_conn *p = ch->port;

	if (p) {
		p->ch = NULL;
		ch->port = NULL;
		p->closing = true;
		if (x->kind == PROTO_NOT_STARTED || p->out.len == 0) {
			forget_port_conn(p, x->kind == PROTO_NOT_STARTED);
		} else {
			/* The rest of the output is offered to the peer for LINGER. */
			p->heard = clock_nsec(CLOCK_MONOTONIC);
			loop_timer(&p->sv->loop, &p->t_linger, p->heard + LINGER);
			watch_port_conn(p);
		}
	}
	supervise_chan_free(ch);
}
