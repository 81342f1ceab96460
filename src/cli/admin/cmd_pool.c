/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer pool: shows the warm pool that cofferd maintains for tool calls, or ends it. It must not start
 * cofferd.
 */
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cofferdc/cofferd_client.h"

#include <errno.h>
#include <stdio.h>

static void show_pool(const struct cofferd_reply *reply)
{
	char size[16];

	printf("%u ready, %u being made, of %u kind%s; about %s\n", reply->ready, reply->starting,
	       reply->templates, reply->templates == 1 ? "" : "s", str_from_size(reply->held, size));
}

static int cmd_pool(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct cofferd_reply reply;
	struct err e = ERR_INIT;
	const char *value, *what;
	int r = opt_next(&p, &value, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_pool);
	what = p.index < p.argc ? p.argv[p.index] : "show";
	if (r == 0 && p.index + 1 < p.argc)
		r = err_set(&e, -EINVAL, "pool takes one action: show or stop");
	if (r == 0 && opt_action("pool", what, "show stop", &e) < 0)
		r = -EINVAL;
	if (r < 0)
		return say_usage(&verb_pool, &e);
	r = state_open(&st, &e);
	if (r < 0)
		return say_error(&e);
	r = str_eq(what, "stop") ? cofferd_tell(&st, COFFERD_DROP, &reply)
				 : cofferd_ask(&st, COFFERD_STAT, &reply);
	if (r == -ECONNREFUSED) {
		printf("none: cofferd does not run; coffer call starts it\n");
		return 0;
	}
	if (r < 0)
		return say_error((err_sys(&e, r, "cofferd does not respond"), &e));
	if (str_eq(what, "show"))
		show_pool(&reply);
	return 0;
}

const struct verb verb_pool = {
	.name = "pool",
	.group = VERB_MANAGE,
	.synopsis = "[show|stop]",
	.help = "show or end the sandboxes kept ready for tool calls",
	.run = cmd_pool,
	.text = "*cofferd* makes sandboxes ahead for coffer-call(1): the warm pool. *show* prints how "
		"many are ready and the memory that they use; *stop* ends them, and cofferd too unless "
		"it maintains sandboxes with a restart policy (coffer-gateway(1)). The next call "
		"starts it again.",
	.examples = "coffer pool\n"
		    "coffer pool stop\n",
};
