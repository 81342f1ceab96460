/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wall elsewhere (intake.h): takes its connections and DNS queries as messages of its forwarder, and sends the
 * replies back the same way. The forwarder may be taken over: a message is used only after wallmsg_parse(), a
 * descriptor only after take_stream() has looked at it, and no call here waits for either. Judges nothing.
 *
 *  1. A forwarder that breaks wallmsg.M1 to M3 is ended, with all connections that it brought. Nothing brings it
 *  back but a new coffer-egress.
 *  2. At most BATCH messages in one turn, and QUEUE replies before the journal is written.
 */
#include "base/cleanup.h"
#include "egress/core/dns_serve.h"
#include "egress/core/flow_int.h"
#include "egress/core/intake.h"
#include "egress/wire/fds.h"
#include "egress/wire/wallmsg.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 32
#define QUEUE 256

/* Room for one descriptor more than any message may have: two are told from one. */
#define FDS_ROOM 2
union wall_control {
	char bytes[CMSG_SPACE(FDS_ROOM * sizeof(int))];
	struct cmsghdr align;
};

struct wall_datagram {
	struct wallmsg_head head;
	uint8_t data[WALLMSG_DATAGRAM_MAX];
};

struct wall_reply {
	struct wallmsg_head head;
	uint8_t data[DNS_REPLY_MAX];
};

/* The sender of a query. */
struct wall_client {
	struct dns_client base;
	struct wallmsg_head query;
};

struct forwarder {
	struct egress *eg;
	struct watch w; /* w.fd -1: it has ended, or was ended */
	unsigned n_out;
	struct wall_reply out[QUEUE];
	struct wall_datagram in[BATCH];
};

static void wall_reply_all(struct egress *eg, int status);

static void wall_client_send(struct dns_client *c, const uint8_t *msg, size_t len)
{
	struct egress *eg = dns_serve_egress(c->dns);
	struct forwarder *fw = eg->forwarder;
	struct wall_reply *r;

	if (fw->n_out == QUEUE)
		wall_reply_all(eg, journal_commit(&eg->journal));
	r = &fw->out[fw->n_out++];
	r->head = wallmsg_reply(&((struct wall_client *)c)->query, len);
	memcpy(r->data, msg, len);
}

static size_t wall_client_max(const struct dns_client *c, const struct dns_query *q)
{
	(void)c;
	return dns_udp_max(q);
}

static struct dns_client *wall_client_keep(struct dns_client *c)
{
	struct wall_client *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *(struct wall_client *)c;
	return &copy->base;
}

static void wall_client_drop(struct dns_client *c)
{
	free(c);
}

static const struct dns_client_ops wall_client_ops = { wall_client_send, wall_client_max, wall_client_keep,
						       wall_client_drop };

/* Sends up to BATCH replies; how many were sent. */
static unsigned wall_reply_batch(struct forwarder *fw, struct wall_reply *first, unsigned n)
{
	struct iovec iov[BATCH][2];
	struct mmsghdr m[BATCH];
	int r;

	n = n < BATCH ? n : BATCH;
	for (unsigned i = 0; i < n; i++) {
		iov[i][0] = (struct iovec){ &first[i].head, sizeof(first[i].head) };
		iov[i][1] = (struct iovec){ first[i].data, first[i].head.len };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = iov[i], .msg_iovlen = 2 } };
	}
	r = sendmmsg(fw->w.fd, m, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return r > 0 ? (unsigned)r : 0;
}

static void wall_reply_all(struct egress *eg, int status)
{
	struct forwarder *fw = eg->forwarder;
	unsigned sent = 0, n = 1;

	while (status == 0 && fw->w.fd >= 0 && n > 0 && sent < fw->n_out) {
		n = wall_reply_batch(fw, fw->out + sent, fw->n_out - sent);
		sent += n;
	}
	/* wallmsg.M4: the others are lost. */
	eg->stats.dns_dropped += fw->n_out - sent;
	fw->n_out = 0;
}

static bool socket_is(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

/* wallmsg.M3 */
static bool is_stream(int fd)
{
	if (!socket_is(fd, SO_TYPE, SOCK_STREAM))
		return false;
	return socket_is(fd, SO_DOMAIN, AF_UNIX) ||
	       ((socket_is(fd, SO_DOMAIN, AF_INET) || socket_is(fd, SO_DOMAIN, AF_INET6)) &&
		socket_is(fd, SO_PROTOCOL, IPPROTO_TCP));
}

/* A socket that was never connected, or that listens, has nothing to read and never will have. */
static bool is_connected(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
}

/* Takes fd. */
static int take_stream(struct egress *eg, const struct wallmsg_head *h, int fd)
{
	const int on = 1;

	if (!is_stream(fd)) {
		intake_turn_away(fd);
		return -EPROTO;
	}
	if (!is_connected(fd)) {
		intake_turn_away(fd);
		return 0;
	}
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (h->to.port == WALLMSG_DNS_PORT)
		dns_tcp_take(eg->dns, fd, true);
	else if (intake_has_room(eg))
		intake_take(eg, fd, &h->to.addr, h->to.port, true);
	else
		intake_turn_away(fd);
	return 0;
}

/* How many descriptors came with a message. */
static unsigned take_wall_fds(struct msghdr *m, int fds[FDS_ROOM])
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		BUG_ON(n + bytes / sizeof(int) > FDS_ROOM);
		memcpy(fds + n, CMSG_DATA(c), bytes);
		n += (unsigned)(bytes / sizeof(int));
	}
	return n;
}

static void turn_all_away(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		intake_turn_away(fds[i]);
}

static int take_wall_message(struct forwarder *fw, struct mmsghdr *m)
{
	struct wall_client client = { .base = { &wall_client_ops, fw->eg->dns } };
	struct wall_datagram *d = m->msg_hdr.msg_iov->iov_base;
	int fds[FDS_ROOM] = { -1, -1 };
	unsigned n = take_wall_fds(&m->msg_hdr, fds);
	/* The kernel has closed its descriptor: there was no number for it here. */
	bool is_lost = n == 0 && (m->msg_hdr.msg_flags & MSG_CTRUNC);

	if (m->msg_len == 0 && n == 0)
		return -EPIPE;
	if ((m->msg_hdr.msg_flags & MSG_TRUNC) || (n && (m->msg_hdr.msg_flags & MSG_CTRUNC)) ||
	    wallmsg_parse(d, m->msg_len, n + is_lost, &client.query) < 0) {
		turn_all_away(fds, n);
		return -EPROTO;
	}
	if (is_lost)
		intake_no_descriptor(fw->eg);
	else if (client.query.type == WALLMSG_STREAM)
		return take_stream(fw->eg, &client.query, fds[0]);
	else
		dns_serve_query(fw->eg->dns, &client.base, d->data, client.query.len);
	return 0;
}

static int take_wall_messages(struct forwarder *fw)
{
	union wall_control ctl[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];
	int fds[FDS_ROOM], n, r = 0;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ &fw->in[i], sizeof(fw->in[i]) };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i],
						      .msg_iovlen = 1,
						      .msg_control = ctl[i].bytes,
						      .msg_controllen = sizeof(ctl[i].bytes) } };
	}
	n = recvmmsg(fw->w.fd, m, BATCH, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = take_wall_message(fw, &m[i]);
		else
			turn_all_away(fds, take_wall_fds(&m[i].msg_hdr, fds));
	}
	return r;
}

static void on_wall_messages(struct watch *w, uint32_t events)
{
	struct forwarder *fw = w->ctx;
	struct egress *eg = fw->eg;
	int r = take_wall_messages(fw);

	(void)events;
	if (r == 0)
		return;
	loop_unwatch(&eg->loop, w);
	w->fd = fd_close(w->fd);
	if (r == -EPIPE) {
		egress_alert(
			eg, "wall", NULL,
			"the wall's forwarder has ended: no new connection comes in until the network is restarted");
		return;
	}
	egress_alert(
		eg, "wall", NULL,
		"the wall's forwarder broke its protocol: its connections are reset, and nothing is taken "
		"from it until the network is restarted");
	flow_reset_all(eg, "error: the wall's forwarder broke its protocol");
	dns_tcp_close_all(eg->dns);
}

static int forwarder_open(struct egress *eg, uint32_t mask, struct err *e)
{
	struct forwarder *fw;
	int r;

	(void)mask;
	if (!socket_is(EGRESS_FD_WALL, SO_DOMAIN, AF_UNIX) ||
	    !socket_is(EGRESS_FD_WALL, SO_TYPE, SOCK_SEQPACKET))
		return err_set(e, -EINVAL,
			       "the wall's forwarder is not at the other end of a SOCK_SEQPACKET");
	fw = eg->forwarder = calloc(1, sizeof(*fw));
	if (!fw)
		return err_sys(e, -ENOMEM, "cannot listen to the wall's forwarder");
	fw->eg = eg;
	fw->w = (struct watch){ .fd = EGRESS_FD_WALL, .fn = on_wall_messages, .ctx = fw };
	r = loop_watch(&eg->loop, &fw->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot listen to the wall's forwarder") : 0;
}

static void forwarder_close(struct egress *eg)
{
	struct forwarder *fw = eg->forwarder;

	if (fw->w.fd >= 0) {
		loop_unwatch(&eg->loop, &fw->w);
		fd_close(fw->w.fd);
	}
	free(fw);
	eg->forwarder = NULL;
}

const struct intake intake_messages = { forwarder_open, wall_reply_all, forwarder_close };
