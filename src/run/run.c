/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run.h"

#include "approval/toolcall.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "run/confine.h"
#include "run/guard.h"
#include "run/obeys.h"
#include "run/run_limits.h"
#include "run/supervise/logtimes.h"
#include "sandbox/state/layers.h"

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
	struct supervise_io io;
	bool detached;
	int listen_fd;
	bool ahead; /* there is no command yet */
	struct run_io *caller;
	bool told; /* the caller knows how it ended */
	struct supervise_start start;
};

/*
 * The layers' place. The host's root gets a disk image where a limit was named, and the kernel keeps the limit; in all
 * other cases the launcher watches.
 */
static int open_layers(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	const struct limit *disk = &s->limits.l[LIMIT_DISK], *inodes = &s->limits.l[LIMIT_INODES];

	if (s->ids.host_root && (disk->named || inodes->named) && disk->value != LIMIT_NONE) {
		struct err why = ERR_INIT;

		s->layers_fd = layers_make_image(s->run_fd, disk->value, inodes->value, &why);
		if (s->layers_fd >= 0)
			return 0;
		snprintf(r->disk_watched, sizeof(r->disk_watched), "%.255s", why.msg);
	}
	s->layers_fd = layers_open(s->run_fd, e);
	return s->layers_fd < 0 ? s->layers_fd : 0;
}

/* An overlay's upper layer gives what is shown its own mode and owner, so it is made like the original. */
static int make_upper(const struct spec *s, const char *name, const struct stat *st, struct err *e)
{
	mode_t mode = st->st_mode & 0777;

	if (mkdirat(s->layers_fd, name, mode) < 0 ||
	    ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	     fchownat(s->layers_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	     s->ids.host_root) ||
	    fchmodat(s->layers_fd, name, mode, 0) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	return 0;
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
	/* An empty workspace was wiped at its end, and is empty again. */
	if (s->ws_mode == WS_EPHEMERAL && faccessat(s->layers_fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		ret = make_upper(s, "upper",
				 &(struct stat){ .st_mode = 0755,
						 .st_uid = s->ids.host_root ? s->uid : geteuid(),
						 .st_gid = s->ids.host_root ? s->gid : getegid() },
				 e);
		if (ret < 0)
			return ret;
	}
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

static int make_work(const struct spec *s, const char *name, struct err *e)
{
	return mkdirat(s->layers_fd, name, 0700) < 0
		       ? err_sys(e, -errno, "cannot make a layer in %s", s->run_path)
		       : 0;
}

static int make_root_layer(const struct spec *s, struct err *e)
{
	struct stat st;
	int ret;

	if (fstat(s->lowers[0].fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", s->lowers[0].path);
	ret = make_upper(s, LAYERS_ROOT_UPPER, &st, e);
	return ret < 0 ? ret : make_work(s, LAYERS_ROOT_WORK, e);
}

static int make_layers(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	struct stat st = { .st_mode = 0755, .st_uid = geteuid(), .st_gid = getegid() };
	int ret;

	if (!spec_needs_layers(s))
		return 0;
	if (s->ws_fd >= 0 && fstat(s->ws_fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", s->ws_path);
	if (s->ws_mode == WS_EPHEMERAL && s->ids.host_root) {
		st.st_uid = s->uid;
		st.st_gid = s->gid;
	}
	ret = open_layers(r, e);
	if (ret == 0 && (s->ws_mode == WS_OVERLAY || s->ws_mode == WS_EPHEMERAL))
		ret = make_upper(s, "upper", &st, e);
	if (ret == 0 && s->ws_mode == WS_OVERLAY)
		ret = make_work(s, "work", e);
	if (ret == 0 && spec_has_root_layer(s))
		ret = make_root_layer(s, e);
	return ret;
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
	int ret;

	run_engine_json(r, &j);
	if (r->resume_started)
		json_bool(&j, "again", true);
	if (s->restart) {
		json_str(&j, "restart", s->restart);
		json_u64(&j, "restarts", s->restarts);
	}
	if (s->name)
		json_str(&j, "name", s->name);
	if (s->from[0])
		json_str(&j, "from", s->from);
	if (s->over[0])
		json_str(&j, "over", s->over);
	add_command(&j, &s->argv);
	json_u64(&j, "uid", s->uid);
	json_u64(&j, "outside_uid", ids_outside_uid(&s->ids));
	net_plan_json(r->net, s->net, &j);
	run_root_json(s, &j);
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
	if (s->ports)
		json_str(&j, "ports", s->ports);
	json_u64(&j, "caps", s->caps);
	json_bool(&j, "nested", s->nested);
	run_limits_json(&s->limits, &j);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	ret = audit_append(r->audit, "run.start", s->id, &b, e);
	/* What could not be written was taken back: there may be room again by the time of the end, which then gets none. */
	r->untold = ret < 0;
	return ret;
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
		r = x->listen_fd = listen_control(x->r->spec, x->r->resume_started != 0, e);
	return r;
}

/* One that was given a name or a life of its own is looked for at once. */
static bool is_findable_at_once(const struct spec *s)
{
	return s->detach || s->name || s->series;
}

/*
 * Once it has confined itself, the launcher can become root over subordinate ids only where it can enter a namespace
 * that has them already.
 */
static int keep_ids(struct run *r, pid_t pid, struct err *e)
{
	const struct spec *s = r->spec;
	char path[48];

	if (s->ids.host_root || !s->ids.range || (s->ws_mode != WS_EPHEMERAL && !s->over[0]))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	r->userns = open(path, O_RDONLY | O_CLOEXEC);
	return r->userns < 0 ? err_sys(e, -errno, "cannot open the sandbox's user namespace") : 0;
}

/* What is to be watched; a disk image watches itself. */
static int open_watched(const struct spec *s, const char *name)
{
	const char *how = s->limits.l[LIMIT_DISK].how;

	if (s->layers_fd < 0 || !how || !str_eq(how, "watched"))
		return -1;
	return openat(s->layers_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int fill(struct run *r, struct err *e)
{
	autoclose int upper =
		openat(r->spec->layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return upper < 0 ? err_sys(e, -errno, "cannot open the run's layer") : r->fill(r->fill_ctx, upper, e);
}

/* While the sandbox is being built: U2. */
static int prepare_parts(void *ctx, pid_t pid, int pidfd, struct err *e)
{
	struct execution *x = ctx;
	int r = guard_tell(&x->guard, pid, pidfd, &x->r->spec->ids, e);

	if (r == 0)
		r = keep_ids(x->r, pid, e);
	if (r == 0 && x->r->spec->layers_fd < 0)
		r = make_layers(x->r, e);
	if (r == 0 && x->r->fill)
		r = fill(x->r, e);
	if (r == 0)
		r = run_limits_enforce(x->r, e);
	if (r == 0 && x->ahead)
		return 0;
	if (r == 0)
		r = log_start(x->r, e);
	if (r == 0 && is_findable_at_once(x->r->spec))
		r = make_findable(x, e);
	return r < 0 ? r : 0;
}

/* The command is told to init before there is one, and starts as soon as the wall stands. One that is detached waits
 * for the caller to be let go of, which may fail; and one that is made ahead has none yet. */
static int while_it_builds(void *ctx, int stream, struct err *e)
{
	struct execution *x = ctx;
	int upper, root_upper, r;

	/* Before the command can take the way to it away. */
	upper = open_watched(x->r->spec, "upper");
	root_upper = open_watched(x->r->spec, LAYERS_ROOT_UPPER);
	x->io.usage_fd = upper >= 0 ? upper : root_upper;
	x->io.usage2_fd = upper >= 0 ? root_upper : -1;
	r = confine_launcher(x->r, e);
	if (r < 0 || x->detached || x->ahead)
		return r;
	return supervise_start(&x->start, x->r->spec, &x->io, stream, e);
}

static int give_ca(void *ctx, struct wall *w, struct err *e)
{
	struct execution *x = ctx;
	int r = guard_net(&x->guard, w, e);

	return r < 0 ? r : guard_net_ca(&x->guard, e);
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

static int make_directory(struct run *r, bool ahead, struct err *e)
{
	struct spec *s = r->spec;
	int ret = 0;

	if (r->resume_started) {
		s->run_fd = fcntl(r->resume_fd, F_DUPFD_CLOEXEC, 3);
		return s->run_fd < 0 ? err_sys(e, -errno, "cannot take the run's directory") : 0;
	}
	ret = s->name ? state_name_check(r->st, s->name, e) : 0;
	if (ret < 0)
		return ret;
	s->run_fd = ahead ? state_run_create_ahead(r->st, s->id, e) : state_run_create(r->st, s->id, e);
	return s->run_fd < 0 ? s->run_fd : 0;
}

/* Before anything of the sandbox is there: what it will find must be whole. */
static int fill_layers(struct run *r, struct err *e)
{
	int ret;

	if (r->resume_started)
		return reopen_layers(r->spec, e);
	if (!r->populate)
		return 0;
	ret = make_layers(r, e);
	if (ret == 0)
		ret = r->populate(r->populate_ctx, r, e);
	if (r->forget)
		r->forget(r->populate_ctx);
	return ret;
}

/* What a changed file says later does not weaken it. Which file it was is for who approves for good (always.h), also when nobody
 * serves this run any more; without that they are told so. */
static int keep_acts(struct run *r, struct err *e)
{
	const struct acts *a = r->acts ? r->acts : &r->net->cp.acts;
	const struct net_plan alone = { .mode = -1, .file = (char *)r->acts_file };
	int ret = toolcall_write_acts(r->spec->run_fd, a, e);

	r->spec->acts = acts_says_something(a);
	if (ret == 0 && r->spec->acts)
		(void)!net_plan_store(r->net ? r->net : &alone, r->spec->run_fd);
	return ret;
}

/* What must be there before the engine starts: ids, and what of the control group a process must be born in. The rest is
 * made while it builds. */
static int prepare(struct run *r, bool ahead, struct err *e)
{
	struct spec *s = r->spec;
	int ret = make_directory(r, ahead, e);

	if (ret < 0)
		return ret;
	if (asprintf(&s->run_path, "%s/runs/%s", r->st->path, s->id) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (s->name) {
		ret = state_name_set(r->st, s->name, s->id, e);
		if (ret < 0)
			return ret;
	}
	if (r->obeys)
		ret = obeys_keep(r->obeys, r->st, s->run_fd, s->id, e);
	if (ret == 0 && (r->net || r->acts))
		ret = keep_acts(r, e);
	if (ret == 0)
		ret = ids_plan(&s->ids, r->st, s->id, s->uid, s->gid, r->map_ids, e);
	if (ret == 0)
		ret = fill_layers(r, e);
	if (ret == 0)
		ret = cgroup_host_probe(&r->cgroup_host, e);
	return ret < 0 ? ret : run_limits_begin(r, e);
}

static int open_log(const struct spec *s, struct err *e)
{
	int fd;

	if (!s->detach)
		return -1;
	fd = openat(s->run_fd, "output.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot make %s/output.log", s->run_path) : fd;
}

/* The words of the engine's own programs; a run without them is no worse. */
static int open_engine_log(const struct spec *s)
{
	return openat(s->run_fd, "engine.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
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

/* The command has come: from here on this is a run like any other (U2). */
static int begin(struct execution *x, struct run_io *io, struct err *e)
{
	struct run *r = x->r;
	int ret = io->wait(io->ctx, r, io, e);

	if (ret < 0)
		return ret;
	x->ahead = false;
	r->started = clock_nsec(CLOCK_REALTIME);
	ret = state_run_begin(r->st, r->spec->run_fd, r->spec->id, e);
	return ret < 0 ? ret : log_start(r, e);
}

/* Builds the sandbox. The command is on its way when this returns, unless it still has to be waited for. */
static int start(struct execution *x, struct run_io *io, struct err *e)
{
	struct run *r = x->r;
	struct engine_meanwhile m = {
		.prepare = prepare_parts, .rest = while_it_builds, .ca = give_ca, .ctx = x
	};
	bool early = !x->detached && !x->ahead;
	int ret = r->engine->start(r->spec, &r->cg, &m, &r->er, e);

	/* Before the wall: with that the policy begins to be watched. */
	if (ret == 0 && r->er.ca_later[0] >= 0)
		ret = guard_net_room(&x->guard, r->er.ca_later, e);
	if (ret == 0 && r->net && !r->spec->ca)
		ret = guard_net(&x->guard, &r->er.wall, e);
	if (ret == 0 && x->detached)
		ret = let_caller_go(r->spec, io->ready_fd, e);
	if (ret == 0 && x->ahead)
		ret = begin(x, io, e);
	x->io.start = early ? &x->start : NULL;
	return ret;
}

/* One file that outgrew the limit: the kernel told the command itself. */
static void name_cause(struct run *r)
{
	if (r->end.cause == CAUSE_SIGNAL && r->end.signal == SIGXFSZ)
		r->end.cause = CAUSE_DISK;
}

/* What the guard still has to say once the command has ended. */
static void say_late(void *ctx, enum net_level level, const char *text)
{
	const struct execution *x = ctx;
	autobuf struct buf line = BUF_INIT;

	if (x->caller->say && x->caller->err >= 0)
		x->caller->say(level, text, &line);
	/* A stderr that is gone is nobody's error. */
	if (line.len)
		(void)!fd_write_all(x->caller->err, line.data, line.len);
}

static void on_ended(void *ctx)
{
	struct execution *x = ctx;

	name_cause(x->r);
	x->told = true;
	x->caller->ended(x->caller->ctx, x->r);
}

static int start_and_supervise(struct execution *x, struct run_io *io, struct err *e)
{
	struct run *r = x->r;
	autoclose int log = open_log(r->spec, e);
	autologtimes struct logtimes times = LOGTIMES_INIT;
	autoclose int engine_log = r->engine == &engine_gvisor ? open_engine_log(r->spec) : -1;
	int ret;

	x->io = (struct supervise_io){
		.in = io->in,
		.out = io->out,
		.err = io->err,
		.tty = io->tty,
		.log_fd = log,
		.times = log >= 0 ? &times : NULL,
		.engine_log = engine_log,
		.alive_fd = -1,
		.usage_fd = -1,
		.usage2_fd = -1,
		.event = on_event,
		.ctx = x,
		.lasting = is_findable_at_once(r->spec) ? NULL : on_lasting,
		.ended = io->ended ? on_ended : NULL,
		.ports = r->ports,
		.guard_fd = r->net ? x->guard.fd : -1,
		.agent = r->net && r->net->secrets.sign.n,
		.agent_fd = r->net ? r->net->secrets.agent : -1,
		.say = io->say,
		.prompt = r->net ? io->prompt : NULL,
		.run_fd = r->spec->run_fd,
	};
	x->caller = io;
	if (r->spec->detach && log < 0)
		return log;
	if (log >= 0)
		logtimes_open(&times, r->spec->run_fd, log);
	x->detached = io->ready_fd >= 0;
	ret = start(x, io, e);
	if (ret < 0)
		return ret;
	/* With a command that came late came its stdio. */
	x->io.in = io->in;
	x->io.out = io->out;
	x->io.err = io->err;
	x->io.alive_fd = io->alive_fd;
	x->io.listen_fd = x->listen_fd;
	/* One that came while the sandbox was made is of a vault that was started again. */
	if (x->guard.agent >= 0 && x->io.agent) {
		fd_close(x->io.agent_fd);
		x->io.agent_fd = TAKE_FD(x->guard.agent);
	}
	if (r->net)
		r->net->secrets.agent = -1;
	ret = supervise(r->spec, &r->cg, &r->er, &x->io, &r->end, e);
	if (r->net)
		r->net_over = guard_net_end(&x->guard, say_late, x, &r->net_report);
	if (ret == 0)
		name_cause(r);
	if (ret == 0 && io->ended && !x->told)
		io->ended(io->ctx, r);
	return ret;
}

int run_execute(struct run *r, struct run_io *io, struct err *e)
{
	struct execution x = { .r = r,
			       .guard = GUARD_INIT,
			       .listen_fd = -1,
			       .ahead = io->wait != NULL,
			       .io.usage_fd = -1,
			       .io.usage2_fd = -1,
			       .start.out = BUF_INIT };
	int ret, fin;

	r->started = clock_nsec(CLOCK_REALTIME);
	if (r->resume_started) {
		r->since = r->started;
		r->started = r->resume_started;
	}
	r->tty = io->tty >= 0 || !io->prompt ? io->tty : io->prompt->in;
	r->untold = true;
	r->userns = -1;
	r->cg = CGROUP_INIT;
	r->er = ENGINE_RUN_INIT;
	r->end = (struct run_end){ .cause = CAUSE_NOT_STARTED, .exit_code = 125 };
	/* One that is started once more has its id, and so has one that the vault was asked for. */
	ret = r->spec->id[0] ? 0 : state_new_id(r->spec->id, e);
	if (ret == 0 && r->net)
		ret = net_secrets_start(&r->net->secrets, r->spec, r->st, e);
	if (ret == 0)
		ret = guard_start(&x.guard, r, e);
	/* The guard has it from here on. */
	if (r->net)
		net_secrets_forget(&r->net->secrets);
	if (ret < 0)
		return ret;
	r->launcher = getpid();
	r->guard = x.guard.pid;
	ret = prepare(r, x.ahead, e);
	if (ret == 0)
		ret = start_and_supervise(&x, io, e);
	if (r->spec->run_fd >= 0) {
		struct err e2 = ERR_INIT;

		fin = run_finish(r, ret < 0 ? &e2 : e);
		ret = ret < 0 ? ret : fin;
	}
	fd_close(x.listen_fd);
	r->userns = fd_close(r->userns);
	fd_close(x.io.usage_fd);
	fd_close(x.io.usage2_fd);
	buf_release(&x.start.out);
	guard_stop(&x.guard);
	return ret;
}
