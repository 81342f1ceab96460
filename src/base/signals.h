/* SPDX-License-Identifier: Apache-2.0 */
/* The state of signals that a process inherits from the one that executed it. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/*
 * The first call of every main(), except for coffer-init, which resets all signals itself. SIGCHLD gets its default
 * action, and no signal is blocked. An ignored SIGCHLD and a blocked signal survive exec. With the first the kernel reaps
 * our children itself: their exit status is lost, and their process ids may belong to other processes. Other signals that
 * the caller ignores stay ignored, as nohup wants it. SIGXFSZ is ignored: with a caller's `ulimit -f` a write into the log fails with a
 * reason instead of ending the process in the middle of it. What is started gets the default again (sys/spawn.h).
 */
void signals_begin(void);

#endif
