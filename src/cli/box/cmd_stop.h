/* SPDX-License-Identifier: Apache-2.0 */
/* Stops a sandbox, for coffer stop, coffer restart and coffer rm -f. */
#ifndef CLI_CMD_STOP_H
#define CLI_CMD_STOP_H

#include "base/err.h"

#include <stdint.h>

#define STOP_GRACE_DEFAULT_MS 10000

/* Parses the value of -t, a number of seconds up to 3600, into milliseconds. */
int cli_stop_parse_grace(const char *text, uint32_t *ret, struct err *e) MUST_CHECK;

/* Sends SIGTERM, and SIGKILL after grace_ms; returns when the run has ended and is cleaned up. A run that has
 * ended already is no error. */
int cli_stop_one(const char *ref, uint32_t grace_ms, struct err *e) MUST_CHECK;

#endif
