/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active checks: every proxy of a set in use is tried regularly, so that a check finds a dead one instead of
 * a client's request, and a recovered one is used again. A check goes to the set's own target; without one it
 * only tests whether the proxy can be connected to. An ejected proxy is left alone until its time is over.
 */
#include "dial/proxy/proxy.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>

static void free_check(struct proxy_member *m)
{
	struct tunnel *t = TAKE_PTR(m->check);

	free(t);
}

static void on_check_done(struct tunnel *t, enum tunnel_end end, int status, int fd, const char *why)
{
	struct proxy_member *m = t->ctx;
	struct proxy_set *p = m->set;

	(void)status;
	fd_close(fd);
	proxy_outcome(p, (size_t)(m - p->member), end, true, 0, clock_nsec(CLOCK_MONOTONIC) - m->check_began,
		      why);
	free_check(m);
}

void proxy_check_now(struct proxy_set *p, size_t i)
{
	struct proxy_member *m = &p->member[i];
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct tunnel *t;

	if (m->check || (p->score[i].state != SCORE_CLOSED && !score_wants_probe(&p->score[i], now)))
		return;
	t = calloc(1, sizeof(*t));
	if (!t)
		return;
	proxy_fill_tunnel(p, i, t);
	t->done = on_check_done;
	t->ctx = m;
	t->target = p->check_host;
	t->port = p->check_port;
	t->is_greeting_only = !p->has_check;
	m->check = t;
	m->check_began = now;
	score_probe(&p->score[i], now);
	tunnel_start(t);
}

static void on_check_timer(struct timer *timer)
{
	struct proxy_set *p = timer->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	/* An idle sandbox causes no traffic. */
	if (p->used_at && now - p->used_at < PROXY_CHECK_IDLE_S * NSEC_PER_SEC) {
		for (size_t i = 0; i < p->n; i++)
			proxy_check_now(p, i);
	}
	loop_timer(proxy_env(p)->loop, timer, now + p->check_ns);
}

void proxy_check_arm(struct proxy_set *p)
{
	p->check_timer = (struct timer){ .fn = on_check_timer, .ctx = p };
	if (p->check_ns && proxy_env(p)->loop)
		loop_timer(proxy_env(p)->loop, &p->check_timer, clock_nsec(CLOCK_MONOTONIC) + p->check_ns);
}

void proxy_check_stop(struct proxy_set *p)
{
	if (!proxy_env(p)->loop)
		return;
	loop_timer_off(proxy_env(p)->loop, &p->check_timer);
	for (size_t i = 0; i < p->n; i++) {
		if (!p->member[i].check)
			continue;
		tunnel_cancel(p->member[i].check);
		free_check(&p->member[i]);
	}
}
