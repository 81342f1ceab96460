/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in a file, for a limit that the kernel keeps: an ext4 image on a loop device, mounted nowhere, held
 * by a descriptor and gone with the last one. Needs the host's root.
 *
 * Invariant
 *  L1  One loop device for an image, whoever mounts it, however often: two would each have their own idea of what is in it. A mount
 *      that is still being taken apart is seen by the next one as it is.
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
