/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer stats: the resource usage of sandboxes, live on a terminal. It is `coffer ps --stats` for all or for
 * named sandboxes. It must not have an output of its own.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/box/ps_stats.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "sandbox/state/state.h"

#include <errno.h>

enum { OPT_NO_STREAM = 1, OPT_JSON, OPT_NO_TRUNC };

static const struct opt stats_opts[] = {
	{ "no-stream", 0, NULL, "print once", OPT_NO_STREAM },
	{ "no-trunc", 0, NULL, "do not cut long names and commands", OPT_NO_TRUNC },
	{ "json", 0, NULL, "print once, as a JSON array", OPT_JSON },
};

static int resolve_named_runs(int argc, char **argv, struct strv *ids, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	int r = argc ? state_open(&st, e) : 0;

	for (int i = 0; r == 0 && i < argc; i++) {
		char id[RUN_ID_LEN + 1];

		r = state_resolve(&st, argv[i], id, e);
		if (r == 0 && strv_add(ids, id) < 0)
			r = err_set(e, -ENOMEM, "out of memory");
	}
	return r;
}

static int cmd_stats(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, stats_opts, ARRAY_SIZE(stats_opts));
	autostrv struct strv ids = STRV_INIT;
	struct ps_stats_want want = { 0 };
	struct err e = ERR_INIT;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_stats);
		want.once = want.once || id == OPT_NO_STREAM;
		want.json = want.json || id == OPT_JSON;
		want.no_trunc = want.no_trunc || id == OPT_NO_TRUNC;
	}
	if (id < 0)
		return say_usage(&verb_stats, &e);
	if (resolve_named_runs(p.argc - p.index, p.argv + p.index, &ids, &e) < 0)
		return say_error(&e);
	if (p.index < p.argc)
		want.only = &ids;
	return cli_ps_stats(&want);
}

const struct verb verb_stats = {
	.name = "stats",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] [REF…]",
	.help = "show the resources that sandboxes use, live",
	.opts = stats_opts,
	.n_opts = ARRAY_SIZE(stats_opts),
	.run = cmd_stats,
	.args = "sandbox",
	.text = "Shows memory, processor time and processes of all running sandboxes, or of those that "
		"are named: on a terminal it is updated every second until Ctrl-C, otherwise it is "
		"printed once. It is the same as *coffer ps --stats*; coffer-ps(1) explains the "
		"columns.",
	.examples = "coffer stats\n"
		    "coffer stats --no-stream web\n",
};
