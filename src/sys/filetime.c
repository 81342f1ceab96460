/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/filetime.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PATIENCE_NS (200 * NSEC_PER_MSEC) /* many times the longest tick */

/* Changes the file, looks at it: the look is what makes the next change of it get a finer time. */
static int change(int fd, uint64_t *ret)
{
	struct stat st;

	if (fchmod(fd, 0600) < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret = (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
	return 0;
}

int filetime_between(uint64_t *ret, struct err *e)
{
	/* In memory: its dates are of the clock that all file systems share, and it is there whatever may be written to. */
	autoclose int fd = memfd_create("coffer-filetime", MFD_CLOEXEC);
	const struct timespec pause = { .tv_nsec = NSEC_PER_MSEC / 4 };
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + PATIENCE_NS, first = 0, now = 0;
	int r = fd < 0 ? -errno : change(fd, &first);

	if (r == 0)
		r = change(fd, &now);
	while (r == 0 && now <= first) {
		if (clock_nsec(CLOCK_MONOTONIC) > until)
			return err_set(e, -ETIME, "the clock that dates files stands still");
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		r = change(fd, &now);
	}
	if (r < 0)
		return err_sys(e, r, "cannot tell the time that files are given");
	*ret = now;
	return 0;
}
