/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a run's layers are: upper/ and work/ in the run's directory, or in a file system of their own in a disk image
 * there (disk.img), which keeps a limit on bytes and files exactly.
 */
#ifndef SANDBOX_LAYERS_H
#define SANDBOX_LAYERS_H

#include "base/err.h"

#include <stdint.h>

#define LAYERS_IMAGE "disk.img"

/* The layer over the root file system, where that is an image's or a directory's. */
#define LAYERS_ROOT_UPPER "root-upper"
#define LAYERS_ROOT_WORK "root-work"

/* The copy of another run's layer that lies beneath that of a call (spec.over), in the run's own directory always; and
 * while it is being made. */
#define LAYERS_FROM "from"
#define LAYERS_FROM_NEW "from.new"

/* The directory that holds upper/ and work/, of a run that is there already. */
int layers_open(int run_fd, struct err *e) MUST_CHECK;

/* Makes an image for them and opens it. The caller must be the host's root. */
int layers_make_image(int run_fd, uint64_t bytes, uint64_t inodes, struct err *e) MUST_CHECK;

/* The upper layer for reading. -ENOENT when the run has none. */
int layers_open_upper(int run_fd, struct err *e) MUST_CHECK;

/*
 * Removes the overlay's work directory once nothing uses it, as far as it is what a mount leaves there: by name, which
 * is several times cheaper than walking. Two may do it at once. Anything else that is there stays.
 */
void layers_drop_work(int layers_fd);
/* The same for the overlay over the root file system. */
void layers_drop_root_work(int layers_fd);

#endif
