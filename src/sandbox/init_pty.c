/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal for a command, from the sandbox's own devpts. */
#include "base/cleanup.h"
#include "sandbox/init_int.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

void pty_resize(int master, unsigned rows, unsigned cols)
{
	const struct winsize ws = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };

	ioctl(master, TIOCSWINSZ, &ws);
}

int pty_open(unsigned rows, unsigned cols, int *ret_slave)
{
	autoclose int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	struct termios t;
	int unlock = 0, slave;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	/* By the master, not by name: no path inside can be put in its way. */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	if (rows && cols)
		pty_resize(master, rows, cols);
	/* So that erasing takes away a whole character. */
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

char pty_eof_char(int master)
{
	struct termios t;

	if (ioctl(master, TCGETS, &t) < 0 || !(t.c_lflag & ICANON))
		return '\0';
	return (char)t.c_cc[VEOF];
}
