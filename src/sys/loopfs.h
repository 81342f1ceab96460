/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in a file, for a disk limit that the kernel enforces: an ext4 image on a loop device, mounted nowhere, held
 * by a descriptor and gone with the last one. Needs the host's root.
 *
 * Invariant
 *  L1  An image has at most one loop device, however many processes mount it: two devices would cache different contents. A
 *      new mount reuses the device of an old one that is still being released.
 */
#ifndef SYS_LOOPFS_H
#define SYS_LOOPFS_H

#include "base/err.h"

#include <stdint.h>

/* Makes the image `name` in dirfd, sparse, at most `bytes` large and with `inodes` files. */
int loopfs_make(int dirfd, const char *name, uint64_t bytes, uint64_t inodes, struct err *e) MUST_CHECK;

/* Mounts it; returns an fd of its root directory. */
int loopfs_mount(int dirfd, const char *name, struct err *e) MUST_CHECK;

#endif
