/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killat [-c] N PROGRAM ARG…: runs a program and kills it (with -c: the first process that it forks) with SIGKILL before
 * its Nth system call that could change a file, or that waits for somebody who does. Exits 137 when it did, with the
 * program's own code when that ended earlier; what it left running goes on.
 * So a test can stop a program at every step that matters, one after the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int killed;

static int changes_files(unsigned long long nr, unsigned long long flags)
{
	static const long calls[] = {
		SYS_write,     SYS_pwrite64,  SYS_openat,    SYS_linkat,    SYS_unlinkat, SYS_renameat,
		SYS_renameat2, SYS_mkdirat,   SYS_mknodat,   SYS_symlinkat, SYS_fchmod,	  SYS_fchmodat,
		SYS_fchownat,  SYS_ftruncate, SYS_utimensat, SYS_fsetxattr, SYS_sendto,	  SYS_sendmsg,
		SYS_fsync,     SYS_fdatasync, SYS_flock,     SYS_unlink,    SYS_rename,
	};

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if ((unsigned long long)calls[i] == nr)
			return nr != SYS_openat || flags & (O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY));
	}
	return 0;
}

static int code_of(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

struct tracee {
	pid_t pid;
	int inside; /* a system call */
};

/* Counts the calls of one process; 1 when it was killed. */
static int count_call(struct tracee *t, long *n, long at)
{
	struct user_regs_struct regs;

	t->inside = !t->inside;
	if (!t->inside || ptrace(PTRACE_GETREGS, t->pid, 0, &regs) < 0 ||
	    !changes_files(regs.orig_rax, regs.rdx) || ++*n != at)
		return 0;
	kill(t->pid, SIGKILL);
	return 1;
}

/* The program itself, or with `child` the first process that it forks, until the program ends. */
static int trace(pid_t pid, long at, int child)
{
	struct tracee t = { child ? -1 : pid, 0 };
	unsigned long first;
	int status;
	long n = 0;
	pid_t who = waitpid(pid, &status, 0);

	if (who < 0 ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | (child ? PTRACE_O_TRACEFORK : 0)) < 0)
		return 125;
	for (int sig = 0;; sig = 0) {
		if (ptrace(who == t.pid ? PTRACE_SYSCALL : PTRACE_CONT, who, 0, sig) < 0 && errno != ESRCH)
			return 125;
		do {
			who = waitpid(-1, &status, __WALL);
			if (who == pid && !WIFSTOPPED(status))
				return code_of(status);
		} while (who > 0 && !WIFSTOPPED(status));
		if (who < 0)
			return 125;
		if (who != pid && t.pid < 0)
			t = (struct tracee){ who, 0 };
		if (who == t.pid && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (count_call(&t, &n, at)) {
				if (!child)
					return 137;
				killed = 1;
			}
		} else if (status >> 16 == PTRACE_EVENT_FORK && who == pid) {
			/* Only this one child: what it forks itself is let go. */
			ptrace(PTRACE_GETEVENTMSG, pid, 0, &first);
			ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
		} else if (who == t.pid && WSTOPSIG(status) == SIGSTOP && !t.inside && n == 0) {
			ptrace(PTRACE_SETOPTIONS, who, 0, PTRACE_O_TRACESYSGOOD);
		} else if (WSTOPSIG(status) != SIGTRAP) {
			sig = WSTOPSIG(status);
		}
	}
}

int main(int argc, char **argv)
{
	int child = argc > 1 && strcmp(argv[1], "-c") == 0, code;
	pid_t pid;

	argv += child;
	if (argc - child < 3)
		return 2;
	pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0)
			execv(argv[2], argv + 2);
		_exit(126);
	}
	code = pid < 0 ? 125 : trace(pid, strtol(argv[1], NULL, 10), child);
	return killed ? 137 : code;
}
