/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-dial: the only process in the path of a sandbox's traffic that makes connections. It resolves names,
 * judges every address by a policy of its own, connects, and passes the descriptor to coffer-egress
 * (dialproto.h). It never reads a byte that flows over the connection, except the handshake with a proxy.
 *
 * Invariants
 *  L1  No policy, or one that does not load, denies everything.
 *  L2  Only an address that was judged is dialled: a name is resolved once for each decision, and connect()
 *      gets exactly the judged addresses. Special addresses and the host's own are refused; only a rule's
 *      `to:` reaches them.
 *  L3  Where a proxy set is required nothing is dialled directly, and no name is resolved here except those
 *      of its proxies.
 *  L4  A descriptor is sent only after its journal line is written.
 *  L5  A message from egress that breaks the protocol ends the process: egress is as hostile as its peers.
 *  L6  Once it runs it can open no file and execute nothing; its sockets are TCP and UDP over IP.
 */
#ifndef DIAL_DIAL_H
#define DIAL_DIAL_H

/* Descriptors as in fds.h; argv[1] is their mask. Returns the exit code. */
int dial_main(int argc, char **argv);

#endif
