/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inspecting part of coffer-egress without a sandbox around it, for tests and measurements: the real core with a
 * listener on 127.x.y.z (the synthetic range is inside 127.0.0.0/8 here, so that loopback leads to it), and a child that
 * dials what is asked, each port on 127.0.0.1.
 *
 *	inspectbox BUNDLE JOURNAL STORE CA_OUT NAME:PORT=TARGET…
 *
 * prints "NAME ADDRESS PORT" for each name and then "ready"; ends with its standard input. TARGET is a port on 127.0.0.1.
 * SIGUSR1 loads BUNDLE again. SIGUSR2 prints the statistics. INSPECTBOX_TIMES="head=1 body=1" sets limits of time;
 * INSPECTBOX_LEDGER="TOKENS MILLISECONDS BYTES" what the log takes, without new tokens.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/core/control.h"
#include "egress/core/flow_int.h"
#include "egress/core/intake.h"
#include "egress/exchange/inspect.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TARGETS_MAX 16

static struct {
	char name[HOST_MAX + 1];
	uint16_t port, target;
} targets[TARGETS_MAX];
static int n_targets;
static uint32_t generation = 1;

static void die(const char *what)
{
	fprintf(stderr, "inspectbox: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The dialling child. */

static int dial(const struct dial_req *q)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (int i = 0; i < n_targets; i++) {
		if (strcmp(targets[i].name, q->host) == 0 && targets[i].port == q->port)
			sa.sin_port = htons(targets[i].target);
	}
	if (sa.sin_port == 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int err = sa.sin_port ? errno : ENOENT;

		close(fd);
		return -err;
	}
	(void)!fd_set_nonblock(fd, true);
	return fd;
}

static void answer(int sock, const struct dial_req *q)
{
	struct dial_rep rep = { .type = DIAL_REP, .id = q->id };
	union {
		char raw[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = { 0 };
	struct iovec iov = { &rep, sizeof(rep) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd = dial(q);

	if (fd < 0) {
		rep.status = fd;
		snprintf(rep.why, sizeof(rep.why), "%s", strerror(-fd));
	} else {
		m.msg_control = ctl.raw;
		m.msg_controllen = sizeof(ctl.raw);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &m, 0) < 0)
		exit(0);
	if (fd >= 0)
		close(fd);
}

static void dialler(int sock)
{
	union dial_msg m;
	ssize_t n;

	while ((n = recv(sock, &m, sizeof(m), 0)) > 0) {
		if (m.type == DIAL_REQ)
			answer(sock, &m.req);
	}
	exit(0);
}

/* The egress. */

static void load(struct egress *eg, const char *path)
{
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	int fd = memfd_create("bundle", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd_read_file(AT_FDCWD, path, 1 << 24, &b) < 0 || fd_write_all(fd, b.data, b.len) < 0)
		die(path);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (control_load(eg, fd, generation++, &e) < 0)
		fprintf(stderr, "inspectbox: %s\n", e.msg);
	close(fd);
}

static void listen_on(struct egress *eg, int i)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(targets[i].port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	const struct egress_name *name;
	struct err e = ERR_INIT;
	struct host h;

	if (host_canon(targets[i].name, strlen(targets[i].name), &h, &e) < 0 ||
	    egress_names_add(&eg->names, &h, &name) < 0)
		die(targets[i].name);
	sa.sin_addr.s_addr = htonl(name->addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 4096) < 0)
		die("listen");
	if (accept_open(eg, fd, &e) < 0)
		die(e.msg);
	printf("%s %s %u\n", targets[i].name, inet_ntoa(sa.sin_addr), targets[i].port);
}

static void parse_targets(int argc, char **argv)
{
	for (int i = 5; i < argc && n_targets < TARGETS_MAX; i++) {
		unsigned port, target;

		// NOLINTNEXTLINE(cert-err34-c): a test's own arguments
		if (sscanf(argv[i], "%253[^:]:%u=%u", targets[n_targets].name, &port, &target) != 3)
			die(argv[i]);
		targets[n_targets].port = (uint16_t)port;
		targets[n_targets++].target = (uint16_t)target;
	}
}

static struct egress eg;
static const char *bundle;

static void on_signal(void *ctx, const struct signalfd_siginfo *si)
{
	autobuf struct buf b = BUF_INIT;

	(void)ctx;
	if (si->ssi_signo == SIGUSR1) {
		load(&eg, bundle);
		printf("loaded\n");
	} else {
		control_stats(&eg, &b);
		printf("%s\n", buf_cstr(&b));
	}
	fflush(stdout);
}

static void on_stdin(struct watch *w, uint32_t events)
{
	char c;

	(void)events;
	if (read(w->fd, &c, 1) <= 0)
		eg.quitting = true;
}

static void write_ca(const char *path)
{
	struct err e = ERR_INIT;
	const char *pem;

	if (inspect_ca_pem(&eg, &pem, &e) < 0 || fd_replace_file(AT_FDCWD, path, pem, strlen(pem), 0644) < 0)
		die(e.msg);
}

static void set_times(struct inspect_times *t, const char *text)
{
	const struct {
		const char *name;
		unsigned *seconds;
	} known[] = { { "head=", &t->head },
		      { "keep=", &t->keep },
		      { "body=", &t->body },
		      { "answer=", &t->response },
		      { "stall=", &t->stall } };

	for (size_t i = 0; text && i < ARRAY_SIZE(known); i++) {
		const char *at = strstr(text, known[i].name);

		if (at)
			*known[i].seconds = (unsigned)strtoul(at + strlen(known[i].name), NULL, 10);
	}
}

static void set_ledger(struct ledger *l, const char *text)
{
	unsigned long long tokens, ms, bytes;

	// NOLINTNEXTLINE(cert-err34-c): a test's own arguments
	if (!text || sscanf(text, "%llu %llu %llu", &tokens, &ms, &bytes) != 3)
		return;
	l->credit = tokens * NSEC_PER_SEC / LEDGER_RATE;
	l->at = UINT64_MAX; /* the time until then gives none */
	l->wait = ms * NSEC_PER_MSEC;
	l->max = bytes;
}

int main(int argc, char **argv)
{
	struct addr_range range = { .base = addr_from_v4(0x7f010000u + (((uint32_t)getpid() & 0x3fff) << 8)),
				    .bits = 96 + 24 };
	struct watch in = { .fd = 0, .fn = on_stdin };
	struct err e = ERR_INIT;
	sigset_t set;
	int sv[2], ctl[2], journal, ca = memfd_create("ca", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (argc < 6)
		return 2;
	parse_targets(argc, argv);
	bundle = argv[1];
	signal(SIGPIPE, SIG_IGN);
	journal = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (journal < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ctl) < 0)
		die(argv[2]);
	if (fork() == 0) {
		close(sv[0]);
		dialler(sv[1]);
	}
	close(sv[1]);
	if (egress_init(&eg, journal, sv[0], &e) < 0 || egress_names_open(&eg.names, -1, &range, 7, &e) < 0 ||
	    limits_init(&eg.limits, &eg.names, &e) < 0 || control_open(&eg, ctl[0], &e) < 0)
		die(e.msg);
	load(&eg, bundle);
	if (inspect_install_fds(&eg, ca, open(argv[3], O_RDONLY | O_CLOEXEC), &e) < 0)
		die(e.msg);
	set_times(&((struct inspect *)eg.inspector->ctx)->times, getenv("INSPECTBOX_TIMES"));
	set_ledger(&eg.ledger, getenv("INSPECTBOX_LEDGER"));
	write_ca(argv[4]);
	eg.intake = &intake_sockets;
	for (int i = 0; i < n_targets; i++)
		listen_on(&eg, i);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	if (loop_signals(&eg.loop, &set, on_signal, NULL, &e) < 0 || loop_watch(&eg.loop, &in, EPOLLIN) < 0)
		die(e.msg);
	printf("ready\n");
	fflush(stdout);
	while (!eg.quitting)
		egress_round(&eg, &e);
	inspect_uninstall(&eg);
	egress_release(&eg);
	return 0;
}
