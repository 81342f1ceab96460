/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removal of a run, first step: its directory is renamed to gone-ID, so that nothing finds half a run, and leftovers of
 * removers that died can be listed.
 */
#include "sandbox/state/state_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define PREFIX "gone-"
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

static_assert(sizeof(PREFIX) + RUN_ID_LEN == RUN_BURIED_LEN, "a name fits");

int state_run_bury(struct state *st, const char *id, char ret_name[RUN_BURIED_LEN], struct err *e)
{
	char name[RUN_BURIED_LEN];

	snprintf(name, sizeof(name), PREFIX "%.*s", RUN_ID_LEN, id);
	if (renameat2(st->runs_fd, id, st->runs_fd, name, RENAME_NOREPLACE) < 0)
		return err_sys(e, -errno, "cannot remove run %s", id);
	memcpy(ret_name, name, sizeof(name));
	return 0;
}

/* Does its remover still hold the lock? */
static bool is_being_removed(const struct state *st, const char *name)
{
	autoclose int fd = openat(st->runs_fd, name, DIR_FLAGS);

	return fd < 0 ? errno == ENOENT : flock(fd, LOCK_SH | LOCK_NB) < 0;
}

int state_run_buried(struct state *st, struct strv *ret, struct err *e)
{
	autostrv struct strv names = STRV_INIT;
	int fd = openat(st->runs_fd, ".", DIR_FLAGS), r = 0;
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		r = -errno;
		fd_close(fd);
	}
	while (d && r == 0 && (de = readdir(d))) {
		const char *name = de->d_name;

		if (str_starts(name, PREFIX) && state_is_id(name + sizeof(PREFIX) - 1) &&
		    !is_being_removed(st, name))
			r = strv_add(&names, name);
	}
	if (r < 0)
		return err_sys(e, r, "cannot list the runs in %s", st->path);
	*ret = names;
	names = STRV_INIT;
	return 0;
}
