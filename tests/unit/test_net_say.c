/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the terminal about what is denied: once each, repeated ones together, few, and harmless. */
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/read/netd_say.h"
#include "netd/serve/net_int.h"
#include "tap.h"

#include <errno.h>
#include <sys/socket.h>

static struct net_guard g;
static int launcher;
static struct netd_say say;
static uint64_t now = 1000;

/* What coffer-netd sends is worded by the guard. */
static void on_say(void *ctx, const struct netd_said *s)
{
	(void)ctx;
	net_say_denied(&g, s);
}

static void say_line(const struct net_line *l)
{
	netd_say_line(&say, l, now);
}

/* The next line, "" when there is none. */
static const char *heard(void)
{
	static char text[NET_MSG_TEXT];
	struct net_msg m;

	text[0] = '\0';
	if (fdpass_recv(launcher, &m, sizeof(m), NULL, 0) < 0)
		return text;
	CHECKF(m.type == NET_SAY, "only frames of type NET_SAY are said");
	net_say_format(&m, text);
	return text;
}

static struct net_line line(const char *name, uint16_t port, const char *why)
{
	struct net_line l = { .ev = NET_EV_OPEN, .decision = NET_DENIED, .port = port, .count = 1 };

	snprintf(l.name, sizeof(l.name), "%s", name);
	snprintf(l.why, sizeof(l.why), "%s", why);
	return l;
}

static void test_lines(void)
{
	struct net_line l = line("evil.example", 443, "no rule allows evil.example:443");

	say_line(&l);
	CHECK_STR(heard(), "denied  evil.example:443  no rule allows evil.example:443  (coffer why)");
	for (int i = 0; i < 7; i++)
		say_line(&l);
	CHECKF(!*heard(), "a repeated denial is not said at once");
	CHECK(say.due);
	netd_say_tick(&say, now, false);
	CHECKF(!*heard(), "repetitions are said after a while");
	now += NETD_SAY_TOGETHER;
	netd_say_tick(&say, now, false);
	CHECK_STR(heard(), "denied  evil.example:443  no rule allows evil.example:443  (7 more)");
	CHECK(!*heard() && !say.due);
	netd_say_tick(&say, now, true);
	CHECKF(!*heard(), "a number of repetitions is said once");
}

static void test_kinds(void)
{
	struct net_line l = line("asked.example", 0, "");

	l.ev = NET_EV_DNS;
	snprintf(l.what, sizeof(l.what), "AAAA");
	say_line(&l);
	CHECKF(!*heard(), "a denied name is said for A and not for AAAA");
	snprintf(l.what, sizeof(l.what), "A");
	say_line(&l);
	CHECK_STR(heard(), "denied  asked.example  no rule allows it  (coffer why)");
	l.ev = NET_EV_DIAL;
	say_line(&l);
	CHECKF(!*heard(), "a denial by dial is said only by egress");
	l = line("api.example", 443, "the rule does not list POST /x");
	l.ev = NET_EV_REQUEST;
	snprintf(l.what, sizeof(l.what), "POST");
	snprintf(l.path, sizeof(l.path), "/x");
	say_line(&l);
	CHECK_STR(heard(), "denied  POST api.example/x  the rule does not list POST /x  (coffer why)");
	l = line("odd.example", 443, "the SNI is another");
	l.ev = NET_EV_ALERT;
	say_line(&l);
	CHECK_STR(heard(), "alert  odd.example:443  the SNI is another  (coffer why)");
	l = line("\033[31mred\nnext\xff", 1, "\033]0;title\007");
	say_line(&l);
	CHECKF(!strpbrk(heard(), "\033\n\007\xff"), "a denial has no byte that a terminal would act on");
}

static void test_flood(void)
{
	unsigned said = 0;
	char name[32];

	for (int i = 0; i < 5000; i++) {
		struct net_line l;

		snprintf(name, sizeof(name), "n%d.example", i);
		l = line(name, 443, "no");
		say_line(&l);
		said += *heard() != '\0';
	}
	CHECKF(said > 8 && said < 100, "a flood of 5000 names has few lines: %u", said);
	netd_say_tick(&say, now, true);
	CHECKF(strstr(heard(), "more  (coffer net log)") != NULL, "the names without a line are counted");
}

/* A launcher that is stopped reads nothing. */
static void test_deaf(void)
{
	int sent = 0;

	while (sent < 10000 && net_launcher_send(&g, NET_SAY, NET_LEVEL_WARN, "x", -1) == 0)
		sent++;
	CHECKF(sent < 10000, "lines for a deaf launcher are dropped after %d", sent);
	CHECKF(sent > (int)NETD_SAID_KEYS / 2, "a burst of lines waits for a launcher that is slow: %d",
	       sent);
	CHECKF(net_launcher_send(&g, NET_FAILED, 0, "why", -1) == 0,
	       "a failure still fits into the full queue of a deaf launcher");
}

int main(void)
{
	struct err e = ERR_INIT;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0 || fd_set_nonblock(sv[1], true) < 0)
		return 1;
	g.loop = LOOP_INIT;
	if (loop_open(&g.loop, &e) < 0)
		return 1;
	g.w_launcher.fd = sv[0];
	launcher = sv[1];
	say.send = on_say;
	netd_say_begin(&say, now);
	test_lines();
	test_kinds();
	test_flood();
	test_deaf();
	loop_close(&g.loop);
	close(sv[0]);
	close(sv[1]);
	return tap_done();
}
