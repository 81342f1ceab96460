/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and options that people know from docker, git and systemctl. Each is one of:
 *
 *   the same    another name for an option of ours; it is parsed as ours (--network as --net)
 *   holds       it asks for what every sandbox has anyway; it is accepted and ignored (--init)
 *   a hint      ours is similar, but not the same; the error message names ours
 *
 * An option is never ignored where its effect would silently be missing (--label, --read-only): it gets a
 * hint. For a word that is not in the table, the error message names the nearest spelling (opt.c, main.c).
 */
#ifndef CLI_HABIT_H
#define CLI_HABIT_H

#include "cli/core/opt.h"

struct habit {
	const char *verb;   /* that accepts it */
	const char *word;   /* without dashes; one letter: the short option */
	const char *means;  /* the long name of our option; NULL if the option is ignored */
	struct opt nothing; /* for an ignored option: how it is parsed; its id is OPT_NOTHING */
};

/* The entry for the option `word` of another program at `verb`; NULL if there is none. */
const struct habit *habit_option(const char *verb, const char *word, size_t len);

/* Adds a hint to the error about an unknown option: the one of ours to use. False if the table has none.
 * `verb` may also be an option such as "--net"; then `word` is a value of it. */
bool habit_hint_option(const char *verb, const char *word, struct err *e);

/* The same for an unknown verb. */
bool habit_hint_verb(const char *word, struct err *e);

#endif
