/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "gateway/confine.h"
#include "gateway/guard.h"
#include "gateway/run_limits.h"
#include "sandbox/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* What supervise() and the engine call back into. */
struct execution {
	struct run *r;
	struct guard guard;
	int listen_fd;
};

/*
 * The layers' place. The host's root gets a disk image where a limit was named, and the kernel keeps the limit; in all
 * other cases the launcher watches.
 */
static int open_layers(struct spec *s, struct err *e)
{
	const struct limit *disk = &s->limits.l[LIMIT_DISK], *inodes = &s->limits.l[LIMIT_INODES];

	if (s->ids.host_root && (disk->named || inodes->named) && disk->value != LIMIT_NONE) {
		s->layers_fd = layers_make_image(s->run_fd, disk->value, inodes->value, NULL);
		if (s->layers_fd >= 0)
			return 0;
	}
	s->layers_fd = layers_open(s->run_fd, e);
	return s->layers_fd < 0 ? s->layers_fd : 0;
}

/* Those of a run that is started once more: all that it wrote is in its upper layers, and the overlay's own notes go. */
static int reopen_layers(struct spec *s, struct err *e)
{
	static const char *const works[] = { "work", "root-work" };
	int ret;

	/* A root file system of its own may have a layer where the workspace has none. */
	if (s->ws_mode != WS_OVERLAY && s->ws_mode != WS_EPHEMERAL &&
	    faccessat(s->run_fd, "root-upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    faccessat(s->run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	s->layers_fd = layers_open(s->run_fd, e);
	if (s->layers_fd < 0)
		return s->layers_fd;
	for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
		bool wanted = i == 0 ? s->ws_mode == WS_OVERLAY
				     : faccessat(s->layers_fd, "root-upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0;

		ret = fd_rm_rf(s->layers_fd, works[i], e);
		if (ret < 0)
			return ret;
		if (wanted && mkdirat(s->layers_fd, works[i], 0700) < 0)
			return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	}
	return 0;
}

/* The overlay's upper layer gives the workspace its own mode and owner, so it is made like the original. */
static int make_layers(struct spec *s, struct err *e)
{
	struct stat st = { .st_mode = 0755, .st_uid = geteuid(), .st_gid = getegid() };
	int ret;

	if (s->ws_mode != WS_OVERLAY && s->ws_mode != WS_EPHEMERAL)
		return 0;
	if (s->ws_fd >= 0 && fstat(s->ws_fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", s->ws_path);
	if (s->ws_mode == WS_EPHEMERAL && s->ids.host_root) {
		st.st_uid = s->uid;
		st.st_gid = s->gid;
	}
	ret = open_layers(s, e);
	if (ret < 0)
		return ret;
	if (mkdirat(s->layers_fd, "upper", st.st_mode & 0777) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	if ((st.st_uid != geteuid() || st.st_gid != getegid()) &&
	    fchownat(s->layers_fd, "upper", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	    s->ids.host_root)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	if (fchmodat(s->layers_fd, "upper", st.st_mode & 0777, 0) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	if (s->ws_mode == WS_OVERLAY && mkdirat(s->layers_fd, "work", 0700) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	return 0;
}

static void add_command(struct json *j, const struct strv *argv)
{
	json_arr(j, "command");
	for (size_t i = 0; i < argv->n && i < 64; i++) {
		size_t len = strlen(argv->v[i]);

		json_strn(j, NULL, argv->v[i], len < 1024 ? len : 1024);
	}
	json_end_arr(j);
	if (argv->n > 64)
		json_u64(j, "arguments", argv->n);
}

/* What was asked for, before any of it happens. Values of variables are not written: they may be secrets. */
static int log_start(struct run *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	const struct spec *s = r->spec;

	json_str(&j, "engine", r->engine->name);
	if (r->resume_fd >= 0)
		json_bool(&j, "again", true);
	if (s->name)
		json_str(&j, "name", s->name);
	add_command(&j, &s->argv);
	json_u64(&j, "uid", s->uid);
	json_u64(&j, "outside_uid", ids_outside_uid(&s->ids));
	json_str(&j, "net", "none");
	json_str(&j, "workspace", s->ws_path);
	json_str(&j, "workspace_mode", ws_mode_name(s->ws_mode));
	json_u64(&j, "masked", s->n_masks);
	json_arr(&j, "binds");
	for (size_t i = 0; i < s->n_binds; i++) {
		json_obj(&j, NULL);
		json_str(&j, "from", s->binds[i].src);
		json_str(&j, "to", s->binds[i].dst);
		json_bool(&j, "writable", s->binds[i].writable);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_u64(&j, "caps", s->caps);
	json_bool(&j, "nested", s->nested);
	run_limits_json(&s->limits, &j);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(r->audit, "run.start", s->id, &b, e);
}

/* The control socket, by way of /proc/self/fd, since a state directory's path may be longer than a socket's. */
static int listen_control(const struct spec *s, bool resumed, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, -errno, "cannot make the control socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", s->run_fd);
	if (resumed && unlinkat(s->run_fd, "ctl.sock", 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove an old control socket in %s", s->run_path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
		return err_sys(e, -errno, "cannot make the control socket in %s", s->run_path);
	return TAKE_FD(fd);
}

/* All that others need in order to find the run and talk to it. */
static int make_findable(struct execution *x, struct err *e)
{
	const struct buf *start = x->r->start;
	int r = start ? fd_replace_file(x->r->spec->run_fd, "start", start->data, start->len, 0600) : 0;

	if (r < 0)
		return err_sys(e, r, "cannot write how the sandbox was started");
	r = run_write_meta(x->r, e);
	if (r == 0)
		r = x->listen_fd = listen_control(x->r->spec, x->r->resume_fd >= 0, e);
	return r;
}

/* One that was given a name or a life of its own is looked for at once. */
static bool is_findable_at_once(const struct spec *s)
{
	return s->detach || s->name;
}

/* While the sandbox is being built: U2. */
static int meanwhile(void *ctx, pid_t pid, int pidfd, struct err *e)
{
	struct execution *x = ctx;
	int r = guard_tell(&x->guard, pid, pidfd, e);

	if (r == 0)
		r = log_start(x->r, e);
	if (r == 0 && is_findable_at_once(x->r->spec))
		r = make_findable(x, e);
	return r < 0 ? r : 0;
}

static int on_lasting(void *ctx, struct err *e)
{
	return make_findable(ctx, e);
}

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct execution *x = ctx;

	return audit_append(x->r->audit, type, x->r->spec->id, fields, NULL);
}

/* What is to be watched; a disk image watches itself. */
static int open_watched(const struct spec *s)
{
	const char *how = s->limits.l[LIMIT_DISK].how;

	if (s->layers_fd < 0 || !how || !str_eq(how, "watched"))
		return -1;
	return openat(s->layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int make_directory(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	int ret = 0;

	if (r->resume_fd >= 0) {
		s->run_fd = fcntl(r->resume_fd, F_DUPFD_CLOEXEC, 3);
		return s->run_fd < 0 ? err_sys(e, -errno, "cannot take the run's directory") : 0;
	}
	ret = s->name ? state_name_check(r->st, s->name, e) : 0;
	if (ret < 0)
		return ret;
	s->run_fd = state_run_create(r->st, s->id, e);
	return s->run_fd < 0 ? s->run_fd : 0;
}

static int fill_layers(struct run *r, struct err *e)
{
	int ret;

	if (r->resume_fd >= 0)
		return reopen_layers(r->spec, e);
	ret = make_layers(r->spec, e);
	if (ret == 0 && r->populate)
		ret = r->populate(r->populate_ctx, r, e);
	if (r->forget)
		r->forget(r->populate_ctx);
	return ret;
}

/* Ids, control group, layers: what must be there before the engine starts. */
static int prepare(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	int ret = make_directory(r, e);

	if (ret < 0)
		return ret;
	if (asprintf(&s->run_path, "%s/runs/%s", r->st->path, s->id) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (s->name) {
		ret = state_name_set(r->st, s->name, s->id, e);
		if (ret < 0)
			return ret;
	}
	ret = ids_plan(&s->ids, r->st, s->id, s->uid, s->gid, r->map_ids, e);
	if (ret == 0)
		ret = fill_layers(r, e);
	if (ret == 0)
		ret = cgroup_host_probe(&r->cgroup_host, e);
	return ret < 0 ? ret : run_limits_enforce(r, e);
}

static int open_log(const struct spec *s, struct err *e)
{
	int fd;

	if (!s->detach)
		return -1;
	fd = openat(s->run_fd, "output.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot make %s/output.log", s->run_path) : fd;
}

/* Detached: whoever waits for us gets the id, and its terminal and pipes are let go of first. */
static int let_caller_go(const struct spec *s, int ready_fd, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r;

	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			return err_sys(e, -errno, "cannot detach from the terminal");
	}
	r = fd_write_all(ready_fd, s->id, RUN_ID_LEN);
	fd_close(ready_fd);
	return r < 0 ? err_sys(e, r, "cannot say that the sandbox is there") : 0;
}

static int start_and_supervise(struct execution *x, const struct run_io *io, struct err *e)
{
	struct run *r = x->r;
	struct engine_meanwhile m = { .run = meanwhile, .ctx = x };
	autoclose int upper = open_watched(r->spec), log = open_log(r->spec, e);
	struct supervise_io sio = {
		.in = io->in,
		.out = io->out,
		.err = io->err,
		.tty = io->tty,
		.log_fd = log,
		.alive_fd = -1,
		.usage_fd = upper,
		.event = on_event,
		.ctx = x,
	};
	int ret;

	if (r->spec->detach && log < 0)
		return log;
	ret = r->engine->start(r->spec, &r->cg, &m, &r->er, e);
	if (ret < 0)
		return ret;
	sio.listen_fd = x->listen_fd;
	sio.lasting = is_findable_at_once(r->spec) ? NULL : on_lasting;
	ret = confine_launcher(r, e);
	if (ret == 0 && io->ready_fd >= 0)
		ret = let_caller_go(r->spec, io->ready_fd, e);
	if (ret < 0)
		return ret;
	ret = supervise(r->spec, &r->cg, &r->er, &sio, &r->end, e);
	/* One file that outgrew the limit: the kernel told the command itself. */
	if (ret == 0 && r->end.cause == CAUSE_SIGNAL && r->end.signal == SIGXFSZ)
		r->end.cause = CAUSE_DISK;
	return ret;
}

int run_execute(struct run *r, const struct run_io *io, struct err *e)
{
	struct execution x = { .r = r, .guard = GUARD_INIT, .listen_fd = -1 };
	int ret, fin;

	r->started = r->resume_fd >= 0 ? r->resume_started : clock_nsec(CLOCK_REALTIME);
	r->tty = io->tty;
	r->cg = CGROUP_INIT;
	r->er = ENGINE_RUN_INIT;
	r->end = (struct run_end){ .cause = CAUSE_NOT_STARTED, .exit_code = 125 };
	ret = r->resume_fd >= 0 ? 0 : state_new_id(r->spec->id, e);
	if (ret == 0)
		ret = guard_start(&x.guard, r, e);
	if (ret < 0)
		return ret;
	r->launcher = getpid();
	r->guard = x.guard.pid;
	ret = prepare(r, e);
	if (ret == 0)
		ret = start_and_supervise(&x, io, e);
	if (r->spec->run_fd >= 0) {
		struct err e2 = ERR_INIT;

		fin = run_finish(r, ret < 0 ? &e2 : e);
		ret = ret < 0 ? ret : fin;
	}
	fd_close(x.listen_fd);
	guard_stop(&x.guard);
	return ret;
}
