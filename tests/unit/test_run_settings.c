/* SPDX-License-Identifier: Apache-2.0 */
/* By which name a settings file is judged: one that is deleted, or is another by now, has none. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/run/run_settings.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int home;

static bool put(const char *name)
{
	autoclose int fd = openat(home, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd >= 0;
}

int main(void)
{
	char dir[] = "/tmp/test_run_settings-XXXXXX";
	autofree char *real = NULL, *none = NULL;
	struct err e = ERR_INIT;
	int fd;

	CHECK(mkdtemp(dir) != NULL);
	home = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(home >= 0 && put("auth.json") && symlinkat("auth.json", home, "link") == 0);
	fd = openat(home, "link", O_RDONLY | O_CLOEXEC);
	CHECKF(cli_run_settings_real_name(home, "auth.json", fd, &none) == 0,
	       "a file is known by its own name");
	CHECKF(cli_run_settings_real_name(home, "link", fd, &real) == 1 && strcmp(real, "auth.json") == 0,
	       "the target of a link is known by its name");
	CHECK(unlinkat(home, "auth.json", 0) == 0);
	CHECKF(cli_run_settings_real_name(home, "link", fd, &none) < 0 && !none,
	       "a deleted file has no name");
	CHECK(put("auth.json (deleted)"));
	CHECKF(cli_run_settings_real_name(home, "link", fd, &none) < 0 && !none,
	       "a file named like a deleted one does not give it a name");
	close(fd);
	CHECK(unlinkat(home, "auth.json (deleted)", 0) == 0 && put("auth.json") &&
	      symlinkat("auth.json", home, "auth.json (deleted)") == 0);
	fd = openat(home, "auth.json (deleted)", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && unlinkat(home, "auth.json", 0) == 0);
	CHECKF(cli_run_settings_real_name(home, "auth.json (deleted)", fd, &none) < 0 && !none,
	       "a link with the name of a deleted file does not give it a name");
	close(fd);
	close(home);
	CHECKF(fd_rm_rf(AT_FDCWD, dir, &e) == 0, "the directory of the test is removed %s", e.msg);
	return tap_done();
}
