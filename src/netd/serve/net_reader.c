/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's side of coffer-netd (wire/netd_proto.h): starts it, writes what it says into the log, restarts it when it dies, and gives the
 * journals back to the disk. coffer-netd is hostile: nothing it sends is taken but by netd_take(), and nobody waits for it without
 * a deadline. Its death does not end the network; the journals wait.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/serve/net_int.h"
#include "netd/wire/netd_report.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define READY_WITHIN (60 * NSEC_PER_SEC)
#define ANSWER_WITHIN (30 * NSEC_PER_SEC) /* a loaded machine is slow; a stopped program never responds */
#define ASK_EVERY (10 * NSEC_PER_SEC)
#define CATCH_UP_WITHIN (5 * NSEC_PER_SEC) /* a question waits this long for the events before it */
#define CHECK_EVERY (800 * NSEC_PER_MSEC)
#define CHECK_SOON (100 * NSEC_PER_MSEC)
/* The launcher waits for less than all of these together (guard.c), and reads what is left itself (net_finish.c). */
#define FINISH_WITHIN (20 * NSEC_PER_SEC)
#define SILENT_AT_END (4 * NSEC_PER_SEC)
#define FINISH_TRIES 2
#define BATCH 256 /* messages in one turn of the loop */
#define PACE (50 * NSEC_PER_MSEC)

int net_reader_log(const struct net_config *c, const void *packed, size_t len)
{
	autobuf struct buf fields = BUF_INIT;
	enum net_ev ev;
	int r = netd_event_format(packed, len, &ev, &fields);

	if (r < 0)
		return r == -EBADMSG ? -EPROTO : r;
	r = audit_append(c->audit, net_ev_log_type(ev), c->spec->id, &fields, NULL);
	/* That one means something else here. */
	return r == -EPROTO ? -EIO : r;
}

static uint64_t on_size(void *ctx, enum net_from from)
{
	const struct net_guard *g = ctx;

	return net_journal_size(&g->journal[from]);
}

static int on_event(void *ctx, const void *packed, size_t len)
{
	struct net_guard *g = ctx;
	int r = net_reader_log(&g->c, packed, len);

	g->reader.log_failed = g->reader.log_failed || (r < 0 && r != -EPROTO);
	return r;
}

static void on_logged(void *ctx)
{
	const struct net_guard *g = ctx;

	net_journal_keep_place(g->place, &g->reader.peer);
}

static void on_counted(void *ctx)
{
	struct net_guard *g = ctx;

	/* First, so that no place is in the file that was punched out. */
	net_journal_keep_place(g->place, &g->reader.peer);
	for (int i = 0; i < NET_PARTS; i++)
		net_journal_punch(&g->journal[i], g->reader.peer.counted[i]);
}

static void on_said(void *ctx, const struct netd_said *s)
{
	net_say_denied(ctx, s);
}

static void on_fail(void *ctx, const char *text, size_t len)
{
	struct net_guard *g = ctx;
	char raw[NETD_FAIL_MAX + 1];

	snprintf(raw, sizeof(raw), "%.*s", (int)len, text);
	str_safe(raw, g->reader.proc.why, sizeof(g->reader.proc.why));
}

static void log_reader_state(struct net_guard *g, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (why)
		json_str(&j, "why", why);
	net_audit(g, type, &b);
}

static int ask_reader(struct net_reader *n, enum netd_ask_type type, bool all)
{
	struct netd_ask a = { .type = type, .all = all };
	int r;

	if (type == NETD_BEGIN) {
		memcpy(a.counted, n->peer.counted, sizeof(a.counted));
		memcpy(a.logged, n->peer.logged, sizeof(a.logged));
	}
	if (type == NETD_CATCH_UP)
		a.nonce = n->peer.asked + 1;
	r = fdpass_send(n->proc.w_ctl.fd, &a, sizeof(a), NULL, 0);
	if (r == 0 && type == NETD_CATCH_UP) {
		n->peer.asked++;
		n->asked = n->asked ? n->asked : clock_nsec(CLOCK_MONOTONIC);
	}
	return r;
}

static void end_reader(struct net_guard *g)
{
	loop_timer_off(&g->loop, &g->reader.t_pace);
	loop_timer_off(&g->loop, &g->reader.t_look);
	net_proc_kill(&g->reader.proc);
	g->reader.asked = 0;
}

/* It has died or must be killed: it is restarted after a pause. */
static void reader_down(struct net_guard *g, const char *why)
{
	struct net_reader *n = &g->reader;
	const bool was_ready = n->since != 0;
	char text[320];

	snprintf(text, sizeof(text), "%s", why);
	end_reader(g);
	if (g->ending || g->failed)
		return;
	if (!n->told_down)
		log_reader_state(g, "netd.down", text);
	n->told_down = true;
	if (!was_ready && ++n->tries >= NET_TRIES) {
		net_fail(g, "coffer-netd cannot be started: %s", text);
		return;
	}
	loop_timer(&g->loop, &n->t_start, net_proc_start_again_at(&n->backoff, n->since));
	n->since = 0;
}

static void on_reader_ready(struct net_guard *g)
{
	struct net_reader *n = &g->reader;

	n->since = clock_nsec(CLOCK_MONOTONIC);
	n->tries = 0;
	if (n->told_down)
		log_reader_state(g, "netd.up", NULL);
	n->told_down = false;
}

static int take_reader_message(struct net_guard *g)
{
	static char message[NETD_MESSAGE_MAX];
	const struct netd_calls calls = { on_size, on_event, on_logged, on_counted, on_said, on_fail, g };
	struct net_reader *n = &g->reader;
	const bool was_starting = n->peer.state == NETD_IS_STARTING;
	size_t len = 0;
	int r = fdpass_recv_some(n->proc.w_ctl.fd, message, sizeof(message), &len, NULL, 0);

	if (r < 0)
		return r == -EAGAIN || r == -EINTR || r == -EPIPE ? r : -EPROTO;
	r = netd_take(&n->peer, message, len, clock_nsec(CLOCK_MONOTONIC), &calls);
	if (r == 0 && was_starting)
		on_reader_ready(g);
	if (n->peer.answered == n->peer.asked)
		n->asked = 0;
	return r;
}

/* Up to `most` messages. -EAGAIN: there are no more, or it has to wait for its pace. Any other error: it must go. */
static int take_reader_messages(struct net_guard *g, unsigned most)
{
	int r = 0;

	while (most-- && r == 0) {
		if (!netd_peer_has_pace(&g->reader.peer, clock_nsec(CLOCK_MONOTONIC)))
			return -EAGAIN;
		r = take_reader_message(g);
		r = r == -EINTR ? 0 : r;
	}
	return r;
}

/* What an error of take_reader_messages() means. */
static const char *why_of_reader(struct net_guard *g, int error)
{
	if (g->reader.log_failed)
		net_fail(g, "network events cannot be written to the audit log");
	return error == -EPROTO ? "it sent a malformed message" : g->reader.proc.why;
}

static void on_pace_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;

	if (g->reader.proc.pid >= 0 && loop_watch(&g->loop, &g->reader.proc.w_ctl, EPOLLIN) < 0)
		reader_down(g, "it cannot be watched");
}

static void on_reader_message(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;
	int r = take_reader_messages(g, BATCH);

	(void)events;
	if (r == -EPIPE) {
		/* It has closed its end: its pidfd will report its death, or the check its silence. */
		loop_unwatch(&g->loop, w);
	} else if (r < 0 && r != -EAGAIN) {
		reader_down(g, why_of_reader(g, r));
	} else if (!netd_peer_has_pace(&g->reader.peer, clock_nsec(CLOCK_MONOTONIC))) {
		loop_unwatch(&g->loop, w);
		loop_timer(&g->loop, &g->reader.t_pace, clock_nsec(CLOCK_MONOTONIC) + PACE);
	}
}

static void on_reader_end(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;
	char why[320];
	siginfo_t si;

	(void)events;
	if (!net_proc_has_ended(&g->reader.proc, &si))
		return;
	/* What it sent before it died counts. */
	(void)take_reader_messages(g, BATCH);
	net_proc_describe_end(&g->reader.proc, &si, why);
	reader_down(g, why);
}

static int watch_reader(struct net_guard *g, struct err *e)
{
	struct net_proc *p = &g->reader.proc;

	p->w_pid.fn = on_reader_end;
	p->w_ctl.fn = on_reader_message;
	p->w_pid.ctx = p->w_ctl.ctx = g;
	if (loop_watch(&g->loop, &p->w_pid, EPOLLIN) < 0 || loop_watch(&g->loop, &p->w_ctl, EPOLLIN) < 0)
		return err_set(e, -ENOMEM, "cannot watch coffer-netd");
	return ask_reader(&g->reader, NETD_BEGIN, false) < 0
		       ? err_set(e, -EPIPE, "cannot send coffer-netd its first message")
		       : 0;
}

static int start_reader(struct net_guard *g, struct err *e)
{
	struct net_reader *n = &g->reader;
	autoclose int egress = -1, dial = -1, ctl = -1;
	int fds[NETD_FD_END] = { 0 }, r = net_proc_open(&n->proc, e);

	if (r == 0)
		r = net_journal_open_read(g, NET_EGRESS, &egress, e);
	if (r == 0)
		r = net_journal_open_read(g, NET_DIAL, &dial, e);
	if (r == 0)
		r = ctl = net_proc_socket(&n->proc, e);
	if (r < 0)
		return r;
	fds[NETD_FD_CONTROL] = ctl;
	fds[NETD_FD_EGRESS] = egress;
	fds[NETD_FD_DIAL] = dial;
	fds[NETD_FD_REPORT] = n->report;
	netd_peer_begin(&n->peer, clock_nsec(CLOCK_MONOTONIC));
	n->since = 0;
	r = net_proc_start(&n->proc, fds, NETD_FD_END, e);
	if (r == 0)
		r = watch_reader(g, e);
	if (r < 0)
		net_proc_kill(&n->proc);
	return r;
}

int net_reader_started(struct net_guard *g, struct err *e)
{
	return net_proc_started(&g->reader.proc, e);
}

static void on_reader_start(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct err e = ERR_INIT;
	int r = start_reader(g, &e);

	if (r == 0)
		r = net_reader_started(g, &e);
	if (r == 0)
		return;
	if (g->reader.proc.exe < 0)
		net_fail(g, "%s", e.msg);
	else
		reader_down(g, e.msg);
}

/* Slow is not dead: generous. A journal that grows beyond its limit ends its writer, and the reader that let it grow. */
static void on_reader_check(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct net_reader *n = &g->reader;
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	uint64_t written = 0;
	bool flooded = false;

	for (int i = 0; i < NET_PARTS; i++) {
		written += net_journal_size(&g->journal[i]);
		if (!net_journal_is_flooded(g, (enum net_part)i))
			continue;
		flooded = true;
		if (g->proc[i].pid >= 0)
			net_down(g, &g->proc[i], "it writes faster than its journal can be read");
	}
	if (n->proc.pid < 0) {
		/* It is started again after its pause. */
	} else if (n->peer.state == NETD_IS_STARTING) {
		if (now - n->proc.since > READY_WITHIN)
			reader_down(g, "it did not become ready within 60 seconds");
	} else if (n->asked) {
		if (now - n->asked > ANSWER_WITHIN)
			reader_down(g, "it did not respond for 30 seconds");
	} else if (flooded || now - n->checked > ASK_EVERY) {
		n->checked = now;
		if (ask_reader(n, NETD_CATCH_UP, false) < 0)
			reader_down(g, "it does not read its socket");
	}
	/* A process that writes as fast as it can fills a disk between two rare looks. */
	loop_timer(&g->loop, t, now + (written > n->written ? CHECK_SOON : CHECK_EVERY));
	n->written = written;
}

static void on_look_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;

	/* A socket that is full has been looked at soon anyway. */
	if (g->reader.proc.pid >= 0)
		(void)!ask_reader(&g->reader, NETD_LOOK, false);
}

int net_reader_begin(struct net_guard *g, struct err *e)
{
	struct net_reader *n = &g->reader;
	int r;

	if (!n->begun) {
		n->t_start = (struct timer){ .fn = on_reader_start, .ctx = g };
		n->t_check = (struct timer){ .fn = on_reader_check, .ctx = g };
		n->t_pace = (struct timer){ .fn = on_pace_timer, .ctx = g };
		n->t_look = (struct timer){ .fn = on_look_timer, .ctx = g };
	}
	if (n->proc.pid >= 0 || n->t_start.armed)
		return 0;
	r = net_journal_make(g, e);
	if (r == 0 && n->report < 0)
		r = n->report = netd_report_make(e);
	if (r >= 0)
		r = start_reader(g, e);
	if (r < 0)
		return r;
	n->begun = true;
	loop_timer(&g->loop, &n->t_check, clock_nsec(CLOCK_MONOTONIC) + CHECK_EVERY);
	return 0;
}

void net_reader_soon(struct net_guard *g)
{
	if (g->reader.begun && !g->reader.t_look.armed)
		loop_timer(&g->loop, &g->reader.t_look, clock_nsec(CLOCK_MONOTONIC));
}

/* Takes messages until `done`, its death, the deadline, or a silence of that length. */
static int take_until(struct net_guard *g, bool (*done)(const struct net_reader *n), uint64_t until,
		      uint64_t silence)
{
	struct net_reader *n = &g->reader;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	uint64_t heard = now;

	while (n->proc.pid >= 0 && !done(n) && now < until && now - heard < silence) {
		struct pollfd p = { .fd = n->proc.w_ctl.fd, .events = POLLIN };
		int r;

		(void)poll(&p, 1, 100);
		r = take_reader_messages(g, 1);
		if (r < 0 && r != -EAGAIN)
			return r;
		/* There is a message, and it has to wait for its pace. */
		if (r == -EAGAIN && p.revents)
			(void)poll(NULL, 0, 10);
		now = clock_nsec(CLOCK_MONOTONIC);
		heard = r == 0 ? now : heard;
	}
	return done(n) ? 0 : -ETIMEDOUT;
}

static bool reader_is_ready(const struct net_reader *n)
{
	return n->peer.state != NETD_IS_STARTING;
}

static bool reader_has_answered(const struct net_reader *n)
{
	return n->peer.answered == n->peer.asked;
}

static bool reader_is_over(const struct net_reader *n)
{
	return n->peer.state == NETD_IS_OVER;
}

int net_reader_catch_up(struct net_guard *g)
{
	struct net_reader *n = &g->reader;
	const uint64_t until = clock_nsec(CLOCK_MONOTONIC) + CATCH_UP_WITHIN;
	int r;

	/* Where it is down the log has said so, and the question waits for nothing. */
	if (!n->begun || n->proc.pid < 0 || g->failed)
		return g->failed ? -EIO : 0;
	r = take_until(g, reader_is_ready, until, CATCH_UP_WITHIN);
	if (r == -ETIMEDOUT)
		return 0;
	if (r == 0)
		r = ask_reader(n, NETD_CATCH_UP, true);
	if (r == 0)
		r = take_until(g, reader_has_answered, until, CATCH_UP_WITHIN);
	if (r == -EPIPE)
		return 0; /* its pidfd will report its death */
	if (r < 0)
		reader_down(g,
			    r == -ETIMEDOUT ? "it did not catch up within 5 seconds" : why_of_reader(g, r));
	return n->log_failed ? -EIO : 0;
}

/* One coffer-netd's try to read both journals to their end. */
static void finish_with_reader(struct net_guard *g, uint64_t until)
{
	struct net_reader *n = &g->reader;
	struct err e = ERR_INIT;
	int r = 0;

	if (n->proc.pid < 0)
		r = start_reader(g, &e);
	if (r == 0)
		r = net_reader_started(g, &e);
	if (r == 0)
		r = take_until(g, reader_is_ready, until, SILENT_AT_END);
	if (r == 0)
		r = ask_reader(n, NETD_QUIT, false);
	if (r == 0) {
		n->peer.state = NETD_IS_ENDING;
		r = take_until(g, reader_is_over, until, SILENT_AT_END);
	}
	if (r < 0)
		(void)why_of_reader(g, r);
	end_reader(g);
}

void net_reader_finish(struct net_guard *g)
{
	const uint64_t until = clock_nsec(CLOCK_MONOTONIC) + FINISH_WITHIN;
	struct net_reader *n = &g->reader;

	if (!n->begun)
		return;
	loop_timer_off(&g->loop, &n->t_start);
	loop_timer_off(&g->loop, &n->t_check);
	/* Also where everything is read: coffer-netd may have repetitions to say. */
	for (int i = 0; i < FINISH_TRIES && n->peer.state != NETD_IS_OVER && !n->log_failed; i++)
		finish_with_reader(g, until);
	end_reader(g);
}

int net_reader_report(struct net_guard *g)
{
	static struct netd_report copy;
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (g->reader.report < 0 || pread(g->reader.report, &copy, sizeof(copy), 0) != (ssize_t)sizeof(copy))
		copy = (struct netd_report){ 0 };
	netd_report_format(&copy, &j);
	return buf_error(&b) ? -ENOMEM : memfile_make("report", b.data, b.len, true, NULL);
}
