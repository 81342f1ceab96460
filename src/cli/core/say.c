/* SPDX-License-Identifier: Apache-2.0 */
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

/* One write, so that lines of several processes do not mix. A stderr that is gone is nobody's error. */
static void to_stderr(const struct buf *b)
{
	if (b->len && fd_write_all(STDERR_FILENO, b->data, b->len) < 0)
		return;
}

static void add_error(struct buf *b, const struct err *e)
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

	add_error(&b, e);
	to_stderr(&b);
	return EXIT_OURS;
}

int say_usage(const struct verb *v, const struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	add_error(&b, e);
	buf_addf(&b, "usage: coffer %s %s\n", v->name, v->synopsis);
	to_stderr(&b);
	return EXIT_USAGE;
}

static void say_line(enum say_color c, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* A raw terminal goes down without going back. */
static bool needs_return(void)
{
	struct termios t;

	return tcgetattr(STDERR_FILENO, &t) == 0 && !(t.c_oflag & OPOST);
}

static void add_line(struct buf *b, enum say_color c, const char *text)
{
	say_add(b, say_colors(STDERR_FILENO), c, "coffer:");
	buf_addc(b, ' ');
	str_add_safe(b, text, strlen(text), true);
	buf_adds(b, needs_return() ? "\r\n" : "\n");
}

static void say_line(enum say_color c, const char *fmt, va_list ap)
{
	autobuf struct buf text = BUF_INIT, b = BUF_INIT;

	buf_vaddf(&text, fmt, ap);
	add_line(&b, c, buf_cstr(&text));
	to_stderr(&b);
}

void say_add_note(struct buf *b, const char *text)
{
	if (!quiet_notes)
		add_line(b, SAY_DIM, text);
}

void say_add_warn(struct buf *b, const char *text)
{
	add_line(b, SAY_YELLOW, text);
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
