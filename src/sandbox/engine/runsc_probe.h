/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a runsc works here, found out by starting a sandbox with it. */
#ifndef SANDBOX_RUNSC_PROBE_H
#define SANDBOX_RUNSC_PROBE_H

#include "sandbox/engine/runsc.h"

/* Asks for its version, then starts an empty sandbox and ends it. An error says what was wrong. Sets r->hostnet. */
int runsc_probe(struct runsc *r, struct state *st, struct err *e) MUST_CHECK;

#endif
