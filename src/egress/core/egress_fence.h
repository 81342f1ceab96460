/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer-egress locks itself in: no file, program, process or socket of its own making; what it has are the descriptors
 * that it was started with and those that the guard and coffer-dial send, as many as the hard limit gives (65536 at most).
 */
#ifndef EGRESS_EGRESS_FENCE_H
#define EGRESS_EGRESS_FENCE_H

#include "sys/fence/fence.h"

extern const struct fence egress_fence;

#endif
