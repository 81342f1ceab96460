/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs c-ares on our loop. Its sockets are created here, so that they are the kinds that the fence allows; it
 * reads no configuration (resolve.R4).
 */
#include "dial/connect/resolve_ares.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TICK_NS (50 * NSEC_PER_MSEC)
#define SERVER_TIMEOUT_MS 2000
#define SERVER_TRIES 3
#define EDNS_SIZE 1232

static void on_ares_socket(struct watch *w, uint32_t events)
{
	struct ares_link *l = w->ctx;
	int fd = w->fd;

	ares_process_fd(l->ares, events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
}

/* c-ares checks its own timeouts when it is called. */
static void on_ares_tick(struct timer *t)
{
	struct ares_link *l = t->ctx;

	ares_process_fd(l->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	if (l->open)
		loop_timer(l->loop, t, clock_nsec(CLOCK_MONOTONIC) + TICK_NS);
}

static struct watch *find_watch(struct ares_link *l, int fd)
{
	for (size_t i = 0; i < ARES_LINK_SOCKETS; i++) {
		if (l->sock[i].fd == fd)
			return &l->sock[i];
	}
	return NULL;
}

static void on_ares_socket_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct ares_link *l = ctx;
	struct watch *w = find_watch(l, fd);

	if (!w)
		w = find_watch(l, -1);
	if (!w)
		return; /* its query runs into the timeout */
	w->fd = fd;
	/* Without kernel memory the query runs into its timeout as well. */
	if (loop_watch(l->loop, w, (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u)) < 0)
		loop_unwatch(l->loop, w);
	if (!readable && !writable)
		w->fd = -1;
}

/* Creates the sockets of c-ares: of kinds that the filter allows, and without signals. */
static ares_socket_t ares_sock_make(int family, int type, int protocol, void *ctx)
{
	(void)protocol;
	(void)ctx;
	return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int ares_sock_close(ares_socket_t fd, void *ctx)
{
	(void)ctx;
	return close(fd);
}

static int ares_sock_connect(ares_socket_t fd, const struct sockaddr *sa, ares_socklen_t len, void *ctx)
{
	(void)ctx;
	return connect(fd, sa, len);
}

/* c-ares would take an empty datagram for the end of the connection, and fail everything open there. */
static ares_ssize_t ares_sock_recv(ares_socket_t fd, void *data, size_t len, int flags, struct sockaddr *from,
				   ares_socklen_t *from_len, void *ctx)
{
	const bool is_udp = from != NULL;
	ssize_t n = recvfrom(fd, data, len, flags, from, from_len);

	(void)ctx;
	if (n == 0 && is_udp) {
		errno = EAGAIN;
		return -1;
	}
	return n;
}

static ares_ssize_t ares_sock_send(ares_socket_t fd, const struct iovec *iov, int n, void *ctx)
{
	const struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	(void)ctx;
	return sendmsg(fd, &m, MSG_NOSIGNAL);
}

static const struct ares_socket_functions socket_functions = {
	.asocket = ares_sock_make,
	.aclose = ares_sock_close,
	.aconnect = ares_sock_connect,
	.arecvfrom = ares_sock_recv,
	.asendv = ares_sock_send,
};

int ares_link_open(struct ares_link *l, struct loop *loop, struct err *e)
{
	char lookups[] = "b"; /* resolve.R4: DNS and nothing else */
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
		.timeout = SERVER_TIMEOUT_MS,
		.tries = SERVER_TRIES,
		.ndots = 0,
		.lookups = lookups,
		.ednspsz = EDNS_SIZE,
		.sock_state_cb = on_ares_socket_state,
		.sock_state_cb_data = l,
	};
	const int set = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
			ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST |
			ARES_OPT_EDNSPSZ | ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	int r = ares_init_options(&l->ares, &o, set);

	l->loop = loop;
	if (r != ARES_SUCCESS)
		return err_set(e, -EIO, "cannot set up the resolver: %s", ares_strerror(r));
	ares_set_socket_functions(l->ares, &socket_functions, NULL);
	for (size_t i = 0; i < ARES_LINK_SOCKETS; i++)
		l->sock[i] = (struct watch){ .fd = -1, .fn = on_ares_socket, .ctx = l };
	l->tick = (struct timer){ .fn = on_ares_tick, .ctx = l };
	return 0;
}

/* Without it c-ares silently falls back to rand(). */
int ares_link_check_random(struct err *e)
{
	autoclose int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, -errno, "cannot open /dev/urandom, which the resolver needs") : 0;
}

int ares_link_servers(struct ares_link *l, const struct resolve_server *s, size_t n)
{
	struct ares_addr_port_node node[RESOLVE_SERVERS_MAX] = { 0 };

	for (size_t i = 0; i < n; i++) {
		const bool v4 = addr_is_v4(&s[i].addr);

		node[i].next = i + 1 < n ? &node[i + 1] : NULL;
		node[i].family = v4 ? AF_INET : AF_INET6;
		memcpy(&node[i].addr, s[i].addr.b + (v4 ? 12 : 0), v4 ? 4 : 16);
		node[i].udp_port = node[i].tcp_port = s[i].port;
	}
	return ares_set_servers_ports(l->ares, n ? node : NULL);
}

void ares_link_tick(struct ares_link *l)
{
	if (!l->tick.armed)
		loop_timer(l->loop, &l->tick, clock_nsec(CLOCK_MONOTONIC) + TICK_NS);
}

void ares_link_close(struct ares_link *l)
{
	if (!l->loop)
		return;
	if (l->ares)
		ares_destroy(l->ares);
	loop_timer_off(l->loop, &l->tick);
	*l = (struct ares_link){ 0 };
}
