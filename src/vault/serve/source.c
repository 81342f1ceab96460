/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a secret or passphrase from a file, a pipe or a terminal without echo, straight into locked memory
 * (source.h). Always restores the terminal.
 */

#include "vault/serve/source.h"

#include "base/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define CTRL_D 0x04
#define CTRL_H 0x08
#define CTRL_U 0x15
#define DELETE 0x7f
#define QUIET_MS 200 /* pasted text arrives faster than this */

/* 1: there is something to read; -EPIPE: the starter has gone. A further request on the control channel does
 * not count as its end. */
static int wait_for_input(const struct source *s)
{
	struct pollfd p[2] = { { .fd = s->fd, .events = POLLIN }, { .fd = s->control, .events = 0 } };

	for (;;) {
		int n = poll(p, 2, -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && p[1].revents)
			return -EPIPE;
		if (n > 0)
			return 1;
	}
}

/* Reads some bytes, and notices meanwhile if the starter ends. */
static int read_input(const struct source *s, void *to, size_t len, size_t *ret)
{
	for (;;) {
		int r = wait_for_input(s);
		ssize_t n = r < 0 ? 0 : read(s->fd, to, len);

		if (r < 0)
			return r;
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		*ret = (size_t)n;
		return 0;
	}
}

static int read_to_end(const struct source *s, struct secmem *m)
{
	size_t n = 0;
	int r;

	while (m->len < m->cap) {
		r = read_input(s, m->p + m->len, m->cap - m->len, &n);
		if (r < 0 || n == 0)
			return r;
		m->len += n;
	}
	return 0; /* full: one byte more than allowed */
}

static void erase_last_char(struct secmem *m)
{
	/* A whole UTF-8 character. */
	while (m->len > 0 && (m->p[m->len - 1] & 0xc0) == 0x80)
		m->p[--m->len] = 0;
	if (m->len > 0)
		m->p[--m->len] = 0;
}

/* 1: the line is complete. */
static int handle_key(struct secmem *m, uint8_t c)
{
	if (c == '\n' || c == '\r' || c == CTRL_D)
		return 1;
	if (c == DELETE || c == CTRL_H) {
		erase_last_char(m);
	} else if (c == CTRL_U) {
		secmem_clear(m);
	} else {
		return secmem_add(m, &c, 1) < 0 ? -EFBIG : 0;
	}
	return 0;
}

static int read_typed_line(const struct source *s, struct secmem *m)
{
	uint8_t c = 0;
	size_t n = 0;
	int r;

	do {
		r = read_input(s, &c, 1, &n);
		if (r == 0)
			r = n == 0 ? 1 : handle_key(m, c);
	} while (r == 0);
	secmem_wipe(&c, sizeof(c));
	return r < 0 ? r : 0;
}

/* Text that arrives right after the line was pasted with it: further lines of the same secret. They are read
 * while echo is off, otherwise the terminal would show them and the shell would run them. 1: there were some;
 * empty lines do not count. */
static int drain_pasted_lines(const struct source *s)
{
	struct pollfd p[2] = { { .fd = s->fd, .events = POLLIN }, { .fd = s->control, .events = 0 } };
	uint8_t c[64];
	int more = 0;

	for (;;) {
		int n = poll(p, 2, QUIET_MS);
		ssize_t got = n > 0 && !p[1].revents ? read(s->fd, c, sizeof(c)) : 0;

		if ((n < 0 || got < 0) && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n > 0 && p[1].revents)
			return -EPIPE;
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++)
			more |= c[i] != '\n' && c[i] != '\r';
	}
	secmem_wipe(c, sizeof(c));
	return more;
}

static void write_text(int fd, const char *text)
{
	/* A terminal that accepts no output may still deliver the line. */
	(void)!write(fd, text, strlen(text));
}

static void write_prompt(const struct source *s)
{
	write_text(s->fd, s->prompt);
	if (s->subject && *s->subject) {
		write_text(s->fd, " ");
		write_text(s->fd, s->subject);
	}
	write_text(s->fd, " (not shown): ");
}

/* Reads one line with echo off, and restores the terminal. */
static int read_terminal(const struct source *s, struct secmem *m, struct err *e)
{
	struct termios was, now;
	int r, more = 0;

	if (tcgetattr(s->fd, &was) < 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo off");
	now = was;
	/* Not line by line, because the kernel ends a line at 4095 bytes; and without stop characters, which
	 * would leave echo off. */
	now.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON);
	now.c_iflag |= ICRNL;
	now.c_cc[VSUSP] = _POSIX_VDISABLE;
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	if (tcsetattr(s->fd, TCSAFLUSH, &now) < 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo off");
	write_prompt(s);
	r = read_typed_line(s, m);
	if (r == 0 || r == -EFBIG)
		more = drain_pasted_lines(s);
	r = more < 0 ? more : r;
	write_text(s->fd, "\n");
	if (tcsetattr(s->fd, TCSAFLUSH, &was) < 0 && r == 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo on again (stty sane does)");
	if (more <= 0)
		return r;
	err_set(e, -EINVAL, "several lines were pasted, but only one line is accepted here");
	return err_hint(e, -EINVAL, "use --file, or '-' for standard input");
}

static bool trim_line_break(struct secmem *m)
{
	if (m->len == 0 || m->p[m->len - 1] != '\n')
		return false;
	m->p[--m->len] = 0;
	if (m->len && m->p[m->len - 1] == '\r')
		m->p[--m->len] = 0;
	return true;
}

int source_read(const struct source *s, size_t most, struct secmem *ret, bool *ret_trimmed, struct err *e)
{
	autosecmem struct secmem m = SECMEM_INIT;
	/* Room for one byte more than allowed, and a line break. */
	int r = secmem_new(&m, most + 3, e);

	if (r < 0)
		return r;
	r = s->terminal ? read_terminal(s, &m, e) : read_to_end(s, &m);
	if (r < 0 && r != -EFBIG)
		return e && e->code ? r : err_sys(e, r, "cannot read the value");
	*ret_trimmed = !s->terminal && trim_line_break(&m);
	if (r == -EFBIG || m.len > most)
		return err_set(e, -EFBIG, "the value has more than %zu bytes", most);
	*ret = m;
	m = SECMEM_INIT;
	return 0;
}
