/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether questions can be asked on the terminal of `coffer run`, and formats them for the prompt.
 * The prompt itself is in run/supervise. It must not read from the terminal or write to it.
 */
#include "cli/run/run_prompt.h"

#include "base/str.h"
#include "cli/common/ask_show.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void show_prompt_question(void *ctx, json_t *ask, unsigned cols, bool all, struct prompt_text *ret)
{
	cli_ask_show_prompt(ask, ctx, cols, all, ret);
}

static bool is_same_terminal(int in, int out)
{
	struct stat a, b;

	return isatty(in) && isatty(out) && fstat(in, &a) == 0 && fstat(out, &b) == 0 &&
	       a.st_rdev == b.st_rdev;
}

bool cli_run_prompt_open(struct prompt_opts *ret, struct state *st)
{
	const char *term = getenv("TERM"); // NOLINT(concurrency-mt-unsafe): one thread

	if (!is_same_terminal(STDIN_FILENO, STDERR_FILENO) || !term || !*term || str_eq(term, "dumb"))
		return false;
	*ret = (struct prompt_opts){
		.in = STDIN_FILENO, .out = STDERR_FILENO, .show = show_prompt_question, .ctx = st
	};
	cli_ask_who_am_i(&ret->who, "terminal");
	return true;
}
