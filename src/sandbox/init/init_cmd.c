/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and reaps commands. A start is a vfork on a stack of its own: the child shares our memory until it execs, so
 * nothing is copied, and it leaves its error where we can read it. The child passes on 0, 1 and 2 only (init.I4).
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

#define REAP_MAX 256 /* in one round, so that many orphans at once cannot delay our replies */
#define CHILD_STACK (32u << 10)
#define EXEC_PATH_MAX 4096

struct child {
	const struct init *in;
	const struct proto_body *body;
	bool builtin;
	int fd[3]; /* becomes 0, 1, 2; -1: /dev/null stays */
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
static int exec_one_path(const char *path, const struct proto_body *b)
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

static const char *find_path_variable(char *const *env)
{
	for (; *env; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return "/usr/local/bin:/usr/bin:/bin";
}

/* Puts the next directory of PATH, followed by the name, into exec_path; NULL at the end. A path that is too long is
 * skipped. */
static const char *next_path_candidate(const char *path, const char *name)
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

static bool path_has_more(const char *next)
{
	return next && next[-1] == ':';
}

/* As execvp(): an unsearchable directory, or a name there that is not executable, does not end the search. */
static int exec_by_path(const struct proto_body *b)
{
	const char *next = find_path_variable(b->env);
	bool denied = false;

	do {
		int r;

		next = next_path_candidate(next, b->argv[0]);
		if (!next)
			break;
		r = exec_one_path(exec_path, b);
		if (r == EACCES)
			denied = true;
		else if (r != ENOENT && r != ENOTDIR && r != ESTALE && r != ENODEV && r != ETIMEDOUT &&
			 r != ENAMETOOLONG)
			return r;
	} while (path_has_more(next));
	return denied ? EACCES : ENOENT;
}

/* ENOENT for an existing file: the interpreter that its first line or its header names does not exist. */
static bool interpreter_is_missing(const struct proto_body *b)
{
	const char *next = find_path_variable(b->env);

	if (strchr(b->argv[0], '/'))
		return access(b->argv[0], F_OK) == 0;
	do {
		next = next_path_candidate(next, b->argv[0]);
		if (next && access(exec_path, X_OK) == 0)
			return true;
	} while (path_has_more(next));
	return false;
}

static void exec_command(struct child *ch)
{
	const struct proto_body *b = ch->body;

	if (!b->argv[0][0])
		ch->error = ENOENT;
	else if (strchr(b->argv[0], '/'))
		ch->error = exec_one_path(b->argv[0], b);
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

/* Runs in the child, in our memory: it may write to *ch and to data that only the child uses, nothing else. */
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
	/* init.I4: our descriptors are close-on-exec already; this is the second barrier. */
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

static pid_t spawn_child(struct child *ch)
{
	pid_t pid;

	if (ch->builtin) {
		pid = fork();
		if (pid == 0)
			_exit(child_main(ch));
	} else {
		/* Sanitizer builds only: a child that has exec'd never returned from its functions, so their shadow
		 * marks are still on this stack and would mix with those of the next child. */
		ASAN_UNPOISON_MEMORY_REGION(child_stack, sizeof(child_stack));
		pid = clone(child_main, child_stack + sizeof(child_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			    ch);
	}
	return pid < 0 ? -errno : pid;
}

/* A pipe with our end in *ours and the command's in *theirs. */
static int make_stdio_pipe(int *ours, int *theirs, bool we_write)
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
	r = make_stdio_pipe(&c->out[0], &ch->fd[1], false);
	if (r == 0)
		r = make_stdio_pipe(&c->out[1], &ch->fd[2], false);
	if (r == 0 && s->flags & PROTO_F_STDIN) {
		r = make_stdio_pipe(&c->in, &ch->fd[0], true);
		if (r == 0 && fcntl(c->in, F_SETFL, O_NONBLOCK) < 0)
			r = -errno;
	}
	return r;
}

static void close_child_ends(struct child *ch)
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
		pid = spawn_child(ch);
		r = pid < 0 ? (int)pid : 0;
		if (r == 0 && ch->error) {
			waitpid(pid, NULL, 0);
			r = -ch->error;
		}
		c->pid = pid;
	}
	close_child_ends(ch);
	return r;
}

static void report_not_started(struct init *in, struct cmd *c, int code, enum proto_what what)
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

	if (s->flags & PROTO_F_CAP || (s->flags & PROTO_F_DETACH && !(s->flags & PROTO_F_MAIN)))
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
		report_not_started(in, c, r, ch.what);
	} else {
		proto_add_u32(&in->out, PROTO_STARTED, c->chan, (uint32_t)c->pid);
		if (!(s->flags & PROTO_F_DETACH))
			in->lazy += FRAME_HEAD + 4;
	}
	return 0;
}

void cmd_signal(struct cmd *c, int sig)
{
	pid_t fg = cmd_has_tty(c) && c->out[0] >= 0 ? pty_foreground(c->out[0]) : 0;

	if (fg > 1 && fg != c->pid)
		kill(-fg, sig);
	/* A signal that ends a command goes to its shell too, not only to the foreground job. */
	if (fg <= 1 || fg == c->pid || sig == SIGKILL || sig == SIGHUP || sig == SIGTERM)
		kill(-c->pid, sig);
}

static struct cmd *find_cmd_by_pid(struct init *in, pid_t pid)
{
	for (unsigned i = 0; i < in->n_cmd; i++) {
		if (in->cmd[i].state == CMD_RUNNING && in->cmd[i].pid == pid)
			return &in->cmd[i];
	}
	return NULL;
}

/* The command was reaped, so its own place is free again: the limit was reached if one process can be started, but not
 * two. */
static bool failed_at_pids_limit(const struct cmd *c, const struct proto_exit *end)
{
	if (!(c->flags & PROTO_F_PIDS) || (end->kind == PROTO_EXITED && end->value == 0))
		return false;
	return c->pids_hit || pids_are_at_limit(true);
}

/*
 * Nothing above a command could continue it: init is no shell, and the command's process group is orphaned. Linux
 * therefore does not let the terminal stop such a group (Ctrl-Z), but gVisor does. Children of a shell inside are the
 * shell's own: their stops are not reported here. SIGSTOP stops an orphaned group on Linux, too.
 */
static void continue_stopped(const struct cmd *c, int sig)
{
	if (sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
		kill(-c->pid, SIGCONT);
}

void cmd_reap(struct init *in)
{
	struct signalfd_siginfo si;
	/* One SIGCHLD may stand for many children: it only means that there is something to reap. */
	ssize_t n = read(in->sig_fd, &si, sizeof(si));

	(void)n;
	in->reap_again = false;
	for (int i = 0; i < REAP_MAX; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
		struct cmd *c;
		struct proto_exit end = { 0 };

		if (pid <= 0)
			return;
		c = find_cmd_by_pid(in, pid);
		if (!c)
			continue;
		if (WIFSTOPPED(status)) {
			continue_stopped(c, WSTOPSIG(status));
			continue;
		}
		end.kind = WIFSIGNALED(status) ? PROTO_SIGNALED : PROTO_EXITED;
		end.value = (unsigned)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		if (failed_at_pids_limit(c, &end))
			end.what = PROTO_WHAT_PIDS;
		cmd_ended(in, c, &end);
	}
	in->reap_again = true;
}
