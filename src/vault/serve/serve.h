/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-vault: the one process that holds secrets. It is handed descriptors and never a name; it renders a secret for a
 * request that a sandbox's grant covers, and reads and writes its sealed file.
 *
 * Invariants
 *  C1  Before the first byte is read it has locked itself in (vault_fence.h), and knows that it can lock memory.
 *  C2  A message on the control channel that breaks the protocol, or that is not legal now, ends the process. So does the
 *      end of that channel: nobody is left who could want anything.
 *  C3  Secrets, keys and passphrases are in locked memory only (crypto/secmem.h), and wiped when they are done with.
 *  C4  To the starter go names, bindings, dates, lengths and places, never a value.
 */
#ifndef VAULT_SERVE_H
#define VAULT_SERVE_H

#define VAULT_FD_CONTROL 3

/* The control channel is VAULT_FD_CONTROL. Returns the exit code. */
int vault_main(int argc, char **argv);

#endif
