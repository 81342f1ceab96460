/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-vault: the one process that holds secrets. It receives descriptors and never a file name; it renders a secret for a
 * request that a sandbox's grant covers, and reads and writes its sealed file.
 *
 * Invariants
 *  C1  Before it reads the first byte it has confined itself (vault_fence.h), and knows that it can lock memory.
 *  C2  A message on the control channel that breaks the protocol, or that is not legal in the current state, ends the process. So
 *      does the end of that channel.
 *  C3  Secrets, keys and passphrases are in locked memory only (crypto/secmem.h), and wiped after use.
 *  C4  The starter receives names, bindings, dates, lengths and offsets, never a value.
 */
#ifndef VAULT_SERVE_H
#define VAULT_SERVE_H

#define VAULT_FD_CONTROL 3

/* The control channel is VAULT_FD_CONTROL. Returns the exit code. */
int vault_main(int argc, char **argv);

#endif
