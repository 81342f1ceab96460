/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-courier: makes one outgoing HTTPS request for coffer itself (a webhook, a chat message) and
 * exits. Started for one job by its owner (notify/courier_start.h), with one channel on COURIER_FD_CONTROL.
 *
 * Invariants
 *  U1  It sees its job and the server's response, nothing else: no environment, no file, no descriptor except
 *      those that come with the job.
 *  U2  Only global addresses that are not this host's own are dialled; any other only where the job pins it,
 *      which requires `to:` in the configuration. Exactly the judged addresses are dialled.
 *  U3  It speaks only TLS, with a verified certificate of the job's host. A secret is read, or fetched from
 *      the vault, only after that; it is zeroed when the request is written.
 *  U4  One request, one response, one deadline for everything. No redirect is followed, nothing is sent
 *      twice.
 *  U5  It is confined before it reads the first byte from a stranger: no capability, no new privileges, not
 *      dumpable, Landlock, a list of system calls without any that opens or executes a file.
 */
#ifndef COURIER_COURIER_H
#define COURIER_COURIER_H

#include "sys/fence/fence.h"

int courier_main(int argc, char **argv);

/* courier.U5; courier_fence.c. */
extern const struct fence courier_fence;

#endif
