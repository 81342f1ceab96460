/* SPDX-License-Identifier: Apache-2.0 */
/* coffer why: the last denial of a sandbox in plain words, and what would allow it. */
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/net/net_event.h"
#include "codec/net/addr.h"
#include "codec/net/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct last {
	struct net_event ev; /* owned; obj NULL: none */
	char time[20];
	uint64_t more; /* denied since, or before when there is none, and only counted */
};

static int on_denial_event(void *ctx, struct net_event *ev)
{
	struct last *l = ctx;

	if (!ev->denied && ev->kind != NETEV_REFUSED)
		return 0;
	/* A number stands for denials of which the first has its own line: that one says why. */
	if (net_event_is_sum(ev)) {
		l->more += ev->count ? ev->count : 1;
		return 0;
	}
	l->more = 0;
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

/* The first address in a reason that a rule with `to:` may lead to. */
static bool find_address(const char *why, struct addr *ret)
{
	for (const char *p = why; p && *p; p += strspn(p, " ,;")) {
		size_t n = strcspn(p, " ,;");

		if (addr_parse(p, n, ret, NULL) == 0)
			return addr_special(ret) != ADDR_GLOBAL && addr_special(ret) != ADDR_METADATA &&
			       addr_special(ret) != ADDR_LINK_LOCAL;
		p += n;
	}
	return false;
}

/* An allowed name that leads to an address of a private network, say. */
static bool add_pin(struct buf *out, const struct net_event *ev)
{
	char text[ADDR_TEXT_LEN];
	struct addr a;
	struct host h;

	/* The reason of a request has its path in it, which the sandbox chose. */
	if (ev->kind == NETEV_REQUEST || !ev->name || host_canon(ev->name, strlen(ev->name), &h, NULL) < 0 ||
	    !ev->why || !find_address(ev->why, &a))
		return false;
	addr_format(&a, text);
	buf_adds(
		out,
		"to allow it, name the address in a policy file (a run with --allow needs the name there too)\n");
	buf_addf(out, "    - domain: %s\n      port: %llu\n      to: \"%s\"\n", h.text,
		 ev->port ? (unsigned long long)ev->port : 443ULL, text);
	return true;
}

/* What a person could do who wants it allowed. Only where one more rule is all there is to it. */
static void add_way(struct buf *out, const struct net_event *ev)
{
	bool by_default = !ev->rule || !*ev->rule || str_eq(ev->rule, "default");
	const char *host = net_event_host(ev), *open = "", *close = "";
	struct host h;

	if (ev->kind == NETEV_REFUSED) {
		buf_adds(
			out,
			"only TCP leaves a sandbox; DNS is answered by coffer itself. QUIC falls back to TCP by itself.\n");
		return;
	}
	if (add_pin(out, ev))
		return;
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
	/* People copy these lines to a shell and into files, and a program may look up any characters. */
	if (host_canon(host, strlen(host), &h, NULL) < 0) {
		buf_adds(out, "no rule can allow it, because it is not the name of a host.\n");
		return;
	}
	if (strchr(h.text, ':')) {
		open = "[";
		close = "]";
	}
	buf_addf(out, "to allow it: coffer run --allow %s%s%s", open, h.text, close);
	if (ev->port && ev->port != 443)
		buf_addf(out, ":%llu", (unsigned long long)ev->port);
	buf_addf(out, ", or in a policy file (with both: in both)\n    - %s: %s\n      port: %llu\n",
		 h.kind == HOST_ADDR ? "address" : "domain", h.text,
		 ev->port ? (unsigned long long)ev->port : 443ULL);
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
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
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
		r = net_events(&st, &range, on_denial_event, &last, &e);
	if (r < 0)
		return say_error(&e);
	if (!last.ev.obj && last.more) {
		buf_addf(
			&out,
			"%llu denied, not listed singly; coffer net log --denied has what is known of them\n",
			(unsigned long long)last.more);
		return say_out(&out) ? EXIT_OURS : 0;
	}
	if (!last.ev.obj) {
		say_note("nothing was denied%s%s", range.ref ? " to " : "", range.ref ? range.ref : "");
		return 1;
	}
	explain(&out, &last);
	if (last.more)
		buf_addf(
			&out,
			"%llu more denied after it, not listed singly; coffer net log --denied has what is known of them\n",
			(unsigned long long)last.more);
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
	.text = "Shows the last lookup, connection or request that was denied, of this sandbox or of any: which rule decided and "
		"why, and what would allow it. The exit code is 1 when nothing was denied. *coffer net log --denied* shows all.",
	.examples = "coffer why\n"
		    "coffer why @last\n",
};
