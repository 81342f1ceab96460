/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding our own helper programs: beside the running program, else where they were installed.
 *
 * Invariant: a helper is trusted as far as the running program and no further. Only root, the caller, and a user who could
 * replace the running program too may be able to replace a helper.
 */
#ifndef SANDBOX_HELPER_H
#define SANDBOX_HELPER_H

#include "base/err.h"

/* An O_PATH fd of an executable regular file, for fexecve-like use. `name` has no slash. */
int helper_open(const char *name, struct err *e) MUST_CHECK;

/* Opens a program that is named by its path for reading, judged the same way. Links are followed. */
int helper_open_trusted(const char *path, struct err *e) MUST_CHECK;

/* Judges an open file alone, and not the directory that it is in. */
int helper_check_fd(int fd, const char *path, struct err *e) MUST_CHECK;

#endif
