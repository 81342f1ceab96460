/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coffer-vault locks itself in: it can open, make and execute nothing, and no other process can look into it. What it
 * has are the control channel and what comes over it.
 */
#ifndef VAULT_VAULT_FENCE_H
#define VAULT_VAULT_FENCE_H

#include "sys/fence/fence.h"

extern const struct fence vault_fence;

#endif
