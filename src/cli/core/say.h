/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer talks to a person: errors and notes on stderr, one line each, and tables on stdout. What may have come
 * from inside a sandbox or from a file name is made harmless first. Colour only on a terminal, and never with
 * NO_COLOR or TERM=dumb.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

enum exit_code {
	EXIT_USAGE = 2,	   /* the command line was wrong */
	EXIT_OURS = 125,   /* coffer itself failed */
	EXIT_NOEXEC = 126, /* the command could not be executed */
	EXIT_NOCMD = 127,  /* there is no such command */
};

/* "coffer: message", then "  try: hint" when there is one. Returns EXIT_OURS, so that `return say_error(&e)` reads well. */
int say_error(const struct err *e);

struct verb;

/* As say_error(), with the verb's usage line and where to read more. Returns EXIT_USAGE. */
int say_usage(const struct verb *v, const struct err *e);

/* One line "coffer: …" on stderr, unless quiet. */
void say_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* The same, shown also when quiet: what a person must not miss. */
void say_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void say_quiet(bool quiet);
/* The same as bytes for stderr, for whoever writes there while a command may have made the terminal raw. Nothing is added
 * for a note when quiet. */
void say_add_note(struct buf *b, const char *text);
void say_add_warn(struct buf *b, const char *text);

enum say_color { SAY_PLAIN, SAY_RED, SAY_YELLOW, SAY_GREEN, SAY_BOLD, SAY_DIM };

/* May this fd be coloured? */
bool say_colors(int fd);
/* Adds text in a colour when `on`, plain otherwise. */
void say_add(struct buf *b, bool on, enum say_color c, const char *text);
/* Writes the buffer to stdout. Returns 0 or EXIT_OURS (a closed pipe is told apart: it is silent). */
int say_out(const struct buf *b);

#endif
