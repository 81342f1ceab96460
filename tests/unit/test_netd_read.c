/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of coffer-netd behind its fence, in a child as the guard has it: journals that grow, that have holes, that are read again after
 * its death, and that end.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/read/netd_fence.h"
#include "netd/read/netd_read.h"
#include "tap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE(name) "{\"ev\":\"open\",\"name\":\"" name "\",\"port\":443,\"decision\":\"allow\",\"first\":1}\n"
#define DENIAL "{\"ev\":\"open\",\"name\":\"evil.test\",\"port\":25,\"decision\":\"deny\",\"why\":\"no\"}\n"

static int journal[NET_FROM_COUNT], sock;
static struct netd_report *report;
static pid_t pid;

/* What it has sent, and the state that the guard keeps. */
static struct netd_peer peer;
static unsigned n_events, n_said, n_counted;
static char last_name[64];

static uint64_t on_size(void *ctx, enum net_from from)
{
	(void)ctx;
	return (uint64_t)lseek(journal[from], 0, SEEK_END);
}

static int on_event(void *ctx, const void *packed, size_t len)
{
	autobuf struct buf fields = BUF_INIT;
	const char *name;
	enum net_ev ev;

	(void)ctx;
	if (netd_event_format(packed, len, &ev, &fields) < 0)
		return -EPROTO;
	n_events++;
	name = strstr(buf_cstr(&fields), "\"name\":\"");
	snprintf(last_name, sizeof(last_name), "%.6s", name ? name + 8 : "");
	return 0;
}

static void on_logged(void *ctx)
{
	(void)ctx;
}

static void on_counted(void *ctx)
{
	(void)ctx;
	n_counted++;
}

static void on_said(void *ctx, const struct netd_said *s)
{
	(void)ctx;
	(void)s;
	n_said++;
}

static void on_fail(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	CHECKF(false, "coffer-netd says that it failed: %.*s", (int)len, text);
}

static const struct netd_calls calls = { on_size, on_event, on_logged, on_counted, on_said, on_fail, NULL };

static void begin(bool again)
{
	struct netd_ask a = { .type = NETD_BEGIN };
	struct err e = ERR_INIT;
	int sv[2];

	if (!again) {
		for (int i = 0; i < NET_FROM_COUNT; i++)
			journal[i] = memfd_create("journal", MFD_CLOEXEC);
		memset(report, 0, sizeof(*report));
		peer = (struct netd_peer){ 0 };
	}
	n_events = n_said = n_counted = 0;
	netd_peer_begin(&peer, clock_nsec(CLOCK_MONOTONIC));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		netd_prepare();
		_exit(fence_up(&netd_fence, &e) < 0 ? 99 : netd_serve(sv[1], journal, report) < 0 ? 98 : 0);
	}
	close(sv[1]);
	sock = sv[0];
	memcpy(a.counted, peer.counted, sizeof(a.counted));
	memcpy(a.logged, peer.logged, sizeof(a.logged));
	CHECK(fdpass_send(sock, &a, sizeof(a), NULL, 0) == 0);
}

static void end(void)
{
	close(sock);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void forget(void)
{
	for (int i = 0; i < NET_FROM_COUNT; i++)
		close(journal[i]);
}

static int ask(enum netd_ask_type type, uint32_t nonce)
{
	const struct netd_ask a = { .type = type, .nonce = nonce, .all = 1 };

	peer.asked = nonce ? nonce : peer.asked;
	return fdpass_send(sock, &a, sizeof(a), NULL, 0);
}

/* Takes messages until it has answered that question, or for that long. */
static int take_until(uint32_t nonce, enum netd_state state, unsigned ms)
{
	static char m[NETD_MESSAGE_MAX];
	const uint64_t until = clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC;
	int r = 0;

	while (r == 0 && clock_nsec(CLOCK_MONOTONIC) < until &&
	       (peer.answered < nonce || peer.state < state)) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		size_t len = 0;

		if (poll(&p, 1, 50) != 1)
			continue;
		r = fdpass_recv_some(sock, m, sizeof(m), &len, NULL, 0);
		r = r < 0 ? r : netd_take(&peer, m, len, clock_nsec(CLOCK_MONOTONIC), &calls);
	}
	return r < 0 ? r : peer.answered >= nonce && peer.state >= state ? 0 : -ETIMEDOUT;
}

static void append(enum net_from from, const char *text)
{
	CHECK(lseek(journal[from], 0, SEEK_END) >= 0 && fd_write_all(journal[from], text, strlen(text)) == 0);
}

static void test_life(void)
{
	begin(false);
	CHECKF(take_until(0, NETD_IS_UP, 20000) == 0, "coffer-netd is ready behind its fence");
	append(NET_FROM_EGRESS, LINE("a.test") LINE("\\u0062.test") DENIAL "{\"ev\":");
	CHECK(ask(NETD_CATCH_UP, 1) == 0 && take_until(1, NETD_IS_UP, 20000) == 0);
	CHECKF(n_events == 3 && n_said == 1, "each whole line is an event, and a denial is said: %u, %u",
	       n_events, n_said);
	CHECKF(peer.counted[NET_FROM_EGRESS] == strlen(LINE("a.test") LINE("\\u0062.test") DENIAL),
	       "whole lines are counted and the rest is not");
	append(NET_FROM_EGRESS, "\"close\",\"name\":\"c.test\",\"up\":1,\"down\":2}\n");
	for (int i = 0; i < 400 && n_events < 4; i++)
		(void)take_until(2, NETD_IS_OVER, 50);
	CHECKF(n_events == 4 && strcmp(last_name, "c.test") == 0,
	       "a line that becomes whole is found without being asked for");
	append(NET_FROM_DIAL,
	       "{\"ev\":\"dial\",\"name\":\"a.test\",\"port\":443,\"status\":0,\"first\":1}\ncut");
	CHECK(ask(NETD_QUIT, 0) == 0);
	peer.state = NETD_IS_ENDING;
	CHECKF(take_until(0, NETD_IS_OVER, 20000) == 0,
	       "coffer-netd says when both journals are read to their end");
	CHECKF(n_events == 6, "the end logs the rest, and counts a line that was cut: %u", n_events);
	CHECK(peer.counted[NET_FROM_DIAL] == on_size(NULL, NET_FROM_DIAL));
	CHECKF(report->total.connections == 2 && report->total.denied == 1 && report->garbled == 1,
	       "the table of the report has what was read");
	end();
	forget();
}

/* Killed in between: what it had said is not said again, and nothing is left out. */
static void test_restart(void)
{
	begin(false);
	CHECK(take_until(0, NETD_IS_UP, 20000) == 0);
	append(NET_FROM_EGRESS, LINE("a.test"));
	CHECK(ask(NETD_CATCH_UP, 1) == 0 && take_until(1, NETD_IS_UP, 20000) == 0 && n_events == 1);
	/* The message that it was counted may not have come any more. */
	peer.counted[NET_FROM_EGRESS] = 0;
	end();
	append(NET_FROM_EGRESS, LINE("b.test"));
	begin(true);
	CHECK(take_until(0, NETD_IS_UP, 20000) == 0 && ask(NETD_CATCH_UP, 1) == 0 &&
	      take_until(1, NETD_IS_UP, 20000) == 0);
	CHECKF(n_events == 1 && strcmp(last_name, "b.test") == 0,
	       "after a restart the line that is in the log does not come again: %u, %s", n_events,
	       last_name);
	CHECKF(report->total.connections == 2, "the report counts each line once: %llu",
	       (unsigned long long)report->total.connections);
	end();
	forget();
}

static void test_protocol(void)
{
	int status = 0;

	begin(false);
	CHECK(take_until(0, NETD_IS_UP, 20000) == 0 && ask(NETD_BEGIN, 0) == 0);
	CHECKF(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 98,
	       "coffer-netd ends when its guard says something that makes no sense");
	close(sock);
	forget();
	begin(false);
	CHECK(take_until(0, NETD_IS_UP, 20000) == 0);
	close(sock);
	CHECKF(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
	       "coffer-netd ends when its guard is gone");
	forget();
}

int main(void)
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		return 1;
	test_life();
	test_restart();
	test_protocol();
	return tap_done();
}
