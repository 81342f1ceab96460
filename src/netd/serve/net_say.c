/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the terminal of `coffer run`. A denial is reported once, at once; repetitions are counted and
 * reported together, after a while or at the end. The sandbox chooses what is denied, so lines are limited in
 * number and their content is made harmless. The log must not depend on them.
 */
#include "base/clock.h"
#include "netd/serve/net_int.h"
#include "policy/shorten.h"

#include <stdarg.h>
#include <string.h>

#define TOGETHER (10 * NSEC_PER_SEC)
#define LINES_BURST 32u
#define LINES_EVERY NSEC_PER_SEC /* one more line for each interval */

static bool has_line_token(struct net_guard *g)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), gained;

	if (!g->line_at) {
		g->line_tokens = LINES_BURST;
		g->line_at = now;
	}
	gained = (now - g->line_at) / LINES_EVERY;
	g->line_at += gained * LINES_EVERY;
	g->line_tokens = g->line_tokens + gained > LINES_BURST ? LINES_BURST : g->line_tokens + gained;
	if (!g->line_tokens)
		return false;
	g->line_tokens--;
	return true;
}

void net_say(struct net_guard *g, enum net_level level, const char *fmt, ...)
{
	char raw[NET_MSG_TEXT], safe[NET_MSG_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	/* A launcher that is gone cannot show it: the log has it. */
	(void)!net_launcher_send(g, NET_SAY, level, str_safe(raw, safe, sizeof(safe)), -1);
}

/* `about`: a number from 1 on, the same for the same subject. */
static void send_counted_line(struct net_guard *g, uint32_t about, bool again, uint64_t count,
			      const char *line)
{
	struct net_msg m = {
		.type = NET_SAY, .level = NET_LEVEL_NOTE, .about = about, .again = again, .count = count
	};

	str_safe(line, m.text, sizeof(m.text));
	(void)!net_launcher_send_msg(g, &m, -1);
}

void net_say_rest(struct net_guard *g)
{
	uint64_t left_out = g->unsaid;

	for (size_t i = 0; i < g->n_said; i++) {
		if (!g->said[i].more)
			continue;
		if (has_line_token(g))
			send_counted_line(g, (uint32_t)i + 1, true, g->said[i].more, g->said[i].line);
		else
			left_out += g->said[i].more;
		g->said[i].more = 0;
	}
	if (left_out)
		send_counted_line(g, NET_SAY_REST, true, left_out, "");
	g->unsaid = 0;
	loop_timer_off(&g->loop, &g->t_said);
}

static void on_said_timer(struct timer *t)
{
	net_say_rest(t->ctx);
}

static void arm_said_timer(struct net_guard *g)
{
	g->t_said.fn = on_said_timer;
	g->t_said.ctx = g;
	if (!g->t_said.armed)
		loop_timer(&g->loop, &g->t_said, clock_nsec(CLOCK_MONOTONIC) + TOGETHER);
}

/* "POST evil.example/x", "evil.example:443", "evil.example" for a name that was only looked up. */
static void describe_denied(const struct net_line *l, char out[NET_SAID_MAX])
{
	if (l->ev == NET_EV_REQUEST)
		snprintf(out, NET_SAID_MAX, "%.15s %s%.63s", l->what, l->name, l->path);
	else if (l->port)
		snprintf(out, NET_SAID_MAX, "%s:%u", l->name, l->port);
	else
		snprintf(out, NET_SAID_MAX, "%s", l->name);
}

void net_say_denied(struct net_guard *g, const struct net_line *l)
{
	/* A failure is not the policy's decision. */
	const char *word = l->ev == NET_EV_ALERT ? "alert" : l->decision == NET_ERROR ? "failed" : "denied";
	autobuf struct buf shown = BUF_INIT, why = BUF_INIT;
	char subject[NET_SAID_MAX], key[NET_SAID_MAX + 8];
	struct net_said *s;

	/* egress has already reported what dial refuses; and programs look up every name twice (A and AAAA). */
	if (l->ev == NET_EV_DIAL || (l->ev == NET_EV_DNS && strcmp(l->what, "A") != 0))
		return;
	/* A sum of denials without names. */
	if (l->is_sum) {
		g->unsaid += l->count;
		arm_said_timer(g);
		return;
	}
	describe_denied(l, subject);
	/* An alert of coffer-dial and the denial by coffer-egress have a line each: which journal is read first is chance. */
	snprintf(key, sizeof(key), "%s %s", word, subject);
	for (size_t i = 0; i < g->n_said; i++) {
		if (strcmp(g->said[i].key, key) == 0) {
			g->said[i].more += l->count;
			arm_said_timer(g);
			return;
		}
	}
	if (g->n_said == NET_SAY_KEYS || !has_line_token(g)) {
		g->unsaid += l->count;
		arm_said_timer(g);
		return;
	}
	shorten_text(subject, 200, "...", &shown);
	shorten_text(l->why[0] ? l->why : "no rule allows it", 200, "...", &why);
	s = &g->said[g->n_said++];
	*s = (struct net_said){ 0 };
	snprintf(s->key, sizeof(s->key), "%s", key);
	snprintf(s->line, sizeof(s->line), "%s  %s  %s", word, buf_cstr(&shown), buf_cstr(&why));
	send_counted_line(g, (uint32_t)g->n_said, false, 1, s->line);
}
