/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a run's layers: upper/ and work/ in the run's directory, or in a file system of their own in a disk image
 * there (disk.img), which enforces a limit on bytes and files exactly.
 */
#ifndef SANDBOX_LAYERS_H
#define SANDBOX_LAYERS_H

#include "base/err.h"

#include <stdint.h>

#define LAYERS_IMAGE "disk.img"

/* The layer over the root file system, where that is an image or a directory. */
#define LAYERS_ROOT_UPPER "root-upper"
#define LAYERS_ROOT_WORK "root-work"

/* The copy of another run's layer beneath that of a call (spec.over), always in the run's own directory; and its name
 * while it is being made. */
#define LAYERS_FROM "from"
#define LAYERS_FROM_NEW "from.new"

/* Opens the directory that holds upper/ and work/ of an existing run. */
int layers_open(int run_fd, struct err *e) MUST_CHECK;

/* Makes a disk image for the layers and opens it. The caller must be the host's root. */
int layers_make_image(int run_fd, uint64_t bytes, uint64_t inodes, struct err *e) MUST_CHECK;

/* Opens the upper layer for reading. -ENOENT when the run has none. */
int layers_open_upper(int run_fd, struct err *e) MUST_CHECK;

/*
 * Removes the overlay's work directory once nothing uses it. Only the entries that a mount leaves there are removed, by
 * name, which is several times cheaper than walking; anything else stays. Two processes may do it at once.
 */
void layers_drop_work(int layers_fd);
/* The same for the overlay over the root file system. */
void layers_drop_root_work(int layers_fd);

#endif
