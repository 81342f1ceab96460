/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the disk a run takes: its layers, its disk image, its output. Content of checkpoints is shared by all runs
 * and counts for none. */
#ifndef CLI_RUN_SIZE_H
#define CLI_RUN_SIZE_H

#include <stdbool.h>
#include <stdint.h>

struct run_size {
	uint64_t bytes;
	bool is_part; /* there is more than was looked at */
};

/* Looks at no more files than *budget, which is less by those it looked at. What may not be read is not counted. */
void run_size_read(int run_fd, uint64_t *budget, struct run_size *ret);

/* "1.2 MiB", or ">1.2 MiB" where that is only a part. */
const char *run_size_format(const struct run_size *s, char out[24]);

#endif
