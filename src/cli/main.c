/* SPDX-License-Identifier: Apache-2.0 */
/* From the command line to a verb. */
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

/* With one of 0-2 closed, the next file we open would become somebody's stdout. */
static int fill_stdio(struct err *e)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", O_RDWR) != fd) /* not CLOEXEC: stdio is inherited */
			return err_sys(e, -errno, "cannot open /dev/null");
	}
	return 0;
}

static int unknown_verb(const char *word)
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

/* `coffer --help`, `coffer -V`: what people type before they know the verbs. */
static const char *alias(const char *word)
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

	if (fill_stdio(&e) < 0)
		return say_error(&e);
	if (argc < 2)
		return help_overview(STDERR_FILENO) ? EXIT_OURS : EXIT_USAGE;
	/* Not for people: what cofferd executes for the API. */
	if (str_eq(argv[1], "web-work"))
		return web_work(argc - 1, argv + 1);
	/* Nor is this: what a guard executes, so that people are told of questions. */
	if (str_eq(argv[1], "notify-asks"))
		return notify_asks(argc - 1, argv + 1);
	v = verb_find(alias(argv[1]));
	if (!v)
		return unknown_verb(argv[1]);
	argv[1] = (char *)v->name;
	return v->run(argc - 1, argv + 1);
}
