/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a sandbox, for coffer stop and coffer rm -f. */
#ifndef CLI_CMD_STOP_H
#define CLI_CMD_STOP_H

#include "base/err.h"

#include <stdint.h>

#define STOP_GRACE_DEFAULT_MS 10000

/* What -t says: a number of seconds up to 3600. */
int stop_parse_grace(const char *text, uint32_t *ret, struct err *e) MUST_CHECK;

/* SIGTERM, SIGKILL after grace_ms; returns when it is over and cleared up. One that has ended already is fine. */
int stop_one(const char *ref, uint32_t grace_ms, struct err *e) MUST_CHECK;

#endif
