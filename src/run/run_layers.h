/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writable layers of a run: over the workspace, and over the root file system where that is an image's or a directory's.
 *
 * The origin of the run (run.h) decides when they are made. The sandbox's first process has a copy of the spec, so an origin
 * that changes the spec makes and fills them before that process is spawned; the others leave it for the time while the
 * process builds.
 *
 *   origin        before spawn                  while the process builds
 *   RUN_NEW       -                             made, empty
 *   RUN_GIVEN     -                             made, then filled with files of the caller
 *   RUN_COPIED    made, then filled (spec!)     -
 *   RUN_RESUMED   reopened                      made where none is left
 */
#ifndef RUN_RUN_LAYERS_H
#define RUN_RUN_LAYERS_H

#include "run/run.h"

int run_layers_begin(struct run *r, struct err *e) MUST_CHECK;
int run_layers_complete(struct run *r, struct err *e) MUST_CHECK;

/* Opens a layer to measure how much is in it; -1 where that is not needed, since a disk image enforces its own limit. */
int run_layers_watched(const struct spec *s, const char *name);

#endif
