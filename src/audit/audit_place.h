/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an event stands in a file of the log, by its number, without reading what is before it: numbers ascend, so the place is
 * halved in on. For readers only: in a file that somebody changed the place is some place, which verify tells and nobody else
 * relies on.
 */
#ifndef AUDIT_AUDIT_PLACE_H
#define AUDIT_AUDIT_PLACE_H

#include "base/err.h"

#include <stdint.h>

/* Offset of the first event whose number is `seq` or greater; where there is none, behind the last whole line. */
int place_find(int fd, uint64_t size, uint64_t seq, uint64_t *ret) MUST_CHECK;

#endif
