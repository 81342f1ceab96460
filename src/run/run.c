/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_execute(): all of a run, step by step, in the launcher. The functions before it are its steps, in the
 * same order. Layers, limits, the log and the end have files of their own. The order of the steps must not
 * change without need: it is the security argument.
 */
#include "run/run.h"

#include "approval/toolcall.h"
#include "base/clock.h"
#include "base/fd.h"
#include "run/confine.h"
#include "run/guard.h"
#include "run/obeys.h"
#include "run/run_layers.h"
#include "run/run_limits.h"
#include "run/run_log.h"
#include "run/supervise/logtimes.h"
#include "sandbox/state/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

/* When the command comes. Chosen once, by what the caller of run_execute() has filled in. */
enum command_arrival {
	COMMAND_AT_HAND, /* it is written to init's stream while the sandbox is built */
	COMMAND_LATER,	 /* a sandbox of the warm pool: io->wait() waits for it */
};

/* The launcher's own part of a run, which ends with run_execute(). */
struct execution {
	struct run *r;
	struct run_io *io;
	enum command_arrival arrival;
	struct guard guard;
	int listen_fd;		   /* the control socket; -1: not yet */
	int output_fd, engine_log; /* output.log and engine.log of the run's directory; -1: none */
	struct logtimes times;	   /* of output.log */
	int usage_fd, usage2_fd;   /* layers that are measured for the disk limit; -1: none */
	struct supervise_start start;
	bool ended_told; /* io->ended() was called */
};

void run_origin_close(struct run_origin *o)
{
	if (o->kind == RUN_RESUMED)
		o->dir_fd = fd_close(o->dir_fd);
	if (o->kind == RUN_COPIED && o->forget)
		o->forget(o->ctx);
}

/* Step 1. The vault, if the run uses secrets, is started first, since the guard inherits its channel. */
static int start_guard(struct execution *x, struct err *e)
{
	struct run *r = x->r;
	/* A run that is resumed has its id, and so has one whose id the vault knows already. */
	int ret = r->spec->id[0] ? 0 : state_new_id(r->spec->id, e);

	if (ret == 0 && r->net)
		ret = net_secrets_start(&r->net->secrets, r->spec, r->st, e);
	if (ret == 0)
		ret = guard_start(&x->guard, r, e);
	/* The guard alone holds that channel from here on. */
	if (r->net)
		net_secrets_forget(&r->net->secrets);
	r->launcher = getpid();
	r->guard = x->guard.pid;
	return ret;
}

static int open_run_directory(struct execution *x, struct err *e)
{
	const struct run *r = x->r;
	struct spec *s = r->spec;
	int ret = 0;

	if (r->origin.kind == RUN_RESUMED) {
		s->run_fd = fcntl(r->origin.dir_fd, F_DUPFD_CLOEXEC, 3);
		return s->run_fd < 0 ? err_sys(e, -errno, "cannot open the directory of the run") : 0;
	}
	ret = s->name ? state_name_check(r->st, s->name, e) : 0;
	if (ret < 0)
		return ret;
	s->run_fd = x->arrival == COMMAND_LATER ? state_run_create_ahead(r->st, s->id, e)
						: state_run_create(r->st, s->id, e);
	return s->run_fd < 0 ? s->run_fd : 0;
}

/*
 * Stores the rules for tools and apply with the run, so that a policy file that changes later does not weaken them. The
 * path of the file is for approvals that are made permanent (always.h), also when the run has ended; where it cannot be
 * stored, the approver is told so then.
 */
static int store_acts(struct run *r, struct err *e)
{
	const struct acts *a = r->acts ? r->acts : &r->net->cp.acts;
	const struct net_plan alone = { .mode = -1, .file = (char *)r->acts_file };
	int ret = toolcall_write_acts(r->spec->run_fd, a, e);

	r->spec->acts = acts_says_something(a);
	if (ret == 0 && r->spec->acts)
		(void)!net_plan_store(r->net ? r->net : &alone, r->spec->run_fd);
	return ret;
}

/* Output of a detached command goes to output.log. engine.log has the output of runsc; a run without it is no worse. */
static int open_logs(struct execution *x, struct err *e)
{
	static const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
	const struct spec *s = x->r->spec;

	if (x->r->engine == &engine_gvisor)
		x->engine_log = openat(s->run_fd, "engine.log", flags, 0600);
	if (!s->detach)
		return 0;
	x->output_fd = openat(s->run_fd, "output.log", flags, 0600);
	if (x->output_fd < 0)
		return err_sys(e, -errno, "cannot make %s/output.log", s->run_path);
	logtimes_open(&x->times, s->run_fd, x->output_fd);
	return 0;
}

static void close_logs(struct execution *x)
{
	logtimes_close(&x->times);
	x->output_fd = fd_close(x->output_fd);
	x->engine_log = fd_close(x->engine_log);
}

/* Step 2. The run's directory and all in it that the child's copy of the spec depends on; ids; the control group. */
static int prepare_before_spawn(struct execution *x, struct err *e)
{
	struct run *r = x->r;
	struct spec *s = r->spec;
	int ret = open_run_directory(x, e);

	if (ret < 0)
		return ret;
	if (asprintf(&s->run_path, "%s/runs/%s", r->st->path, s->id) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (s->name)
		ret = state_name_set(r->st, s->name, s->id, e);
	if (ret == 0 && r->obeys)
		ret = obeys_keep(r->obeys, r->st, s->run_fd, s->id, e);
	if (ret == 0 && (r->net || r->acts))
		ret = store_acts(r, e);
	if (ret == 0)
		ret = ids_plan(&s->ids, r->st, s->id, s->uid, s->gid, r->map_ids, e);
	if (ret == 0)
		ret = run_layers_begin(r, e);
	if (ret == 0)
		ret = run_limits_begin(r, e);
	return ret < 0 ? ret : open_logs(x, e);
}

/*
 * Step 4. A confined launcher can become root over subordinate ids only by entering a user namespace that has them: it
 * keeps the sandbox's where it will have to wipe files of those ids.
 */
static int keep_userns(struct run *r, struct err *e)
{
	const struct spec *s = r->spec;
	char path[48];

	if (s->ids.host_root || !s->ids.range ||
	    (s->ws_mode != WS_EPHEMERAL && !s->over[0] && !spec_has_root_layer(s)))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", r->er.pid);
	r->userns = open(path, O_RDONLY | O_CLOEXEC);
	return r->userns < 0 ? err_sys(e, -errno, "cannot open the sandbox's user namespace") : 0;
}

/* Binds by way of /proc/self/fd, since the path of a state directory may be longer than a socket's may be. */
static int listen_control(const struct run *r, struct err *e)
{
	const struct spec *s = r->spec;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, -errno, "cannot make the control socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", s->run_fd);
	if (r->origin.kind == RUN_RESUMED && unlinkat(s->run_fd, "ctl.sock", 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove an old control socket in %s", s->run_path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0)
		return err_sys(e, -errno, "cannot make the control socket in %s", s->run_path);
	return TAKE_FD(fd);
}

/* Writes all that other processes need to find the run and talk to it. Returns the control socket. */
static int make_findable(struct execution *x, struct err *e)
{
	const struct buf *start = x->r->start;
	int r = start ? fd_replace_file(x->r->spec->run_fd, "start", start->data, start->len, 0600) : 0;

	if (r < 0)
		return err_sys(e, r, "cannot write how the sandbox was started");
	r = run_write_meta(x->r, e);
	if (r == 0)
		r = x->listen_fd = listen_control(x->r, e);
	return r;
}

/* A detached run, one with a name and one of a session are looked for at once; the others only if they last. */
static bool is_findable_at_once(const struct spec *s)
{
	return s->detach || s->name || s->series;
}

static int keep_userns_and_confine(struct run *r, struct err *e)
{
	int ret = keep_userns(r, e);

	return ret < 0 ? ret : confine_beforehand(e);
}

/* Step 6. A start that cannot be logged does not happen (run.U2). */
static int announce_start(struct execution *x, struct err *e)
{
	int r = run_log_start(x->r, e);

	if (r == 0 && is_findable_at_once(x->r->spec))
		r = make_findable(x, e);
	return r < 0 ? r : 0;
}

/* Step 8, phase 2 of confine.h. The layers that are measured are opened first: the command may later close the way to them. */
static int open_watched_and_confine(struct execution *x, struct err *e)
{
	int upper = run_layers_watched(x->r->spec, "upper");
	int root_upper = run_layers_watched(x->r->spec, LAYERS_ROOT_UPPER);

	x->usage_fd = upper >= 0 ? upper : root_upper;
	x->usage2_fd = upper >= 0 ? root_upper : -1;
	return confine_launcher(x->r, x->r->net && x->io->prompt, e);
}

static int on_lasting(void *ctx, struct err *e)
{
	return make_findable(ctx, e);
}

/* Detached: the command was started. Gives the id to the process that waits for it, after its terminal and pipes have been
 * let go of. Where the command could not be started, that process gets the exit code instead. */
static int let_caller_go(void *ctx, struct err *e)
{
	const struct execution *x = ctx;
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r;

	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			return err_sys(e, -errno, "cannot detach from the terminal");
	}
	r = fd_write_all(x->io->ready_fd, x->r->spec->id, RUN_ID_LEN);
	x->io->ready_fd = fd_close(x->io->ready_fd);
	return r < 0 ? err_sys(e, r, "cannot pass the id of the sandbox to the caller") : 0;
}

static int on_supervise_event(void *ctx, const char *type, const struct buf *fields)
{
	const struct execution *x = ctx;

	return audit_append(x->r->audit, type, x->r->spec->id, fields, NULL);
}

/* The kernel itself signals a command one of whose files outgrew the limit. */
static void name_cause(struct run *r)
{
	if (r->end.cause == CAUSE_SIGNAL && r->end.signal == SIGXFSZ)
		r->end.cause = CAUSE_DISK;
}

static void on_command_ended(void *ctx)
{
	struct execution *x = ctx;

	name_cause(x->r);
	x->ended_told = true;
	x->io->ended(x->io->ctx, x->r);
}

static bool has_agent(const struct run *r)
{
	return r->net && r->net->secrets.sign.n;
}

/* All that supervise() is given, from the run and its caller. In step 9 it reads of this only in, tty, started and agent. */
static struct supervise_io supervise_io_of(struct execution *x)
{
	const struct run *r = x->r;
	const struct run_io *io = x->io;

	return (struct supervise_io){
		.in = io->in,
		.out = io->out,
		.err = io->err,
		.tty = io->tty,
		.alive_fd = io->alive_fd,
		.say = io->say,
		.prompt = r->net ? io->prompt : NULL,
		.log_fd = x->output_fd,
		.times = x->output_fd >= 0 ? &x->times : NULL,
		.engine_log = x->engine_log,
		.usage_fd = x->usage_fd,
		.usage2_fd = x->usage2_fd,
		.listen_fd = x->listen_fd,
		.started = io->ready_fd >= 0 ? let_caller_go : NULL,
		.lasting = is_findable_at_once(r->spec) ? NULL : on_lasting,
		.ended = io->ended ? on_command_ended : NULL,
		.event = on_supervise_event,
		.ctx = x,
		.start = x->arrival == COMMAND_AT_HAND ? &x->start : NULL,
		.ports = r->ports,
		.guard_fd = r->net ? x->guard.fd : -1,
		.agent = has_agent(r),
		.agent_fd = r->net ? r->net->secrets.agent : -1,
		.run_fd = r->spec->run_fd,
	};
}

/* Step 9. The message stays in the socket until coffer-init reads it (run.U5). */
static int send_command(struct execution *x, struct err *e)
{
	const struct supervise_io io = supervise_io_of(x);

	return supervise_start(&x->start, x->r->spec, &io, x->r->er.stream, e);
}

/* Step 10. The guard makes the sandbox's certificate authority once it has the wall, and sends its certificate. */
static int exchange_ca(struct execution *x, struct err *e)
{
	autoclose int ca = -1;
	int r = engine_wait_wall(&x->r->er, e);

	if (r == 0)
		r = guard_net(&x->guard, &x->r->er.wall, e);
	if (r < 0)
		return r;
	ca = guard_net_ca(&x->guard, e);
	return ca < 0 ? ca : engine_give_ca(&x->r->er, ca, e);
}

/* Step 12. The files of a later certificate go first: the guard begins to watch the policy when it gets the wall. */
static int hand_over_network(struct execution *x, struct err *e)
{
	struct engine_run *er = &x->r->er;
	int r = er->ca_later[0] >= 0 ? guard_net_ca_files(&x->guard, er->ca_later, e) : 0;

	/* Where there is a certificate the guard has the wall since step 10. */
	return r == 0 && x->r->net && !x->r->spec->ca ? guard_net(&x->guard, &er->wall, e) : r;
}

/* Step 13. The sandbox of a warm pool becomes a run like any other when its command has come, and is logged first (run.U2).
 * supervise() sends the command. */
static int await_command(struct execution *x, struct err *e)
{
	struct run *r = x->r;
	int ret = x->io->wait(x->io->ctx, r, x->io, e);

	if (ret < 0)
		return ret;
	r->started = clock_nsec(CLOCK_REALTIME);
	ret = state_run_begin(r->st, r->spec->run_fd, r->spec->id, e);
	return ret < 0 ? ret : run_log_start(r, e);
}

/* A message of the guard that comes once the command has ended. A stderr that is gone is not an error. */
static void show_late_message(void *ctx, enum net_level level, const char *text)
{
	const struct run_io *io = ((const struct execution *)ctx)->io;
	autobuf struct buf line = BUF_INIT;

	if (io->say && io->err >= 0)
		io->say(level, text, &line);
	if (line.len)
		(void)!fd_write_all(io->err, line.data, line.len);
}

/* Step 14, and the end of the network. */
static int supervise_command(struct execution *x, struct err *e)
{
	struct run *r = x->r;
	struct supervise_io io;
	int ret;

	/* A channel that came while the sandbox was built is from a vault that was restarted: it replaces the first. */
	if (x->guard.agent >= 0 && has_agent(r)) {
		fd_close(r->net->secrets.agent);
		r->net->secrets.agent = TAKE_FD(x->guard.agent);
	}
	io = supervise_io_of(x);
	if (r->net)
		r->net->secrets.agent = -1;
	ret = supervise(r->spec, &r->cg, &r->er, &io, &r->end, e);
	if (r->net)
		r->net_over = guard_net_end(&x->guard, show_late_message, x, &r->net_report);
	if (ret == 0)
		name_cause(r);
	if (ret == 0 && x->io->ended && !x->ended_told)
		x->io->ended(x->io->ctx, r);
	return ret;
}

static void execution_init(struct execution *x, struct run *r, struct run_io *io)
{
	*x = (struct execution){ .r = r,
				 .io = io,
				 .arrival = io->wait ? COMMAND_LATER : COMMAND_AT_HAND,
				 .guard = GUARD_INIT,
				 .listen_fd = -1,
				 .output_fd = -1,
				 .engine_log = -1,
				 .times = LOGTIMES_INIT,
				 .usage_fd = -1,
				 .usage2_fd = -1,
				 .start.out = BUF_INIT };
	r->started = clock_nsec(CLOCK_REALTIME);
	if (r->origin.kind == RUN_RESUMED) {
		r->since = r->started;
		r->started = r->origin.started;
	}
	r->tty = io->tty >= 0 || !io->prompt ? io->tty : io->prompt->in;
	r->start_not_logged = true;
	r->userns = -1;
	r->cg = CGROUP_INIT;
	r->er = ENGINE_RUN_INIT;
	r->end = (struct run_end){ .cause = CAUSE_NOT_STARTED, .exit_code = 125 };
}

static void execution_release(struct execution *x)
{
	fd_close(x->listen_fd);
	x->r->userns = fd_close(x->r->userns);
	fd_close(x->usage_fd);
	fd_close(x->usage2_fd);
	buf_release(&x->start.out);
}

/*
 * The steps of a run. Their order is what its safety rests on. "The child" is the sandbox's first process: it executes
 * coffer-init, or runsc, once the wall stands.
 *
 *   1  guard       Forked with the run's id before anything of the run exists on the host. From here on the launcher may
 *                  die at any line: the guard finds by the id all that was made, and does step 15 (run.U1).
 *   2  prepare     Directory, ids, content that changes the spec, and the control group that the child is born in: the
 *                  child has a copy of the spec, so all that it must know comes before step 3.
 *   3  spawn       From here two processes work at once. The child makes namespaces, root file system and network, then
 *                  waits for step 7. No foreign code runs in it.
 *   4  guard told  It can now kill the child, even where no control group holds it. Before step 7, so that the guard
 *                  knows every child that can get as far as a command. Then the first phase of step 8: calls that no
 *                  launcher makes end it from here on. Not earlier, or the sandbox and newuidmap would inherit that.
 *   5  layers,     They are complete and in force before the child goes on. A limit that was named and cannot be
 *      limits      enforced ends the start here.
 *   6  run.start   In the audit log before the child goes on; a start that cannot be logged does not happen (run.U2).
 *                  A sandbox of the warm pool has no command yet: its start is logged in step 13.
 *   7  go          The child gets its trees and joins the control group. The last step for which the launcher needs more
 *                  than step 8 leaves it.
 *   8  confine     The launcher gives up its privileges and most system calls, before it reads a byte from inside
 *                  (run.U4). It executes nothing from here on, and what it forks inherits the list.
 *   9  command     Into init's stream, while the child still builds. Nobody reads it before coffer-init does, and by then
 *                  all fences of the child are up (run.U5).
 *  10  CA          Where TLS is inspected: the wall goes to the guard, and the certificate comes back for the child.
 *  11  ready       Until here the child is trusted code that may report an error; from here on it is hostile.
 *  12  network     The guard gets the wall. Until it has it, connections of the sandbox wait in the queues of sockets.
 *  13  arrival     A sandbox of the warm pool waits for its command.
 *  14  supervise   Until the command has ended and pid 1 is reaped; then the network ends, and all of it is logged. A
 *                  detached run lets its caller go when init reports that the command was started.
 *  15  finish      Kill, count changes, wipe, log run.end, remove. Idempotent, since the guard may do it again (run.U3).
 *  16  guard_stop  Last: until here it would finish in the launcher's place.
 *
 * A failure skips all steps up to 15, and before step 14 the child is killed and reaped at once. Its message is the one that
 * the caller gets.
 */
int run_execute(struct run *r, struct run_io *io, struct err *e)
{
	struct spec *s = r->spec;
	struct execution x;
	int ret;

	execution_init(&x, r, io);
	/* 1 guard */
	ret = start_guard(&x, e);
	if (ret < 0)
		return ret;
	/* 2 prepare */
	ret = prepare_before_spawn(&x, e);
	/* 3 spawn */
	if (ret == 0)
		ret = r->engine->spawn(s, &r->cg, &r->er, e);
	/* 4 guard told */
	if (ret == 0)
		ret = guard_tell(&x.guard, r->er.pid, r->er.pidfd, &s->ids, e);
	/* The first phase of 8: everything that must not inherit it has been made. */
	if (ret == 0)
		ret = keep_userns_and_confine(r, e);
	/* 5 layers, limits */
	if (ret == 0)
		ret = run_layers_complete(r, e);
	if (ret == 0)
		ret = run_limits_enforce(r, e);
	/* 6 run.start */
	if (ret == 0 && x.arrival != COMMAND_LATER)
		ret = announce_start(&x, e);
	/* 7 go */
	if (ret == 0)
		ret = r->engine->release(s, &r->cg, &r->er, e);
	/* 8 confine */
	if (ret == 0)
		ret = open_watched_and_confine(&x, e);
	/* 9 command */
	if (ret == 0 && x.arrival == COMMAND_AT_HAND)
		ret = send_command(&x, e);
	/* 10 CA */
	if (ret == 0 && s->ca)
		ret = exchange_ca(&x, e);
	/* 11 ready */
	if (ret == 0)
		ret = r->engine->wait_ready(s, &r->er, e);
	/* 12 network */
	if (ret == 0)
		ret = hand_over_network(&x, e);
	/* 13 arrival */
	if (ret == 0 && x.arrival == COMMAND_LATER)
		ret = await_command(&x, e);
	/* From step 14 on supervise() owns the child, and reaps it. */
	if (ret < 0)
		engine_drop(&r->er);
	/* 14 supervise */
	if (ret == 0)
		ret = supervise_command(&x, e);
	/* 15 finish */
	close_logs(&x);
	if (s->run_fd >= 0) {
		struct err later = ERR_INIT;
		int finished = run_finish(r, ret < 0 ? &later : e);

		ret = ret < 0 ? ret : finished;
	}
	execution_release(&x);
	/* 16 guard_stop */
	guard_stop(&x.guard);
	return ret;
}
