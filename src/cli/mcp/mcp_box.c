/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of `coffer mcp`: one run that is started again for every call. Each call forks a launcher,
 * which starts the sandbox over the session's layer, waits for its end and reports it over a pipe. See
 * mcp_box.h for the invariants. Tools never enter a sandbox by another way.
 */
#include "cli/mcp/mcp_box.h"

#include "approval/list/granted.h"
#include "approval/server/askback.h"
#include "base/clock.h"
#include "base/fd.h"
#include "checkpoint/checkpoint.h"
#include "cli/box/cmd_checkpoint.h"
#include "cli/common/changed.h"
#include "cli/core/say.h"
#include "cli/run/run_say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define CLAIM_MS 60000u
#define CLAIM_STEP_MS 5

/* --- the launcher: a child process for each call ---------------------------------------------------- */

/*
 * Messages of the guard go into the report, not between the command's output. Static, because a launcher process
 * has exactly one run.
 */
static char notes[MCP_BOX_NOTES];

static void note_guard_message(enum net_level level, const char *text, struct buf *out)
{
	size_t have = strlen(notes);

	(void)level;
	(void)out;
	if (have + strlen(text) + 2 <= sizeof(notes))
		snprintf(notes + have, sizeof(notes) - have, "%s\n", text);
}

/* mcp_box.X2: one call at a time has the layer. Retries for CLAIM_MS while another process holds the run's lock. */
int cli_mcp_box_claim(struct state *st, const char *id, struct err *e)
{
	const struct timespec pause = { .tv_nsec = CLAIM_STEP_MS * (long)NSEC_PER_MSEC };
	int fd = -EBUSY;

	for (unsigned ms = 0; fd == -EBUSY && ms < CLAIM_MS; ms += CLAIM_STEP_MS) {
		*e = ERR_INIT;
		fd = state_run_claim(st, id, e);
		if (fd == -EBUSY)
			nanosleep(&pause, NULL);
	}
	if (fd == -EBUSY)
		return err_set(e, -EBUSY, "another process is using the session's workspace (%s)", id);
	if (fd == -ENOENT)
		return err_set(e, -ENOENT,
			       "the session's workspace is gone: %s was removed, applied or discarded", id);
	return fd;
}

int cli_mcp_box_settle(const struct mcp_box *b, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	int fd = state_open(&st, e);

	if (fd == 0)
		fd = cli_mcp_box_claim(&st, b->id, e);
	fd_close(fd);
	return fd < 0 ? fd : 0;
}

static int add_call_env(struct strv *env, const struct strv *typed, const json_t *more, struct err *e)
{
	const char *name;
	json_t *value;
	int r = 0;

	for (size_t i = 0; r == 0 && i < typed->n; i++)
		r = strv_add(env, typed->v[i]);
	/* Always with a value: run_args would take a bare name from our own environment. */
	json_object_foreach((json_t *)more, name, value)
	{
		if (!*name || strchr(name, '='))
			return err_set(e, -EINVAL, "env: a name must not be empty or contain '='");
		if (r == 0)
			r = strv_addf(env, "%s=%s", name, json_string_value(value));
	}
	return r < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Prepares to start the same run again, over the layer that it wrote. */
static int resume_session_run(struct session *s, const struct mcp_box *b, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	int r;

	s->run.origin.dir_fd = cli_mcp_box_claim(&s->st, b->id, e);
	if (s->run.origin.dir_fd < 0)
		return s->run.origin.dir_fd;
	r = ckpt_recover(&s->st, b->id, s->run.origin.dir_fd, e);
	if (r == 0)
		r = state_meta_read(s->run.origin.dir_fd, &m, e);
	if (r < 0)
		return r;
	if (m.workspace && (!s->spec.ws_path || !str_eq(s->spec.ws_path, m.workspace)))
		return err_set(e, -ESTALE,
			       "the session's workspace %s was removed or replaced since the session started",
			       m.workspace);
	s->run.origin.kind = RUN_RESUMED;
	s->run.origin.started = m.started;
	return 0;
}

static bool is_masked_path(const struct spec *s, const char *path)
{
	for (size_t i = 0; path && i < s->n_masks; i++) {
		size_t n = strlen(s->masks[i].path);

		if (strncmp(path, s->masks[i].path, n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

static void fill_call_end(struct mcp_box_end *end, const struct session *s)
{
	const struct run_end *re = &s->run.end;
	struct err e = ERR_INIT;

	memcpy(end->id, s->spec.id, sizeof(end->id));
	end->cause = re->cause;
	end->exit_code = re->exit_code;
	end->signal = re->signal;
	end->wall_ns = re->wall_ns;
	end->output_cut = re->output_cut;
	if (re->cause == CAUSE_NOT_STARTED)
		proto_exit_text(&re->claim, s->spec.argv.v[0], s->spec.cwd, &e);
	else if (re->cause == CAUSE_BROKEN || re->cause == CAUSE_NETWORK)
		snprintf(e.msg, sizeof(e.msg), "%s", re->broken);
	memcpy(end->msg, e.msg, sizeof(end->msg));
	memcpy(end->notes, notes, sizeof(end->notes));
}

/*
 * mcp_box.X8: a session without an option about the network has none, and does not pay for starting one,
 * until a person grants it a rule; then only that rule is allowed. A file that cannot be read grants
 * nothing (granted.G2).
 */
static void open_granted_network(const struct mcp_box *b, struct run_args *a)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autostrv struct strv rules = STRV_INIT, ids = STRV_INIT;
	struct err ignored = ERR_INIT;
	autoclose int fd = -1;
	bool alive;

	if (a->o.net || a->o.has_net || state_open(&st, &ignored) < 0)
		return;
	fd = state_run_open(&st, b->id, &alive, &ignored);
	if (fd < 0 || !granted_exists(fd) || granted_rules(fd, b->id, &rules, &ids, &ignored) < 0)
		return;
	a->o.has_net = rules.n > 0;
	a->o.net = rules.n ? "enforce" : NULL;
}

static int run_call(const struct mcp_box *b, const struct mcp_box_cmd *c, bool first, struct session *s,
		    struct run_args *a, struct mcp_box_end *end, struct err *e)
{
	struct run_io io = RUN_IO_INIT;
	int r;

	if (!first) {
		memcpy(s->spec.id, b->id, sizeof(s->spec.id));
		open_granted_network(b, a);
	}
	r = cli_session_open(s, a, e);
	end->usage = s->usage;
	if (r == 0 && s->spec.ws_mode != WS_OVERLAY && s->spec.ws_mode != WS_EPHEMERAL) {
		end->usage = true;
		r = err_set(e, -EINVAL,
			    "-C: the workspace of a session is always under a layer, without :ro or :rw");
	}
	if (r < 0)
		return r;
	s->spec.builtin = c->builtin;
	s->spec.series = true;
	s->run.acts = &b->acts;
	s->run.acts_file = b->file;
	end->empty = s->spec.ws_mode == WS_EPHEMERAL;
	end->hidden = is_masked_path(&s->spec, c->path);
	if (first) {
		cli_run_say_before(&s->spec, &s->choice, &s->note);
		cli_run_say_conflicts(&s->net);
	} else {
		r = resume_session_run(s, b, e);
	}
	if (r < 0)
		return r;
	/* The rules that a person granted to the session. */
	if (!first && s->run.net)
		r = net_plan_grant(s->run.net, &s->spec, s->run.origin.dir_fd, e);
	if (r < 0)
		return r;
	io.in = c->in;
	io.out = c->out;
	io.err = c->err;
	io.alive_fd = c->alive;
	io.say = note_guard_message;
	r = run_execute(&s->run, &io, e);
	if (r == 0)
		fill_call_end(end, s);
	/*
	 * Nothing else tells the agent that a command failed for lack of a network. With --net none the
	 * network was disabled on purpose, and the agent is not advised to ask for it.
	 */
	if (r == 0 && s->spec.net == NET_NONE && !b->args->o.net && end->exit_code != 0 && !end->notes[0])
		snprintf(
			end->notes, sizeof(end->notes),
			"this session has no network; the tool request_access asks a person to allow a host\n");
	return r;
}

static int set_call_timeout(struct run_args *a, uint64_t ns)
{
	a->o.limits.l[LIMIT_TIMEOUT].value = ns;
	a->o.limits.l[LIMIT_TIMEOUT].named = true;
	return 0;
}

static _Noreturn void launcher_main(const struct mcp_box *b, const struct mcp_box_cmd *c, bool first, int out)
{
	struct session s = SESSION_INIT;
	struct mcp_box_end end = { 0 };
	struct run_args a = *b->args;
	struct err e = ERR_INIT;
	int r;

	signal(SIGPIPE, SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(c->ours); i++)
		fd_close(c->ours[i]);
	if (!first)
		say_quiet(true);
	a.o.env = STRV_INIT;
	r = add_call_env(&a.o.env, &b->args->o.env, c->env, &e);
	for (a.o.argc = 0; c->argv[a.o.argc]; a.o.argc++)
		;
	a.o.argv = (char **)c->argv;
	if (c->cwd)
		a.o.workdir = c->cwd;
	if (r == 0)
		r = set_call_timeout(&a, c->timeout && c->timeout < b->timeout ? c->timeout : b->timeout);
	if (r == 0)
		r = run_call(b, c, first, &s, &a, &end, &e);
	end.code = r;
	if (r < 0) {
		memcpy(end.msg, e.msg, sizeof(end.msg));
		memcpy(end.hint, e.hint, sizeof(end.hint));
	}
	_exit(fd_write_all(out, &end, sizeof(end)) < 0);
}

int cli_mcp_box_start(const struct mcp_box *b, const struct mcp_box_cmd *c, bool first,
		      struct mcp_box_run *ret, struct err *e)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		fd_close(p[0]);
		launcher_main(b, c, first, p[1]);
	}
	fd_close(p[1]);
	if (pid < 0) {
		fd_close(p[0]);
		return err_sys(e, -errno, "cannot start a process");
	}
	*ret = (struct mcp_box_run){ pid, p[0] };
	return 0;
}

int cli_mcp_box_wait(struct mcp_box_run *r, struct mcp_box_end *ret, struct err *e)
{
	int got = fd_read_exact(r->end, ret, sizeof(*ret)), status = 0;

	r->end = fd_close(r->end);
	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got < 0 && WIFSIGNALED(status))
		return err_set(e, -EIO, "the sandbox's launcher was killed by signal %d (%s)",
			       WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (got < 0)
		return err_set(e, -EIO, "the sandbox's launcher died");
	if (ret->code < 0) {
		err_set(e, ret->code, "%s", ret->msg);
		return ret->hint[0] ? err_hint(e, ret->code, "%s", ret->hint) : ret->code;
	}
	return 0;
}

/* --- the session -------------------------------------------------------------------------------------------------------- */

static int begin_grant_session(struct mcp_box *b, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autoclose int fd = -1;
	bool alive;
	int r = state_open(&st, e);

	if (r == 0)
		r = fd = state_run_open(&st, b->id, &alive, e);
	if (r >= 0)
		r = b->session = granted_session_begin(fd, e);
	return r < 0 ? r : 0;
}

int cli_mcp_box_open(struct mcp_box *b, struct err *e)
{
	static char none[] = "file-none";
	char *const argv[] = { none, NULL };
	const struct mcp_box_cmd c = { .argv = argv,
				       .builtin = true,
				       .in = -1,
				       .out = -1,
				       .err = -1,
				       .ours = { -1, -1, -1 },
				       .alive = -1 };
	autoref struct ref ref = REF_INIT;
	struct mcp_box_run run = { -1, -1 };
	struct mcp_box_end end = { 0 };
	uint32_t number;
	int r = cli_mcp_box_start(b, &c, true, &run, e);

	if (r == 0)
		r = cli_mcp_box_wait(&run, &end, e);
	b->usage = end.usage;
	if (r < 0)
		return r;
	if (end.cause != CAUSE_EXIT || end.exit_code)
		return err_set(e, -EIO, "the session's first sandbox ended by %s%s%s",
			       run_cause_name((enum run_cause)end.cause), end.msg[0] ? ": " : "", end.msg);
	memcpy(b->id, end.id, sizeof(b->id));
	b->has_original = !end.empty;
	b->wipe = b->wipe || end.empty;
	r = ref_open(&ref, b->id, e);
	r = r < 0 ? r : cli_checkpoint_make_now(&ref, "start", &number, e);
	return r < 0 ? r : begin_grant_session(b, e);
}

int cli_mcp_box_end_session(struct mcp_box *b, struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autoclose int fd = -1;
	bool alive;
	int r = state_open(&st, e);

	b->session = fd_close(b->session);
	if (r == 0)
		r = fd = state_run_open(&st, b->id, &alive, e);
	/* Somebody has applied or discarded it meanwhile. */
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : askback_end_session(&st, fd, b->id, e);
}

void cli_mcp_box_outlive(const struct mcp_box *b)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	autoclose int fd = -1;
	bool alive;

	if (state_open(&st, &e) == 0)
		fd = state_run_open(&st, b->id, &alive, &e);
	if (fd >= 0)
		granted_session_wait(fd);
}

static int log_session_discard(struct audit *a, const struct changed *run, struct err *e)
{
	autobuf struct buf f = BUF_INIT;
	struct json j = JSON_INIT(&f);

	json_str(&j, "workspace", run->meta.workspace);
	json_u64(&j, "changes", run->meta.changes);
	return buf_error(&f) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(a, "workspace.discard", run->id, &f, e);
}

int cli_mcp_box_close(const struct mcp_box *b, struct err *e)
{
	CLEANUP(cli_changed_release) struct changed run = CHANGED_INIT;
	CLEANUP(audit_freep) struct audit *a = NULL;
	uint64_t n = 0;
	int r = cli_mcp_box_settle(b, e);

	/* Somebody has applied or discarded it meanwhile. */
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = cli_changed_audit(&a, e);
	if (r == 0)
		r = cli_changed_open(&run, b->id, true, e);
	if (r < 0)
		return r;
	if (!b->wipe && run.meta.changes) {
		say_warn(
			"the session changed %llu files; coffer diff %s, then coffer apply %s or coffer discard %s",
			(unsigned long long)run.meta.changes, run.id, run.id, run.id);
		return 0;
	}
	r = log_session_discard(a, &run, e);
	if (r == 0)
		r = cli_changed_remove(&run, a, &n, e);
	if (r == 0 && b->wipe)
		say_note("the session's workspace was wiped: %llu %s", (unsigned long long)n,
			 n == 1 ? "file or directory" : "files and directories");
	return r;
}
