/* SPDX-License-Identifier: Apache-2.0 */
/* A time between two writes, whatever the file system. */
#include "base/clock.h"
#include "sys/filetime.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 200

/* Every second time the file was looked at before, which makes its next time a finer one. */
static uint64_t write_to(int fd, bool look)
{
	struct stat st = { 0 };

	if (look)
		fstat(fd, &st);
	if (pwrite(fd, "x", 1, 0) != 1 || fstat(fd, &st) < 0)
		return 0;
	return (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec;
}

static void test_in(const char *dir)
{
	char a[128], b[128];
	int one, two, bad = 0, failed = 0;

	snprintf(a, sizeof(a), "%s/coffer-filetime-a-XXXXXX", dir);
	snprintf(b, sizeof(b), "%s/coffer-filetime-b-XXXXXX", dir);
	one = mkostemp(a, O_CLOEXEC);
	two = mkostemp(b, O_CLOEXEC);
	CHECKF(one >= 0 && two >= 0, "two files are made in %s", dir);
	for (int i = 0; i < ROUNDS; i++) {
		struct err e = ERR_INIT;
		uint64_t before = write_to(one, i & 1), between = 0, after;

		failed += filetime_between(&between, &e) < 0;
		after = write_to(two, i & 2);
		bad += !before || before >= between || after < between;
	}
	CHECKF(!failed, "the time of the directory's clock can be read");
	CHECKF(!bad, "files are ordered before and after a time in %s (%d are not)", dir, bad);
	close(one);
	close(two);
	unlink(a);
	unlink(b);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	test_in(tmp ? tmp : "/tmp");
	test_in("/dev/shm");
	return tap_done();
}
