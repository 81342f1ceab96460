/* SPDX-License-Identifier: Apache-2.0 */
/* A coffer-dial that answers an id twice: the link ends, and no request gets a descriptor that is not its own. */
#include "egress/wire/dialc.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

struct asked {
	struct dialc_request ask;
	unsigned n;
	int status, fd;
};

static struct loop loop;
static struct dialc d;
static int dial; /* coffer-dial's end of the link */
static unsigned n_down;

static void done(struct dialc_request *a, const struct dial_rep *rep, int fd)
{
	struct asked *x = a->ctx;

	x->n++;
	x->status = rep->status;
	x->fd = fd;
}

static void went_down(struct dialc *c, const char *why)
{
	(void)c;
	(void)why;
	n_down++;
}

static void start(void)
{
	struct err e = ERR_INIT;
	int fds[2] = { -1, -1 };

	n_down = 0;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(loop_open(&loop, &e) == 0 && dialc_init(&d, &loop, fds[0], &e) == 0);
	d.on_down = went_down;
	dial = fds[1];
}

static void stop(void)
{
	dialc_release(&d);
	loop_close(&loop);
	close(dial);
}

/* Asks, and returns the id that coffer-dial sees; 0: nothing came. */
static uint32_t ask(struct asked *x)
{
	struct host h = { .kind = HOST_NAME, .len = 11, .text = "example.org" };
	struct dial_req q = { 0 };

	*x = (struct asked){ .ask = { .done = done, .ctx = x }, .fd = -1 };
	if (dialc_dial(&d, &x->ask, &h, 443, 0, 1, NULL, NULL) < 0)
		return 0;
	dialc_flush(&d, 0);
	return recv(dial, &q, sizeof(q), MSG_DONTWAIT) == (ssize_t)sizeof(q) ? q.id : 0;
}

static void answer(uint32_t id)
{
	struct dial_rep rep = { .type = DIAL_REP, .id = id };
	struct iovec iov = { &rep, sizeof(rep) };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = { { 0 } };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.bytes,
			    .msg_controllen = sizeof(ctl.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(dial, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(rep));
	close(fd);
}

static void turn(void)
{
	struct err e = ERR_INIT;

	CHECK(loop_round(&loop, &e) >= 0);
}

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_twice(void)
{
	struct asked first, second, third;
	uint32_t one, two;
	int before;

	start();
	one = ask(&first);
	two = ask(&second);
	CHECK(one && two && one != two);
	before = count_fds();
	answer(one);
	turn();
	CHECKF(first.n == 1 && first.status == 0 && first.fd >= 0, "the first response is taken");
	close(first.fd);
	answer(one);
	turn();
	CHECKF(n_down == 1 && d.w.fd < 0, "a second response to one id ends the link");
	CHECKF(second.n == 1 && second.status < 0 && second.fd < 0, "the other request fails once");
	CHECKF(first.n == 1, "the answered request is not told again");
	CHECKF(count_fds() == before - 1, "the descriptor of the second response is closed");
	/* A later request cannot get it either. */
	CHECK(ask(&third) == 0 && third.n == 1 && third.fd < 0);
	stop();
}

static void test_cancelled(void)
{
	struct asked first, second;
	uint32_t one;
	int before;

	start();
	one = ask(&first);
	CHECK(ask(&second) != 0);
	dialc_cancel(&d, &first.ask);
	before = count_fds();
	answer(one);
	turn();
	CHECKF(n_down == 0 && d.w.fd >= 0, "the response to a cancelled request does not end the link");
	CHECKF(first.n == 0 && count_fds() == before, "the descriptor of a cancelled request is closed");
	answer(one);
	turn();
	CHECKF(n_down == 1, "a second response to a cancelled request ends the link");
	CHECK(first.n == 0 && second.n == 1 && second.status < 0);
	stop();
}

int main(void)
{
	test_twice();
	test_cancelled();
	return tap_done();
}
