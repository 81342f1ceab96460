/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process inside a wall of its own (user and network namespaces), that does what it is told and says what
 * came of it.
 */
#ifndef TESTS_WALLINSIDE_H
#define TESTS_WALLINSIDE_H

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/wall/wall.h"
#include "sys/ns.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 25000 /* ms: nothing that is refused may come near it, but a busy machine may */

/* An order to the child, and its result: 0 or an errno, and what it read. */
struct order {
	char what; /* c: connect and talk; u: send a datagram and wait for the answer; l: listen inside, and connect;
		      b: bind; a: has an address; n: send to many by an interface, and count neighbours; w: build a
		      wall; q: quit */
	char addr[64];
	uint16_t port;
	char from[64]; /* what it binds to first; empty: nothing */
};

struct outcome {
	int err;
	char text[64];
};

struct inside {
	pid_t pid;
	int sock;
	struct wall wall;
	bool guest;
};

static socklen_t parse(const char *addr, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *a4 = (void *)out;
	struct sockaddr_in6 *a6 = (void *)out;

	memset(out, 0, sizeof(*out));
	if (strchr(addr, ':')) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = htons(port);
		return inet_pton(AF_INET6, addr, &a6->sin6_addr) == 1 ? sizeof(*a6) : 0;
	}
	a4->sin_family = AF_INET;
	a4->sin_port = htons(port);
	return inet_pton(AF_INET, addr, &a4->sin_addr) == 1 ? sizeof(*a4) : 0;
}

static void show(const struct sockaddr_storage *sa, char out[64])
{
	char host[INET6_ADDRSTRLEN] = "", port[8] = "";

	if (getnameinfo((const struct sockaddr *)sa, sizeof(*sa), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(out, 64, "%s %s", host, port);
}

/* Inside. */

static int make_socket(const struct order *o, int type, struct sockaddr_storage *sa, socklen_t *len)
{
	const struct timeval t = { PATIENCE / 1000, 0 };
	int fd;

	*len = parse(o->addr, o->port, sa);
	fd = socket(sa->ss_family, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	if (o->from[0]) {
		struct sockaddr_storage from;
		socklen_t n = parse(o->from, 0, &from);

		if (bind(fd, (struct sockaddr *)&from, n) < 0) {
			close(fd);
			return -1;
		}
	}
	return fd;
}

static int talk(const struct order *o, int type, struct outcome *out)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len;
	autoclose int fd = make_socket(o, type, &sa, &len);
	ssize_t n;

	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, len) < 0)
		return errno;
	if (send(fd, "hello", 5, MSG_NOSIGNAL) < 0)
		return errno;
	n = recv(fd, out->text, sizeof(out->text) - 1, 0);
	return n < 0 ? errno : n == 0 ? ENODATA : 0;
}

/* A server inside: whoever connects to its address should meet it only where the address is its own. */
static int serve_inside(const struct order *o, struct outcome *out)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len;
	autoclose int fd = make_socket(o, SOCK_STREAM, &sa, &len);
	pid_t pid;
	int r;

	if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, 1) < 0)
		return errno;
	pid = fork();
	if (pid == 0) {
		autoclose int c = accept(fd, NULL, NULL);

		if (send(c, "inside", 6, MSG_NOSIGNAL) < 0)
			_exit(1);
		_exit(0);
	}
	r = talk(o, SOCK_STREAM, out);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}

static int try_bind(const struct order *o)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len;
	autoclose int fd = make_socket(o, SOCK_STREAM, &sa, &len),
		      udp = make_socket(o, SOCK_DGRAM, &sa, &len);
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(udp, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, 1) < 0)
		return errno;
	return o->port != 53 || bind(udp, (struct sockaddr *)&sa, len) == 0 ? 0 : errno;
}

static int find_address(struct outcome *out)
{
	struct ifaddrs *all, *i;

	if (getifaddrs(&all) < 0)
		return errno;
	for (i = all; i; i = i->ifa_next) {
		const struct sockaddr_in *a = (void *)i->ifa_addr;

		if (a && a->sin_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK) &&
		    i->ifa_flags & IFF_RUNNING)
			inet_ntop(AF_INET, &a->sin_addr, out->text, sizeof(out->text));
	}
	freeifaddrs(all);
	return 0;
}

/* How many neighbours there are after a word to a thousand addresses, past the routes. */
static int count_neighbours(struct outcome *out)
{
	const struct {
		struct nlmsghdr h;
		struct ndmsg n;
	} req = { { sizeof(req), RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP, 0, 0 },
		  { .ndm_family = AF_INET } };
	autoclose int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
		      nl = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(9) };
	alignas(8) char buf[16384];
	int n = 0, sent = 0;

	if (setsockopt(udp, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 4) < 0)
		return errno;
	for (uint32_t i = 0; i < 1000; i++) {
		sa.sin_addr.s_addr = htonl(0x01020300 + i);
		sent += sendto(udp, "x", 1, 0, (struct sockaddr *)&sa, sizeof(sa)) == 1;
	}
	if (send(nl, &req, sizeof(req), 0) < 0)
		return errno;
	for (;;) {
		ssize_t got = recv(nl, buf, sizeof(buf), 0);
		size_t left = got < 0 ? 0 : (size_t)got;

		if (got <= 0)
			return EIO;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			const struct ndmsg *nd = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_DONE) {
				snprintf(out->text, sizeof(out->text), "%d sent, %d neighbours", sent, n);
				return 0;
			}
			n += nd->ndm_ifindex != 1;
		}
	}
}

/* W2: in here, nothing of it can be built, and the message says what was refused. */
static int build_another(struct outcome *out)
{
	struct err e = ERR_INIT;
	struct wall w;

	if (wall_build(&w, false, &e) == 0)
		return 0;
	snprintf(out->text, sizeof(out->text), "%.63s", e.msg);
	return -e.code;
}

static int obey_one(const struct order *o, struct outcome *out)
{
	switch (o->what) {
	case 'c':
		return talk(o, SOCK_STREAM, out);
	case 'u':
		return talk(o, SOCK_DGRAM, out);
	case 'l':
		return serve_inside(o, out);
	case 'b':
		return try_bind(o);
	case 'n':
		return count_neighbours(out);
	case 'w':
		return build_another(out);
	default:
		return find_address(out);
	}
}

static void obey(int sock)
{
	struct order o;

	while (recv(sock, &o, sizeof(o), 0) == sizeof(o) && o.what != 'q') {
		struct outcome out = { 0 };

		out.err = obey_one(&o, &out);
		if (send(sock, &out, sizeof(out), MSG_NOSIGNAL) < 0)
			_exit(1);
	}
	_exit(0);
}

/* Root of a new user namespace. */
static int become(unsigned uid, unsigned gid)
{
	struct err e = ERR_INIT;
	char map[64];

	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (ns_deny_setgroups("/proc/self", &e) < 0 || ns_map_ids("/proc/self", false, map, &e) < 0)
		return e.code;
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	return ns_map_ids("/proc/self", true, map, &e);
}

static void live_inside(int sock, bool guest)
{
	struct err e = ERR_INIT;
	struct wall w;
	int r = become(getuid(), getgid());

	if (r == 0 && unshare(CLONE_NEWNET) < 0)
		r = -errno;
	if (r < 0)
		_exit(77);
	/* so that it is the wall that keeps a port, and not its number */
	if (fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") < 0)
		_exit(1);
	if (wall_build(&w, guest, &e) < 0) {
		fprintf(stderr, "# %s\n", e.msg);
		_exit(1);
	}
	if (wall_send(sock, &w) < 0)
		_exit(1);
	wall_release(&w);
	if (become(0, 0) < 0)
		_exit(1);
	obey(sock);
}

/* Outside. */

static bool start(struct inside *in, bool guest)
{
	int pair[2], fds[WALL_FDS], n, status;
	char word[WALL_WORD];
	size_t len;

	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	in->guest = guest;
	in->pid = fork();
	if (in->pid == 0) {
		close(pair[0]);
		live_inside(pair[1], guest);
	}
	close(pair[1]);
	in->sock = pair[0];
	n = fdpass_recv_some(in->sock, word, sizeof(word), &len, fds, WALL_FDS);
	if (n >= 0 && wall_unpack(word, fds, (size_t)n, &in->wall) == 0)
		return true;
	waitpid(in->pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		tap_skip("the wall", "no user namespaces here");
	else
		CHECKF(false, "the wall is built");
	return false;
}

static void stop(struct inside *in)
{
	const struct order o = { .what = 'q' };
	int status = -1;

	CHECK(send(in->sock, &o, sizeof(o), MSG_NOSIGNAL) == sizeof(o));
	waitpid(in->pid, &status, 0);
	CHECK(status == 0);
	close(in->sock);
	wall_release(&in->wall);
}

static void tell(struct inside *in, char what, const char *addr, uint16_t port, const char *from)
{
	struct order o = { .what = what, .port = port };

	snprintf(o.addr, sizeof(o.addr), "%s", addr);
	snprintf(o.from, sizeof(o.from), "%s", from);
	if (send(in->sock, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o))
		CHECKF(false, "the child is told what to do");
}

static struct outcome hear(struct inside *in)
{
	struct pollfd p = { .fd = in->sock, .events = POLLIN };
	struct outcome out = { .err = ETIMEDOUT };

	if (poll(&p, 1, PATIENCE + 10000) != 1 || recv(in->sock, &out, sizeof(out), 0) != sizeof(out))
		CHECKF(false, "the child answers");
	return out;
}

#endif
