/* SPDX-License-Identifier: Apache-2.0 */
/* coffer why: the last denial of a sandbox in plain words, and what would allow it. */
#include "base/str.h"
#include "cli/net_event.h"
#include "cli/say.h"
#include "cli/verb.h"
#include "codec/addr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct last {
	struct net_event ev; /* owned; obj NULL: none */
	char time[20];
};

static int on_event(void *ctx, struct net_event *ev)
{
	struct last *l = ctx;

	if (!ev->denied && ev->kind != NETEV_REFUSED)
		return 0;
	net_event_release(&l->ev);
	l->ev = *ev;
	snprintf(l->time, sizeof(l->time), "%.19s", ev->time_text);
	ev->obj = NULL; /* ours now */
	return 0;
}

static void add_safe(struct buf *out, const char *s)
{
	str_add_safe(out, s, strlen(s), false);
}

static void add_act(struct buf *out, const struct net_event *ev)
{
	switch (ev->kind) {
	case NETEV_DNS:
		buf_addf(out, "looked up ");
		add_safe(out, net_event_host(ev));
		break;
	case NETEV_REQUEST:
		buf_adds(out, "asked ");
		add_safe(out, net_event_host(ev));
		buf_addf(out, ":%llu for ", (unsigned long long)ev->port);
		add_safe(out, ev->method ? ev->method : "?");
		buf_addc(out, ' ');
		add_safe(out, ev->path ? ev->path : "?");
		break;
	case NETEV_REFUSED:
		buf_adds(out, "sent ");
		add_safe(out, ev->proto ? ev->proto : "packets");
		buf_adds(out, " to ");
		add_safe(out, net_event_host(ev));
		if (ev->port)
			buf_addf(out, ":%llu", (unsigned long long)ev->port);
		break;
	default:
		buf_adds(out, "connected to ");
		add_safe(out, net_event_host(ev));
		if (ev->port)
			buf_addf(out, ":%llu", (unsigned long long)ev->port);
	}
}

/* What a person could do who wants it allowed. Only where one more rule is all there is to it. */
static void add_way(struct buf *out, const struct net_event *ev)
{
	bool by_default = !ev->rule || !*ev->rule || str_eq(ev->rule, "default");
	const char *host = net_event_host(ev);
	struct addr addr;

	if (ev->kind == NETEV_REFUSED) {
		buf_adds(
			out,
			"only TCP leaves a sandbox; DNS is answered by coffer itself. QUIC falls back to TCP by itself.\n");
		return;
	}
	if (ev->rule && str_eq(ev->rule, "special addresses")) {
		buf_adds(
			out,
			"to allow it, give it a name: a rule with 'to: ADDRESS' in a policy file leads there.\n");
		return;
	}
	if (!by_default) {
		buf_adds(
			out,
			"to allow it, change that rule; coffer policy explain FILE HOST:PORT tries an edit out.\n");
		return;
	}
	buf_adds(out, "to allow it: coffer run --allow ");
	add_safe(out, host);
	if (ev->port && ev->port != 443)
		buf_addf(out, ":%llu", (unsigned long long)ev->port);
	buf_addf(out, ", or in a policy file (with both: in both)\n    - %s: ",
		 addr_parse(host, strlen(host), &addr, NULL) == 0 ? "address" : "domain");
	add_safe(out, host);
	buf_addf(out, "\n      port: %llu\n", ev->port ? (unsigned long long)ev->port : 443ULL);
}

/* Where the reason names the rule, that is enough. */
static bool wants_rule(const struct net_event *ev)
{
	return ev->rule && *ev->rule && !str_eq(ev->rule, "default") &&
	       !(ev->why && strstr(ev->why, ev->rule));
}

static void explain(struct buf *out, const struct last *l)
{
	const struct net_event *ev = &l->ev;

	buf_addf(out, "%s  sandbox %s ", l->time, ev->sandbox);
	add_act(out, ev);
	buf_adds(out, ev->why && str_starts(ev->why, "denied ") ? "\n" : "\ndenied: ");
	add_safe(out, ev->why ? ev->why : ev->kind == NETEV_REFUSED ? "not TCP" : "no reason was logged");
	if (wants_rule(ev)) {
		buf_adds(out, "\nrule:   ");
		add_safe(out, ev->rule);
	}
	buf_addc(out, '\n');
	add_way(out, ev);
}

static int cmd_why(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, NULL, 0);
	CLEANUP(state_release) struct state st = STATE_INIT;
	autobuf struct buf out = BUF_INIT;
	struct last last = { .ev = { .obj = NULL } };
	struct net_range range = { 0 };
	struct err e = ERR_INIT;
	const char *value;
	int r = opt_next(&p, &value, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_why);
	range.ref = r == 0 ? opt_take(&p) : NULL;
	if (r == 0 && opt_take(&p))
		r = err_set(&e, -EINVAL, "why takes one sandbox");
	if (r < 0)
		return say_usage(&verb_why, &e);
	r = state_open(&st, &e);
	if (r == 0)
		r = net_events(&st, &range, on_event, &last, &e);
	if (r < 0)
		return say_error(&e);
	if (!last.ev.obj) {
		say_note("nothing was denied%s%s", range.ref ? " to " : "", range.ref ? range.ref : "");
		return 1;
	}
	explain(&out, &last);
	net_event_release(&last.ev);
	return say_out(&out) ? EXIT_OURS : 0;
}

const struct verb verb_why = {
	.name = "why",
	.group = VERB_MANAGE,
	.synopsis = "[SANDBOX]",
	.help = "explain the last thing that was denied on the network",
	.run = cmd_why,
	.args = "sandbox",
	.text = "Shows the last lookup, connection or request that was refused, of this sandbox or of any: which rule decided and "
		"why, and what would allow it. The exit code is 1 when nothing was denied. *coffer net log --denied* shows all.",
	.examples = "coffer why\n"
		    "coffer why @last\n",
};
