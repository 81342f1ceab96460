/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a spec from the options of `coffer run` and `coffer call`. Everything that can be refused is refused
 * here, before any part of a sandbox exists. Files and directories are opened here, and the descriptors are
 * used later: their paths are never resolved a second time.
 */
#include "cli/run/run_spec.h"

#include "base/fd.h"
#include "cli/common/run_env.h"
#include "cli/run/run_root.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/init/proto.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/stat.h>

#define OOM(e) err_set(e, -ENOMEM, "out of memory")

/* "UID", "UID:GID", "root", "agent". */
static int set_spec_user(struct spec *s, const char *text, struct err *e)
{
	autofree char *copy = NULL;
	uint64_t uid, gid;
	char *colon;

	s->uid = geteuid();
	s->gid = getegid();
	if (!text || str_eq(text, "agent"))
		return 0;
	copy = strdup(str_eq(text, "root") ? "0:0" : text);
	if (!copy)
		return OOM(e);
	colon = strchr(copy, ':');
	if (colon)
		*colon = '\0';
	if (str_to_u64(copy, &uid) < 0 || (colon && str_to_u64(colon + 1, &gid) < 0))
		return err_set(e, -EINVAL, "--user %s: expected UID, UID:GID or root", text);
	if (!colon)
		gid = uid;
	/* -1 and the overflow id mean "nobody" to the kernel, not a user. */
	if (uid >= UINT32_MAX || gid >= UINT32_MAX || uid == 65534 || gid == 65534)
		return err_set(e, -ERANGE, "--user %s: not a user that can be mapped", text);
	s->uid = (uid_t)uid;
	s->gid = (gid_t)gid;
	return 0;
}

static int copy_caller_variable(struct spec *s, const char *name, const char *fallback)
{
	const char *v = getenv(name);

	v = v && *v ? v : fallback;
	return v ? strv_addf(&s->env, "%s=%s", name, v) : 0;
}

/* A later value of a variable replaces an earlier one, as with env(1). */
static int put_variable(struct spec *s, const char *text)
{
	size_t len = strcspn(text, "=") + 1;

	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], text, len) == 0) {
			char *copy = strdup(text);

			if (!copy)
				return -ENOMEM;
			free(s->env.v[i]);
			s->env.v[i] = copy;
			return 0;
		}
	}
	return strv_add(&s->env, text);
}

/* Puts `dir` first in PATH, whose value comes from the image. -e PATH=… is applied after this and replaces
 * it. */
static int put_first_in_path(struct spec *s, const char *dir)
{
	size_t i = 0;
	char *path = NULL;

	while (i < s->env.n && !str_starts(s->env.v[i], "PATH="))
		i++;
	if (i == s->env.n || asprintf(&path, "PATH=%s:%s", dir, s->env.v[i] + strlen("PATH=")) < 0)
		return -ENOMEM;
	free(s->env.v[i]);
	s->env.v[i] = path;
	return 0;
}

static int set_spec_env(struct spec *s, const struct run_opts *o, const struct run_root *root, struct err *e)
{
	int r = strv_add(&s->env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

	if (r == 0)
		r = strv_addf(&s->env, "HOME=%s", rootfs_home_of(s));
	if (r == 0)
		r = strv_addf(&s->env, "USER=%s", root->user ? root->user : rootfs_user(s->uid));
	if (r == 0 && o->tty)
		r = copy_caller_variable(s, "TERM", "xterm");
	/* An image has its own locales and time zones, and its configuration chooses among them. */
	if (r == 0 && s->root_mode != ROOT_IMAGE)
		r = copy_caller_variable(s, "LANG", "C.UTF-8");
	if (r == 0 && s->root_mode != ROOT_IMAGE)
		r = copy_caller_variable(s, "TZ", NULL);
	for (size_t i = 0; r == 0 && i < root->env.n; i++)
		r = put_variable(s, root->env.v[i]);
	if (r == 0 && o->first_in_path)
		r = put_first_in_path(s, o->first_in_path);
	for (size_t i = 0; r == 0 && i < o->env.n; i++) {
		const char *text = o->env.v[i], *eq = strchr(text, '='), *v;
		autofree char *pair = NULL;

		if (cli_run_env_check(text, e) < 0)
			return -EINVAL;
		if (eq) {
			r = put_variable(s, text);
			continue;
		}
		v = getenv(text);
		if (!v)
			continue;
		if (asprintf(&pair, "%s=%s", text, v) < 0)
			return OOM(e);
		r = put_variable(s, pair);
	}
	return r < 0 ? OOM(e) : 0;
}

int cli_run_spec_trust(struct spec *s, struct err *e)
{
	/* NODE_EXTRA_CA_CERTS adds to the system's certificates; the other variables replace them. */
	static const char *const vars[] = {
		"SSL_CERT_FILE=" ROOTFS_CA_BUNDLE,
		"CURL_CA_BUNDLE=" ROOTFS_CA_BUNDLE,
		"REQUESTS_CA_BUNDLE=" ROOTFS_CA_BUNDLE,
		"GIT_SSL_CAINFO=" ROOTFS_CA_BUNDLE,
		"CODEX_CA_CERTIFICATE=" ROOTFS_CA_BUNDLE,
		"DENO_CERT=" ROOTFS_CA_BUNDLE,
		"NODE_EXTRA_CA_CERTS=" ROOTFS_CA,
		"APT_CONFIG=" ROOTFS_CA_APT,
		"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" ROOTFS_CA_JAVA,
	};
	/* The store for Java, the last entry, exists only if there is a certificate authority. */
	const size_t n = ARRAY_SIZE(vars) - !s->ca;

	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(vars[i], "=") + 1, k = 0;

		while (k < s->env.n && strncmp(s->env.v[k], vars[i], len) != 0)
			k++;
		if (k == s->env.n && strv_add(&s->env, vars[i]) < 0)
			return OOM(e);
	}
	return 0;
}

/* Splits "DIR:ro" and "DIR:rw" into directory and mode. */
static int split_workspace_mode(const char *text, enum ws_mode *mode, char *dir, size_t cap)
{
	size_t len = strlen(text);

	*mode = WS_OVERLAY;
	if (str_ends(text, ":ro") || str_ends(text, ":rw")) {
		*mode = str_ends(text, ":ro") ? WS_RO : WS_RW;
		len -= 3;
	}
	if (len >= cap)
		return -ENAMETOOLONG;
	memcpy(dir, text, len);
	dir[len] = '\0';
	return 0;
}

static int open_workspace_dir(struct spec *s, const char *dir, const char *state_path, struct err *e)
{
	autofree char *real = realpath(dir, NULL);
	autoclose int fd = -1;
	int r;

	if (!real)
		return err_sys(e, -errno, "cannot use %s as the workspace", dir);
	fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, -errno, "cannot use %s as the workspace", real);
	r = workspace_may_use(fd, real, state_path, e);
	if (r < 0)
		return r;
	s->ws_fd = TAKE_FD(fd);
	s->ws_path = TAKE_PTR(real);
	return 0;
}

static int set_borrowed_workspace(struct spec *s, const struct run_opts *o, struct state *st, struct err *e)
{
	int r = open_workspace_dir(s, o->ws_exact, st->path, e);

	/* A symbolic link in the path now means that it leads to another directory. */
	if (r == 0 && !str_eq(s->ws_path, o->ws_exact))
		return err_set(e, -ESTALE, "%s was replaced by another directory", o->ws_exact);
	return r < 0 ? r : workspace_find_masks(s->ws_fd, &o->show, &s->masks, &s->n_masks, e);
}

static int set_spec_workspace(struct spec *s, const struct run_opts *o, struct state *st,
			      struct run_spec_note *note, struct err *e)
{
	char dir[PATH_MAX] = ".";
	int r;

	s->ws_mode = o->ephemeral ? WS_EPHEMERAL : WS_OVERLAY;
	if (o->ephemeral && o->workspace)
		return err_set(
			e, -EINVAL,
			"--ephemeral and -C exclude each other: the workspace of --ephemeral is empty");
	if (o->ephemeral || o->ws_none)
		return 0;
	if (o->ws_exact)
		return set_borrowed_workspace(s, o, st, e);
	if (o->workspace && split_workspace_mode(o->workspace, &s->ws_mode, dir, sizeof(dir)) < 0)
		return err_set(e, -ENAMETOOLONG, "-C: the path is too long");
	r = open_workspace_dir(s, dir, st->path, e);
	/* The current directory is a home or /, and nobody asked for it by -C: the workspace is empty
	 * instead. */
	if (r == -EPERM && !o->workspace) {
		snprintf(note->workspace, sizeof(note->workspace), "%s", e->msg);
		*e = ERR_INIT;
		s->ws_mode = WS_EPHEMERAL;
		return 0;
	}
	if (r < 0)
		return r;
	return workspace_find_masks(s->ws_fd, &o->show, &s->masks, &s->n_masks, e);
}

char *cli_run_spec_normal_path(const char *path)
{
	autobuf struct buf b = BUF_INIT;

	if (*path != '/')
		return NULL;
	while (*path) {
		size_t n;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 2 && path[0] == '.' && path[1] == '.')
			return NULL;
		if (n && !(n == 1 && path[0] == '.')) {
			buf_addc(&b, '/');
			buf_add(&b, path, n);
		}
		path += n;
	}
	if (b.len == 0)
		buf_addc(&b, '/');
	return buf_take(&b);
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int check_bind_target(const struct spec *s, const char *dst, const char *text, struct err *e)
{
	/* Binds are never allowed on the first three. The others show the host's files read-only, if the root
	 * is the host's. */
	static const char *const closed[] = { "/proc", "/sys", "/dev",	 "/etc",   "/usr",   "/bin",
					      "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };
	size_t n_closed = spec_has_root_layer(s) ? 3 : ARRAY_SIZE(closed);
	static const char *const whole[] = { "/",     "/workspace", "/tmp",	   "/run",
					     "/home", "/root",	    "/home/agent", "/var" };

	for (size_t i = 0; i < n_closed; i++) {
		if (is_at_or_below(dst, closed[i]))
			return err_set(e, -EINVAL, "-v %s: nothing can be put at or below %s inside", text,
				       closed[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
		if (str_eq(dst, whole[i]))
			return err_set(e, -EINVAL, "-v %s: %s inside is taken%s", text, dst,
				       str_eq(dst, "/workspace") ? " by the workspace (-C DIR)" : "");
	}
	return 0;
}

/* "SRC:DST[:ro|rw]" */
static int split_volume(const char *text, char **ret_src, char **ret_dst, bool *ret_rw, struct err *e)
{
	autofree char *copy = strdup(text);
	char *dst, *mode;

	if (!copy)
		return OOM(e);
	dst = strchr(copy, ':');
	if (!dst || dst == copy || !dst[1])
		return err_set(e, -EINVAL, "-v %s: expected SRC:DST, SRC:DST:ro or SRC:DST:rw", text);
	*dst++ = '\0';
	mode = strchr(dst, ':');
	if (mode)
		*mode++ = '\0';
	if (mode && !str_eq(mode, "ro") && !str_eq(mode, "rw"))
		return err_set(e, -EINVAL, "-v %s: '%s' is neither ro nor rw", text, mode);
	*ret_rw = mode && str_eq(mode, "rw");
	*ret_dst = cli_run_spec_normal_path(dst);
	if (!*ret_dst)
		return err_set(e, -EINVAL, "-v %s: %s must be an absolute path without ..", text, dst);
	*ret_src = realpath(copy, NULL);
	if (!*ret_src) {
		int r = -errno;

		free(*ret_dst);
		*ret_dst = NULL;
		err_sys(e, r, "-v %s: cannot open %s", text, copy);
		if (r == -ENOENT && !strchr(copy, '/'))
			err_hint(e, r,
				 "--home NAME for a home that persists (there are no named volumes), or "
				 "-v ./%s:… for a directory here",
				 copy);
		return r;
	}
	return 0;
}

static int add_bind(struct spec *s, const char *text, const struct run_opts *o, struct state *st,
		    struct err *e)
{
	autofree char *src = NULL, *dst = NULL;
	autoclose int fd = -1;
	struct stat sb;
	bool rw = false;
	int r = split_volume(text, &src, &dst, &rw, e);

	if (r < 0 || !src || !dst)
		return r;
	r = check_bind_target(s, dst, text, e);
	if (r < 0)
		return r;
	fd = open(src, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &sb) < 0)
		return err_sys(e, -errno, "-v %s: cannot open %s", text, src);
	r = workspace_may_bind(fd, src, st->path, e);
	if (r < 0 && !(r == -EPERM && o->i_know))
		return r == -EPERM ? err_hint(e, r, "add --i-know if the command may have it anyway") : r;
	/* --i-know does not open coffer's own state directory. */
	if (r < 0 && is_at_or_below(src, st->path))
		return r;
	for (size_t i = 0; i < s->n_binds; i++) {
		if (str_eq(s->binds[i].dst, dst))
			return err_set(e, -EINVAL, "-v %s: %s is named twice", text, dst);
	}
	*e = ERR_INIT;
	s->binds[s->n_binds++] = (struct bind){ .fd = TAKE_FD(fd),
						.src = TAKE_PTR(src),
						.dst = TAKE_PTR(dst),
						.writable = rw,
						.is_dir = S_ISDIR(sb.st_mode) };
	return 0;
}

static int set_spec_binds(struct spec *s, const struct run_opts *o, struct state *st, struct err *e)
{
	if (!o->volumes.n)
		return 0;
	s->binds = calloc(o->volumes.n, sizeof(*s->binds));
	if (!s->binds)
		return OOM(e);
	for (size_t i = 0; i < o->volumes.n; i++) {
		int r = add_bind(s, o->volumes.v[i], o, st, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static int set_spec_cwd(struct spec *s, const char *text, const struct run_root *root, struct err *e)
{
	autofree char *full = NULL;

	if (!text) {
		s->cwd = strdup(root->cwd ? root->cwd : ROOTFS_WORKSPACE);
		return s->cwd ? 0 : OOM(e);
	}
	if (asprintf(&full, "%s%s", *text == '/' ? "" : ROOTFS_WORKSPACE "/", text) < 0)
		return OOM(e);
	s->cwd = cli_run_spec_normal_path(full);
	return s->cwd ? 0 : err_set(e, -EINVAL, "-w %s: expected a path inside, without ..", text);
}

static int set_spec_names(struct spec *s, const struct run_opts *o, struct state *st, struct err *e)
{
	if (o->name && !str_is_name(o->name))
		return err_set(
			e, -EINVAL,
			"--name '%s': a name is up to 64 letters, digits, '.', '_' or '-', and begins with a "
			"letter or digit",
			o->name);
	if (o->home && !str_is_name(o->home))
		return err_set(
			e, -EINVAL,
			"--home '%s': a name is up to 64 letters, digits, '.', '_' or '-', and begins with a "
			"letter or digit",
			o->home);
	s->name = o->name ? strdup(o->name) : NULL;
	s->hostname = strdup(o->name ? o->name : "coffer");
	if (!s->hostname || (o->name && !s->name))
		return OOM(e);
	if (!o->home)
		return 0;
	s->home_fd = state_home_open(st, o->home, e);
	if (s->home_fd < 0)
		return s->home_fd;
	return asprintf(&s->home_path, "%s/homes/%s", st->path, o->home) < 0 ? OOM(e) : 0;
}

static int set_spec_command(struct spec *s, const struct run_opts *o, const struct run_root *root,
			    struct err *e)
{
	size_t bytes = 0;

	for (size_t i = 0; i < root->argv.n; i++) {
		if (strv_add(&s->argv, root->argv.v[i]) < 0)
			return OOM(e);
	}
	for (int i = 0; i < o->argc; i++) {
		if (strv_add(&s->argv, o->argv[i]) < 0)
			return OOM(e);
	}
	if (s->argv.n == 0 || !s->argv.v[0][0])
		return err_set(e, -EINVAL, "run needs a command: the image names none");
	for (size_t i = 0; i < s->argv.n; i++)
		bytes += strlen(s->argv.v[i]) + 1;
	for (size_t i = 0; i < s->env.n; i++)
		bytes += strlen(s->env.v[i]) + 1;
	if (bytes > PROTO_START_MAX - PATH_MAX)
		return err_set(e, -E2BIG,
			       "the command's arguments and environment are too long (%zu bytes; at most %u)",
			       bytes, PROTO_START_MAX - PATH_MAX);
	return 0;
}

/*
 * Through an idmapped mount the sandbox's root writes files as the host's root. A file capability that it
 * sets there would be valid on the host.
 */
static int check_setfcap(const struct spec *s, struct err *e)
{
	bool writable = s->ws_mode == WS_RW;

	for (size_t i = 0; i < s->n_binds; i++)
		writable = writable || s->binds[i].writable;
	if (!writable || !(s->caps & (1ULL << CAP_SETFCAP)) || !state_is_host_root())
		return 0;
	err_set(e, -EPERM,
		"--cap setfcap and a writable -C or -v exclude each other when root starts it: capabilities set on "
		"files there would count on the host");
	return err_hint(e, -EPERM, "without :rw the changes go to a layer, and coffer apply checks them");
}

static int set_spec_files(struct spec *s, const struct run_opts *o, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && o->files && i < o->files->n; i++)
		r = spec_files_add(&s->files, o->files->v[i].path, o->files->v[i].text, o->files->v[i].len,
				   e);
	return r;
}

int cli_run_spec_build(struct spec *s, const struct run_opts *o, struct state *st, struct run_spec_note *note,
		       struct err *e)
{
	CLEANUP(cli_run_root_release) struct run_root root = { 0 };
	int r;

	s->limits = o->limits;
	s->caps = o->caps;
	s->nested = o->nested;
	s->tty = o->tty;
	s->detach = o->detach;
	s->restart = o->restart && !str_eq(o->restart, "no") ? strdup(o->restart) : NULL;
	s->each = o->each;
	s->keep = o->keep;
	s->profile = o->profile ? strdup(o->profile) : NULL;
	if ((o->profile && !s->profile) || (o->restart && !str_eq(o->restart, "no") && !s->restart))
		return OOM(e);
	r = set_spec_files(s, o, e);
	r = r < 0 ? r : cli_run_root_open(s, o, st, &root, e);
	if (r == 0)
		r = spec_has_root_layer(s) ? cli_run_root_user(s, o, &root, e) : set_spec_user(s, o->user, e);
	if (r == 0)
		r = set_spec_names(s, o, st, e);
	if (r == 0)
		r = set_spec_env(s, o, &root, e);
	if (r == 0)
		r = set_spec_command(s, o, &root, e);
	if (r == 0)
		r = set_spec_cwd(s, o->workdir, &root, e);
	if (r == 0)
		r = set_spec_workspace(s, o, st, note, e);
	if (r == 0)
		r = set_spec_binds(s, o, st, e);
	return r == 0 ? check_setfcap(s, e) : r;
}
