/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the root file system of --root and --image, and takes the command, environment, working directory and
 * user from an image's configuration. An image's configuration is not trusted: its paths are normalised, and
 * its user is only one inside.
 */
#include "cli/run/run_root.h"

#include "base/fd.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/image/image.h"
#include "sandbox/image/passwd.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <fcntl.h>

#define OOM(e) err_set(e, -ENOMEM, "out of memory")

void cli_run_root_release(struct run_root *r)
{
	strv_release(&r->argv);
	strv_release(&r->env);
	free(r->cwd);
	free(r->want);
	free(r->user);
	*r = (struct run_root){ 0 };
}

/* The whole directory is visible inside, so the checks for binds (-v) apply to it as well. */
static int open_root_dir(struct spec *s, const struct run_opts *o, struct state *st, struct err *e)
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

/* As docker does: --entrypoint replaces the image's entry point and its command, arguments replace only its
 * command. */
static int take_image_command(const struct run_opts *o, const struct oci_config *c, struct run_root *ret)
{
	int r = 0;

	if (o->entrypoint)
		return *o->entrypoint ? strv_add(&ret->argv, o->entrypoint) : 0;
	for (size_t i = 0; r == 0 && i < c->entrypoint.n; i++)
		r = strv_add(&ret->argv, c->entrypoint.v[i]);
	for (size_t i = 0; r == 0 && o->argc == 0 && i < c->cmd.n; i++)
		r = strv_add(&ret->argv, c->cmd.v[i]);
	return r;
}

static int take_image_config(const struct run_opts *o, struct oci_config *c, struct run_root *ret,
			     struct err *e)
{
	if (take_image_command(o, c, ret) < 0)
		return OOM(e);
	ret->env = c->env;
	c->env = STRV_INIT;
	ret->want = strdup(c->user ? c->user : "0");
	if (!ret->want)
		return OOM(e);
	if (!c->workdir)
		return 0;
	ret->cwd = cli_run_spec_normal_path(c->workdir);
	return ret->cwd ? 0
			: err_set(e, -EBADMSG,
				  "the image's working directory is not a plain path: -w names another");
}

static int open_root_image(struct spec *s, const struct run_opts *o, struct state *st, struct run_root *ret,
			   struct err *e)
{
	CLEANUP(image_release) struct image im = { 0 };
	int r = image_open(st, o->image, &im, e);

	if (r == 0)
		r = take_image_config(o, &im.config, ret, e);
	if (r < 0)
		return r;
	s->root_digest = strdup(im.record.manifest);
	if (!s->root_digest)
		return OOM(e);
	s->root_mode = ROOT_IMAGE;
	s->root_name = TAKE_PTR(im.record.name);
	s->lowers = TAKE_PTR(im.lowers);
	s->n_lowers = im.n_lowers;
	im.n_lowers = 0;
	return 0;
}

int cli_run_root_open(struct spec *s, const struct run_opts *o, struct state *st, struct run_root *ret,
		      struct err *e)
{
	if (o->image)
		return open_root_image(s, o, st, ret, e);
	if (o->root && !str_eq(o->root, "host"))
		return open_root_dir(s, o, st, e);
	return 0;
}

int cli_run_root_user(struct spec *s, const struct run_opts *o, struct run_root *root, struct err *e)
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
	s->home_dir = u.home && !str_eq(u.home, "/") ? cli_run_spec_normal_path(u.home) : NULL;
	if (!s->home_dir) /* a named home (--home) needs a directory of its own to be mounted on */
		s->home_dir = strdup(o->home ? rootfs_home(s->uid) : "/");
	return s->home_dir ? 0 : OOM(e);
}
