/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the state*.c files. */
#ifndef SANDBOX_STATE_INTERNAL_H
#define SANDBOX_STATE_INTERNAL_H

#include "sandbox/state/state.h"

/* RUN_ID_LEN lower-case hexadecimal digits. */
bool state_is_id(const char *s);

/* "cannot WHAT PATH: why", with a hint where another state directory would help. Returns code. */
int state_cannot(struct err *e, int code, const char *what, const char *path);
int state_bad_name(struct err *e, const char *name);

/* Reads the mark of the format and refuses one that this program does not know; marks an older state where it can. */
int state_format_settle(struct state *st, struct err *e) MUST_CHECK;

/* Fd of a directory in the state directory, made when missing. */
int state_subdir(const struct state *st, const char *name, struct err *e) MUST_CHECK;

#endif
