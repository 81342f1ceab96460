/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary directory for probes, on the file system that holds, or would hold, the state directory. Its
 * removal must leave nothing there.
 */
#include "posture/scratch.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Creates it in the state directory's place, or in the nearest existing directory above. */
int scratch_make(struct scratch *s, struct err *e)
{
	autofree char *place = state_place(e);

	if (!place)
		return -ENOENT;
	snprintf(s->parent, sizeof(s->parent), "%s", place);
	for (;;) {
		char *slash;

		snprintf(s->path, sizeof(s->path), "%s/.coffer-doctor-XXXXXX", s->parent);
		if (mkdtemp(s->path))
			break;
		slash = strrchr(s->parent, '/');
		if (errno != ENOENT || !slash || slash == s->parent) {
			int r = err_sys(e, -errno, "cannot make a directory in %s", s->parent);

			s->path[0] = '\0';
			return r;
		}
		*slash = '\0';
	}
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->fd < 0 ? err_sys(e, -errno, "cannot open %s", s->path) : 0;
}

void scratch_remove(struct scratch *s)
{
	struct err e = ERR_INIT;

	s->fd = fd_close(s->fd);
	if (s->path[0] && fd_rm_rf(AT_FDCWD, s->path, &e) < 0)
		rmdir(s->path);
	s->path[0] = '\0';
}
