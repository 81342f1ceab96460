/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that people bring from docker, git and systemctl. Each command or option of theirs is one of:
 *
 *   the same    an option of ours under their name: it is taken for ours (--network for --net)
 *   holds       it asks for what every sandbox has anyway: it is read and passed over (--init)
 *   a hint      ours is close, but not the same: the error names ours
 *
 * An option whose effect would silently be missing is never passed over (--label, --read-only): it gets a hint. A word
 * that is not here gets the nearest spelling (opt.c, main.c).
 */
#ifndef CLI_HABIT_H
#define CLI_HABIT_H

#include "cli/core/opt.h"

struct habit {
	const char *verb;   /* which takes it */
	const char *word;   /* without dashes; one letter: the short option */
	const char *means;  /* the same: our option's long name; NULL: it holds */
	struct opt nothing; /* it holds: how it is parsed, with the id OPT_NOTHING */
};

/* How `verb` takes the option `word` of another program; NULL when it does not. */
const struct habit *habit_option(const char *verb, const char *word, size_t len);

/* Adds to the error about an unknown option which of ours to use. False when the table does not know. */
bool habit_hint_option(const char *verb, const char *word, struct err *e);

/* The same for an unknown verb. */
bool habit_hint_verb(const char *word, struct err *e);

#endif
