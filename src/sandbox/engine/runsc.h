/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the runsc binary, and the test whether it works on this host.
 *
 * Invariants
 *  S1  The file that runs is the file that was judged: it is opened once, and executed by that descriptor.
 *  S2  Only root, the caller and a user who could replace coffer itself may write to it. The same holds for its directory,
 *      unless it was named with its digest: the digest decides which file it is, but does not stop later writes.
 *  S3  A verdict comes from a sandbox that was really started, with the same code and options as any other, within a
 *      time limit. It is stored in the state directory with all that it depends on (the file, the kernel, this program),
 *      and made again when any of that has changed. Of failures only a hang is stored, and for a while.
 */
#ifndef SANDBOX_RUNSC_H
#define SANDBOX_RUNSC_H

#include "base/err.h"
#include "crypto/hash.h"
#include "sandbox/state/state.h"

#include <sys/types.h>

struct runsc {
	int fd; /* O_RDONLY */
	char *path;
	char version[64];
	char sha256[HASH_HEX_LEN + 1];
	char pinned[HASH_HEX_LEN + 1]; /* the digest that it was named with; empty: none */
	char hostnet
		[256]; /* why its own network stack does not work here, so that the kernel's is used; empty: it works */
};

#define RUNSC_INIT ((struct runsc){ .fd = -1 })

/*
 * The runsc that COFFER_RUNSC names; *ret is NULL when the variable is not set. An error where it is set to something
 * that cannot be a name: an empty string, or a relative path, which means another file in each directory.
 */
int runsc_from_env(const char **ret, struct err *e) MUST_CHECK;

/* `named` is PATH or PATH@sha256:HEX; NULL: the first runsc in the usual places. -ENOENT when there is none. */
int runsc_open(const char *named, struct runsc *ret, struct err *e) MUST_CHECK;
void runsc_release(struct runsc *r);

/* Fills in version and digest; an error says why it cannot be used here. */
int runsc_check(struct runsc *r, struct state *st, struct err *e) MUST_CHECK;

#endif
