/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals: typing into the one we were started from, taking it over, reaching others. */
#include "probe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>

#ifndef TIOCL_GETSHIFTSTATE
#define TIOCL_GETSHIFTSTATE 6
#endif

static bool injection_off(void)
{
	char text[8] = "1";

	read_small("/proc/sys/dev/tty/legacy_tiocsti", text, sizeof(text));
	return text[0] == '0';
}

static enum verdict inject(unsigned long request)
{
	if (!isatty(STDIN_FILENO))
		return probe_error("stdin is no terminal");
	for (const char *p = "id\n"; *p; p++) {
		if (syscall(SYS_ioctl, STDIN_FILENO, request, p) < 0)
			return in_control && injection_off()
				       ? not_here("the host's kernel refuses it to everybody")
				       : held();
	}
	return broken("typed into the terminal");
}

static enum verdict p_tty_inject(void)
{
	return inject(TIOCSTI);
}

/* The kernel reads 32 bits of the request. */
static enum verdict p_tty_inject_high(void)
{
	return inject(0xdeadbeef00000000UL | TIOCSTI);
}

static enum verdict p_tty_inject_dev(void)
{
	autoclose int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, TIOCSTI, "x") < 0)
		return in_control && injection_off() ? not_here("the host's kernel refuses it to everybody")
						     : held();
	return broken("typed into the controlling terminal");
}

static enum verdict p_tty_console(void)
{
	char arg[2] = { TIOCL_GETSHIFTSTATE };
	autoclose int fd = -1;

	if (!in_control)
		return judge(ioctl(STDIN_FILENO, TIOCLINUX, arg), "spoke to the console");
	fd = open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return not_here("no console on this host (%s)", errno_name(errno));
	return judge(ioctl(fd, TIOCLINUX, arg), "spoke to the console");
}

static enum verdict p_tty_console_high(void)
{
	char arg[2] = { TIOCL_GETSHIFTSTATE };
	autoclose int fd = in_control ? open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC) : dup(STDIN_FILENO);

	if (fd < 0)
		return not_here("no console on this host (%s)", errno_name(errno));
	return judge(syscall(SYS_ioctl, fd, 0xdeadbeef00000000UL | TIOCLINUX, arg), "spoke to the console");
}

/* Root may take a terminal from its session. A process that leads a group cannot begin one of its own. */
static enum verdict p_tty_steal(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		_exit(ioctl(STDIN_FILENO, TIOCSCTTY, 1) == 0 ? 200 : errno);
	}
	status = wait_exit(pid);
	if (status == 200)
		return broken("took a terminal from its session");
	errno = status;
	return held();
}

static enum verdict p_tty_other(void)
{
	autoclose int fd = open(param("pts"), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || write(fd, "from a probe", 12) < 0)
		return held();
	return asks("pts");
}

/* The terminal that we have must not be the caller's own, whose other end a person sits at. */
static enum verdict p_tty_same(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) < 0)
		return probe_error("stdin is no terminal");
	t.c_cc[VERASE] = 'Q';
	if (tcsetattr(STDIN_FILENO, TCSANOW, &t) < 0)
		return held();
	return asks("tty_settings");
}

const struct probe probes_tty[] = {
	{ "tty_inject", p_tty_inject, CTL_SAME, PF_TTY },
	{ "tty_inject_high_bits", p_tty_inject_high, CTL_SAME, PF_TTY },
	{ "tty_inject_dev", p_tty_inject_dev, CTL_SAME, PF_TTY },
	{ "tty_console", p_tty_console, CTL_ROOT, PF_TTY },
	{ "tty_console_high_bits", p_tty_console_high, CTL_ROOT, PF_TTY },
	{ "tty_steal", p_tty_steal, CTL_ROOT, PF_TTY },
	{ "tty_same", p_tty_same, CTL_SAME, PF_TTY },
	{ "tty_other", p_tty_other, CTL_SAME },
	{ 0 },
};
