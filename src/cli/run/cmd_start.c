/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer start and coffer restart: start a kept sandbox again, in the way that cofferd and coffer rollback
 * do. A sandbox in the foreground of another command must not be stopped for it.
 */
#include "base/cleanup.h"
#include "cli/box/cmd_stop.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/run/run_restart.h"

#include <errno.h>
#include <stdio.h>

enum { OPT_TIME = 1 };

static const struct opt restart_opts[] = {
	{ "time", 't', "SECONDS", "time to wait before killing it (default: 10)", OPT_TIME },
};

static int start_one(const char *ref)
{
	char id[RUN_ID_LEN + 1] = "";
	int code = cli_run_restart_start(ref, id);

	if (code)
		return code;
	printf("%s\n", id);
	return fflush(stdout) == 0 ? 0 : EXIT_OURS;
}

/* Checked before the sandbox is stopped: one in the foreground of another command may leave nothing that
 * could be started. */
static int check_not_foreground(const char *text, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoref struct ref ref = REF_INIT;
	int r = ref_open(&ref, text, e);

	if (r == 0)
		r = state_meta_read(ref.run_fd, &m, e);
	if (r < 0 || !ref.alive || m.detached)
		return r;
	err_set(e, -EINVAL, "sandbox %s runs in the foreground of another command", text);
	return err_hint(e, -EINVAL, "coffer stop %s, then coffer start %s", text, text);
}

static int restart_one(const char *ref, uint32_t grace_ms)
{
	struct err e = ERR_INIT;

	if (check_not_foreground(ref, &e) < 0 || cli_stop_one(ref, grace_ms, &e) < 0)
		return say_error(&e);
	return start_one(ref);
}

static int cmd_start(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	struct err e = ERR_INIT;
	const char *value;
	int id = opt_next(&p, &value, &e);

	if (id == OPT_HELP)
		return verb_print_help(&verb_start);
	if (id == 0 && p.index + 1 != p.argc)
		id = err_set(&e, -EINVAL, "start needs one sandbox: its name, id or @last");
	return id < 0 ? say_usage(&verb_start, &e) : start_one(p.argv[p.index]);
}

static int cmd_restart(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, restart_opts, ARRAY_SIZE(restart_opts));
	uint32_t grace = STOP_GRACE_DEFAULT_MS;
	struct err e = ERR_INIT;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_restart);
		if (cli_stop_parse_grace(value, &grace, &e) < 0)
			return say_usage(&verb_restart, &e);
	}
	if (id == 0 && p.index + 1 != p.argc)
		id = err_set(&e, -EINVAL, "restart needs one sandbox: its name, id or @last");
	return id < 0 ? say_usage(&verb_restart, &e) : restart_one(p.argv[p.index], grace);
}

const struct verb verb_start = {
	.name = "start",
	.group = VERB_MANAGE,
	.synopsis = "REF",
	.help = "start an ended sandbox again",
	.run = cmd_start,
	.args = "sandbox",
	.text = "Starts an ended sandbox that was kept (one with *-d*, or with a name and changes) in "
		"the background, with the same command line, id and name and with everything that it "
		"wrote, and prints its id. A sandbox that already runs is left alone. The policy file, "
		"profile and secrets are read again, and their current content applies. A sandbox with "
		"a restart policy is restarted again when it ends.",
	.examples = "coffer start web\n",
};

const struct verb verb_restart = {
	.name = "restart",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF",
	.help = "stop a sandbox and start it again",
	.opts = restart_opts,
	.n_opts = ARRAY_SIZE(restart_opts),
	.run = cmd_restart,
	.args = "sandbox",
	.text = "Does *coffer stop*, then *coffer start*. A sandbox in the foreground of another "
		"command is left alone.",
	.examples = "coffer restart -t 2 web\n",
};
