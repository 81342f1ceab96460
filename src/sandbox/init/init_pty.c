/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal for a command, from the sandbox's own devpts, and questions about its state. A path that a
 * process inside could replace must not name the terminal, except on gVisor.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

void pty_resize(int master, unsigned rows, unsigned cols)
{
	const struct winsize ws = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };

	ioctl(master, TIOCSWINSZ, &ws);
}

/*
 * Opened through the master, not by name, so that no path inside can be substituted. gVisor has no such ioctl; there the
 * name is used, and a process that could substitute it could as well attack the command itself.
 */
static int open_pty_slave(int master)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	int slave = ioctl(master, TIOCGPTPEER, flags);
	char path[32] = "/dev/pts/", digits[10];
	size_t len = 9, n = 0;
	unsigned number;

	if (slave >= 0 || (errno != ENOTTY && errno != EINVAL))
		return slave;
	if (ioctl(master, TIOCGPTN, &number) < 0)
		return -1;
	for (; n == 0 || number; number /= 10)
		digits[n++] = (char)('0' + number % 10);
	while (n)
		path[len++] = digits[--n];
	path[len] = '\0';
	return open(path, flags | O_NOFOLLOW);
}

int pty_open(unsigned rows, unsigned cols, int *ret_slave)
{
	autoclose int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	struct termios t;
	int unlock = 0, slave;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = open_pty_slave(master);
	if (slave < 0)
		return -errno;
	if (rows && cols)
		pty_resize(master, rows, cols);
	/* So that erasing removes a whole UTF-8 character. */
	if (ioctl(slave, TCGETS, &t) == 0) {
		t.c_iflag |= IUTF8;
		ioctl(slave, TCSETS, &t);
	}
	*ret_slave = slave;
	return TAKE_FD(master);
}

pid_t pty_foreground(int master)
{
	pid_t pgrp = 0;

	return ioctl(master, TIOCGPGRP, &pgrp) < 0 ? 0 : pgrp;
}

bool pty_is_raw(int master)
{
	struct termios t;

	return ioctl(master, TCGETS, &t) == 0 && !(t.c_lflag & ICANON);
}

char pty_eof_char(int master)
{
	struct termios t;

	if (ioctl(master, TCGETS, &t) < 0 || !(t.c_lflag & ICANON))
		return '\0';
	return (char)t.c_cc[VEOF];
}
