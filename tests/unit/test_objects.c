/* SPDX-License-Identifier: Apache-2.0 */
/* New objects reach the disk before objects_sync() returns, also those for which no descriptor was left to sync them by. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "tap.h"
#include "workspace/store/objects.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* These take the place of libc's. */
static unsigned n_fsync, n_syncfs;

int fsync(int fd)
{
	n_fsync++;
	return (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
	n_syncfs++;
	return (int)syscall(SYS_syncfs, fd);
}

/* Stores what `from` has while the process may open only `more` further descriptors. */
static int put_with_descriptors(struct objects *s, int from, uint64_t size, unsigned more)
{
	unsigned char hash[HASH_LEN];
	struct rlimit old, few;
	int r, next = fcntl(from, F_DUPFD_CLOEXEC, 3);

	fd_close(next);
	if (next < 0 || getrlimit(RLIMIT_NOFILE, &old) < 0)
		return -1;
	few = (struct rlimit){ (rlim_t)next + more, old.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		return -1;
	r = objects_put(s, from, size, hash);
	return setrlimit(RLIMIT_NOFILE, &old) < 0 ? -1 : r;
}

int main(void)
{
	char path[] = "/tmp/coffer-test-objects-XXXXXX";
	CLEANUP(objects_release) struct objects s = OBJECTS_INIT;
	struct err e = ERR_INIT;
	autoclose int dir = -1, from = -1;

	if (!mkdtemp(path))
		return 1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	from = openat(dir, "from", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(from >= 0 && write(from, "one two", 7) == 7 && objects_open(&s, dir, &e) == 0);
	CHECK(put_with_descriptors(&s, from, 3, 2) == 0 && s.new_objects == 1);
	CHECK(objects_sync(&s, &e) == 0);
	CHECKF(n_fsync == 1 && n_syncfs == 0, "a single new object is synced by its descriptor");
	CHECK(put_with_descriptors(&s, from, 7, 1) == 0 && s.new_objects == 2);
	CHECK(objects_sync(&s, &e) == 0);
	CHECKF(n_syncfs == 1, "the file system is synced when an object has no descriptor");
	if (fd_rm_rf(AT_FDCWD, path, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
