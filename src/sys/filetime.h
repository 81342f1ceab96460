/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times that the kernel gives files, and a time between two writes.
 *
 * No clock that a program can read tells it: files were dated by the tick of CLOCK_REALTIME_COARSE, and since Linux 6.13
 * an inode that somebody has looked at gets a finer time at its next change, ahead of that clock; no file that changes
 * afterwards, on whatever file system, is dated before it. So a file is asked.
 */
#ifndef SYS_FILETIME_H
#define SYS_FILETIME_H

#include "base/err.h"

#include <stdint.h>

/*
 * A time (CLOCK_REALTIME ns) that every change made so far lies before, and no change made from now on. Takes microseconds,
 * or up to a tick of the clock where files have no finer times. On a file system with times coarser than that (some have
 * seconds), changes of the same second lie on the same side as those made from now on.
 */
int filetime_between(uint64_t *ret, struct err *e) MUST_CHECK;

#endif
