/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The confinement of coffer-egress: it can create no file, program, process or socket. It has only the
 * descriptors that it was started with and those that the guard and coffer-dial send, up to the hard limit
 * (65536 at most).
 */
#ifndef EGRESS_EGRESS_FENCE_H
#define EGRESS_EGRESS_FENCE_H

#include "sys/fence/fence.h"

extern const struct fence egress_fence;

#endif
