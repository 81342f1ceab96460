/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's terminal: its size, and raw mode while a command has a terminal of its own. Raw mode is undone on
 * every way out that a process can see: tty_restore(), exit(), and signals that kill.
 */
#ifndef RUN_TTY_H
#define RUN_TTY_H

#include "base/err.h"

/* 0 rows and columns when it is not a terminal. */
void tty_size(int fd, unsigned *ret_rows, unsigned *ret_cols);

/* One terminal at a time: a second call for the same one only sets it raw again (after SIGCONT). */
int tty_raw(int fd, struct err *e) MUST_CHECK;

/* Idempotent, and safe in a signal handler. */
void tty_restore(void);

#endif
