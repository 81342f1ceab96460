/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer talks to a person: errors and notes on stderr, one line each, and tables on stdout. Control
 * characters in a message are escaped first, because its text may come from inside a sandbox or from a file
 * name. Colour is used only on a terminal, and never with NO_COLOR or TERM=dumb.
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

/* Prints "coffer: message", then "  try: hint" if there is a hint. Returns EXIT_OURS, for `return
 * say_error(&e)`. */
int say_error(const struct err *e);

struct verb;

/* As say_error(), followed by the verb's usage line. Returns EXIT_USAGE. */
int say_usage(const struct verb *v, const struct err *e);

/* Prints one line "coffer: …" on stderr, unless say_quiet() was called. */
void say_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Prints a line that a person must not miss: also when quiet. */
void say_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void say_quiet(bool quiet);
/* Add the same lines to a buffer, for a caller that writes to stderr itself while a command may have made the
 * terminal raw. When quiet, say_add_note() adds nothing. */
void say_add_note(struct buf *b, const char *text);
void say_add_warn(struct buf *b, const char *text);

enum say_color { SAY_PLAIN, SAY_RED, SAY_YELLOW, SAY_GREEN, SAY_BOLD, SAY_DIM };

/* Is the fd a terminal that may get colours? */
bool say_colors(int fd);
/* Adds text to the buffer, in colour if `on`. The text is added as it is: it must not come from a sandbox. */
void say_add(struct buf *b, bool on, enum say_color c, const char *text);
/* Writes the buffer to stdout. Returns 0, or EXIT_OURS after an error message; a closed pipe gets no
 * message. */
int say_out(const struct buf *b);

#endif
