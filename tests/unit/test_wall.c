/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall for real, in user and network namespaces of our own: a child builds it, goes into an inner user namespace and
 * does what it is told; the parent has the sockets, and is the gateway. Once as for engine ns, and once as for gVisor,
 * where the kernel of the second namespace stands in for gVisor's.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/wall.h"
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

/* What the child is told to do, and what came of it: 0 or an errno, and what it read. */
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
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *a4 = (const void *)sa;
	const struct sockaddr_in6 *a6 = (const void *)sa;

	if (sa->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &a6->sin6_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET, &a4->sin_addr, host, sizeof(host));
	snprintf(out, 64, "%s %u", host, ntohs(sa->ss_family == AF_INET6 ? a6->sin6_port : a4->sin_port));
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
	struct sockaddr_storage sa;
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
	struct sockaddr_storage sa;
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
	struct sockaddr_storage sa;
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

static bool wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE) == 1;
}

/* The gateway's part of one connection: what was asked for is sent back. */
static bool serve(int listener, char asked[64])
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	autoclose int c = wait_for(listener) ? accept(listener, NULL, NULL) : -1;
	char hello[8];

	if (c < 0 || getsockname(c, (struct sockaddr *)&sa, &len) < 0 || !wait_for(c) ||
	    recv(c, hello, sizeof(hello), 0) != 5)
		return false;
	show(&sa, asked);
	return send(c, asked, strlen(asked), MSG_NOSIGNAL) > 0;
}

static void connects(struct inside *in, int listener, const char *addr, uint16_t port, const char *from)
{
	char asked[64] = "nothing", want[80];
	struct outcome out;
	bool served;

	snprintf(want, sizeof(want), "%s %u", addr, port);
	tell(in, 'c', addr, port, from);
	served = serve(listener, asked);
	out = hear(in);
	CHECKF(served && strcmp(asked, want) == 0 && out.err == 0 && strcmp(out.text, want) == 0,
	       "%s%s%s is accepted as such (%s, %s)", want, from[0] ? " from " : "", from, asked,
	       strerror(out.err));
}

/* An error, and at once: not when patience is over. */
static void refused(struct inside *in, char what, const char *addr, uint16_t port, int err1, int err2)
{
	struct outcome out;

	tell(in, what, addr, port, "");
	out = hear(in);
	CHECKF(out.err == err1 || out.err == err2, "%c %s %u is refused (%s)", what, addr, port,
	       strerror(out.err));
}

static void answers_datagram(struct inside *in, int fd, const char *addr)
{
	alignas(8) char control[256];
	char text[64] = "";
	struct sockaddr_storage peer;
	struct iovec iov = { text, sizeof(text) };
	struct msghdr m = { .msg_name = &peer,
			    .msg_namelen = sizeof(peer),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	char asked[64] = "nothing";
	struct outcome out;

	tell(in, 'u', addr, 53, "");
	if (CHECKF(wait_for(fd) && recvmsg(fd, &m, 0) == 5, "%s: a question on port 53", addr)) {
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		struct in_pktinfo *p4 = c ? (void *)CMSG_DATA(c) : NULL;
		struct in6_pktinfo *p6 = (void *)p4;

		if (c && c->cmsg_type == IP_PKTINFO && c->cmsg_level == IPPROTO_IP) {
			inet_ntop(AF_INET, &p4->ipi_addr, asked, sizeof(asked));
			p4->ipi_spec_dst = p4->ipi_addr;
			p4->ipi_ifindex = 0;
		} else if (c) {
			inet_ntop(AF_INET6, &p6->ipi6_addr, asked, sizeof(asked));
			p6->ipi6_ifindex = 0;
		}
		iov.iov_len = 5;
		CHECKF(sendmsg(fd, &m, 0) == 5, "%s: an answer from there (%s)", addr, strerror(errno));
	}
	out = hear(in);
	CHECKF(strcmp(asked, addr) == 0 && out.err == 0 && strcmp(out.text, "hello") == 0,
	       "%s: the asked address is known, and its answer arrives (%s, %s)", addr, asked,
	       strerror(out.err));
}

/* The packet's own bytes, of the first that was copied to us; their number. */
static size_t read_copy(int fd, uint8_t out[WALL_NFLOG_BYTES])
{
	alignas(8) char buf[8192];
	ssize_t n = wait_for(fd) ? recv(fd, buf, sizeof(buf), 0) : -1;
	struct nlmsghdr *h = (void *)buf;
	char *p = buf + NLMSG_HDRLEN + 4;

	if (n < (ssize_t)(NLMSG_HDRLEN + 4))
		return 0;
	while (p + NLA_HDRLEN <= buf + h->nlmsg_len) {
		struct nlattr *a = (void *)p;
		size_t len = a->nla_len - (size_t)NLA_HDRLEN;

		if ((a->nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD && len <= WALL_NFLOG_BYTES) {
			memcpy(out, p + NLA_HDRLEN, len);
			return len;
		}
		p += NLA_ALIGN(a->nla_len);
	}
	return 0;
}

static void copies_refused(struct inside *in)
{
	uint8_t packet[WALL_NFLOG_BYTES] = { 0 };
	size_t n;

	refused(in, 'u', "5.6.7.8", 443, ECONNREFUSED, ECONNREFUSED);
	if (in->wall.nflog < 0) {
		tap_skip("copies of refused packets", "this kernel has no nflog");
		return;
	}
	n = read_copy(in->wall.nflog, packet);
	CHECKF(n >= 28 && packet[9] == IPPROTO_UDP && memcmp(packet + 16, "\5\6\7\10", 4) == 0 &&
		       packet[22] == 1 && packet[23] == 187,
	       "what was refused is told of: %zu bytes", n);
}

static void own_affairs(struct inside *in)
{
	static const char *const own[] = { "127.0.0.1", "127.1.2.3", WALL_ADDR, "::1" };
	struct outcome out;

	for (size_t i = 0; i < ARRAY_SIZE(own) - in->guest; i++) {
		tell(in, 'l', own[i], 8080, "");
		out = hear(in);
		CHECKF(out.err == 0 && strcmp(out.text, "inside") == 0,
		       "%s: a server inside is met inside (%s)", own[i], strerror(out.err));
		refused(in, 'c', own[i], 1, ECONNREFUSED, ECONNREFUSED);
	}
	tell(in, 'a', "", 0, "");
	out = hear(in);
	CHECK_STR(out.text, WALL_ADDR);
}

/* No socket inside stands before ours. */
static void stands_first(struct inside *in)
{
	char asked[64] = "";
	struct outcome out;

	refused(in, 'b', "0.0.0.0", 53, EADDRINUSE, EADDRINUSE);
	refused(in, 'b', "8.8.8.8", 53, EADDRINUSE, EADDRINUSE);
	refused(in, 'b', "10.0.2.2", 1, EADDRINUSE, EADDRINUSE);
	tell(in, 'l', "9.8.7.6", 80, "");
	CHECK(serve(in->wall.tcp4, asked));
	out = hear(in);
	CHECKF(out.err == 0 && strcmp(out.text, "9.8.7.6 80") == 0,
	       "a server inside on a foreign address is not met (%s)", out.text);
}

static void groups_are_nowhere(struct inside *in)
{
	static const char *const groups[] = { "224.0.0.1", "239.255.255.250", "255.255.255.255",
					      "240.0.0.1" };

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		refused(in, 'c', groups[i], 80, ENETUNREACH, EHOSTUNREACH);
		refused(in, 'u', groups[i], 80, ENETUNREACH, EHOSTUNREACH);
	}
	refused(in, 'c', "ff02::1", 80, ENETUNREACH, EHOSTUNREACH);
}

static void cannot_be_changed(struct inside *in)
{
	struct outcome out;

	tell(in, 'w', "", 0, "");
	out = hear(in);
	CHECKF(out.err == EPERM && strstr(out.text, "loopback"),
	       "no wall is built from inside, and the request is named: %s", out.text);
	if (in->guest)
		return;
	tell(in, 'n', "", 0, "");
	out = hear(in);
	CHECK_STR(out.text, "0 sent, 0 neighbours");
}

static void closed(struct inside *in)
{
	for (size_t i = 0; i < WALL_FDS; i++) {
		close(wall_fds(&in->wall)[i]);
		wall_fds(&in->wall)[i] = -1;
	}
	if (!in->guest)
		refused(in, 'c', "1.2.3.4", 443, ECONNREFUSED, ECONNREFUSED);
}

static void test_wall(bool guest)
{
	struct inside in = { .wall = WALL_INIT };

	printf("# %s\n", guest ? "guest" : "ns");
	if (!start(&in, guest))
		return;
	connects(&in, in.wall.tcp4, "1.2.3.4", 7777, "");
	connects(&in, in.wall.tcp4, "169.254.169.254", 80, "");
	connects(&in, in.wall.tcp4, "10.0.0.1", 22, "");
	connects(&in, in.wall.tcp4, "10.0.2.2", 1, "");
	connects(&in, in.wall.tcp4, "11.0.0.1", 65535, "");
	connects(&in, in.wall.dns_tcp4, "8.8.8.8", 53, "");
	answers_datagram(&in, in.wall.dns_udp4, "9.9.9.9");
	answers_datagram(&in, in.wall.dns_udp4, WALL_NAMESERVER);
	copies_refused(&in);
	own_affairs(&in);
	groups_are_nowhere(&in);
	if (in.wall.tcp6 < 0) {
		tap_skip("IPv6", "this kernel has none");
	} else if (guest) {
		refused(&in, 'c', "2001:db8::1", 443, ENETUNREACH, EADDRNOTAVAIL);
	} else {
		connects(&in, in.wall.tcp6, "2001:db8::1", 443, "");
		refused(&in, 'c', "fe80::1:2", 443, EINVAL, EINVAL); /* on which link? */
		connects(&in, in.wall.dns_tcp6, "2001:db8::53", 53, "");
		answers_datagram(&in, in.wall.dns_udp6, "2001:db8::35");
		refused(&in, 'u', "2001:db8::35", 443, ECONNREFUSED, ECONNREFUSED);
	}
	if (!guest) {
		connects(&in, in.wall.tcp4, "1.2.3.4", 80, "5.5.5.5");
		connects(&in, in.wall.tcp4, "1.2.3.4", 80, "127.0.0.1");
		stands_first(&in);
	}
	cannot_be_changed(&in);
	closed(&in);
	stop(&in);
}

int main(void)
{
	test_wall(false);
	test_wall(true);
	return tap_done();
}
