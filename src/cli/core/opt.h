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
#include <stdint.h>

struct opt {
	const char *name; /* long name without dashes */
	char short_name;  /* or 0 */
	const char *arg;  /* placeholder of its value such as "SIZE"; NULL: a flag */
	const char *help; /* one line, lower case, no full stop */
	int id;		  /* > 0, what opt_next() returns */
	/* For completion: fixed values separated by spaces, or one of "file", "dir", "sandbox", "name"; may
	 * be NULL. The parser does not check them: opt_one_of() does. */
	const char *values;
	/* May be repeated, and each value counts. Another option that is given two different values is an
	 * error: the last would silently replace the first, which may be the stricter one. */
	bool many;
};

#define OPT_TABLE_MAX 96 /* rows of one table */

/* A heading between options, for --help and the man page; the parser never matches it. */
#define OPT_SECTION(title)      \
	{                       \
		.help = (title) \
	}

/* -h and --help are built in: every verb reacts to this id with verb_print_help(). */
#define OPT_HELP 0x10000
/* Never returned by opt_next(): an option of another program that is accepted and ignored (habit.h). */
#define OPT_NOTHING 0x10001

struct optparse {
	int argc;
	char **argv; /* argv[0] is the verb's name */
	int index;   /* once opt_next() returned 0: positionals are argv[index … argc-1] */
	const struct opt *table;
	size_t n;
	const char *cluster; /* the rest of a cluster such as "-it" after the option just returned */
	bool ended;	     /* "--" was seen */
	const char *seen[OPT_TABLE_MAX]; /* for each row of the table, its last value on the command line */
	bool mixed;			 /* options may follow positionals */
	int n_words;			 /* with mixed: positionals found so far, from argv[1] on */
};

#define OPTPARSE_INIT(argc_, argv_, table_, n_) \
	((struct optparse){ .argc = (argc_), .argv = (argv_), .index = 1, .table = (table_), .n = (n_) })

/* For verbs whose positionals do not end with a command: options may be anywhere. The parser reorders argv so
 * that the positionals come first, and lowers argc by the options that it read. */
#define OPTPARSE_MIXED(argc_, argv_, table_, n_) \
	((struct optparse){                      \
		.argc = (argc_), .argv = (argv_), .index = 1, .table = (table_), .n = (n_), .mixed = true })

/* Returns the next option's id and sets *value to its value, or NULL for a flag. 0 at the end of the options;
 * -EINVAL with a message that names the nearest known option. */
int opt_next(struct optparse *p, const char **value, struct err *e) MUST_CHECK;

/* Takes the next positional; NULL if there is none. Options may follow it: call opt_next() again. */
const char *opt_take(struct optparse *p);

/* The index of `text` in `values` (separated by spaces), or -EINVAL with a message that names the nearest
 * value and all of them. `option` is the option as typed, for the message: "--engine". */
int opt_one_of(const char *option, const char *text, const char *values, struct err *e) MUST_CHECK;
/* The same for the word after a command: "set" in "coffer secret set". */
int opt_action(const char *verb, const char *text, const char *values, struct err *e) MUST_CHECK;

/* Parses a point in time, absolute or as a span before now, to CLOCK_REALTIME ns. `option` as above: "--since". */
int opt_time(const char *option, const char *text, uint64_t *ret, struct err *e) MUST_CHECK;

#endif
