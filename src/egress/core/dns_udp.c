/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS by datagrams: one call receives many, one call sends many. Each reply is sent from the address that the
 * query was sent to (IP_PKTINFO): a resolver accepts it from no other.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/core/dns_serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 32
#define QUEUE 256

union pktinfo {
	char v4[CMSG_SPACE(sizeof(struct in_pktinfo))];
	char v6[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	struct cmsghdr align;
};

struct udp_sock {
	struct dns_serve *dns;
	struct watch w;
	bool v6;
};

struct udp_client {
	struct dns_client base;
	struct udp_sock *sock;
	struct sockaddr_storage peer;
	socklen_t peer_len;
	union pktinfo local; /* as received: the source address of the reply */
	size_t local_len;
};

struct udp_out {
	struct udp_client to;
	uint16_t len;
	uint8_t msg[DNS_REPLY_MAX];
};

struct dns_udp {
	struct udp_sock socks[2];
	unsigned n_socks;
	struct udp_out *out;
	unsigned n_out;
	uint8_t in[BATCH][DNS_QUERY_MAX];
};

static void dns_udp_send(struct dns_client *c, const uint8_t *msg, size_t len)
{
	struct udp_client *u = (struct udp_client *)c;
	struct dns_udp *d = *dns_serve_udp(c->dns);
	struct udp_out *o;

	if (d->n_out == QUEUE)
		dns_udp_flush(c->dns, journal_commit(&dns_serve_egress(c->dns)->journal));
	o = &d->out[d->n_out++];
	o->to = *u;
	o->len = (uint16_t)len;
	memcpy(o->msg, msg, len);
}

static size_t dns_udp_reply_max(const struct dns_client *c, const struct dns_query *q)
{
	(void)c;
	return dns_udp_max(q);
}

static struct dns_client *dns_udp_keep(struct dns_client *c)
{
	struct udp_client *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *(struct udp_client *)c;
	return &copy->base;
}

static void dns_udp_drop(struct dns_client *c)
{
	free(c);
}

static const struct dns_client_ops udp_ops = { dns_udp_send, dns_udp_reply_max, dns_udp_keep, dns_udp_drop };

/* Keeps only the address: the route back may use another interface than the query did. */
static bool take_local_addr(struct udp_client *u, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo in, out = { 0 };

			memcpy(&in, CMSG_DATA(c), sizeof(in));
			out.ipi_spec_dst = in.ipi_addr;
			memcpy(CMSG_DATA(c), &out, sizeof(out));
			u->local_len = CMSG_SPACE(sizeof(out));
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo in;

			memcpy(&in, CMSG_DATA(c), sizeof(in));
			in.ipi6_ifindex = IN6_IS_ADDR_LINKLOCAL(&in.ipi6_addr) ? in.ipi6_ifindex : 0;
			memcpy(CMSG_DATA(c), &in, sizeof(in));
			u->local_len = CMSG_SPACE(sizeof(in));
		} else {
			return false;
		}
	}
	return u->local_len > 0;
}

static void on_datagrams(struct watch *w, uint32_t events)
{
	struct udp_sock *s = w->ctx;
	struct dns_udp *d = *dns_serve_udp(s->dns);
	struct udp_client u[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];
	int n;

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ d->in[i], DNS_QUERY_MAX };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_name = &u[i].peer,
						      .msg_namelen = sizeof(u[i].peer),
						      .msg_iov = &iov[i],
						      .msg_iovlen = 1,
						      .msg_control = &u[i].local,
						      .msg_controllen = sizeof(u[i].local) } };
	}
	n = recvmmsg(w->fd, m, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		u[i].base = (struct dns_client){ &udp_ops, s->dns };
		u[i].sock = s;
		u[i].peer_len = m[i].msg_hdr.msg_namelen;
		u[i].local_len = 0;
		if (!take_local_addr(&u[i], &m[i].msg_hdr) || (m[i].msg_hdr.msg_flags & MSG_TRUNC))
			dns_serve_egress(s->dns)->stats.dns_bad++;
		else
			dns_serve_query(s->dns, &u[i].base, d->in[i], m[i].msg_len);
	}
}

/* Sends consecutive replies of one socket. */
static void send_replies(struct dns_udp *d, unsigned first, unsigned n)
{
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];

	for (unsigned i = 0; i < n; i++) {
		struct udp_out *o = &d->out[first + i];

		iov[i] = (struct iovec){ o->msg, o->len };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_name = &o->to.peer,
						      .msg_namelen = o->to.peer_len,
						      .msg_iov = &iov[i],
						      .msg_iovlen = 1,
						      .msg_control = &o->to.local,
						      .msg_controllen = o->to.local_len } };
	}
	for (unsigned done = 0; done < n;) {
		int r = sendmmsg(d->out[first].to.sock->w.fd, m + done, n - done,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		/* An unsendable reply is lost, as any datagram may be: the resolver retries. */
		done += r > 0 ? (unsigned)r : 1;
	}
}

void dns_udp_flush(struct dns_serve *s, int status)
{
	struct dns_udp *d = *dns_serve_udp(s);
	unsigned first = 0;

	if (!d)
		return;
	if (status < 0)
		dns_serve_egress(s)->stats.dns_dropped += d->n_out;
	while (status == 0 && first < d->n_out) {
		unsigned n = 1;

		while (first + n < d->n_out && n < BATCH &&
		       d->out[first + n].to.sock == d->out[first].to.sock)
			n++;
		send_replies(d, first, n);
		first += n;
	}
	d->n_out = 0;
}

int dns_udp_open(struct dns_serve *s, int fd, bool v6, struct err *e)
{
	struct dns_udp **d = dns_serve_udp(s);
	struct udp_sock *sock;
	const int on = 1;
	int r;

	if (!*d) {
		*d = calloc(1, sizeof(**d));
		if (!*d || ((*d)->out = calloc(QUEUE, sizeof(*(*d)->out))) == NULL)
			return err_sys(e, -ENOMEM, "cannot serve names");
	}
	BUG_ON((*d)->n_socks == 2);
	sock = &(*d)->socks[(*d)->n_socks++];
	*sock = (struct udp_sock){ .dns = s, .w = { .fd = fd, .fn = on_datagrams, .ctx = sock }, .v6 = v6 };
	/*
	 * All IPv6 traffic arrives here by a route: none of the destinations is an address of an interface.
	 */
	if (v6)
		(void)!setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	r = setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on,
		       sizeof(on)) < 0
		    ? -errno
		    : fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_watch(&dns_serve_egress(s)->loop, &sock->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot serve names") : 0;
}

void dns_udp_free(struct dns_serve *s)
{
	struct dns_udp **d = dns_serve_udp(s);

	for (unsigned i = 0; *d && i < (*d)->n_socks; i++) {
		loop_unwatch(&dns_serve_egress(s)->loop, &(*d)->socks[i].w);
		fd_close((*d)->socks[i].w.fd);
	}
	if (*d)
		free((*d)->out);
	free(*d);
	*d = NULL;
}
