/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net: the acts of sandboxes on the network (log, metrics, proxies), a policy learned from them
 * (learn), and the traffic outside of it (drift). This file only parses the command line; each action has a
 * file of its own.
 */
#include "cli/net/cmd_net.h"

#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <assert.h>
#include <errno.h>

enum { OPT_FOLLOW = 1, OPT_JSON, OPT_SINCE, OPT_HTTP, OPT_DENIED, OPT_BASELINE, OPT_OUTPUT };

static const struct opt net_opts[] = {
	{ "follow", 'f', NULL, "log: continue with new events", OPT_FOLLOW },
	{ "denied", 0, NULL, "log: only denials", OPT_DENIED },
	{ "since", 0, "TIME", "only events since then: 2026-01-31, 2026-01-31T12:00:00Z, 2h", OPT_SINCE },
	{ "http", 0, NULL, "learn: also methods and paths, where requests were seen", OPT_HTTP },
	{ "output", 'o', "FILE", "learn: write the policy to FILE, which must not exist", OPT_OUTPUT,
	  "file" },
	{ "baseline", 0, "FILE", "drift: the policy that describes what is normal", OPT_BASELINE, "file" },
	{ "json", 0, NULL, "log, drift, proxies: print JSON, one object per line", OPT_JSON },
};

static const struct action {
	const char *name;
	int (*run)(struct state *st, const struct net_args *args);
	const char *takes; /* ids of its options, as characters */
} actions[] = {
	{ "log", cli_net_log, (const char[]){ OPT_FOLLOW, OPT_DENIED, OPT_SINCE, OPT_JSON, 0 } },
	{ "learn", cli_net_learn, (const char[]){ OPT_SINCE, OPT_HTTP, OPT_OUTPUT, 0 } },
	{ "drift", cli_net_drift, (const char[]){ OPT_SINCE, OPT_BASELINE, OPT_JSON, 0 } },
	{ "metrics", cli_net_metrics, (const char[]){ OPT_SINCE, 0 } },
	{ "proxies", cli_net_proxies, (const char[]){ OPT_JSON, 0 } },
};
static const char action_names[] = "log learn drift metrics proxies";

static int take_net_option(struct net_args *args, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_FOLLOW:
		args->follow = true;
		return 0;
	case OPT_JSON:
		args->json = true;
		return 0;
	case OPT_HTTP:
		args->http = true;
		return 0;
	case OPT_DENIED:
		args->denied = true;
		return 0;
	case OPT_BASELINE:
		args->baseline = value;
		return 0;
	case OPT_OUTPUT:
		args->output = value;
		return 0;
	default:
		return opt_time("--since", value, &args->range.since, e);
	}
}

static const char *net_opt_name(int id)
{
	for (size_t i = 0; i < ARRAY_SIZE(net_opts); i++) {
		if (net_opts[i].id == id)
			return net_opts[i].name;
	}
	return "";
}

/* An option without effect on this action is a mistake, and refused. */
static int check_net_options(const struct action *a, const char *seen, struct err *e)
{
	for (; *seen; seen++) {
		if (!strchr(a->takes, *seen))
			return err_set(e, -EINVAL, "--%s does not belong to 'coffer net %s'",
				       net_opt_name(*seen), a->name);
	}
	return 0;
}

/* The first word is the action, the second a sandbox. */
static int take_net_word(struct net_args *args, const char *word, const struct action **ret, struct err *e)
{
	int k;

	if (!*ret) {
		k = opt_action("net", word, action_names, e);
		if (k < 0)
			return k;
		*ret = &actions[k];
		return 0;
	}
	if (args->range.ref)
		return err_set(e, -EINVAL, "'%.64s' is one argument too many", word);
	args->range.ref = word;
	return 0;
}

/* Returns 0, OPT_HELP, or a negative errno for a usage error. Options may come anywhere. */
static int parse_net_args(int argc, char **argv, struct net_args *args, const struct action **ret,
			  struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, net_opts, ARRAY_SIZE(net_opts));
	const char *value, *word;
	char seen[16] = "";
	int id, r = 0;

	while (r == 0 && (id = opt_next(&p, &value, e)) != 0) {
		if (id < 0 || id == OPT_HELP)
			return id;
		if (!strchr(seen, id) && strlen(seen) + 1 < sizeof(seen))
			seen[strlen(seen)] = (char)id;
		r = take_net_option(args, id, value, e);
	}
	while (r == 0 && (word = opt_take(&p)) != NULL)
		r = take_net_word(args, word, ret, e);
	if (r == 0 && !*ret)
		return err_set(e, -EINVAL, "net needs one of these words: %s", action_names);
	return r == 0 ? check_net_options(*ret, seen, e) : r;
}

static int cmd_net(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct net_args args = { 0 };
	const struct action *act = NULL;
	struct err e = ERR_INIT;
	int r = parse_net_args(argc, argv, &args, &act, &e);

	static_assert(ARRAY_SIZE(actions) == 5, "action_names has them all, in this order");
	if (r == OPT_HELP)
		return verb_print_help(&verb_net);
	if (r < 0 || !act)
		return say_usage(&verb_net, &e);
	if (state_open(&st, &e) < 0)
		return say_error(&e);
	return act->run(&st, &args);
}

const struct verb verb_net = {
	.name = "net",
	.group = VERB_MANAGE,
	.synopsis = "log|learn|drift|metrics|proxies [OPTIONS] [SANDBOX]",
	.help = "show network traffic of sandboxes, and learn a policy from it",
	.opts = net_opts,
	.n_opts = ARRAY_SIZE(net_opts),
	.run = cmd_net,
	.args = "sandbox",
	.text = "*log* prints a table of lookups, connections and requests: sandbox, name and port, "
		"the depth of inspection, the decision and its rule, bytes, and the time that it took. "
		"*--follow* continues with new events.\n"
		"\n"
		"*learn* writes a policy file that allows only what was seen, grouped by domain, with "
		"counts and times as comments. A comment LOOK marks unusual traffic: names that look "
		"like encoded data, very many names below one domain, large uploads to hosts that were "
		"hardly used, addresses instead of names, uncommon ports. Run with *--net observe* "
		"first, learn, read the file, then run with *--policy*.\n"
		"\n"
		"*drift* lists traffic that such a file does not allow. The exit code is 1 if there is "
		"any.\n"
		"\n"
		"*metrics* prints counters in the text format of Prometheus; while *cofferd* runs, the "
		"counters of running sandboxes are also on the socket _metrics.sock_ in the state "
		"directory. *proxies* shows the upstream proxies of running sandboxes: score, latency, "
		"success, state, use.\n"
		"\n"
		"Everything but *proxies* is read from the audit log, so it also works for sandboxes "
		"that have been removed.",
	.examples = "coffer net log -f\n"
		    "\t# live\n"
		    "coffer net log --denied @last\n"
		    "\t# denials of the last run\n"
		    "coffer net learn @last -o policy.yaml\n"
		    "\t# from observing to enforcing\n"
		    "coffer net drift --since 1d --baseline policy.yaml\n"
		    "\t# anything new since yesterday?\n",
};
