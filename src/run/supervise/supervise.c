/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's main loop while a sandbox runs: sends the start of the main command to init, watches init's stream,
 * pid 1, the guard, the engine's log and the process that started us, and tears everything down at the end.
 *
 * Pid 1 is dead and reaped when supervise() returns, also after a failure. Frames from init are judged in supervise_init.c;
 * nothing here believes them.
 */
#include "run/supervise/supervise.h"

#include "base/clock.h"
#include "base/fd.h"
#include "run/supervise/supervise_int.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* Stops the loop once nothing is left to wait for: pid 1 is reaped, and the caller has all of the output. */
void supervise_maybe_stop(struct supervision *sv)
{
	if (sv->reaped && pump_is_flushed(&sv->pump))
		loop_stop(&sv->loop);
}

static int watch_init_stream(struct supervision *sv)
{
	if (sv->gone || sv->w_init.fd < 0)
		return 0;
	return loop_watch(&sv->loop, &sv->w_init, EPOLLIN | (conn_pending(&sv->init) ? EPOLLOUT : 0));
}

/* A write error is not reported here: reading the stream to its end meets it again, after the frames init still sent. */
void supervise_flush_init(struct supervision *sv)
{
	if (sv->gone)
		return;
	if (conn_flush(&sv->init) < 0) {
		buf_release(&sv->init.out);
		sv->init.out_off = 0;
	}
	if (watch_init_stream(sv) < 0)
		supervise_broken(sv, "its stream cannot be watched");
}

int supervise_event(struct supervision *sv, const char *type, const struct buf *fields)
{
	int r = sv->io->event ? sv->io->event(sv->io->ctx, type, fields) : 0;

	if (r < 0 && !sv->error) {
		sv->error = err_set(sv->err, r, "the audit log cannot be written, so the sandbox was ended");
		supervise_kill(sv, CAUSE_BROKEN);
	}
	return r;
}

/* Only gVisor has a log of its own (run->log), so it tells the engines apart. */
static const char *early_end_text(const struct supervision *sv)
{
	return sv->run->log >= 0 ? "gVisor (runsc) died before its command ended"
				 : "it ended before its command did";
}

static void stop_reading_init(struct supervision *sv)
{
	sv->gone = true;
	loop_unwatch(&sv->loop, &sv->w_init);
}

/* Handles the frames that have arrived. 1: more may follow, 0: none for now, negative: stop reading for good. */
static int read_init_frames(struct supervision *sv)
{
	struct frame f;
	int filled = conn_fill(&sv->init), n;

	while ((n = conn_next(&sv->init, &f)) > 0) {
		if (supervise_init_frame(sv, &f) < 0)
			return -EPROTO;
		if (sv->ended)
			return -EPIPE;
	}
	if (n < 0)
		supervise_broken(sv, "it sent a malformed message");
	return n < 0 ? n : filled;
}

static void on_init_stream(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && read_init_frames(sv) < 0) {
		/* If the memory limit killed it, supervise_settle() finds that out from the control group. */
		supervise_broken(sv, "%s", early_end_text(sv));
		stop_reading_init(sv);
		return;
	}
	supervise_flush_init(sv);
}

/* pid 1 has exited. Frames that it wrote before are still in the stream and are read first. */
static void on_init_exit(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	siginfo_t si;

	(void)events;
	if (waitid(P_PIDFD, (id_t)w->fd, &si, WEXITED | WNOHANG) < 0 && errno != ECHILD)
		return;
	loop_unwatch(&sv->loop, w);
	sv->reaped = true;
	while (!sv->gone && read_init_frames(sv) > 0)
		;
	stop_reading_init(sv);
	if (!sv->ended) {
		supervise_broken(sv, "%s", early_end_text(sv));
		pump_finish(&sv->pump);
	}
	sv->killed = true;
	/* After a kill of ours, a caller that does not read its output delays the end by two seconds at most. */
	if (sv->cause != CAUSE_COUNT)
		loop_timer(&sv->loop, &sv->t_kill, clock_nsec(CLOCK_MONOTONIC) + 2 * NSEC_PER_SEC);
	supervise_maybe_stop(sv);
}

/* The process that started us: a byte is a signal to pass on, end of file means that it is gone. */
static void on_starter(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	unsigned char c;

	(void)events;
	if (read(w->fd, &c, 1) > 0) {
		if (c == SIGINT || c == SIGTERM || c == SIGHUP || c == SIGQUIT)
			supervise_take_signal(sv, c);
		return;
	}
	loop_unwatch(&sv->loop, w);
	supervise_kill(sv, CAUSE_CALLER);
}

/* The log is stored up to a cap and drained beyond it: an engine that cannot write its log blocks. */
static void on_engine_log(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	char chunk[4096];
	ssize_t n = read(w->fd, chunk, sizeof(chunk));
	size_t room = SUPERVISE_ENGINE_LOG_MAX - sv->logged;

	(void)events;
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			loop_unwatch(&sv->loop, w);
		return;
	}
	if ((size_t)n < room)
		room = (size_t)n;
	/* A failed write loses that part of the log; nothing but diagnosis depends on it. */
	if (room && sv->io->engine_log >= 0 && fd_write_all(sv->io->engine_log, chunk, room) == 0)
		sv->logged += room;
}

/* The pump has queued frames for init, or the caller's stdio failed or was drained. */
static void on_pump_change(void *ctx)
{
	struct supervision *sv = ctx;

	if (sv->pump.out.error == -EPIPE && !sv->ended && !sv->killed) {
		/* The command ends as a process that writes to a closed pipe does: by SIGPIPE. */
		sv->end->claim = (struct proto_exit){ PROTO_SIGNALED, SIGPIPE, 0 };
		sv->ended = true;
		pump_finish(&sv->pump);
		supervise_kill(sv, CAUSE_COUNT);
	}
	supervise_flush_init(sv);
	supervise_maybe_stop(sv);
}

/* Builds the main command's start request: strings in *body (cwd, argv, environment), counts and flags in *st. */
static int build_main_body(const struct spec *s, const struct supervise_io *io, struct buf *body,
			   struct proto_start *st, struct err *e)
{
	*st = (struct proto_start){ .flags = PROTO_F_MAIN };
	if (s->tty)
		st->flags |= PROTO_F_TTY;
	if (s->builtin)
		st->flags |= PROTO_F_BUILTIN;
	if (pump_has_input(io->in))
		st->flags |= PROTO_F_STDIN;
	if (supervise_pids_by_rlimit(s))
		st->flags |= PROTO_F_PIDS;
	if (io->started)
		st->flags |= PROTO_F_DETACH;
	tty_size(s->tty ? io->tty : -1, &st->rows, &st->cols);
	st->argc = (unsigned)s->argv.n;
	st->envc = (unsigned)s->env.n;
	buf_add(body, s->cwd ? s->cwd : "/", strlen(s->cwd ? s->cwd : "/") + 1);
	for (size_t i = 0; i < s->argv.n; i++)
		buf_add(body, s->argv.v[i], strlen(s->argv.v[i]) + 1);
	for (size_t i = 0; i < s->env.n; i++)
		buf_add(body, s->env.v[i], strlen(s->env.v[i]) + 1);
	if (buf_error(body))
		return err_set(e, -ENOMEM, "out of memory");
	if (body->len > PROTO_START_MAX || s->argv.n + s->env.n > PROTO_STRINGS_MAX)
		return err_set(e, -E2BIG, "the command's arguments and environment are too long");
	return 0;
}

int supervise_start(struct supervise_start *ret, const struct spec *s, const struct supervise_io *io,
		    int stream, struct err *e)
{
	autobuf struct buf body = BUF_INIT;
	struct conn c = CONN_INIT;
	struct proto_start st;
	int r = build_main_body(s, io, &body, &st, e);

	if (r < 0)
		return r;
	conn_init(&c, stream);
	/* The ssh-agent's socket exists before the command starts. */
	if (io->agent)
		frame_add(&c.out, PROTO_LISTEN, 0, SPEC_AGENT_PATH, sizeof(SPEC_AGENT_PATH) - 1);
	proto_add_data(&c.out, PROTO_START_DATA, SUPERVISE_MAIN_CHAN, body.data, body.len);
	proto_add_start(&c.out, SUPERVISE_MAIN_CHAN, &st);
	/* The loop sends the rest later and also notices a broken stream; only lack of memory is fatal here. */
	if (conn_flush(&c) == -ENOMEM) {
		conn_release(&c);
		return err_set(e, -ENOMEM, "out of memory");
	}
	*ret = (struct supervise_start){ .flags = st.flags, .out = c.out, .out_off = c.out_off };
	return 0;
}

/*
 * The start request is sent first of all, without waiting for init's greeting: init starts the command on another CPU
 * while we set up the watches.
 */
static int queue_main_start(struct supervision *sv)
{
	struct supervise_start now = { .out = BUF_INIT }, *st = sv->io->start;
	struct chan *ch;
	int r;

	if (!st) {
		st = &now;
		r = supervise_start(st, sv->spec, sv->io, sv->run->stream, sv->err);
		if (r < 0)
			return r;
	}
	conn_init(&sv->init, sv->run->stream);
	sv->init.out = st->out;
	sv->init.out_off = st->out_off;
	st->out = BUF_INIT;
	ch = supervise_chan_new(sv, NULL, 0);
	if (!ch)
		return err_set(sv->err, -ENOMEM, "out of memory");
	ch->is_main = true;
	ch->id = sv->last_chan = SUPERVISE_MAIN_CHAN;
	ch->state = CHAN_STARTING;
	ch->flags = st->flags;
	return 0;
}

static int open_main_pump(struct supervision *sv)
{
	const struct pump_opts o = {
		.in = sv->io->in,
		.out = sv->io->out,
		.err = sv->io->err,
		.tty = sv->spec->tty ? sv->io->tty : -1,
		.log_fd = sv->io->log_fd,
		.times = sv->io->times,
		.limit = sv->spec->limits.l[LIMIT_OUTPUT].value,
		.kick = on_pump_change,
		.ctx = sv,
	};

	return pump_open(&sv->pump, &sv->loop, &sv->init, SUPERVISE_MAIN_CHAN, &o, sv->err);
}

static int watch_sandbox(struct supervision *sv)
{
	int r;

	sv->w_init = (struct watch){ .fd = sv->run->stream, .fn = on_init_stream, .ctx = sv };
	sv->w_pid = (struct watch){ .fd = sv->run->pidfd, .fn = on_init_exit, .ctx = sv };
	sv->w_alive = (struct watch){ .fd = sv->io->alive_fd, .fn = on_starter, .ctx = sv };
	sv->w_log = (struct watch){ .fd = sv->run->log, .fn = on_engine_log, .ctx = sv };
	r = loop_watch(&sv->loop, &sv->w_pid, EPOLLIN);
	if (r == 0 && sv->w_log.fd >= 0)
		r = loop_watch(&sv->loop, &sv->w_log, EPOLLIN);
	if (r == 0 && sv->w_alive.fd >= 0)
		r = loop_watch(&sv->loop, &sv->w_alive, EPOLLIN);
	if (r == 0)
		r = supervise_guard_watch(sv);
	if (r == 0)
		r = supervise_ports_open(sv);
	if (r < 0)
		return err_sys(sv->err, r, "cannot watch the sandbox");
	supervise_listen(sv, sv->io->listen_fd);
	return 0;
}

void supervise_lasts(struct supervision *sv)
{
	int fd;

	if (!sv->io->lasting || sv->lasts || sv->ended || sv->killed)
		return;
	sv->lasts = true;
	fd = sv->io->lasting(sv->io->ctx, sv->err);
	if (fd >= 0) {
		supervise_listen(sv, fd);
		return;
	}
	if (!sv->error)
		sv->error = fd;
	supervise_kill(sv, CAUSE_BROKEN);
}

void supervise_main_started(struct supervision *sv)
{
	int r = sv->io->started ? sv->io->started(sv->io->ctx, sv->err) : 0;

	if (r == 0)
		return;
	if (!sv->error)
		sv->error = r;
	supervise_kill(sv, CAUSE_BROKEN);
}

static void on_lasting_timer(struct timer *t)
{
	supervise_lasts(t->ctx);
}

static int set_up_supervision(struct supervision *sv)
{
	int r = queue_main_start(sv);

	if (r == 0)
		r = loop_open(&sv->loop, sv->err);
	if (r == 0)
		r = watch_sandbox(sv);
	if (r == 0)
		r = open_main_pump(sv);
	if (r == 0)
		r = supervise_take_signals(sv, sv->err);
	if (r < 0)
		return r;
	supervise_start_timeout(sv);
	sv->t_lasting = (struct timer){ .fn = on_lasting_timer, .ctx = sv };
	if (sv->io->lasting)
		loop_timer(&sv->loop, &sv->t_lasting, sv->started + SUPERVISE_LASTING_MS * NSEC_PER_MSEC);
	supervise_disk_start(sv);
	supervise_flush_init(sv);
	if (sv->chans && sv->chans->flags & PROTO_F_STDIN)
		pump_read_input(&sv->pump);
	/* Last: it adds channels in front of the main one, and the line above takes the first for the main one. */
	supervise_agent_begin(sv);
	supervise_prompt_begin(sv);
	return 0;
}

/* Calls io->ended() when the command has ended by itself and its output is written; see supervise.h. */
static void tell_command_end(struct supervision *sv)
{
	if (!sv->io->ended || !sv->ended || sv->cause != CAUSE_COUNT || sv->error ||
	    !pump_is_flushed(&sv->pump))
		return;
	supervise_settle(sv);
	sv->told = true;
	/* The caller may disconnect now, and its stdio must be its own again before it is told. */
	loop_unwatch(&sv->loop, &sv->w_alive);
	pump_release(&sv->pump);
	supervise_say_rest(sv);
	sv->io->ended(sv->io->ctx);
}

static int run_supervision(struct supervision *sv)
{
	int r = 0;

	while (r == 0 && !sv->loop.stopped) {
		r = loop_round(&sv->loop, sv->err);
		if (sv->dirty)
			supervise_clients_flush(sv);
		if (sv->paused && conn_pending(&sv->init) < SUPERVISE_INIT_HIGH / 2)
			supervise_clients_resume(sv);
		if (!sv->told)
			supervise_prompt_round(sv);
		if (!sv->told)
			pump_continue(&sv->pump);
		if (!sv->told)
			tell_command_end(sv);
	}
	return r;
}

static void tear_down_supervision(struct supervision *sv)
{
	struct chan *ch, *next;

	sv->gone = true;
	supervise_thaw(sv);
	for (ch = sv->chans; ch; ch = next) {
		const struct proto_exit x = { PROTO_SIGNALED, SIGKILL, sv->rolled ? PROTO_WHAT_ROLLED : 0 };

		next = ch->next;
		/* Commands that still ran were killed together with pid 1. */
		if (!ch->is_main && !ch->is_port && !ch->is_agent && ch->state != CHAN_BODY)
			supervise_exec_ended(ch, &x);
	}
	supervise_ports_close(sv);
	supervise_agent_close(sv);
	supervise_prompt_close(sv);
	while (sv->clients)
		supervise_client_drop(sv->clients);
	while (sv->chans)
		supervise_chan_free(sv->chans);
	pump_release(&sv->pump);
	supervise_say_rest(sv);
	conn_release(&sv->init);
	loop_close(&sv->loop);
}

/* Pid 1 is dead and reaped when supervise() returns, also after a failure. */
static void kill_and_reap_init(struct supervision *sv)
{
	siginfo_t si;

	if (sv->reaped || sv->run->pidfd < 0)
		return;
	supervise_kill(sv, CAUSE_COUNT);
	while (waitid(P_PIDFD, (id_t)sv->run->pidfd, &si, WEXITED) < 0 && errno == EINTR)
		;
}

int supervise(const struct spec *s, struct cgroup *cg, struct engine_run *run, const struct supervise_io *io,
	      struct run_end *ret, struct err *e)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	struct supervision sv = { .spec = s, .cg = cg, .run = run, .io = io, .end = ret, .err = e };
	int r;

	*ret = (struct run_end){ .claim.kind = PROTO_EXIT_KINDS };
	sv.cause = CAUSE_COUNT;
	sv.loop = LOOP_INIT;
	sv.init = CONN_INIT;
	sv.agent.w = WATCH_INIT;
	sv.prompt = (struct supervise_prompt){ .c = ASKC_INIT, .w = WATCH_INIT, .w_in = WATCH_INIT };
	sv.started = clock_nsec(CLOCK_MONOTONIC);
	/* A closed pipe shows as EPIPE of write(), not as a signal that kills the launcher. */
	sigaction(SIGPIPE, &ignore, &old);
	r = set_up_supervision(&sv);
	if (r == 0)
		r = run_supervision(&sv);
	kill_and_reap_init(&sv);
	if (r == 0 && !sv.told)
		supervise_settle(&sv);
	tear_down_supervision(&sv);
	sigaction(SIGPIPE, &old, NULL);
	return r < 0 ? r : sv.error;
}
