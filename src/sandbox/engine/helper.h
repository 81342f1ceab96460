/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding our own helper programs: beside the running program, else where they were installed.
 *
 * Invariant: a helper is trusted as far as the program itself and no further. Whoever could put another file in its
 * place must be root, the caller, or somebody who could have replaced the running program just the same.
 */
#ifndef SANDBOX_HELPER_H
#define SANDBOX_HELPER_H

#include "base/err.h"

/* An O_PATH fd of an executable regular file, for fexecve-like use. `name` has no slash. */
int helper_open(const char *name, struct err *e) MUST_CHECK;

/* A program that is named by its path, judged the same way; opened for reading, links followed. */
int helper_open_path(const char *path, struct err *e) MUST_CHECK;

/* The open file alone, wherever it is. */
int helper_check_fd(int fd, const char *path, struct err *e) MUST_CHECK;

#endif
