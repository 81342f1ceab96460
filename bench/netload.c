/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load and the server of bench/egress: as little work as can be, so that what is measured is what stands between.
 *
 *	netload serve ADDR PORT [close]                      answers whatever comes with 64 bytes, and closes where told to;
 *	                                                     "B<n>\n" with n bytes
 *	netload connect ADDR PORT NAME COUNT AT_ONCE [PROXY_ADDR PROXY_PORT]
 *	netload latency ADDR PORT NAME COUNT [PROXY_ADDR PROXY_PORT]
 *	netload bulk ADDR PORT BYTES
 *	netload idle ADDR PORT NAME COUNT                    says "ready", holds them until its standard input ends
 *	netload dns ADDR NAME SECONDS WINDOW
 *
 * A connection is: connect, a ClientHello with NAME (behind CONNECT ADDR:PORT where there is a proxy), 64 bytes
 * and the end back. The server ends it, so that no port of a client's stays taken for a minute.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REPLY 64
#define FDS_MAX 65536

static int to_int(const char *s)
{
	return (int)strtol(s, NULL, 10);
}

static double to_double(const char *s)
{
	return strtod(s, NULL);
}

static char buffer[1 << 20];
static uint8_t hello[600];
static size_t hello_len;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct sockaddr_in address(const char *addr, const char *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)to_int(port)) };

	if (inet_pton(AF_INET, addr, &sa.sin_addr) != 1)
		die(addr);
	return sa;
}

/* As a browser's: 517 bytes with padding. */
static void make_hello(const char *name)
{
	size_t n = strlen(name), exts = 9 + n + 7, pad = 517 - 5 - 4 - 43 - 2 - exts - 4;
	uint8_t *p = hello;
	const uint8_t head[] = { 22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };

	memcpy(p, head, sizeof(head));
	p += sizeof(head) + 32;
	*p++ = 0;
	memcpy(p, "\0\2\x13\1\1\0", 6);
	p += 6;
	exts += 4 + pad;
	*p++ = (uint8_t)(exts >> 8);
	*p++ = (uint8_t)exts;
	memcpy(p, (uint8_t[]){ 0, 0, 0, (uint8_t)(n + 5), 0, (uint8_t)(n + 3), 0, 0, (uint8_t)n }, 9);
	memcpy(p + 9, name, n);
	p += 9 + n;
	memcpy(p, "\0\x2b\0\3\2\3\4", 7);
	p += 7;
	memcpy(p, (uint8_t[]){ 0, 21, (uint8_t)(pad >> 8), (uint8_t)pad }, 4);
	p += 4 + pad;
	hello_len = (size_t)(p - hello);
	hello[3] = (uint8_t)((hello_len - 5) >> 8);
	hello[4] = (uint8_t)(hello_len - 5);
	hello[7] = (uint8_t)((hello_len - 9) >> 8);
	hello[8] = (uint8_t)(hello_len - 9);
}

static uint64_t left[FDS_MAX]; /* of bulk, by descriptor */
static int closes;

static void serve_one(int ep, int fd)
{
	ssize_t n;

	if (!left[fd]) {
		n = recv(fd, buffer, sizeof(buffer) - 1, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(fd);
			return;
		}
		if (buffer[0] != 'B') {
			(void)!send(fd, buffer, REPLY, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (closes)
				close(fd);
			return;
		}
		buffer[n] = '\0';
		left[fd] = strtoull(buffer + 1, NULL, 10);
		epoll_ctl(ep, EPOLL_CTL_MOD, fd, &(struct epoll_event){ .events = EPOLLOUT, .data.fd = fd });
	}
	n = send(fd, buffer, left[fd] < sizeof(buffer) ? left[fd] : sizeof(buffer),
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0)
		left[fd] -= (uint64_t)n;
	if ((n < 0 && errno != EAGAIN) || left[fd] == 0) {
		left[fd] = 0;
		close(fd);
	}
}

static _Noreturn void serve(char **v)
{
	struct sockaddr_in sa = address(v[0], v[1]);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, ep = epoll_create1(0);
	struct epoll_event ev[64], first = { .events = EPOLLIN, .data.fd = l };

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(l, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(l, 4096) < 0)
		die("listen");
	epoll_ctl(ep, EPOLL_CTL_ADD, l, &first);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;

			if (fd != l) {
				serve_one(ep, fd);
				continue;
			}
			while ((fd = accept4(l, NULL, NULL, SOCK_NONBLOCK)) >= 0)
				epoll_ctl(ep, EPOLL_CTL_ADD, fd,
					  &(struct epoll_event){ .events = EPOLLIN, .data.fd = fd });
		}
	}
}

/* Where a connection goes first, and what it says there. */
struct target {
	struct sockaddr_in sa;
	char connect[200]; /* of a proxy; empty: none */
};

static struct target target(char **v, int c, int at)
{
	struct target t = { .sa = address(v[0], v[1]) };

	if (c > at + 1) {
		snprintf(t.connect, sizeof(t.connect), "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", v[0],
			 v[1], v[0], v[1]);
		t.sa = address(v[at], v[at + 1]);
	}
	return t;
}

enum { CONNECTING, ASKED, SAID };
static uint8_t state[FDS_MAX];
static uint16_t got[FDS_MAX];

static int begin(int ep, const struct target *t)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || fd >= FDS_MAX)
		die("socket");
	if (connect(fd, (const struct sockaddr *)&t->sa, sizeof(t->sa)) < 0 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	state[fd] = CONNECTING;
	got[fd] = 0;
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLOUT, .data.fd = fd });
	return fd;
}

/* 1: through, -1: failed, 0: not yet. */
static int go_on(int ep, int fd, const struct target *t, int hold)
{
	ssize_t n;

	if (state[fd] == CONNECTING) {
		int bad = 0;
		socklen_t len = sizeof(bad);

		getsockopt(fd, SOL_SOCKET, SO_ERROR, &bad, &len);
		epoll_ctl(ep, EPOLL_CTL_MOD, fd, &(struct epoll_event){ .events = EPOLLIN, .data.fd = fd });
		n = t->connect[0] ? send(fd, t->connect, strlen(t->connect), MSG_NOSIGNAL)
				  : send(fd, hello, hello_len, MSG_NOSIGNAL);
		state[fd] = t->connect[0] ? ASKED : SAID;
		return bad || n < 0 ? -1 : 0;
	}
	n = recv(fd, buffer, 4096, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return n == 0 && got[fd] == REPLY ? 1 : -1;
	if (state[fd] == ASKED) {
		buffer[n] = '\0';
		if (!strstr(buffer, "\r\n\r\n"))
			return 0;
		state[fd] = SAID;
		return strstr(buffer, " 200 ") && send(fd, hello, hello_len, MSG_NOSIGNAL) > 0 ? 0 : -1;
	}
	got[fd] = (uint16_t)(got[fd] + n);
	return hold && got[fd] >= REPLY;
}

/* `hold`: they stay open. Returns how many failed. */
static unsigned load(const struct target *t, unsigned count, unsigned at_once, int hold)
{
	int ep = epoll_create1(0);
	struct epoll_event ev[64];
	unsigned begun = 0, done = 0, failed = 0, tries = 0;

	while (done < count) {
		int n;

		while (begun < count && begun - done < at_once) {
			if (begin(ep, t) < 0 && ++tries > 100000)
				die("connect");
			else
				begun++;
		}
		n = epoll_wait(ep, ev, 64, 20000);
		if (n == 0)
			die("nothing happens");
		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd, r = go_on(ep, fd, t, hold);

			if (r == 0)
				continue;
			done++;
			failed += r < 0;
			if (hold && r > 0)
				epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
			else
				close(fd);
		}
	}
	close(ep);
	return failed;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void latency(const struct target *t, unsigned count)
{
	double *times = calloc(count, sizeof(*times));
	unsigned failed = 0;

	for (unsigned i = 0; i < count; i++) {
		double start = now();

		failed += load(t, 1, 1, 0);
		times[i] = now() - start;
	}
	qsort(times, count, sizeof(*times), compare);
	printf("{\"median_us\":%.1f,\"p90_us\":%.1f,\"failed\":%u}\n", times[count / 2] * 1e6,
	       times[count * 9 / 10] * 1e6, failed);
	free(times);
}

static void bulk(const struct target *t, const char *bytes)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t want = strtoull(bytes, NULL, 10), sum = 0;
	double start;
	ssize_t n;

	if (connect(fd, (const struct sockaddr *)&t->sa, sizeof(t->sa)) < 0)
		die("connect");
	dprintf(fd, "B%s\n", bytes);
	start = now();
	while (sum < want && (n = recv(fd, buffer, sizeof(buffer), 0)) > 0)
		sum += (uint64_t)n;
	printf("{\"bytes\":%llu,\"seconds\":%.6f}\n", (unsigned long long)sum, now() - start);
}

static size_t make_query(uint8_t *out, const char *name)
{
	uint8_t *p = out;

	// NOLINTNEXTLINE(bugprone-not-null-terminated-result): a message, no string
	memcpy(p, "\0\0\1\0\0\1\0\0\0\0\0\0", 12);
	p += 12;
	for (; *name;) {
		size_t n = strcspn(name, ".");

		*p++ = (uint8_t)n;
		memcpy(p, name, n);
		p += n;
		name += n + (name[n] == '.');
	}
	// NOLINTNEXTLINE(bugprone-not-null-terminated-result): the same
	memcpy(p, "\0\0\1\0\1", 5);
	return (size_t)(p + 5 - out);
}

/* Keeps `window` questions in flight; a lost one is asked again after a second. */
static void dns(char **v)
{
	struct sockaddr_in sa = address(v[0], "53");
	int fd = socket(AF_INET, SOCK_DGRAM, 0), window = to_int(v[3]);
	struct timeval patience = { 1, 0 };
	uint8_t q[300], a[1500];
	size_t len = make_query(q, v[1]);
	double start = now(), end = start + to_double(v[2]);
	unsigned long answers = 0, lost = 0, wrong = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		die("connect");
	for (int i = 0; i < window; i++)
		(void)!send(fd, q, len, 0);
	while (now() < end) {
		ssize_t n = recv(fd, a, sizeof(a), 0);

		if (n > 0) {
			answers++;
			wrong += (a[3] & 15) != 0 || a[7] != 1;
		} else {
			lost++;
		}
		q[0] = (uint8_t)(answers >> 8);
		q[1] = (uint8_t)answers;
		(void)!send(fd, q, len, 0);
	}
	printf("{\"answers\":%lu,\"seconds\":%.3f,\"lost\":%lu,\"wrong\":%lu}\n", answers, now() - start,
	       lost, wrong);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct rlimit files;
	char **v = argv + 2;
	int c = argc - 2;
	struct target t;
	double start;
	unsigned failed;

	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	closes = c == 3;
	if (strcmp(what, "serve") == 0 && c >= 2)
		serve(v);
	if (strcmp(what, "dns") == 0 && c == 4) {
		dns(v);
		return 0;
	}
	if (strcmp(what, "bulk") == 0 && c == 3) {
		t = target(v, c, 3);
		bulk(&t, v[2]);
		return 0;
	}
	if (c < 4)
		return 2;
	make_hello(v[2]);
	if (strcmp(what, "latency") == 0) {
		t = target(v, c, 4);
		latency(&t, (unsigned)to_int(v[3]));
		return 0;
	}
	start = now();
	if (strcmp(what, "connect") == 0 && c >= 5) {
		t = target(v, c, 5);
		failed = load(&t, (unsigned)to_int(v[3]), (unsigned)to_int(v[4]), 0);
		printf("{\"count\":%s,\"failed\":%u,\"seconds\":%.6f}\n", v[3], failed, now() - start);
		return 0;
	}
	if (strcmp(what, "idle") != 0)
		return 2;
	t = target(v, c, 4);
	failed = load(&t, (unsigned)to_int(v[3]), 64, 1);
	printf("ready, %u failed\n", failed);
	fflush(stdout);
	(void)!read(0, buffer, 1);
	return 0;
}
