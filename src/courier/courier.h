/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-courier: carries one outgoing call of the gateway itself (a webhook, a message to a room) and ends. Started for one job
 * by whoever has it (notify/courier_start.h), with one channel on COURIER_FD_CONTROL.
 *
 * Invariants
 *  U1  It sees its job and what the server answers, nothing else: no environment, no file, no other descriptor than those that come
 *      with the job.
 *  U2  Only addresses that are global and not this host's own are dialled; any other only where the job pins it, which its
 *      configuration must have said (`to:`). What was judged is what is dialled.
 *  U3  Nothing but TLS with a verified certificate of the job's host is spoken. A secret is read, and the vault asked, only once that
 *      is so; it is wiped when the request is written.
 *  U4  One request, one answer, until one deadline for all of it. No redirect is followed, nothing is sent twice.
 *  U5  Before the first byte of a stranger's is read it is confined: no capability, no new privileges, not dumpable, Landlock,
 *      a list of system calls without any that opens or executes something.
 */
#ifndef COURIER_COURIER_H
#define COURIER_COURIER_H

#include "sys/fence/fence.h"

int courier_main(int argc, char **argv);

/* U5; courier_fence.c. */
extern const struct fence courier_fence;

#endif
