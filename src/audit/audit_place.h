/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offset of an event in a file of the log, by its number, without reading everything before it: numbers ascend, so a binary
 * search finds it. For readers only: in a file that was tampered with the result is arbitrary; verify detects that, and nothing
 * else relies on it.
 */
#ifndef AUDIT_AUDIT_PLACE_H
#define AUDIT_AUDIT_PLACE_H

#include "base/err.h"

#include <stdint.h>

/* The offset of the first event whose number is at least `seq`; if there is none, the end of the last whole
 * line. */
int place_find(int fd, uint64_t size, uint64_t seq, uint64_t *ret) MUST_CHECK;

#endif
