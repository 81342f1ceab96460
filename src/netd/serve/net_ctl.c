/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control sockets of coffer-egress and coffer-dial. Both may be compromised, so each message is accepted
 * only where it is legal: a response when one is owed, a greeting once. A violation is fatal: the program is
 * killed and restarted.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/serve/net_int.h"
#include "sandbox/engine/rootfs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PING_EVERY (10 * NSEC_PER_SEC)
#define ANSWER_WITHIN (30 * NSEC_PER_SEC) /* a loaded machine is slow; a stopped program never responds */
#define READY_WITHIN (60 * NSEC_PER_SEC)
#define STATS_EVERY (2 * NSEC_PER_SEC)

int net_ctl_send(struct net_proc *p, enum ctl_type type, const int *fds, size_t n)
{
	const struct ctl_head h = { type, p->g->generation };
	int r;

	if (p->pid < 0)
		return -EPIPE;
	/* The socket does not block: if it is full, the program has not read many requests. */
	r = fdpass_send(p->w_ctl.fd, &h, sizeof(h), fds, n);
	if (r == 0 && type != CTL_QUIT) {
		if (!p->owed)
			p->asked = clock_nsec(CLOCK_MONOTONIC);
		p->owed++;
	}
	return r;
}

static int take_owed_answer(struct net_proc *p)
{
	if (!p->owed)
		return -EPROTO;
	p->owed--;
	p->asked = clock_nsec(CLOCK_MONOTONIC);
	return 0;
}

static void keep_error_text(struct net_proc *p, const char *text, size_t len)
{
	char raw[192];

	snprintf(raw, sizeof(raw), "%.*s", (int)len, text);
	str_safe(raw, p->why, sizeof(p->why));
}

/* For programs inside that start from now on; running ones have read their trust store already. */
static void append_certificate(struct net_guard *g, const char *pem, size_t len)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(g->room); i++) {
		/* Room for it was reserved when the file was made. */
		ssize_t n = r == 0 ? write(g->room[i], pem, len) : 0;

		if (r == 0 && n != (ssize_t)len)
			r = n < 0 ? -errno : -ENOSPC;
		g->room[i] = fd_close(g->room[i]);
	}
	if (r < 0)
		net_say(g, NET_LEVEL_WARN,
			"the sandbox's certificate authority cannot be shown inside, so "
			"inspected connections fail until the sandbox is restarted: %s",
			strerror(-r));
	else
		net_say(g, NET_LEVEL_NOTE,
			"TLS is inspected now: programs inside that start from now on trust "
			"the sandbox's certificate authority");
}

static int take_certificate(struct net_proc *p, const char *pem, size_t len)
{
	struct net_guard *g = p->g;
	struct err e = ERR_INIT;
	autoclose int fd = -1;

	/* Once in its life: before it is ready, or with the first policy that needs one. */
	if (p->part != NET_EGRESS || p->ca_said || (p->ready && !p->owed) || len == 0 || len > ROOTFS_CA_MAX)
		return -EPROTO;
	p->ca_said = true;
	/* After a restart it is the same certificate, since the key is; the sandbox has it already. */
	if (g->ca_told)
		return 0;
	if (g->room[0] >= 0) {
		g->ca_told = true;
		append_certificate(g, pem, len);
		return 0;
	}
	fd = memfile_make("ca", pem, len, true, &e);
	if (fd < 0 || net_launcher_send(g, NET_CA, 0, "", fd) < 0)
		return -EIO;
	g->ca_told = true;
	/* The launcher takes no lines before this. */
	net_vault_check(g);
	return 0;
}

static int take_counters(struct net_proc *p, const char *json, size_t len)
{
	int r = take_owed_answer(p);

	/* Any response shows that it is alive; the counters are written only if they have changed. */
	if (r == 0 && (p->said.len != len || memcmp(p->said.data, json, len) != 0)) {
		buf_clear(&p->said);
		buf_add(&p->said, json, len);
		(void)!fd_replace_file(p->g->dir, p->part == NET_DIAL ? NET_STATS_DIAL : NET_STATS_EGRESS,
				       json, len, 0600);
	}
	return r;
}

static int take_ctl_message(struct net_proc *p, uint32_t type, const char *text, size_t len)
{
	switch (type) {
	case CTL_OK:
		return len ? -EPROTO : take_owed_answer(p);
	case CTL_STATS:
		return take_counters(p, text, len);
	case CTL_ERROR:
		keep_error_text(p, text, len);
		return -EIO;
	case CTL_FAIL:
		/* It exits by itself, which is noticed where it is reaped. */
		keep_error_text(p, text, len);
		return 0;
	case CTL_FOLD:
		if (p->part != NET_EGRESS || len)
			return -EPROTO;
		/* Many messages may be queued; one fold covers everything there is. */
		net_reader_soon(p->g);
		return 0;
	case CTL_ASK:
	case CTL_ASK_DROP:
	case CTL_ASK_TAKEN:
	case CTL_ASK_UNUSED:
		return p->part == NET_EGRESS && p->ready ? net_ask_take(p->g, type, text, len) : -EPROTO;
	case CTL_CA:
		return take_certificate(p, text, len);
	case CTL_READY:
		if (p->ready || len)
			return -EPROTO;
		p->ready = true;
		net_up(p->g);
		return 0;
	default:
		return -EPROTO;
	}
}

static void on_ctl_message(struct watch *w, uint32_t events)
{
	static union {
		struct ctl_head head;
		char bytes[sizeof(struct ctl_head) + CTL_TEXT_MAX];
	} msg;
	struct net_proc *p = w->ctx;
	size_t len = 0;
	int r = fdpass_recv_some(w->fd, &msg, sizeof(msg), &len, NULL, 0);

	(void)events;
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r == -EPIPE) {
		/*
		 * It has closed its end: it is dying, and its pidfd will report it. If it lives on, the
		 * watchdog notices.
		 */
		loop_unwatch(&p->g->loop, w);
		return;
	}
	if (r == 0 && len >= sizeof(msg.head))
		r = take_ctl_message(p, msg.head.type, msg.bytes + sizeof(msg.head), len - sizeof(msg.head));
	else if (r == 0)
		r = -EPROTO;
	if (r == -EPROTO)
		snprintf(p->why, sizeof(p->why), "it sent a malformed message");
	if (r < 0 && !p->quitting)
		net_down(p->g, p, p->why);
}

void net_ctl_watch(struct net_proc *p)
{
	p->w_ctl.fn = on_ctl_message;
	p->w_ctl.ctx = p;
	if (loop_watch(&p->g->loop, &p->w_ctl, EPOLLIN) < 0)
		net_down(p->g, p, "it cannot be watched");
}

/* The watchdog: generous, and never worse than a restart, because slow is not dead. */
void net_ctl_ping(struct timer *t)
{
	struct net_guard *g = t->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	for (int i = 0; i < NET_PARTS; i++) {
		struct net_proc *p = &g->proc[i];

		if (p->pid < 0)
			continue;
		if (!p->ready && now - p->since > READY_WITHIN)
			net_down(g, p, "it did not become ready within 60 seconds");
		else if (p->owed && now - p->asked > ANSWER_WITHIN)
			net_down(g, p, "it did not respond for 30 seconds");
		else if (p->ready && !p->owed &&
			 net_ctl_send(p, p->part == NET_EGRESS ? CTL_STATS : CTL_PING, NULL, 0) < 0)
			net_down(g, p, "its state cannot be requested");
	}
	loop_timer(&g->loop, t, now + PING_EVERY);
}

void net_ctl_stats(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct net_proc *p = &g->proc[NET_DIAL];

	if (p->ready && !p->owed && net_ctl_send(p, CTL_STATS, NULL, 0) < 0)
		net_down(g, p, "its state cannot be requested");
	loop_timer(&g->loop, t, clock_nsec(CLOCK_MONOTONIC) + STATS_EVERY);
}
