/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw mode of the caller's terminal, and its restoration on every way out: by call, by exit() and by fatal signals.
 * One terminal per process. No way out but SIGKILL may leave the terminal raw.
 */
#include "run/supervise/tty.h"

#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

/* Process-wide, because a signal handler and exit() must find it. */
static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;

void tty_size(int fd, unsigned *ret_rows, unsigned *ret_cols)
{
	struct winsize ws = { 0 };

	if (fd < 0 || ioctl(fd, TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ 0 };
	*ret_rows = ws.ws_row;
	*ret_cols = ws.ws_col;
}

void tty_restore(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	int fd = raw_fd, keep = errno;

	if (fd >= 0) {
		raw_fd = -1;
		/* SIGTTOU would stop us in the background. TCSANOW: never wait for a terminal whose output is stopped. */
		sigaction(SIGTTOU, &ignore, &old);
		tcsetattr(fd, TCSANOW, &saved);
		sigaction(SIGTTOU, &old, NULL);
	}
	errno = keep;
}

static void on_fatal_signal(int sig)
{
	tty_restore();
	/* SA_RESETHAND has removed this handler, so the signal now has its default effect. */
	raise(sig);
}

/* Installs the handler for signals that still have their default action. Those that supervise() takes by signalfd are
 * blocked and never get here. */
static void restore_on_fatal_signals(void)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE,
				     SIGTERM, SIGHUP, SIGINT,  SIGQUIT };
	struct sigaction sa = { .sa_handler = on_fatal_signal, .sa_flags = (int)SA_RESETHAND }, old;

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++) {
		if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(fatal[i], &sa, NULL);
	}
}

int tty_raw(int fd, struct err *e)
{
	static bool prepared;
	struct termios t;

	if (raw_fd < 0 && tcgetattr(fd, &saved) < 0)
		return err_sys(e, -errno, "cannot read the terminal's settings");
	if (!prepared) {
		if (atexit(tty_restore) != 0)
			return err_set(e, -ENOMEM, "cannot arrange for the terminal to be restored");
		restore_on_fatal_signals();
		prepared = true;
	}
	t = saved;
	cfmakeraw(&t);
	raw_fd = fd;
	if (tcsetattr(fd, TCSANOW, &t) < 0) {
		raw_fd = -1;
		return err_sys(e, -errno, "cannot set the terminal to raw mode");
	}
	return 0;
}
