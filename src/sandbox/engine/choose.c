/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the engine of a run. See choose.h. A named engine must not be replaced by another, and a chosen
 * one that fails must not be replaced by a weaker one.
 */
#include "sandbox/engine/choose.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

void choice_release(struct choice *c)
{
	runsc_release(&c->runsc);
	*c = CHOICE_INIT;
}

/*
 * runsc is root of the sandbox's user namespace, and writes files for the command under the command's id. Both ids must be
 * mapped, unless they are the same.
 */
static bool needs_id_range(const struct spec *s)
{
	return !state_is_host_root() && (s->uid != 0 || s->gid != 0);
}

static int check_gvisor_ids(struct state *st, const struct spec *s, struct err *e)
{
	struct ids ids = IDS_INIT;
	int r;

	if (!needs_id_range(s))
		return 0;
	r = ids_plan(&ids, st, "", s->uid, s->gid, true, e);
	ids_release(&ids);
	if (r == 0 && (access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0))
		r = err_hint(e, err_set(e, -ENOENT, "newuidmap is not installed"),
			     "install it (Debian, Ubuntu: uidmap; Fedora: shadow-utils)");
	if (r < 0) {
		char how[sizeof(e->hint)];

		snprintf(how, sizeof(how), "%s", e->hint);
		return err_hint(e, r, "%s%s--user 0 (your own user outside) needs none; or --engine ns", how,
				how[0] ? "; or " : "");
	}
	return 0;
}

static int choose_gvisor(const char *named, struct state *st, struct spec *s, bool *map_ids, struct choice *c,
			 struct err *e)
{
	int r = runsc_open(named, &c->runsc, e);

	/* gVisor has no ambient capabilities, and other capabilities of a user that is not root are lost at exec. */
	if (r == 0 && s->caps && s->uid != 0) {
		r = err_set(e, -EINVAL, "engine gvisor gives capabilities (--cap) to root inside only");
		err_hint(e, r, "add --user 0, or use --engine ns");
	}
	if (r == 0)
		r = check_gvisor_ids(st, s, e);
	if (r == 0)
		r = runsc_check(&c->runsc, st, e);
	if (r < 0)
		return r;
	s->runsc_fd = fcntl(c->runsc.fd, F_DUPFD_CLOEXEC, 3);
	if (s->runsc_fd < 0)
		return err_sys(e, -errno, "cannot keep %s open", c->runsc.path);
	s->gv_hostnet = c->runsc.hostnet[0] != '\0';
	/* Not before the choice is made: engine ns, which may be taken instead, needs no range. */
	*map_ids = *map_ids || needs_id_range(s);
	c->engine = &engine_gvisor;
	return 0;
}

int choose_engine(const char *want, const char *runsc, struct state *st, struct spec *s, bool *map_ids,
		  struct choice *ret, struct err *e)
{
	bool is_auto = !want || str_eq(want, "auto");
	struct err why = ERR_INIT;
	int r;

	*ret = CHOICE_INIT;
	ret->engine = &engine_ns;
	ret->by_itself = is_auto;
	if (want && str_eq(want, "ns"))
		return runsc ? err_set(e, -EINVAL, "--runsc cannot be combined with --engine ns") : 0;
	r = runsc ? 0 : runsc_from_env(&runsc, e);
	if (r < 0)
		return r;
	ret->named = runsc != NULL;
	r = choose_gvisor(runsc, st, s, map_ids, ret, &why);
	if (r == 0)
		return 0;
	/* An engine or a runsc that was named is not replaced by another. */
	if (!is_auto || runsc) {
		*e = why;
		return r;
	}
	runsc_release(&ret->runsc);
	snprintf(ret->why, sizeof(ret->why), "%.255s", why.msg);
	return 0;
}
