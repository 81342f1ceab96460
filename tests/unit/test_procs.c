/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/procs.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REST "S 41 1 1 0 -1 4194560 9 8 7 6 100 50 30 20 20 0 3 0 5 4096 25 18446744073709551615 0 0\n"

static void test_parse(void)
{
	struct proc p;
	char plain[] = "42 (sleep) " REST, nasty[] = "42 (x) R 1 1 (\n) ) " REST,
	     shorter[] = "42 (x) S 1 2 3", none[] = "nothing", empty[] = "";

	CHECKF(procs_parse(plain, &p) == 0 && p.pid == 42 && p.parent == 41 && p.threads == 3,
	       "a line of /proc is parsed");
	CHECKF(p.cpu_usec == 200 * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK)),
	       "the time of a process includes its children's");
	CHECKF(p.rss == 25 * (uint64_t)sysconf(_SC_PAGESIZE), "a line of /proc has its resident pages");
	CHECKF(procs_parse(nasty, &p) == 0 && p.parent == 41,
	       "a name that looks like the rest of a line is parsed");
	CHECKF(procs_parse(shorter, &p) == -EBADMSG, "a line that is cut is refused");
	CHECKF(procs_parse(none, &p) == -EBADMSG && procs_parse(empty, &p) == -EBADMSG,
	       "a text that is no line is refused");
}

/* Below us: one with a name that is none, which has a child with 32 MiB. */
static void family(int ready)
{
	size_t len = 32u << 20;
	char *mem;

	prctl(PR_SET_NAME, ") R 1 1 1 1");
	if (fork() == 0) {
		mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mem != MAP_FAILED)
			memset(mem, 1, len);
		(void)!write(ready, "x", 1);
	}
	for (;;)
		pause();
}

static void test_sum(void)
{
	struct procs procs = PROCS_INIT;
	struct procs_sum sum = { 0 }, own = { 0 };
	struct err e = ERR_INIT;
	int pipefd[2];
	pid_t pid;
	char c;

	if (!CHECK(pipe(pipefd) == 0))
		return;
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		family(pipefd[1]);
	}
	setpgid(pid, pid);
	CHECK(read(pipefd[0], &c, 1) == 1);
	CHECKF(procs_read(&procs, &e) == 0 && procs.n >= 3, "all processes can be read %s", e.msg);
	CHECKF(procs_sum(&procs, pid, true, &sum) == 0 && sum.threads == 2,
	       "a process and its child are summed up");
	CHECKF(sum.memory >= 32u << 20 && sum.memory < 64u << 20, "the sum of a family has its memory");
	CHECKF(procs_sum(&procs, getpid(), false, &own) == 0 && own.threads == 3 && own.memory == 0,
	       "the own process is counted with its children");
	CHECKF(procs_sum(&procs, pid, true, &sum) == 0 && sum.threads == 2,
	       "a second sum of the same processes is equal");
	CHECKF(procs_sum(&procs, 0x7ffffff0, true, &sum) == -ESRCH,
	       "a process that does not exist has no family");
	kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	procs_release(&procs);
}

int main(void)
{
	test_parse();
	test_sum();
	return tap_done();
}
