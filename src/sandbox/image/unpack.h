/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-unpack: the process that parses archives of strangers. It is given one archive (tar, gzip or zstd) as its
 * standard input and one empty directory, and fills the second from the first as a layer of a root file system.
 *
 * Invariants
 *  K1  Before a byte of the archive is read: no path leads anywhere but into the directory (chroot, Landlock, or both;
 *      with neither it refuses), no capability but (host root) to set owners there, no_new_privs, a seccomp allowlist
 *      of its own without sockets, exec or processes, limits on memory and file size, not dumpable.
 *  K2  What it says is believed as far as a stranger: the reply has a fixed size, its numbers are shown, its text is
 *      made harmless. The digest that decides under which name a layer is stored is made outside, of the bytes as
 *      they went in.
 *  K3  The directory it has filled stays a stranger's: whoever opens something in it does so beneath it.
 */
#ifndef SANDBOX_UNPACK_H
#define SANDBOX_UNPACK_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stdint.h>

/* Its descriptors. */
enum { UNPACK_IN = 0, UNPACK_DIR = 3, UNPACK_REPLY = 4 };

#define UNPACK_MAGIC 0x4b504e55u
#define UNPACK_ENTRIES_MAX 1000000u
/* Images whose archives grow by more than this together, once they are past the first bytes, are bombs: gzip reaches 1032, layers 5. */
#define UNPACK_RATIO_MAX 256u
#define UNPACK_RATIO_FREE (256ULL << 20)

struct unpack_reply {
	uint32_t magic;
	int32_t code; /* 0 or negative errno */
	uint64_t entries, bytes;
	uint64_t unended;		 /* 1: without an end mark */
	uint64_t devices;		 /* not made */
	uint64_t pipes;			 /* not made */
	uint64_t setids;		 /* bits taken away */
	uint64_t xattrs;		 /* not set */
	uint64_t strangers;		 /* owners beyond what a sandbox maps, stored as nobody */
	unsigned char diff_id[HASH_LEN]; /* of the archive without its compression */
	char msg[224];
};

struct unpack_opts {
	uint64_t entries_max, bytes_max;
	uint64_t ratio_max; /* of what comes out to what goes in; 0: whatever it is */
	uint64_t before_in,
		before_out; /* bytes of the image's layers that were unpacked before, for that ratio */
	bool owners;	    /* host root: keep the owners that the archive names */
};

/* K1; the process stands in the directory afterwards. */
int unpack_fence(const struct unpack_opts *o, struct err *e) MUST_CHECK;

/* argv: ENTRIES BYTES RATIO BEFORE_IN BEFORE_OUT owners|single */
int unpack_main(int argc, char **argv);

#endif
