/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/processes_int.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAITS "--wait" /* this program as a child: opens a few descriptors, reports, and waits to be killed */

static char dir[] = "/tmp/coffertest-processes-XXXXXX";

static int wait_as_child(void)
{
	int sv[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "\033[31mred");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) < 0 ||
	    open("written", O_WRONLY | O_CREAT, 0600) < 0 || open("written", O_RDONLY) < 0 ||
	    write(1, "x", 1) != 1)
		return 1;
	for (;;)
		pause();
}

/* Starts a copy of this program under the name `file` that calls itself `says`, and waits until it is ready. */
static pid_t start_copy(const char *file, const char *says)
{
	char path[64], from[PATH_MAX], c;
	autobuf struct buf b = BUF_INIT;
	int report[2], fd;
	ssize_t n = readlink("/proc/self/exe", from, sizeof(from) - 1);
	pid_t pid;

	if (n < 0)
		return -1;
	from[n] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	if (fd < 0 || fd_read_file(AT_FDCWD, from, 64u << 20, &b) < 0 || fd_write_all(fd, b.data, b.len) < 0)
		return -1;
	close(fd);
	if (pipe2(report, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (chdir(dir) < 0 || dup2(report[1], 1) < 0)
			_exit(1);
		execl(path, says, WAITS, (char *)NULL);
		_exit(1);
	}
	close(report[1]);
	n = read(report[0], &c, 1);
	close(report[0]);
	return n == 1 ? pid : -1;
}

static void end_copy(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void check_found(const struct process *p)
{
	char path[64];

	bool is_it = p && p->f.kind == KIND_EGRESS && p->f.exe == EXE_NAMESAKE && p->f.by == BY_EXECUTABLE;

	CHECKF(is_it, "a program that is called coffer-egress is listed, as one of another installation");
	if (!p)
		return;
	snprintf(path, sizeof(path), "%s/written", dir);
	CHECKF(p->f.st.uid == geteuid() && p->f.st.no_new_privs && !p->f.inside,
	       "a process has its user and no_new_privs");
	CHECK_STR(p->f.st.name, "\033[31mred");
	CHECKF(p->ns_visible && p->differs == 0, "a process without namespaces of its own has the caller's");
	CHECKF(p->dumpable == (geteuid() == 0 ? PROCESS_DUMP_HIDDEN : PROCESS_DUMP_YES),
	       "a process is dumpable where that is visible");
	CHECKF(p->fds_visible && p->sockets == 2 && p->socket_kinds[SOCKET_UNIX_SEQPACKET] == 2,
	       "the sockets of a process are found in the tables of its network namespace");
	CHECKF(p->writable_sorts[FD_SORT_PIPE] >= 1, "the pipe of a process is counted as writable");
	bool named = false;
	size_t same = 0;

	for (size_t i = 0; i < p->paths.n; i++) {
		named = named || str_eq(p->paths.v[i], path);
		same += str_eq(p->paths.v[i], path);
	}
	CHECKF(named && same == 1,
	       "a file that it writes is named once, and its other descriptor only reads");
}

static void test_live(void)
{
	CLEANUP(processes_release) struct processes all = PROCESSES_INIT;
	pid_t listed = start_copy("coffer-egress", "sleep"), liar = start_copy("other", "coffer-egress");
	struct err e = ERR_INIT;
	struct process *p;

	if (!CHECKF(listed > 0 && liar > 0, "the copies of this program run"))
		return;
	CHECKF(processes_read(&all, &e) == 0, "the processes are read %s", e.msg);
	p = process_find(&all, listed);
	/* The kernel's list of sockets passes over one now and then while others make and close theirs. */
	for (int i = 0; i < 50 && p && p->socket_kinds[SOCKET_UNIX_SEQPACKET] < 2; i++) {
		processes_release(&all);
		CHECK(processes_read(&all, &e) == 0);
		p = process_find(&all, listed);
	}
	check_found(p);
	CHECKF(!process_find(&all, liar), "a program that only calls itself coffer-egress is not listed");
	CHECKF(!process_find(&all, getpid()), "the caller is not listed");
	CHECKF(p && process_is_same(p) == 0, "a process that lives is the same");
	end_copy(listed);
	end_copy(liar);
	CHECKF(p && process_is_same(p) == -ESRCH, "a process that has ended is not");
	processes_release(&all);
	CHECKF(processes_read(&all, &e) == 0 && !process_find(&all, listed),
	       "a process that has ended is not listed");
}

int main(int argc, char **argv)
{
	char state[sizeof(dir) + 8];

	(void)argv;
	if (argc > 1 && str_eq(argv[1], WAITS))
		return wait_as_child();
	if (!CHECK(mkdtemp(dir)))
		return tap_done();
	snprintf(state, sizeof(state), "%s/state", dir);
	setenv("COFFER_STATE", state, 1);
	test_live();
	CHECKF(access(state, F_OK) < 0, "no state directory is made");
	CHECK(fd_rm_rf(AT_FDCWD, dir, NULL) == 0);
	return tap_done();
}
