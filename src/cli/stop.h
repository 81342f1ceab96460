/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a sandbox, for coffer stop and coffer rm -f. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include "base/err.h"

#include <stdint.h>

/* SIGTERM, SIGKILL after grace_ms; returns when it is over and cleared up. One that has ended already is fine. */
int stop_one(const char *ref, uint32_t grace_ms, struct err *e) MUST_CHECK;

#endif
