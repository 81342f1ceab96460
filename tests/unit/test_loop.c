/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "ipc/loop.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static struct loop loop;
static char trace[64];

static void mark(char c)
{
	size_t n = strlen(trace);

	if (n + 1 < sizeof(trace))
		trace[n] = c;
}

static void on_timer(struct timer *t)
{
	mark(*(const char *)t->ctx);
	if (*(const char *)t->ctx == 'z')
		loop_stop(&loop);
}

static void test_timers(void)
{
	static char names[] = "abcz";
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct timer t[4];

	memset(trace, 0, sizeof(trace));
	for (int i = 0; i < 4; i++)
		t[i] = (struct timer){ .fn = on_timer, .ctx = names + i };
	loop_timer(&loop, &t[3], now + 30 * NSEC_PER_MSEC);
	loop_timer(&loop, &t[1], now + 10 * NSEC_PER_MSEC);
	loop_timer(&loop, &t[0], now + 5 * NSEC_PER_MSEC);
	loop_timer(&loop, &t[2], now + 1 * NSEC_PER_MSEC);
	loop_timer(&loop, &t[2], now + 20 * NSEC_PER_MSEC);
	loop_timer_off(&loop, &t[1]);
	CHECK(loop_run(&loop, NULL) == 0);
	CHECK_STR(trace, "acz");
	CHECK(clock_nsec(CLOCK_MONOTONIC) >= now + 30 * NSEC_PER_MSEC);
}

static void on_again(struct timer *t)
{
	unsigned *n = t->ctx;

	if (++*n < 1000)
		loop_timer(&loop, t, 0);
}

/* A timer that fires again at once must leave room for the others. */
static void test_timer_again(void)
{
	unsigned n = 0;
	struct timer t = { .fn = on_again, .ctx = &n };

	loop.stopped = false;
	loop_timer(&loop, &t, 0);
	CHECK(loop_round(&loop, NULL) == 0);
	CHECKF(n == 1, "a timer that is armed again for now fires in the next round: %u", n);
	CHECK(n == 1 && loop_round(&loop, NULL) == 0 && n == 2);
	loop_timer_off(&loop, &t);
}

static unsigned n_woken;

static void on_woken(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
	n_woken++;
}

static void on_nothing(struct timer *t)
{
	(void)t;
}

/* One round that ends at once when there is nothing. */
static unsigned woken_by(struct watch *w, uint32_t events)
{
	struct timer now = { .fn = on_nothing };

	n_woken = 0;
	CHECK(loop_watch(&loop, w, events) == 0);
	loop_timer(&loop, &now, 0);
	CHECK(loop_round(&loop, NULL) == 0);
	loop_timer_off(&loop, &now);
	return n_woken;
}

static void test_hang_up(void)
{
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	autoclose int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct watch w = { .fn = on_woken };

	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
	      getsockname(listener, (struct sockaddr *)&at, &len) == 0 &&
	      connect(peer, (struct sockaddr *)&at, len) == 0);
	w.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(w.fd >= 0 && send(peer, "!", 1, MSG_OOB) == 1);
	CHECKF(poll(&(struct pollfd){ .fd = w.fd, .events = POLLPRI }, 1, 25000) == 1,
	       "control: urgent data has come");
	CHECKF(woken_by(&w, EPOLLPRI) == 1, "urgent data wakes a watch with EPOLLPRI");
	CHECKF(woken_by(&w, LOOP_HANG_UP) == 0, "urgent data does not wake a watch for hang-ups");
	CHECK(setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0 && close(peer) == 0);
	CHECKF(poll(&(struct pollfd){ .fd = w.fd, .events = 0 }, 1, 25000) == 1, "control: a reset has come");
	CHECKF(woken_by(&w, LOOP_HANG_UP) == 1, "a reset wakes a watch for hang-ups");
	loop_unwatch(&loop, &w);
	fd_close(w.fd);
}

static struct watch pair[2];

/* The first event disarms the other, whose event is already there. */
static void on_first(struct watch *w, uint32_t events)
{
	(void)events;
	mark('1');
	loop_unwatch(&loop, w == &pair[0] ? &pair[1] : &pair[0]);
	loop_unwatch(&loop, w);
	loop_stop(&loop);
}

static void test_disarm(void)
{
	int a[2] = { -1, -1 }, b[2] = { -1, -1 };

	memset(trace, 0, sizeof(trace));
	CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0);
	CHECK(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
	pair[0] = (struct watch){ .fd = a[0], .fn = on_first };
	pair[1] = (struct watch){ .fd = b[0], .fn = on_first };
	CHECK(loop_watch(&loop, &pair[0], EPOLLIN) == 0 && loop_watch(&loop, &pair[1], EPOLLIN) == 0);
	CHECK(loop_run(&loop, NULL) == 0);
	CHECK_STR(trace, "1");
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

static void on_file(struct watch *w, uint32_t events)
{
	mark(events & EPOLLIN ? 'f' : '?');
	if (strlen(trace) == 3) {
		loop_unwatch(&loop, w);
		loop_stop(&loop);
	}
}

static void test_files(void)
{
	struct watch w = { .fn = on_file };

	memset(trace, 0, sizeof(trace));
	w.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK(loop_watch(&loop, &w, EPOLLIN) == 0);
	CHECK(loop_run(&loop, NULL) == 0);
	CHECK_STR(trace, "fff");
	close(w.fd);
	w = (struct watch){ .fd = -1, .fn = on_file };
	CHECK(loop_watch(&loop, &w, EPOLLIN) == -EBADF);
}

static void on_signal(void *ctx, const struct signalfd_siginfo *si)
{
	(void)ctx;
	mark(si->ssi_signo == SIGUSR1 ? 'u' : '?');
	loop_stop(&loop);
}

static void test_signals(void)
{
	sigset_t set, now;

	memset(trace, 0, sizeof(trace));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(loop_signals(&loop, &set, on_signal, NULL, NULL) == 0);
	raise(SIGUSR1);
	CHECK(loop_run(&loop, NULL) == 0);
	CHECK_STR(trace, "u");
	raise(SIGUSR1); /* would kill us if closing let it through */
	loop_close(&loop);
	CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
}

int main(void)
{
	CHECK(loop_open(&loop, NULL) == 0);
	test_timers();
	test_timer_again();
	test_hang_up();
	test_disarm();
	test_files();
	test_signals();
	return tap_done();
}
