/* SPDX-License-Identifier: Apache-2.0 */
/* coffer wait: waits until sandboxes have ended. It blocks on the lock of the run's directory, which the
 * launcher holds, and does not poll. */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/common/look.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <stdio.h>

/* Reads the exit code from the run's record, or from the audit log for a run that left no directory. */
static int read_exit_code(struct state *st, const char *id, int *ret, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct look_end end = { 0 };
	bool alive = false;
	autoclose int fd = state_run_open(st, id, &alive, NULL);
	int r;

	if (fd >= 0 && state_meta_read(fd, &m, NULL) == 0 && m.ended) {
		*ret = m.exit_code;
		return 0;
	}
	r = cli_look_end(st, id, &end, e);
	if (r == -ENOENT)
		return err_set(e, r, "it is not known how sandbox %s ended", id);
	*ret = end.exit_code;
	return r;
}

static int wait_for_run(const char *text, int *ret, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	char id[RUN_ID_LEN + 1];
	bool alive = false;
	int r = cli_look_open(&st, e);

	if (r == 0)
		r = ref_resolve_logged(&st, text, id, e);
	if (r < 0)
		return r;
	autoclose int fd = state_run_open(&st, id, &alive, e);
	if (fd < 0 && fd != -ENOENT)
		return fd;
	r = fd >= 0 && alive ? state_run_wait(fd) : 0;
	return r < 0 ? err_sys(e, r, "cannot wait for sandbox %s", text) : read_exit_code(&st, id, ret, e);
}

static int cmd_wait(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	struct err e = ERR_INIT;
	const char *value;
	int id = opt_next(&p, &value, &e), code = 0;

	if (id == OPT_HELP)
		return verb_print_help(&verb_wait);
	if (id == 0 && p.index >= p.argc)
		id = err_set(&e, -EINVAL, "wait needs a sandbox: its name, id or @last");
	if (id < 0)
		return say_usage(&verb_wait, &e);
	for (int i = p.index; i < p.argc; i++) {
		int one = 0;

		e = ERR_INIT;
		if (wait_for_run(p.argv[i], &one, &e) < 0)
			return say_error(&e);
		printf("%d\n", one);
		if (fflush(stdout) != 0)
			return EXIT_OURS;
		code = one;
	}
	return code;
}

const struct verb verb_wait = {
	.name = "wait",
	.group = VERB_MANAGE,
	.synopsis = "REF…",
	.help = "wait until sandboxes have ended",
	.run = cmd_wait,
	.args = "sandbox",
	.text = "Waits until each sandbox has ended and its cleanup is done, prints the exit code of "
		"each on a line, and exits with the last one. For a sandbox that has already ended it "
		"returns at once; if the sandbox was removed, the exit code comes from the audit log. "
		"For a sandbox with a restart policy, the first end counts. The exit code is 125 if it "
		"is unknown how the sandbox ended.",
	.examples = "coffer run -d --name tests -- make test; coffer wait tests\n",
};
