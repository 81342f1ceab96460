/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to a person on stderr, and output on stdout, as say.h describes. Every text passes str_add_safe()
 * here, so that bytes from inside a sandbox never reach the terminal as control sequences. Nothing here exits
 * the process.
 */
#include "cli/core/say.h"

#include "base/fd.h"
#include "base/str.h"
#include "cli/core/verb.h"

#include <stdarg.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static bool quiet_notes;

void say_quiet(bool quiet)
{
	quiet_notes = quiet;
}

bool say_colors(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && !(term && str_eq(term, "dumb")) && isatty(fd);
}

void say_add(struct buf *b, bool on, enum say_color c, const char *text)
{
	static const char *const codes[] = {
		[SAY_PLAIN] = "0",  [SAY_RED] = "31", [SAY_YELLOW] = "33",
		[SAY_GREEN] = "32", [SAY_BOLD] = "1", [SAY_DIM] = "2",
	};

	if (on && c != SAY_PLAIN)
		buf_addf(b, "\033[%sm%s\033[0m", codes[c], text);
	else
		buf_adds(b, text);
}

/* Each message is one write, so that the lines of several processes do not mix. A stderr that was closed is
 * not an error: there is nobody to report it to. */
static void write_stderr(const struct buf *b)
{
	if (b->len && fd_write_all(STDERR_FILENO, b->data, b->len) < 0)
		return;
}

static void format_error(struct buf *b, const struct err *e)
{
	bool color = say_colors(STDERR_FILENO);
	const char *msg = e->msg[0] ? e->msg : "something failed, and nothing more is known";

	say_add(b, color, SAY_RED, "coffer:");
	buf_addc(b, ' ');
	str_add_safe(b, msg, strlen(msg), true);
	buf_addc(b, '\n');
	if (!e->hint[0])
		return;
	say_add(b, color, SAY_BOLD, "  try:");
	buf_addc(b, ' ');
	str_add_safe(b, e->hint, strlen(e->hint), true);
	buf_addc(b, '\n');
}

int say_error(const struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	format_error(&b, e);
	write_stderr(&b);
	return EXIT_OURS;
}

int say_usage(const struct verb *v, const struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	format_error(&b, e);
	buf_addf(&b, "usage: coffer %s %s\n", v->name, v->synopsis);
	write_stderr(&b);
	return EXIT_USAGE;
}

static void say_line(enum say_color c, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* A raw terminal moves down at "\n" without returning to the first column, so it needs "\r\n". */
static bool terminal_is_raw(void)
{
	struct termios t;

	return tcgetattr(STDERR_FILENO, &t) == 0 && !(t.c_oflag & OPOST);
}

static void format_say_line(struct buf *b, enum say_color c, const char *text)
{
	say_add(b, say_colors(STDERR_FILENO), c, "coffer:");
	buf_addc(b, ' ');
	str_add_safe(b, text, strlen(text), true);
	buf_adds(b, terminal_is_raw() ? "\r\n" : "\n");
}

static void say_line(enum say_color c, const char *fmt, va_list ap)
{
	autobuf struct buf text = BUF_INIT, b = BUF_INIT;

	buf_vaddf(&text, fmt, ap);
	format_say_line(&b, c, buf_cstr(&text));
	write_stderr(&b);
}

void say_add_note(struct buf *b, const char *text)
{
	if (!quiet_notes)
		format_say_line(b, SAY_DIM, text);
}

void say_add_warn(struct buf *b, const char *text)
{
	format_say_line(b, SAY_YELLOW, text);
}

void say_note(const char *fmt, ...)
{
	va_list ap;

	if (quiet_notes)
		return;
	va_start(ap, fmt);
	say_line(SAY_DIM, fmt, ap);
	va_end(ap);
}

void say_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(SAY_YELLOW, fmt, ap);
	va_end(ap);
}

int say_out(const struct buf *b)
{
	struct err e = ERR_INIT;
	int r = buf_error(b);

	if (r == 0 && b->len)
		r = fd_write_all(STDOUT_FILENO, b->data, b->len);
	if (r == 0)
		return 0;
	if (r == -EPIPE) /* `coffer ps | head -1` */
		return EXIT_OURS;
	err_sys(&e, r, "cannot write to standard output");
	return say_error(&e);
}
