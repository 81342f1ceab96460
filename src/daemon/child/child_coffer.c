/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts `coffer` as a child of cofferd (child_coffer.h). No descriptor and no variable may be passed on that
 * the caller does not name, but COFFER_STATE.
 */
#include "daemon/child/child_coffer.h"

#include "base/fd.h"
#include "sys/spawn.h"

#include <errno.h>

int child_start_coffer(const struct child_coffer *c, struct strv *env, pid_t *ret, struct err *e)
{
	struct spawn s = { .exe = c->exe,
			   .argv = c->argv,
			   .fds = c->fds,
			   .n_fds = c->n_fds,
			   .flags = SPAWN_SAME_ID | SPAWN_MAY_GAIN | SPAWN_KEEP_UMASK | SPAWN_SESSION |
				    (c->outlives ? SPAWN_OUTLIVES : 0) };
	struct spawned got = SPAWNED_INIT;
	int r;

	if (strv_addf(env, "COFFER_STATE=%s", c->state) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	s.env = env->v;
	r = spawn_start(&s, &got, e);
	if (r < 0)
		return r;
	fd_close(got.pidfd);
	*ret = got.pid;
	return 0;
}
