/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-netd: reads the journals of one sandbox's network, which are hostile bytes, and tells the guard what the log and the terminal
 * get (wire/netd_proto.h). It holds a socket to the guard, both journals read-only and the table of the report, and nothing else.
 *
 * Invariants (cited elsewhere as netd_read.R1 ...)
 * R1  It is fenced before it reads a byte of a journal.
 * R2  Bytes are called counted only when the guard has been told all of their lines: by events, or by counts that were sent after them.
 * R3  It outlives neither the guard nor the socket.
 */
#ifndef NETD_NETD_READ_H
#define NETD_NETD_READ_H

#include "base/err.h"
#include "netd/wire/netd_proto.h"
#include "netd/wire/netd_report.h"

/* A turn folds this many bytes of each journal, and the rest of one read: a program that writes as fast as we read would keep the
 * reader from its socket. */
#define NETD_TURN (1u << 20)
#define NETD_LAST_TURN (8u << 20) /* when nobody writes any more */
/* Counts are sent early when this much of the journals waits for them: until then it stays on the disk. */
#define NETD_COUNT_WITHIN (40u << 20)

/* Does, before the fence, what a library would open a file for later. */
void netd_prepare(void);

/* Serves until the guard says NETD_QUIT, or is gone. `journal` has a descriptor for each, -1 where there is none. The process is fenced
 * already. 0, or a negative errno. */
int netd_serve(int control, const int journal[NET_FROM_COUNT], struct netd_report *report) MUST_CHECK;

int netd_main(int argc, char **argv);

#endif
