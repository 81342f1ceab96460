/* SPDX-License-Identifier: Apache-2.0 */
/* The fence of what reads the journals: coffer-netd, and the child of net_finish(). */
#ifndef NETD_NETD_FENCE_H
#define NETD_NETD_FENCE_H

#include "sys/fence/fence.h"

extern const struct fence netd_fence;

#endif
