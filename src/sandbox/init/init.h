/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-init: pid 1 of every sandbox, on every engine. Starts, signals and reaps commands on request and carries
 * their stdio; the protocol is sandbox/init/proto.h. Nothing outside trusts it: the sandbox may have taken it over.
 *
 * It is started with the stream on a descriptor, 0 to 2 on /dev/null, an empty environment, no capability, under
 * the sandbox's seccomp filter and as the commands' uid.
 *
 * Invariants
 *  I1  One thread, one poll(); nothing here waits for a command, so PING and SIGNAL are served whatever runs.
 *  I2  Replies need no fork: at the pids limit a start fails with EAGAIN, and that is reported.
 *  I3  Memory is bounded: PROTO_BODIES_MAX for starts, PROTO_WINDOW of input a channel, and output is read from a
 *      command only while less than INIT_OUT_HIGH is queued for the host.
 *  I4  No descriptor but 0, 1 and 2 reaches a command.
 *  I5  A command's end is reported after the output that it wrote before it ended. Output that its children write
 *      later to the same pipes is read and dropped, so that a server left in the background does not die of SIGPIPE.
 */
#ifndef SANDBOX_INIT_H
#define SANDBOX_INIT_H

#include <stdbool.h>

/* Runs until the stream ends or is broken, or the main command has ended. Returns the exit status. The greeting is sent
 * together with the first frame that the host waits for; with `now` (gVisor) at once, since it proves the start there. */
int init_main(int in_fd, int out_fd, bool now);

#endif
