/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer why: the last denial of a sandbox in plain words, and a rule that would allow it. A sandbox chose
 * the names in the log, so every text is made harmless before it is printed, and a rule is only suggested
 * for a canonical host name.
 */
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
	struct net_event ev; /* owned; obj NULL: no denial found */
	char time[20];
	uint64_t more; /* denials only counted: those since ev, or all of them if there is no ev */
};

static int on_denial_event(void *ctx, struct net_event *ev)
{
	struct last *l = ctx;

	if (!ev->denied && ev->kind != NETEV_REFUSED)
		return 0;
	/*
	 * A sum stands for repeated denials. The first of them has a line of its own, which tells the
	 * reason.
	 */
	if (cli_net_event_is_sum(ev)) {
		l->more += ev->count ? ev->count : 1;
		return 0;
	}
	l->more = 0;
	cli_net_event_release(&l->ev);
	l->ev = *ev;
	snprintf(l->time, sizeof(l->time), "%.19s", ev->time_text);
	ev->obj = NULL; /* ownership moved to l->ev */
	return 0;
}

static void add_safe_text(struct buf *out, const char *s)
{
	str_add_safe(out, s, strlen(s), false);
}

static void add_denied_act(struct buf *out, const struct net_event *ev)
{
	switch (ev->kind) {
	case NETEV_DNS:
		buf_addf(out, "looked up ");
		add_safe_text(out, cli_net_event_host(ev));
		break;
	case NETEV_REQUEST:
		buf_adds(out, "asked ");
		add_safe_text(out, cli_net_event_host(ev));
		buf_addf(out, ":%llu for ", (unsigned long long)ev->port);
		add_safe_text(out, ev->method ? ev->method : "?");
		buf_addc(out, ' ');
		add_safe_text(out, ev->path ? ev->path : "?");
		break;
	case NETEV_REFUSED:
		buf_adds(out, "sent ");
		add_safe_text(out, ev->proto ? ev->proto : "packets");
		buf_adds(out, " to ");
		add_safe_text(out, cli_net_event_host(ev));
		if (ev->port)
			buf_addf(out, ":%llu", (unsigned long long)ev->port);
		break;
	default:
		buf_adds(out, "connected to ");
		add_safe_text(out, cli_net_event_host(ev));
		if (ev->port)
			buf_addf(out, ":%llu", (unsigned long long)ev->port);
	}
}

/* Finds the first address in a reason. True if a rule with `to:` may lead there. */
static bool find_pinnable_address(const char *why, struct addr *ret)
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

/* Suggests a rule with `to:`, for instance for an allowed name that resolves to a private address. */
static bool suggest_pin(struct buf *out, const struct net_event *ev)
{
	char text[ADDR_TEXT_LEN];
	struct addr a;
	struct host h;

	/* Not for requests: their reason contains the path, which the sandbox chose. */
	if (ev->kind == NETEV_REQUEST || !ev->name || host_canon(ev->name, strlen(ev->name), &h, NULL) < 0 ||
	    !ev->why || !find_pinnable_address(ev->why, &a))
		return false;
	addr_format(&a, text);
	buf_adds(
		out,
		"to allow it, name the address in a policy file (a run with --allow needs the name there too)\n");
	buf_addf(out, "    - domain: %s\n      port: %llu\n      to: \"%s\"\n", h.text,
		 ev->port ? (unsigned long long)ev->port : 443ULL, text);
	return true;
}

/* Suggests how to allow the denied act, but only where one more rule is enough. */
static void suggest_rule(struct buf *out, const struct net_event *ev)
{
	bool by_default = !ev->rule || !*ev->rule || str_eq(ev->rule, "default");
	const char *host = cli_net_event_host(ev), *open = "", *close = "";
	struct host h;

	if (ev->kind == NETEV_REFUSED) {
		buf_adds(
			out,
			"only TCP leaves a sandbox; DNS is answered by coffer itself. QUIC falls back to TCP by itself.\n");
		return;
	}
	if (suggest_pin(out, ev))
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
	/*
	 * People copy these lines into shells and files, and a sandbox may look up any characters as a
	 * name.
	 */
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

/* The rule is printed only if the reason does not name it already. */
static bool wants_rule_line(const struct net_event *ev)
{
	return ev->rule && *ev->rule && !str_eq(ev->rule, "default") &&
	       !(ev->why && strstr(ev->why, ev->rule));
}

static void explain_denial(struct buf *out, const struct last *l)
{
	const struct net_event *ev = &l->ev;

	buf_addf(out, "%s  sandbox %s ", l->time, ev->sandbox);
	add_denied_act(out, ev);
	buf_adds(out, ev->why && str_starts(ev->why, "denied ") ? "\n" : "\ndenied: ");
	add_safe_text(out, ev->why		       ? ev->why
			   : ev->kind == NETEV_REFUSED ? "not TCP"
						       : "no reason was logged");
	if (wants_rule_line(ev)) {
		buf_adds(out, "\nrule:   ");
		add_safe_text(out, ev->rule);
	}
	buf_addc(out, '\n');
	suggest_rule(out, ev);
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
		r = cli_net_events(&st, &range, on_denial_event, &last, &e);
	if (r < 0)
		return say_error(&e);
	if (!last.ev.obj && last.more) {
		buf_addf(&out, "%llu denied, not listed singly; coffer net log --denied summarizes them\n",
			 (unsigned long long)last.more);
		return say_out(&out) ? EXIT_OURS : 0;
	}
	if (!last.ev.obj) {
		say_note("nothing was denied%s%s", range.ref ? " to " : "", range.ref ? range.ref : "");
		return 1;
	}
	explain_denial(&out, &last);
	if (last.more)
		buf_addf(
			&out,
			"%llu more denied after it, not listed singly; coffer net log --denied summarizes them\n",
			(unsigned long long)last.more);
	cli_net_event_release(&last.ev);
	return say_out(&out) ? EXIT_OURS : 0;
}

const struct verb verb_why = {
	.name = "why",
	.group = VERB_MANAGE,
	.synopsis = "[SANDBOX]",
	.help = "explain the last denial on the network",
	.run = cmd_why,
	.args = "sandbox",
	.text = "Shows the last lookup, connection or request that was denied, of this sandbox or of "
		"any: which rule decided and why, and what would allow it. The exit code is 1 if "
		"nothing was denied. *coffer net log --denied* shows all denials.",
	.examples = "coffer why\n"
		    "coffer why @last\n",
};
