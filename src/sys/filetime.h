/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times that the kernel gives files, and a time between two writes.
 *
 * No clock that a program can read gives this time. Files get the tick of CLOCK_REALTIME_COARSE; since Linux 6.13 an inode
 * that was stat()ed gets a finer time at its next change, which is ahead of that clock. No file that changes afterwards, on
 * any file system, gets an earlier time. So the time is taken from a file.
 */
#ifndef SYS_FILETIME_H
#define SYS_FILETIME_H

#include "base/err.h"

#include <stdint.h>

/*
 * A time (CLOCK_REALTIME ns) later than every change made so far and not later than any change from now on. Takes microseconds,
 * or up to a tick of the clock where files have no finer times. On a file system with times coarser than that (some have
 * seconds), changes of the same second lie on the same side as those made from now on.
 */
int filetime_between(uint64_t *ret, struct err *e) MUST_CHECK;

#endif
