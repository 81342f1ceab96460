/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the verb that the command line names and runs it. Nothing else is decided here: each verb parses its
 * own options. Two internal commands are dispatched before the verbs; they are in no table, so they have no
 * help and no man page.
 */
#include "cli/main.h"
#include "cli/admin/notify_asks.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/api/web_work.h"
#include "cli/core/cmd_help.h"
#include "cli/core/habit.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <fcntl.h>
#include <unistd.h>

/* If a caller started us with one of descriptors 0 to 2 closed, the next file that we open would get that
 * number, and output would be written into it. */
static int open_missing_stdio(struct err *e)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", O_RDWR) != fd) /* not CLOEXEC: stdio is inherited */
			return err_sys(e, -errno, "cannot open /dev/null");
	}
	return 0;
}

static int report_unknown_verb(const char *word)
{
	struct err e = ERR_INIT;
	const char *names[64];
	const char *near;
	size_t n = 0;

	for (; n < n_verbs && n < ARRAY_SIZE(names); n++)
		names[n] = verbs[n]->name;
	err_set(&e, -EINVAL, "there is no command '%.100s'", word);
	near = str_nearest(word, names, n);
	if (!habit_hint_verb(word, &e) && near)
		err_hint(&e, -EINVAL, "coffer %s", near);
	if (!e.hint[0])
		err_hint(&e, -EINVAL,
			 "coffer help (lists the commands), or to run that one: coffer run -- %.100s", word);
	say_error(&e);
	return EXIT_USAGE;
}

/* `coffer --help` and `coffer -V` are options by their form; they are verbs here. */
static const char *verb_of_flag(const char *word)
{
	if (str_eq(word, "-h") || str_eq(word, "--help"))
		return "help";
	if (str_eq(word, "-V") || str_eq(word, "-v") || str_eq(word, "--version"))
		return "version";
	return word;
}

int coffer_main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	const struct verb *v;

	if (open_missing_stdio(&e) < 0)
		return say_error(&e);
	if (argc < 2)
		return help_overview(STDERR_FILENO) ? EXIT_OURS : EXIT_USAGE;
	/* Internal: cofferd executes this for a request to the API. */
	if (str_eq(argv[1], "web-work"))
		return cli_web_work(argc - 1, argv + 1);
	/* Internal: a guard executes this to notify people of pending questions. */
	if (str_eq(argv[1], "notify-asks"))
		return cmd_notify_asks(argc - 1, argv + 1);
	v = verb_find(verb_of_flag(argv[1]));
	if (!v)
		return report_unknown_verb(argv[1]);
	argv[1] = (char *)v->name;
	return v->run(argc - 1, argv + 1);
}
