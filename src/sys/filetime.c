/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instant between two writes, taken from the times that the kernel gives to a memory file. See filetime.h for the
 * reason that no clock can be used instead.
 */
#include "sys/filetime.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PATIENCE_NS (200 * NSEC_PER_MSEC) /* much longer than the longest tick of a kernel */

/* Changes the file and reads its time: fstat() makes the kernel give the next change a finer time. */
static int change_and_stat(int fd, uint64_t *ret)
{
	struct stat st;

	if (fchmod(fd, 0600) < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret = (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
	return 0;
}

int filetime_between(uint64_t *ret, struct err *e)
{
	/* A memory file: its times come from the clock that all file systems share, and it needs no writable directory. */
	autoclose int fd = memfd_create("coffer-filetime", MFD_CLOEXEC);
	const struct timespec pause = { .tv_nsec = NSEC_PER_MSEC / 4 };
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + PATIENCE_NS, first = 0, now = 0;
	int r = fd < 0 ? -errno : change_and_stat(fd, &first);

	if (r == 0)
		r = change_and_stat(fd, &now);
	while (r == 0 && now <= first) {
		if (clock_nsec(CLOCK_MONOTONIC) > until)
			return err_set(e, -ETIME, "the clock for file times does not advance");
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		r = change_and_stat(fd, &now);
	}
	if (r < 0)
		return err_sys(e, r, "cannot determine the time that new files get");
	*ret = now;
	return 0;
}
