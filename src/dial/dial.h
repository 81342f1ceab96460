/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-dial: the only process on the way of a sandbox's traffic that makes connections. It resolves, judges every address
 * by a policy of its own, connects, and passes the descriptor to coffer-egress (dialproto.h). It never reads a byte of
 * what flows over it, but for the handshake with a proxy.
 *
 * Invariants
 *  L1  No policy, or one that does not load, denies everything.
 *  L2  Only an address that was judged is dialled: names are resolved once for each decision, and what was judged is what
 *      connect() gets. Special addresses and the host's own are refused; only a rule's `to:` reaches them.
 *  L3  Where a pool is wanted nothing is dialled directly and no name is resolved here but those of the pool's proxies.
 *  L4  A descriptor leaves only behind its line in the journal.
 *  L5  A message of egress's that breaks the protocol ends the process: egress is as hostile as what it speaks with.
 *  L6  Once it runs it can open no file and execute nothing; sockets are TCP and UDP over IP.
 */
#ifndef DIAL_DIAL_H
#define DIAL_DIAL_H

/* Descriptors as in fds.h; argv[1] is their mask. Returns the exit code. */
int dial_main(int argc, char **argv);

#endif
