/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_root.h"

#include "base/fd.h"
#include "sandbox/passwd.h"
#include "sandbox/rootfs.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>

#define OOM(e) err_set(e, -ENOMEM, "out of memory")

void run_root_release(struct run_root *r)
{
	strv_release(&r->argv);
	strv_release(&r->env);
	free(r->cwd);
	free(r->want);
	free(r->user);
	*r = (struct run_root){ 0 };
}

/* A directory as the root. It is shown whole, so what may not be bound may not be this either. */
static int open_dir(struct spec *s, const struct run_opts *o, struct state *st, struct err *e)
{
	autofree char *real = realpath(o->root, NULL);
	autoclose int fd = real ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "--root %s: cannot open it", o->root);
	r = workspace_may_bind(fd, real, st->path, e);
	if (r == -EPERM && o->i_know && !str_eq(real, "/") &&
	    workspace_may_use(fd, real, st->path, NULL) == 0) {
		*e = ERR_INIT;
		r = 0;
	}
	if (r < 0)
		return err_wrap(e, r, "--root %s", o->root);
	s->lowers = calloc(1, sizeof(*s->lowers));
	s->root_name = strdup(real);
	if (!s->lowers || !s->root_name)
		return OOM(e);
	s->lowers[0] = (struct root_lower){ .fd = TAKE_FD(fd), .path = TAKE_PTR(real) };
	s->n_lowers = 1;
	s->root_mode = ROOT_DIR;
	return 0;
}

int run_root_open(struct spec *s, const struct run_opts *o, struct state *st, struct run_root *ret,
		  struct err *e)
{
	(void)ret;
	if (o->root && !str_eq(o->root, "host"))
		return open_dir(s, o, st, e);
	return 0;
}

int run_root_user(struct spec *s, const struct run_opts *o, struct run_root *root, struct err *e)
{
	CLEANUP(passwd_user_release) struct passwd_user u = { 0 };
	const char *want = o->user ? o->user : root->want;
	char own[32];
	int r;

	if (!want || str_eq(want, "agent")) {
		snprintf(own, sizeof(own), "%u:%u", geteuid(), getegid());
		want = own;
	}
	r = passwd_resolve(s->lowers, s->n_lowers, want, &u, e);
	if (r < 0)
		return err_wrap(e, r, o->user ? "--user %s" : "user %s", want);
	s->uid = u.uid;
	s->gid = u.gid;
	root->user = TAKE_PTR(u.name);
	s->home_dir = u.home && !str_eq(u.home, "/") ? run_spec_normal_path(u.home) : NULL;
	if (!s->home_dir) /* a named home wants a place of its own */
		s->home_dir = strdup(o->home ? rootfs_home(s->uid) : "/");
	return s->home_dir ? 0 : OOM(e);
}
