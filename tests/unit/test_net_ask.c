/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coffer-egress that does not take its answers: it is ended, and what it never heard of was not used. And a program that
 * could not be started.
 */
#include "audit/audit.h"
#include "egress/wire/askmsg.h"
#include "ipc/fdpass.h"
#include "netd/serve/net_int.h"
#include "statedir.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct net_guard g;
static struct spec spec;
static struct net_plan plan;
static int theirs = -1;

/* A process in coffer-egress's place, and our end of its socket, which does not take much. */
static bool start_egress(bool full)
{
	struct net_proc *p = &g.proc[NET_EGRESS];
	const struct ctl_head h = { CTL_PING, 1 };
	int ends[2], small = 4096;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return false;
	(void)!setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	while (full && fdpass_send(ends[0], &h, sizeof(h), NULL, 0) == 0)
		;
	p->pid = fork();
	if (p->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	p->g = &g;
	p->part = NET_EGRESS;
	p->ready = true;
	p->w_ctl = (struct watch){ .fd = ends[0] };
	p->w_pid = (struct watch){ .fd = (int)syscall(SYS_pidfd_open, p->pid, 0) };
	theirs = ends[1];
	return p->pid > 0 && p->w_pid.fd >= 0;
}

static void ask(uint64_t ticket, const char *path)
{
	struct askmsg m = { .ticket = ticket,
			    .kind = ASKMSG_REQUEST,
			    .generation = 1,
			    .host = "api.test",
			    .method = "PUT",
			    .path = path };
	autobuf struct buf b = BUF_INIT;

	CHECK(askmsg_pack(&m, &b) == 0 && net_ask_take(&g, CTL_ASK, b.data, b.len) == 0);
}

static int approve(const char *id)
{
	struct ask_answer a = { .allow = true, .scope = ASK_ONCE, .who = { .via = "cli" } };
	struct err e = ERR_INIT;
	struct ask_view v;

	ask_view(g.serve.asks, asks_find(g.serve.asks, id), &v);
	return askserve_answer(&g.serve, id, v.digest, &a, &e);
}

static struct ask_view view(const char *id)
{
	struct ask_view v;

	ask_view(g.serve.asks, asks_find(g.serve.asks, id), &v);
	return v;
}

static void stop(struct timer *t)
{
	loop_stop(t->ctx);
}

/* Runs the events that wait for this round of the loop. */
static void one_round(void)
{
	struct timer end = { .fn = stop, .ctx = &g.loop };
	struct err e = ERR_INIT;

	loop_timer(&g.loop, &end, 1);
	CHECK(loop_run(&g.loop, &e) == 0);
	loop_timer_off(&g.loop, &end);
}

static void test_taken(void)
{
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m;

	CHECK(start_egress(false));
	ask(1, "/taken");
	/* It is told what it waits for, and how long. */
	CHECK(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == 0 && m.h.type == CTL_ASKED && m.a.ticket == 1 &&
	      str_eq(m.a.id, "3f9a2c-1") && m.a.left > 0 && m.a.left <= 300);
	CHECK(approve("1") == 0 && view("1").state == ASK_SPENT);
	CHECK(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == 0 && m.h.type == CTL_ANSWER && m.a.ticket == 1 &&
	      m.a.allow == 1);
	CHECK(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == -EAGAIN); /* once only */
	one_round();
	CHECK(g.proc[NET_EGRESS].pid > 0 && view("1").state == ASK_SPENT);
	net_proc_kill(&g.proc[NET_EGRESS]);
	net_ask_egress_gone(&g);
	close(theirs);
}

static void test_unread(void)
{
	CHECK(start_egress(true));
	ask(2, "/unread");
	CHECK(approve("2") == 0);
	one_round();
	CHECK(g.proc[NET_EGRESS].pid < 0);				/* it is ended */
	CHECK(view("2").state == ASK_PARKED && view("2").waiters == 0); /* and nothing was used */
	close(theirs);
	/* The identical request of the next one has it, once. */
	CHECK(start_egress(false));
	ask(3, "/unread");
	CHECK(view("2").state == ASK_SPENT);
	ask(4, "/unread");
	CHECK(view("2").state == ASK_SPENT && view("3").state == ASK_PENDING);
	net_proc_kill(&g.proc[NET_EGRESS]);
	net_ask_egress_gone(&g);
	close(theirs);
}

/* An answer that waits for a changed policy: sent once that is compiled, given back if its coffer-egress is gone by then. */
static void test_held(void)
{
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m;

	CHECK(start_egress(false));
	ask(20, "/held");
	CHECK(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == 0 && m.h.type == CTL_ASKED);
	g.ask_held = true;
	CHECK(approve("4") == 0 && view("4").state == ASK_SPENT);
	CHECKF(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == -EAGAIN, "a held answer is not sent yet");
	net_ask_release(&g);
	CHECKF(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == 0 && m.h.type == CTL_ANSWER &&
		       m.a.ticket == 20 && m.a.allow == CTL_YES,
	       "a held answer is sent when the policy is compiled");
	net_ask_release(&g);
	CHECKF(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == -EAGAIN, "a held answer is sent once");
	ask(21, "/held");
	CHECK(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == 0 && m.h.type == CTL_ASKED);
	g.ask_held = true;
	CHECK(approve("5") == 0 && view("5").state == ASK_SPENT);
	net_proc_kill(&g.proc[NET_EGRESS]);
	net_ask_egress_gone(&g);
	close(theirs);
	CHECKF(view("5").state == ASK_PARKED, "a held answer is given back when coffer-egress is gone");
	CHECK(start_egress(false));
	net_ask_release(&g);
	CHECKF(fdpass_recv(theirs, &m, sizeof(m), NULL, 0) == -EAGAIN,
	       "a restarted coffer-egress gets no answer of the one before");
	net_proc_kill(&g.proc[NET_EGRESS]);
	net_ask_egress_gone(&g);
	close(theirs);
}

/* However often it happens, no place in the list stays taken. */
static void test_places(void)
{
	for (uint64_t i = 0; i < ASKS_WAITERS_MAX + 20; i++) {
		char path[32], id[ASK_ID_MAX];

		g.is_up = true; /* as one that had been ready before it stopped reading */
		if (!start_egress(true))
			break;
		snprintf(path, sizeof(path), "/p%llu", (unsigned long long)i);
		ask(100 + i, path);
		snprintf(id, sizeof(id), "%llu", (unsigned long long)(6 + i));
		if (view(id).state != ASK_PENDING || approve(id) < 0) {
			CHECKF(false, "question %llu is pending and can be approved", (unsigned long long)i);
			break;
		}
		one_round();
		close(theirs);
	}
	CHECK(start_egress(false));
	ask(9000, "/last");
	CHECK(asks_pending(g.serve.asks) >= 1);
	net_proc_kill(&g.proc[NET_EGRESS]);
	net_ask_egress_gone(&g);
	close(theirs);
}

static unsigned count_open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void stop_timers(void)
{
	struct timer *const all[] = { &g.t_start, &g.t_ping };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		loop_timer_off(&g.loop, all[i]);
}

/* Its journal cannot be made, so it fails before there is a process. */
static void test_not_spawned(void)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), run_dir = g.dir;
	unsigned before = 0;

	for (int i = 0; i < NET_PARTS; i++)
		g.proc[i] = (struct net_proc){ .g = &g,
					       .part = (enum net_part)i,
					       .exe = null,
					       .report = -1,
					       .pid = -1,
					       .w_pid = WATCH_INIT,
					       .w_ctl = WATCH_INIT };
	g.bundle = g.names = g.ca = g.store = g.proxy_sets = null;
	g.journal[NET_EGRESS].fd = g.journal[NET_DIAL].fd = -1;
	CHECK(policy_new(POLICY_ENFORCE, &plan.cp.policy, NULL) == 0 &&
	      policy_seal(plan.cp.policy, NULL) == 0);
	g.has_cgroup = true;
	/* coffer-netd has died, and its own timer starts it again. */
	g.reader = (struct net_reader){ .begun = true, .t_start = { .armed = true }, .report = -1 };
	g.reader.proc = g.proc[NET_DIAL];
	g.dir = -1;
	for (unsigned i = 0; i < 4; i++) {
		stop_timers();
		g.tries = 0;
		net_start_now(&g);
		CHECKF(g.t_start.armed && g.proc[NET_DIAL].pid < 0,
		       "control: coffer-dial was not started, and is tried again later");
		if (i == 0)
			before = count_open_fds();
	}
	CHECKF(count_open_fds() == before,
	       "a program that could not be started leaves no descriptor open (%u, %u)", before,
	       count_open_fds());
	policy_free(plan.cp.policy);
	plan.cp.policy = NULL;
	g.dir = run_dir;
	g.has_cgroup = false;
	g.reader = (struct net_reader){ 0 };
	close(null);
}

/* Nothing is started again here. */
static void on_start(struct timer *t)
{
	(void)t;
}

int main(void)
{
	struct state st = STATE_INIT;
	struct audit *log = NULL;
	struct err e = ERR_INIT;

	begin(&st);
	plan = NET_PLAN_INIT;
	plan.generation = 1;
	plan.ask_timeout = 300;
	memcpy(spec.id, "3f9a2c0011aa", sizeof("3f9a2c0011aa"));
	CHECK(audit_open(&log, st.fd, &e) == 0);
	g.c = (struct net_config){ .st = &st, .audit = log, .spec = &spec, .plan = &plan, .sandbox = -1 };
	g.dir = st.fd;
	g.loop = LOOP_INIT;
	g.t_start = (struct timer){ .fn = on_start, .ctx = &g };
	g.w_launcher.fd = g.w_notify.fd = g.room[0] = g.room[1] = -1;
	g.proc[NET_DIAL].pid = -1;
	CHECK(loop_open(&g.loop, &e) == 0 && net_ask_open(&g, &e) == 0);
	test_taken();
	g.is_up = true;
	test_unread();
	test_held();
	test_places();
	net_ask_close(&g);
	test_not_spawned();
	loop_close(&g.loop);
	audit_free(log);
	end(&st);
	return tap_done();
}
