/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a runsc works here, by starting a sandbox with it. */
#ifndef SANDBOX_RUNSC_PROBE_H
#define SANDBOX_RUNSC_PROBE_H

#include "sandbox/engine/runsc.h"

/* Reads its version, then starts an empty sandbox and ends it. Sets r->version and r->hostnet; an error has the reason. */
int runsc_probe(struct runsc *r, struct state *st, struct err *e) MUST_CHECK;

#endif
