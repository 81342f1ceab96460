/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of signals that a program starts with, whatever its caller ignored or blocked. No handler but
 * those of SIGCHLD and SIGXFSZ is changed.
 */
#include "base/signals.h"

#include <signal.h>

void signals_begin(void)
{
	sigset_t none;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
