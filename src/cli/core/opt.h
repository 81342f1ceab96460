/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command line options by table. The same table feeds the parser, --help, the man pages and the completions,
 * so an option cannot be accepted and undocumented, or the other way round.
 *
 *	static const struct opt diff_opts[] = {
 *		{ "stat", 's', NULL, "only count", OPT_STAT },
 *		{ "color", 0, "WHEN", "colour the output", OPT_COLOR, "auto always never" },
 *	};
 *	struct optparse p = OPTPARSE_INIT(argc, argv, diff_opts, ARRAY_SIZE(diff_opts));
 *	while ((id = opt_next(&p, &value, &e)) > 0) { … }
 *	if (id < 0) return say_usage(&verb_diff, &e);
 *
 * Parsing stops at the first positional, as `docker run` does; a verb that wants options after one takes it
 * with opt_take() and calls opt_next() again, or begins with OPTPARSE_MIXED. `--` ends the options for good.
 */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct opt {
	const char *name; /* long name without dashes */
	char short_name;  /* or 0 */
	const char *arg;  /* placeholder of its value such as "SIZE"; NULL: a flag */
	const char *help; /* one line, lower case, no full stop */
	int id;		  /* > 0, what opt_next() returns */
	/* For completion: fixed values separated by spaces, or one of "file", "dir", "sandbox", "name"; may be NULL.
	 * The parser does not check them: opt_one_of() does. */
	const char *values;
	/* May be given more than once, and each counts. Any other option with a value that comes twice with different values is an
	 * error: the last one would silently replace the first, which may be the stricter. */
	bool many;
};

#define OPT_TABLE_MAX 96 /* rows of one table */

/* A heading between options, for --help and the man page; it matches nothing. */
#define OPT_SECTION(title)      \
	{                       \
		.help = (title) \
	}

/* -h and --help are built in: every verb answers this with verb_print_help(). */
#define OPT_HELP 0x10000
/* Never returned: an option of another program that asks for what holds here anyway (habit.h). */
#define OPT_NOTHING 0x10001

struct optparse {
	int argc;
	char **argv; /* argv[0] is the verb's name */
	int index;   /* once opt_next() returned 0: positionals are argv[index … argc-1] */
	const struct opt *table;
	size_t n;
	const char *cluster;		 /* rest of "-it" behind the option just returned */
	bool ended;			 /* "--" was seen */
	const char *seen[OPT_TABLE_MAX]; /* the value that each row of the table was given last */
	bool mixed;			 /* options may stand after positionals */
	int n_words;			 /* the same: positionals that were passed, from argv[1] on */
};

#define OPTPARSE_INIT(argc_, argv_, table_, n_) \
	((struct optparse){ .argc = (argc_), .argv = (argv_), .index = 1, .table = (table_), .n = (n_) })

/* For verbs without a command after their positionals: options may stand anywhere. argv is put in order on the way, and
 * argc is less by the options that were read. */
#define OPTPARSE_MIXED(argc_, argv_, table_, n_) \
	((struct optparse){                      \
		.argc = (argc_), .argv = (argv_), .index = 1, .table = (table_), .n = (n_), .mixed = true })

/* The next option's id; *value is its text, NULL for a flag. 0 at the end of the options, -EINVAL with a message
 * that names the nearest right option. */
int opt_next(struct optparse *p, const char **value, struct err *e) MUST_CHECK;

/* The next positional, NULL when there is none. Options may follow: call opt_next() again. */
const char *opt_take(struct optparse *p);

/* The place of `text` among `values` (separated by spaces), or -EINVAL with a message that names the nearest one and
 * all of them. `option` as typed, for the message: "--engine". */
int opt_one_of(const char *option, const char *text, const char *values, struct err *e) MUST_CHECK;

#endif
