/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-unpack: the process that parses untrusted archives. It gets one archive (tar, gzip or zstd) on its standard
 * input and one empty directory, and unpacks the archive there as a layer of a root file system.
 *
 * Invariants
 *  K1  Before a byte of the archive is read: the process can name no path outside the directory (chroot, Landlock, or
 *      both; with neither it refuses), has no capability but those to set owners there (host root), has no_new_privs, a
 *      seccomp allowlist of its own without sockets, exec or processes, limits on memory and file size, and is not
 *      dumpable.
 *  K2  Its reply is untrusted: it has a fixed size, its numbers are shown and counted against the limits of the import,
 *      its texts are made harmless. The digest that decides under which name a layer is stored is computed outside,
 *      over the bytes that were fed in.
 *  K3  The directory stays untrusted after it was filled: anything in it is opened beneath it.
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
/* An image whose archives grow by more than this factor in all, beyond the first UNPACK_RATIO_FREE bytes, is refused as
 * a decompression bomb: gzip reaches 1032, ordinary layers 5. */
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
	char hint[224]; /* the next step; may be empty */
};

struct unpack_opts {
	uint64_t entries_max, bytes_max;
	uint64_t ratio_max; /* of bytes out to bytes in; 0: not limited */
	uint64_t before_in,
		before_out; /* bytes of the image's layers that were unpacked before, for that ratio */
	bool owners;	    /* host root: keep the owners that the archive names */
};

/* Confines the process (unpack.K1); the directory is its working directory afterwards. */
int unpack_fence(const struct unpack_opts *o, struct err *e) MUST_CHECK;

/* argv: ENTRIES BYTES RATIO BEFORE_IN BEFORE_OUT owners|single */
int unpack_main(int argc, char **argv);

#endif
