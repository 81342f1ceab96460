/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a stored output that is wanted, by time and by number of lines, in whole lines. */
#ifndef CLI_LOGS_PART_H
#define CLI_LOGS_PART_H

#include "base/err.h"
#include "run/supervise/logtimes.h"

#include <stdbool.h>
#include <stdint.h>

struct logs_part {
	bool has_since, has_until;
	uint64_t since, until; /* CLOCK_REALTIME ns */
	uint64_t tail;	       /* lines; UINT64_MAX: all */
};

/* A line has the time of its first byte. Lines of unknown time are included, and *ret_unknown tells whether
 * there are any; it is untouched without --since and --until. *ret_to is UINT64_MAX if the part has no
 * end. */
int cli_logs_part_find(int fd, const struct logtimes_list *times, const struct logs_part *p,
		       uint64_t *ret_from, uint64_t *ret_to, bool *ret_unknown) MUST_CHECK;

#endif
