/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer-vault confines itself: it can open, create and execute nothing, and no other process can inspect it. It
 * has only the control channel and the descriptors that arrive over it.
 */
#ifndef VAULT_VAULT_FENCE_H
#define VAULT_VAULT_FENCE_H

#include "sys/fence/fence.h"

extern const struct fence vault_fence;

#endif
