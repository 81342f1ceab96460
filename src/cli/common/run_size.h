/* SPDX-License-Identifier: Apache-2.0 */
/* The disk space that a run takes: its layers, its disk image, its output. The content of checkpoints is
 * shared by all runs and is counted for none of them. */
#ifndef CLI_RUN_SIZE_H
#define CLI_RUN_SIZE_H

#include <stdbool.h>
#include <stdint.h>

struct run_size {
	uint64_t bytes;
	bool is_part; /* the budget ended before all files were counted */
};

/* Looks at no more than *budget files, and lowers *budget by that number. Files that cannot be read are not
 * counted. */
void cli_run_size_read(int run_fd, uint64_t *budget, struct run_size *ret);

/* "1.2 MiB", or ">1.2 MiB" if the size is incomplete. */
const char *cli_run_size_format(const struct run_size *s, char out[24]);

#endif
