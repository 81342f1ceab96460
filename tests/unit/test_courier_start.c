/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which path a notification's secret is granted: for its own, and what is below, not for the whole host. And from which
 * files a secret is taken.
 */
#include "notify/courier_start.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void is_path(const char *target, const char *want)
{
	char got[BINDING_PATH_MAX + 1] = "";

	CHECKF(notify_courier_grant_path(slice_of(target), got) == 0 && strcmp(got, want) == 0,
	       "the courier's secret for %s is granted for %s: %s", target, want, got);
}

static void is_refused(const char *file, const char *what, const char *reason, const char *next)
{
	struct courier_call call = { .key_file = file, .ca = "/dev/null" };
	struct courier_result got;
	struct err e = ERR_INIT;

	CHECKF(notify_courier_carry(AT_FDCWD, &call, &got, &e) == -EPERM && strstr(e.msg, reason) &&
		       strstr(e.hint, next),
	       "a courier's secret is not taken from %s: %s (%s)", what, e.msg, e.hint);
}

static void test_key_file(void)
{
	char dir[] = "/tmp/coffer-test-key-XXXXXX", file[64], fifo[64];

	CHECK(mkdtemp(dir) != NULL);
	snprintf(file, sizeof(file), "%s/key", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	CHECK(mknod(file, S_IFREG | 0600, 0) == 0 && mkfifo(fifo, 0600) == 0);
	is_refused(fifo, "a pipe", "not a regular file", "to a file");
	CHECK(chmod(file, 0640) == 0);
	is_refused(file, "a file that others may read", "others may read it", "chmod 600");
	CHECK(chmod(file, 0600) == 0);
	if (geteuid() == 0 && chown(file, 12345, 12345) == 0)
		is_refused(file, "a file of another user", "belongs to another user", "name a file");
	else
		tap_skip("a courier's secret is not taken from a file of another user",
			 "only root can make one");
	unlink(file);
	unlink(fifo);
	rmdir(dir);
}

int main(void)
{
	char path[BINDING_PATH_MAX + 8], got[BINDING_PATH_MAX + 1];

	is_path("/hook/coffer", "/hook/coffer");
	is_path("/hook/coffer?room=1", "/hook/coffer");
	is_path("/hook/", "/hook");
	is_path("/", "/");
	is_path("/?x=/y", "/");
	is_path("/_matrix/client/v3/rooms/%21a%3Ab/send/m.room.message/1", "/_matrix/client/v3/rooms");
	is_path("/%41", "/");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	CHECKF(notify_courier_grant_path((struct slice){ path, sizeof(path) }, got) < 0,
	       "a path that no binding can have is refused");
	test_key_file();
	return tap_done();
}
