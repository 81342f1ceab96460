/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and reaping commands. A start is a vfork on a stack of its own: the child shares our memory until it
 * execs, so nothing is copied, and it leaves what went wrong where we find it.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

#define REAP_MAX 256 /* in one round, so that a storm of orphans cannot keep us from answering */
#define CHILD_STACK (32u << 10)
#define EXEC_PATH_MAX 4096

struct child {
	const struct init *in;
	const struct proto_body *body;
	bool builtin;
	int fd[3]; /* what becomes 0, 1, 2; -1: /dev/null stays */
	int tty;   /* the slave, or -1 */
	int error; /* positive errno, 0: it was started */
	enum proto_what what;
};

static char exec_path[EXEC_PATH_MAX];
static uint8_t child_stack[CHILD_STACK] __attribute__((aligned(16)));

/* A file without "#!" is a shell script unless it looks like a binary. */
static bool looks_like_text(const char *path)
{
	char head[80];
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

	return n >= 0 && (n == 0 || !memchr(head, 0, (size_t)n));
}

/* Returns only on failure. */
static int try_exec(const char *path, const struct proto_body *b)
{
	static char shell[] = "/bin/sh";
	char *argv0 = b->argv[0];

	execve(path, b->argv, b->env);
	if (errno != ENOEXEC || !looks_like_text(path))
		return errno;
	b->argv[-1] = shell;
	b->argv[0] = (char *)path;
	execve(shell, b->argv - 1, b->env);
	b->argv[0] = argv0;
	return ENOEXEC;
}

static const char *env_path(char *const *env)
{
	for (; *env; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return "/usr/local/bin:/usr/bin:/bin";
}

/* The next directory of PATH and the name behind it in exec_path; NULL at the end. One too long is left out. */
static const char *next_candidate(const char *path, const char *name)
{
	size_t n = strlen(name);

	for (;;) {
		const char *colon = strchr(path, ':');
		size_t dir = colon ? (size_t)(colon - path) : strlen(path);
		const char *next = path + dir + (colon != NULL);

		if (dir + n + 2 <= sizeof(exec_path)) {
			memcpy(exec_path, path, dir);
			if (dir)
				exec_path[dir++] = '/';
			memcpy(exec_path + dir, name, n);
			exec_path[dir + n] = '\0';
			return next;
		}
		if (!colon)
			return NULL;
		path = next;
	}
}

static bool path_goes_on(const char *next)
{
	return next && next[-1] == ':';
}

/* As execvp(): a directory that cannot be searched or holds something else does not end the search. */
static int exec_by_path(const struct proto_body *b)
{
	const char *next = env_path(b->env);
	bool denied = false;

	do {
		int r;

		next = next_candidate(next, b->argv[0]);
		if (!next)
			break;
		r = try_exec(exec_path, b);
		if (r == EACCES)
			denied = true;
		else if (r != ENOENT && r != ENOTDIR && r != ESTALE && r != ENODEV && r != ETIMEDOUT &&
			 r != ENAMETOOLONG)
			return r;
	} while (path_goes_on(next));
	return denied ? EACCES : ENOENT;
}

/* ENOENT although the file is there: what its first line or header names is not. */
static bool interpreter_is_missing(const struct proto_body *b)
{
	const char *next = env_path(b->env);

	if (strchr(b->argv[0], '/'))
		return access(b->argv[0], F_OK) == 0;
	do {
		next = next_candidate(next, b->argv[0]);
		if (next && access(exec_path, X_OK) == 0)
			return true;
	} while (path_goes_on(next));
	return false;
}

static void exec_command(struct child *ch)
{
	const struct proto_body *b = ch->body;

	if (!b->argv[0][0])
		ch->error = ENOENT;
	else if (strchr(b->argv[0], '/'))
		ch->error = try_exec(b->argv[0], b);
	else
		ch->error = exec_by_path(b);
	ch->what = PROTO_WHAT_EXEC;
	if (ch->error == ENOENT && b->argv[0][0] && interpreter_is_missing(b))
		ch->what = PROTO_WHAT_INTERP;
}

static int child_failed(struct child *ch, enum proto_what what)
{
	ch->error = errno;
	ch->what = what;
	return 127;
}

/* Runs in the child, in our memory: it may touch nothing but *ch and what only it uses. */
static int child_main(void *arg)
{
	struct child *ch = arg;
	sigset_t none;

	setsid();
	if (ch->tty >= 0 && ioctl(ch->tty, TIOCSCTTY, 0) < 0)
		return child_failed(ch, PROTO_WHAT_TTY);
	for (int i = 0; i < 3; i++) {
		if (ch->fd[i] >= 0 && dup2(ch->fd[i], i) < 0)
			return child_failed(ch, PROTO_WHAT_FDS);
	}
	/* I4: all of ours are close-on-exec already; this is the second lock on that door. */
	syscall(SYS_close_range, 3U, INIT_FD_LAST, ch->builtin ? 0 : CLOSE_RANGE_CLOEXEC);
	if (ch->in->nofile.rlim_cur < ch->in->nofile.rlim_max)
		setrlimit(RLIMIT_NOFILE, &ch->in->nofile);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (ch->body->cwd[0] && chdir(ch->body->cwd) < 0)
		return child_failed(ch, PROTO_WHAT_CWD);
	if (ch->builtin)
		return init_copy_is(ch->body->argv[0]) ? init_copy(ch->body->argv)
						       : init_file(ch->body->argv);
	exec_command(ch);
	return 127;
}

static pid_t spawn(struct child *ch)
{
	pid_t pid;

	if (ch->builtin) {
		pid = fork();
		if (pid == 0)
			_exit(child_main(ch));
	} else {
		/* A child that became another program never left its functions, so their marks are still there in a
		 * sanitizer build, and the next child's would be laid over them. Nothing in any other. */
		ASAN_UNPOISON_MEMORY_REGION(child_stack, sizeof(child_stack));
		pid = clone(child_main, child_stack + sizeof(child_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			    ch);
	}
	return pid < 0 ? -errno : pid;
}

/* A pipe with our end in *ours and the command's in *theirs. */
static int make_pipe(int *ours, int *theirs, bool we_write)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*ours = p[we_write];
	*theirs = p[!we_write];
	return 0;
}

static int make_stdio(struct cmd *c, const struct proto_start *s, struct child *ch)
{
	int r = 0;

	if (s->flags & PROTO_F_TTY) {
		c->out[0] = pty_open(s->rows, s->cols, &ch->tty);
		ch->what = PROTO_WHAT_TTY;
		for (int i = 0; i < 3; i++)
			ch->fd[i] = ch->tty;
		return c->out[0] < 0 ? c->out[0] : 0;
	}
	ch->what = PROTO_WHAT_FDS;
	r = make_pipe(&c->out[0], &ch->fd[1], false);
	if (r == 0)
		r = make_pipe(&c->out[1], &ch->fd[2], false);
	if (r == 0 && s->flags & PROTO_F_STDIN) {
		r = make_pipe(&c->in, &ch->fd[0], true);
		if (r == 0 && fcntl(c->in, F_SETFL, O_NONBLOCK) < 0)
			r = -errno;
	}
	return r;
}

static void close_theirs(struct child *ch)
{
	if (ch->tty >= 0) {
		ch->tty = fd_close(ch->tty);
		return;
	}
	for (int i = 0; i < 3; i++)
		ch->fd[i] = fd_close(ch->fd[i]);
}

static int start_child(struct cmd *c, const struct proto_start *s, struct child *ch)
{
	pid_t pid;
	int r = make_stdio(c, s, ch);

	if (r == 0) {
		ch->what = PROTO_WHAT_FORK;
		pid = spawn(ch);
		r = pid < 0 ? (int)pid : 0;
		if (r == 0 && ch->error) {
			waitpid(pid, NULL, 0);
			r = -ch->error;
		}
		c->pid = pid;
	}
	close_theirs(ch);
	return r;
}

static void not_started(struct init *in, struct cmd *c, int code, enum proto_what what)
{
	const struct proto_exit end = { PROTO_NOT_STARTED, (unsigned)-code, what };

	c->in = fd_close(c->in);
	c->out[0] = fd_close(c->out[0]);
	c->out[1] = fd_close(c->out[1]);
	cmd_ended(in, c, &end);
}

int cmd_start(struct init *in, struct cmd *c, const struct proto_start *s)
{
	struct proto_body body = { 0 };
	struct child ch = { .in = in, .body = &body, .fd = { -1, -1, -1 }, .tty = -1 };
	int r;

	if (s->flags & (PROTO_F_CAP | PROTO_F_DETACH))
		return -EPROTO;
	c->state = CMD_RUNNING;
	c->flags = s->flags;
	c->credit = c->in_room = PROTO_WINDOW;
	c->chunk = INIT_CHUNK;
	in->bodies -= c->body.len;
	ch.what = PROTO_WHAT_REQUEST;
	r = proto_body_split(c->body.data, c->body.len, s, &body);
	if (r == -EPROTO)
		return r;
	ch.builtin = s->flags & PROTO_F_BUILTIN;
	if (r == 0 && ch.builtin && !init_copy_is(body.argv[0]) && !init_file_is(body.argv[0]))
		r = -EINVAL;
	if (r == 0)
		r = start_child(c, s, &ch);
	proto_body_release(&body);
	buf_release(&c->body);
	if (r < 0) {
		not_started(in, c, r, ch.what);
	} else {
		proto_add_u32(&in->out, PROTO_STARTED, c->chan, (uint32_t)c->pid);
		in->lazy += FRAME_HEAD + 4;
	}
	return 0;
}

void cmd_signal(struct cmd *c, int sig)
{
	pid_t fg = cmd_has_tty(c) && c->out[0] >= 0 ? pty_foreground(c->out[0]) : 0;

	if (fg > 1 && fg != c->pid)
		kill(-fg, sig);
	/* What ends a command ends its shell too, not only the job in the foreground. */
	if (fg <= 1 || fg == c->pid || sig == SIGKILL || sig == SIGHUP || sig == SIGTERM)
		kill(-c->pid, sig);
}

static struct cmd *find_pid(struct init *in, pid_t pid)
{
	for (unsigned i = 0; i < in->n_cmd; i++) {
		if (in->cmd[i].state == CMD_RUNNING && in->cmd[i].pid == pid)
			return &in->cmd[i];
	}
	return NULL;
}

/* It has been reaped, so that its own place is free again: the limit was reached if there is one but not two. */
static bool failed_at_limit(const struct cmd *c, const struct proto_exit *end)
{
	if (!(c->flags & PROTO_F_PIDS) || (end->kind == PROTO_EXITED && end->value == 0))
		return false;
	return c->pids_hit || pids_are_at_limit(true);
}

void cmd_reap(struct init *in)
{
	struct signalfd_siginfo si;
	/* Many ends may be told by one signal: it only says that there is something to reap. */
	ssize_t n = read(in->sig_fd, &si, sizeof(si));

	(void)n;
	in->reap_again = false;
	for (int i = 0; i < REAP_MAX; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		struct cmd *c;
		struct proto_exit end = { 0 };

		if (pid <= 0)
			return;
		c = find_pid(in, pid);
		if (!c)
			continue;
		end.kind = WIFSIGNALED(status) ? PROTO_SIGNALED : PROTO_EXITED;
		end.value = (unsigned)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		if (failed_at_limit(c, &end))
			end.what = PROTO_WHAT_PIDS;
		cmd_ended(in, c, &end);
	}
	in->reap_again = true;
}
