/* SPDX-License-Identifier: Apache-2.0 */
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
#define QUIET_MS 200 /* what was pasted comes faster than that */

/* 1: there is something to read; -EPIPE: the starter is gone. A request behind this one is no end. */
static int wait_for(const struct source *s)
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

static int read_some(const struct source *s, void *to, size_t len, size_t *ret)
{
	for (;;) {
		int r = wait_for(s);
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

static int read_file(const struct source *s, struct secmem *m)
{
	size_t n = 0;
	int r;

	while (m->len < m->cap) {
		r = read_some(s, m->p + m->len, m->cap - m->len, &n);
		if (r < 0 || n == 0)
			return r;
		m->len += n;
	}
	return 0; /* full: one byte more than there may be */
}

static void erase_last(struct secmem *m)
{
	/* A whole character of UTF-8. */
	while (m->len > 0 && (m->p[m->len - 1] & 0xc0) == 0x80)
		m->p[--m->len] = 0;
	if (m->len > 0)
		m->p[--m->len] = 0;
}

/* 1: the line is done. */
static int take_key(struct secmem *m, uint8_t c)
{
	if (c == '\n' || c == '\r' || c == CTRL_D)
		return 1;
	if (c == DELETE || c == CTRL_H) {
		erase_last(m);
	} else if (c == CTRL_U) {
		secmem_clear(m);
	} else {
		return secmem_add(m, &c, 1) < 0 ? -EFBIG : 0;
	}
	return 0;
}

static int read_line(const struct source *s, struct secmem *m)
{
	uint8_t c = 0;
	size_t n = 0;
	int r;

	do {
		r = read_some(s, &c, 1, &n);
		if (r == 0)
			r = n == 0 ? 1 : take_key(m, c);
	} while (r == 0);
	secmem_wipe(&c, sizeof(c));
	return r < 0 ? r : 0;
}

/* What comes right behind the line was pasted with it: more lines of the same secret. They are taken in while nothing is shown,
 * else the terminal would show them and the shell would run them. 1: there were some; empty ones do not count. */
static int drain(const struct source *s)
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

static void tell(int fd, const char *text)
{
	/* A terminal that takes nothing still gives the line. */
	(void)!write(fd, text, strlen(text));
}

static void ask(const struct source *s)
{
	tell(s->fd, s->prompt);
	if (s->subject && *s->subject) {
		tell(s->fd, " ");
		tell(s->fd, s->subject);
	}
	tell(s->fd, " (not shown): ");
}

static int read_terminal(const struct source *s, struct secmem *m, struct err *e)
{
	struct termios was, now;
	int r, more = 0;

	if (tcgetattr(s->fd, &was) < 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo off");
	now = was;
	/* Not by lines, for those end at 4095 bytes; and no stopping in the middle, which would leave it so. */
	now.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON);
	now.c_iflag |= ICRNL;
	now.c_cc[VSUSP] = _POSIX_VDISABLE;
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	if (tcsetattr(s->fd, TCSAFLUSH, &now) < 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo off");
	ask(s);
	r = read_line(s, m);
	if (r == 0 || r == -EFBIG)
		more = drain(s);
	r = more < 0 ? more : r;
	tell(s->fd, "\n");
	if (tcsetattr(s->fd, TCSAFLUSH, &was) < 0 && r == 0)
		return err_sys(e, -errno, "cannot switch the terminal's echo on again (stty sane does)");
	if (more <= 0)
		return r;
	err_set(e, -EINVAL, "several lines were pasted, and a line is all that is taken here");
	return err_hint(e, -EINVAL, "use --file, or '-' for standard input");
}

static bool trim(struct secmem *m)
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
	/* One more than there may be, and a line break. */
	int r = secmem_new(&m, most + 3, e);

	if (r < 0)
		return r;
	r = s->terminal ? read_terminal(s, &m, e) : read_file(s, &m);
	if (r < 0 && r != -EFBIG)
		return e && e->code ? r : err_sys(e, r, "cannot read the value");
	*ret_trimmed = !s->terminal && trim(&m);
	if (r == -EFBIG || m.len > most)
		return err_set(e, -EFBIG, "there are more than %zu bytes", most);
	*ret = m;
	m = SECMEM_INIT;
	return 0;
}
