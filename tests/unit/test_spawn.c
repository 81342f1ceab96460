/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real children: this program is executed again, and tells on descriptor 1 what it finds itself with. Each claim is made
 * as whoever runs the test; as root also as an ordinary user and as root of a user namespace.
 */
#include "base/fd.h"
#include "base/signals.h"
#include "base/str.h"
#include "sys/cgroup/cgroup.h"
#include "sys/spawn.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_ID 64123
#define ORDINARY 20001

static int self = -1;	/* this program */
static const char *who; /* as whom the tests run */

/* --- the child -------------------------------------------------------------------------------------------------- */

static void tell_fds(void)
{
	autoclosedir DIR *d = opendir("/proc/self/fd");
	const struct dirent *x;
	uint64_t open_fds = 0;

	while (d && (x = readdir(d))) {
		int fd = (int)strtol(x->d_name, NULL, 10);

		if (*x->d_name != '.' && fd != dirfd(d) && fd < 64)
			open_fds |= 1ULL << fd;
	}
	printf("fds=%llx\n", (unsigned long long)open_fds);
	for (int fd = 0; fd < 8; fd++) {
		char path[32], to[128] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (open_fds >> fd & 1 && readlink(path, to, sizeof(to) - 1) > 0)
			printf("fd%d=%s\n", fd, to);
	}
}

static void tell_status(void)
{
	autofclose FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon = '\0';
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		printf("%s=%s\n", line, colon);
	}
}

static int tell(int argc, char **argv)
{
	struct rlimit core = { 1, 1 }, files = { 1, 1 };
	char cwd[256] = "";
	int death = -1;

	tell_fds();
	tell_status();
	for (int i = 0; i < argc; i++)
		printf("argv%d=%s\n", i, argv[i]);
	for (char **v = environ; *v; v++)
		printf("env=%s\n", *v);
	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_NOFILE, &files);
	prctl(PR_GET_PDEATHSIG, &death);
	printf("core=%llu\nnofile=%llu/%llu\ndeath=%d\numask=%o\ncwd=%s\n", (unsigned long long)core.rlim_max,
	       (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max, death, umask(0),
	       getcwd(cwd, sizeof(cwd)) ? cwd : "?");
	printf("leads=%s\n", getsid(0) == getpid() ? "session" : getpgrp() == getpid() ? "group" : "none");
	printf("ppid=%d\nend=1\n", getppid());
	return fflush(stdout) == 0 ? 0 : 1;
}

/* --- the starter ------------------------------------------------------------------------------------------------ */

static struct buf told = BUF_INIT;

/* The child's text for a key; its last word where there are many. */
static const char *said(const char *key)
{
	static char value[512];
	const char *at = buf_cstr(&told), *found = NULL;
	size_t len = strlen(key);

	for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
		if (strncmp(at, key, len) == 0 && at[len] == '=')
			found = at + len + 1;
	}
	snprintf(value, sizeof(value), "%.*s", found ? (int)strcspn(found, "\n") : 4, found ? found : "none");
	return value;
}

#define SAYS(key, value)                                                                            \
	do {                                                                                        \
		if (!CHECKF(str_eq(said(key), value), "%s: the child's %s is %s", who, key, value)) \
			printf("# it is %s\n", said(key));                                          \
	} while (0)

static char *const tell_argv[] = { (char *)"tell", (char *)"one", NULL };

/* Starts it with its output in a pipe, and hears it out. 0 or what spawn_start_step() says. */
static int hear(struct spawn *s, const int *more, size_t n_more, enum spawn_step *step, struct err *e)
{
	int p[2], fds[16] = { SPAWN_NULL, 0, SPAWN_NULL }, r, status = -1;
	struct spawned got = SPAWNED_INIT;

	buf_clear(&told);
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	fds[1] = p[1];
	for (size_t i = 0; i < n_more; i++)
		fds[3 + i] = more[i];
	if (!s->path)
		s->exe = self;
	s->argv = s->argv ? s->argv : tell_argv;
	s->fds = fds;
	s->n_fds = 3 + n_more;
	r = spawn_start_step(s, &got, step, e);
	close(p[1]);
	if (r == 0 && fd_read_all(p[0], 1 << 20, &told) == 0 && !(s->flags & SPAWN_ORPHAN))
		status = spawn_wait(&got);
	close(p[0]);
	if (r == 0 && !(s->flags & SPAWN_ORPHAN))
		CHECKF(status == 0 && got.pidfd == -1, "%s: the child ends well and is reaped", who);
	s->fds = NULL;
	s->n_fds = 0;
	return r;
}

static int hear_simply(struct spawn *s)
{
	enum spawn_step step = 0;
	struct err e = ERR_INIT;
	int r = hear(s, NULL, 0, &step, &e);

	if (r < 0)
		printf("# %s\n", e.msg);
	return r;
}

/* In a child, so that what it changes of this process stays there; its tests are counted. */
static void apart(void (*fn)(void))
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int before = tap_count;

		tap_failed = 0;
		fn();
		fflush(stdout);
		_exit(tap_failed ? 255 : tap_count - before);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 255) {
		tap_failed++;
		tap_count++;
		printf("# a part ended badly: %x\n", (unsigned)status);
		return;
	}
	tap_count += WEXITSTATUS(status);
}

/* --- claims ----------------------------------------------------------------------------------------------------- */

static void test_strongest(void)
{
	struct spawn s = { .id = OTHER_ID };
	char id[64];
	bool changes = geteuid() == 0 && str_eq(who, "root");
	unsigned uid = changes ? OTHER_ID : geteuid(), gid = changes ? OTHER_ID : getegid();

	CHECKF(hear_simply(&s) == 0, "%s: a program starts with nothing", who);
	SAYS("end", "1");
	snprintf(id, sizeof(id), "%u\t%u\t%u\t%u", uid, uid, uid, uid);
	SAYS("Uid", id);
	snprintf(id, sizeof(id), "%u\t%u\t%u\t%u", gid, gid, gid, gid);
	SAYS("Gid", id);
	if (changes)
		SAYS("Groups", "");
	SAYS("CapInh", "0000000000000000");
	SAYS("CapPrm", "0000000000000000");
	SAYS("CapEff", "0000000000000000");
	SAYS("CapAmb", "0000000000000000");
	SAYS("NoNewPrivs", "1");
	SAYS("env", "none");
	SAYS("fds", "7");
	SAYS("fd0", "/dev/null");
	SAYS("fd2", "/dev/null");
	SAYS("core", "0");
	SAYS("death", "9");
	SAYS("umask", "77");
	SAYS("cwd", "/");
	SAYS("argv0", "tell");
	SAYS("argv1", "one");
	SAYS("leads", "none");
	snprintf(id, sizeof(id), "%d", getpid());
	SAYS("ppid", id);
}

static void test_flags(void)
{
	static char *const env[] = { (char *)"A=1", (char *)"B=2", NULL };
	static const struct spawn_limit limits[] = { { RLIMIT_NOFILE, 77 } };
	struct spawn s = { .env = env,
			   .limits = limits,
			   .n_limits = 1,
			   .flags = SPAWN_SAME_ID | SPAWN_OUTLIVES | SPAWN_MAY_GAIN | SPAWN_KEEP_CWD |
				    SPAWN_KEEP_UMASK | SPAWN_SESSION };
	char id[64];

	umask(02);
	CHECK(setenv("SECRET", "x", 1) == 0 && chdir("/tmp") == 0);
	CHECKF(hear_simply(&s) == 0, "%s: a program starts with all that can be kept", who);
	snprintf(id, sizeof(id), "%u\t%u\t%u\t%u", getuid(), geteuid(), geteuid(), geteuid());
	SAYS("Uid", id);
	SAYS("death", "0");
	SAYS("cwd", "/tmp");
	SAYS("umask", "2");
	SAYS("leads", "session");
	SAYS("NoNewPrivs", "0");
	SAYS("env", "B=2");
	CHECKF(!strstr(buf_cstr(&told), "SECRET"), "%s: a variable that is not named stays outside", who);
	SAYS("nofile", "77/77");
	s.flags = SPAWN_SAME_ID | SPAWN_GROUP;
	s.cwd = "/proc";
	CHECK(hear_simply(&s) == 0);
	SAYS("leads", "group");
	SAYS("cwd", "/proc");
	s.flags = SPAWN_SAME_ID | SPAWN_CWD_FD;
	s.cwd_fd = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(hear_simply(&s) == 0);
	SAYS("cwd", "/dev");
	close(s.cwd_fd);
}

/* Numbers that get in each other's way: a swap, one that is there already, one twice, one at its own place. */
static void test_fds(void)
{
	struct spawn s = { .flags = SPAWN_SAME_ID };
	enum spawn_step step = 0;
	struct err e = ERR_INIT;
	int a = open("/etc", O_RDONLY | O_DIRECTORY), b = open("/usr", O_RDONLY | O_DIRECTORY);
	int c = open("/proc", O_RDONLY | O_DIRECTORY);

	CHECK(a >= 0 && b >= 0 && c >= 0);
	CHECK(dup2(a, 3) == 3 && dup2(b, 4) == 4 && dup2(c, 5) == 5 && dup2(c, 40) == 40);
	CHECKF(hear(&s, (int[]){ 4, 3, 5, SPAWN_NULL, 4 }, 5, &step, &e) == 0,
	       "%s: descriptors that swap their numbers are placed", who);
	SAYS("fds", "ff");
	SAYS("fd3", "/usr");
	SAYS("fd4", "/etc");
	SAYS("fd5", "/proc");
	SAYS("fd6", "/dev/null");
	SAYS("fd7", "/usr");
	/* The program, and the pipe by which failures are told, are at numbers that the child is given. */
	CHECK(dup2(self, 6) == 6);
	self = 6;
	close(7);
	close(8);
	close(9);
	CHECKF(hear(&s, (int[]){ 3, 3, 3, 3, 3, 3, 3, 3, 3 }, 9, &step, &e) == 0,
	       "%s: the program's own descriptor does not get in the way", who);
	SAYS("fds", "fff");
	SAYS("fd6", "/etc");
}

static void on_signal(int sig)
{
	(void)sig;
}

static void test_signals(void)
{
	struct spawn s = { .flags = SPAWN_SAME_ID };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGRTMIN + 3, SIG_IGN);
	signal(SIGUSR1, on_signal);
	CHECK(hear_simply(&s) == 0);
	SAYS("SigBlk", "0000000000000000");
	SAYS("SigIgn", "0000000000000000");
	/* A sanitizer handles some by itself. */
	CHECKF(!(strtoull(said("SigCgt"), NULL, 16) & SPAWN_SIGNAL(SIGUSR1)), "%s: a handler stays outside",
	       who);
	s.ignore = SPAWN_SIGNAL(SIGPIPE) | SPAWN_SIGNAL(SIGXFSZ);
	CHECK(hear_simply(&s) == 0);
	SAYS("SigIgn", "0000000001001000");
}

/* The kernel reaps the children of a process that ignores SIGCHLD. */
static void test_unknown_end(void)
{
	struct spawn s = { .exe = self,
			   .argv = tell_argv,
			   .fds = (int[]){ SPAWN_NULL, SPAWN_NULL, SPAWN_NULL },
			   .n_fds = 3,
			   .flags = SPAWN_SAME_ID };
	struct spawned got = SPAWNED_INIT;
	struct err e = ERR_INIT;

	signal(SIGCHLD, SIG_IGN);
	CHECK(spawn_start(&s, &got, &e) == 0);
	CHECKF(spawn_wait(&got) == SPAWN_STATUS_UNKNOWN && got.pidfd == -1,
	       "%s: a child whose end nobody knows has failed", who);
}

static void test_signals_begin(void)
{
	struct sigaction child = { 0 }, hangup = { 0 };
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signals_begin();
	CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
	CHECKF(!sigismember(&set, SIGTERM) && !sigismember(&set, SIGCHLD),
	       "%s: signals that the caller blocked are not blocked any more", who);
	CHECK(sigaction(SIGCHLD, NULL, &child) == 0 && sigaction(SIGHUP, NULL, &hangup) == 0);
	CHECKF(child.sa_handler == SIG_DFL, "%s: a SIGCHLD that the caller ignored has its default action",
	       who);
	CHECKF(hangup.sa_handler == SIG_IGN, "%s: a SIGHUP that the caller ignored stays ignored", who);
}

static void test_orphan(void)
{
	struct spawn s = { .flags = SPAWN_SAME_ID | SPAWN_OUTLIVES | SPAWN_SESSION | SPAWN_ORPHAN };
	char id[32];

	CHECKF(hear_simply(&s) == 0, "%s: a program starts as nobody's child", who);
	SAYS("end", "1");
	snprintf(id, sizeof(id), "%d", getpid());
	CHECKF(!str_eq(said("ppid"), id), "%s: the starter is not its parent", who);
	CHECKF(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "%s: the starter has no child to reap",
	       who);
}

/* Two at once, one of which cannot be executed: each is asked about afterwards. */
static void test_later(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 7", NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL };
	struct spawn s = {
		.flags = SPAWN_SAME_ID | SPAWN_LATER, .path = "/bin/sh", .argv = argv, .fds = fds, .n_fds = 3
	};
	struct spawned good = SPAWNED_INIT, bad = SPAWNED_INIT;
	enum spawn_step step = SPAWN_STEP_COUNT;
	struct err e = ERR_INIT;

	CHECK(spawn_start(&s, &good, &e) == 0 && good.report >= 0);
	s.path = "/no/such/program";
	CHECKF(spawn_start(&s, &bad, &e) == 0 && bad.report >= 0,
	       "%s: a caller that does not wait is not told at once", who);
	CHECK(spawn_told(TAKE_FD(good.report), "sh", &step, &e) == 0 && step == SPAWN_STEP_COUNT);
	CHECKF(spawn_told(TAKE_FD(bad.report), "sh", &step, &e) == -ENOENT && step == SPAWN_STEP_EXEC,
	       "%s: a failed start is told when it is asked for", who);
	CHECK(WEXITSTATUS(spawn_wait(&good)) == 7 && WEXITSTATUS(spawn_wait(&bad)) == 126);
}

/* An ordinary program by its path, one in PATH, and none. */
static void test_path(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"echo path=$0", NULL };
	struct spawn s = { .flags = SPAWN_SAME_ID, .path = "/bin/sh", .argv = argv };
	enum spawn_step step = SPAWN_STEP_COUNT;
	struct err e = ERR_INIT;

	CHECK(hear(&s, NULL, 0, &step, &e) == 0);
	SAYS("path", "sh");
	s.path = "sh";
	CHECK(hear(&s, NULL, 0, &step, &e) == 0);
	SAYS("path", "sh");
	s.path = "no-such-program-anywhere";
	CHECK(hear(&s, NULL, 0, &step, &e) == -ENOENT && step == SPAWN_STEP_EXEC);
	CHECK_STR(e.msg, "cannot start sh: executing it: No such file or directory");
	CHECKF(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "%s: a failure leaves no child", who);
}

/* --- S4 --------------------------------------------------------------------------------------------------------- */

/* The process that inherits it may take time to reap it. */
static bool is_gone(pid_t pid)
{
	char path[32], text[256], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 500; i++) {
		autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		text[n > 0 ? n : 0] = '\0';
		state = strrchr(text, ')');
		if (n <= 0 || (state && state[1] == ' ' && state[2] == 'Z'))
			return true;
		usleep(10000);
	}
	return false;
}

/* A starter that starts something long and dies; what it started is known by the pipe. */
static void test_death(void)
{
	char *const argv[] = { (char *)"sleep", (char *)"1000", NULL };
	int p[2];
	pid_t starter, got = 0;

	CHECK(pipe2(p, O_CLOEXEC) == 0);
	for (int outlives = 0; outlives < 2; outlives++) {
		starter = fork();
		if (starter == 0) {
			int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL };
			struct spawn s = { .path = "sleep", .argv = argv, .fds = fds, .n_fds = 3 };
			struct spawned x = SPAWNED_INIT;

			s.id = outlives ? 0 : OTHER_ID;
			s.flags = outlives ? SPAWN_SAME_ID | SPAWN_OUTLIVES : 0;
			if (spawn_start(&s, &x, NULL) == 0)
				(void)!write(p[1], &x.pid, sizeof(x.pid));
			pause();
			_exit(0);
		}
		CHECK(fd_read_exact(p[0], &got, sizeof(got)) == 0 && kill(got, 0) == 0);
		kill(starter, SIGKILL);
		waitpid(starter, NULL, 0);
		if (outlives) {
			usleep(100000);
			CHECKF(kill(got, 0) == 0, "%s: a child that may outlive its starter survives it",
			       who);
			kill(got, SIGKILL);
		} else {
			CHECKF(is_gone(got), "%s: a child that may not outlive its starter dies with it",
			       who);
		}
	}
	close(p[0]);
	close(p[1]);
}

/* The order is forced: a child waits until its parent is dead, and asks to die with it only then. */
static void test_dead_already(void)
{
	int p[2] = { -1, -1 }, hold[2] = { -1, -1 };
	char c = 0;
	pid_t starter;

	CHECK(pipe2(p, O_CLOEXEC) == 0 && pipe2(hold, O_CLOEXEC) == 0);
	starter = fork();
	if (starter == 0) {
		pid_t parent = getpid();

		if (fork() == 0) {
			close(hold[1]);
			close(p[0]);
			while (read(hold[0], &c, 1) < 0)
				;
			spawn_die_with(parent);
			(void)!write(p[1], "a", 1);
			_exit(0);
		}
		_exit(0);
	}
	waitpid(starter, NULL, 0);
	close(hold[1]);
	close(p[1]);
	CHECKF(read(p[0], &c, 1) == 0, "%s: a child whose starter is dead already ends", who);
	close(p[0]);
	close(hold[0]);
}

/* --- S8: each step ---------------------------------------------------------------------------------------------- */

/* From now on this system call is refused. */
static int refuse(long call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0
		       ? -errno
		       : 0;
}

static struct {
	long refused;
	struct spawn s;
	enum spawn_step step;
	int code;
	const char *text;
} failing;

static void fails(void)
{
	enum spawn_step step = SPAWN_STEP_COUNT;
	struct err e = ERR_INIT;
	int r;

	if (failing.refused >= 0 && refuse(failing.refused) < 0)
		_exit(255);
	r = hear(&failing.s, NULL, 0, &step, &e);
	if (!CHECKF(r == failing.code && step == failing.step && strstr(e.msg, failing.text),
		    "%s: a failure in step %d is reported as '%s'", who, (int)failing.step, failing.text))
		printf("# %d in step %d: %s\n", r, (int)step, e.msg);
	CHECKF(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "%s: a failed start leaves no child", who);
	CHECKF(told.len == 0, "%s: a failed start does not run the program", who);
}

static void fail_in(long refused, struct spawn s, enum spawn_step step, int code, const char *text)
{
	failing.refused = refused;
	failing.s = s;
	failing.step = step;
	failing.code = code;
	failing.text = text;
	apart(fails);
}

static void bad_descriptor(void)
{
	struct spawn s = { .flags = SPAWN_SAME_ID };
	enum spawn_step step = 0;
	struct err e = ERR_INIT;

	CHECKF(hear(&s, (int[]){ 900 }, 1, &step, &e) == -EBADF && step == SPAWN_STEP_FDS,
	       "%s: a descriptor that is not open is a failure", who);
	CHECK(strstr(e.msg, "placing its descriptors"));
}

static void no_program(void)
{
	struct spawn s = { .flags = SPAWN_SAME_ID };
	enum spawn_step step = 0;
	struct err e = ERR_INIT;

	self = -1;
	CHECKF(hear(&s, NULL, 0, &step, &e) == -EBADF && step == SPAWN_STEP_EXEC,
	       "%s: a program that could not be opened is a failure", who);
}

static void test_failures(void)
{
	static const struct spawn_limit limits[] = { { RLIMIT_NOFILE, 77 } };
	struct cgroup cg = CGROUP_INIT;
	const struct spawn same = { .flags = SPAWN_SAME_ID }, other = { .id = OTHER_ID };
	struct spawn s = same;

	cg.tasks[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s.cgroup = &cg;
	fail_in(-1, s, SPAWN_STEP_CGROUP, -EBADF, "joining its control group");
	close(cg.tasks[0]);
	s = same;
	s.flags |= SPAWN_SESSION;
	fail_in(SYS_setsid, s, SPAWN_STEP_SESSION, -EXDEV, "making its session");
	s.flags |= SPAWN_ORPHAN | SPAWN_OUTLIVES;
	fail_in(SYS_clone, s, SPAWN_STEP_ORPHAN, -EXDEV, "leaving its starter");
	s = same;
	s.cwd = "/no/such/place";
	fail_in(-1, s, SPAWN_STEP_CWD, -ENOENT, "changing to its directory");
	apart(bad_descriptor);
	fail_in(SYS_close_range, same, SPAWN_STEP_FDS, -EXDEV, "placing its descriptors");
	s = same;
	s.limits = limits;
	s.n_limits = 1;
	fail_in(SYS_prlimit64, s, SPAWN_STEP_LIMITS, -EXDEV, "setting its limits");
	fail_in(SYS_capget, other, SPAWN_STEP_ID, -EXDEV, "giving up identity and capabilities");
	if (str_eq(who, "root")) {
		fail_in(SYS_setgroups, other, SPAWN_STEP_ID, -EXDEV, "giving up identity");
		fail_in(SYS_setresgid, other, SPAWN_STEP_ID, -EXDEV, "giving up identity");
		fail_in(SYS_setresuid, other, SPAWN_STEP_ID, -EXDEV, "giving up identity");
	}
	fail_in(SYS_prctl, same, SPAWN_STEP_PRIVS, -EXDEV, "setting no_new_privs");
	s = same;
	s.flags |= SPAWN_MAY_GAIN;
	fail_in(SYS_prctl, s, SPAWN_STEP_DEATH, -EXDEV, "tying it to its starter");
	/* The parent that the child finds is not the one that started it. */
	fail_in(SYS_getppid, s, SPAWN_STEP_DEATH, -ESRCH, "tying it to its starter");
	apart(no_program);
	fail_in(SYS_execveat, same, SPAWN_STEP_EXEC, -EXDEV, "executing it");
}

/* As a group's leader this process cannot have a session; the program is not executed. */
static void exec_fails(void)
{
	int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL };
	struct spawn s = {
		.flags = SPAWN_SAME_ID | SPAWN_SESSION, .exe = self, .argv = tell_argv, .fds = fds, .n_fds = 3
	};
	struct err e = ERR_INIT;

	CHECK(setpgid(0, 0) == 0);
	CHECK(spawn_exec(&s, &e) == -EPERM && strstr(e.msg, "making its session"));
}

static void test_exec(void)
{
	int p[2], status = -1;
	pid_t pid;

	apart(exec_fails);
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	buf_clear(&told);
	pid = fork();
	if (pid == 0) {
		int fds[] = { SPAWN_NULL, p[1], SPAWN_NULL };
		struct spawn s = { .id = OTHER_ID, .exe = self, .argv = tell_argv, .fds = fds, .n_fds = 3 };

		(void)spawn_exec(&s, NULL);
		_exit(99);
	}
	close(p[1]);
	CHECK(fd_read_all(p[0], 1 << 20, &told) == 0 && waitpid(pid, &status, 0) == pid && status == 0);
	close(p[0]);
	SAYS("CapEff", "0000000000000000");
	SAYS("fds", "7");
	SAYS("NoNewPrivs", "1");
}

static void test_env(void)
{
	static const char *const names[] = { "ONE", "NOT_SET" };
	autostrv struct strv some = STRV_INIT, rest = STRV_INIT;

	clearenv();
	CHECK(setenv("ONE", "1", 1) == 0 && setenv("ONES", "11", 1) == 0);
	CHECK(spawn_env_copy(&some, names, 2) == 0 && some.n == 1);
	CHECK_STR(some.v[0], "ONE=1");
	CHECK(spawn_env_but(&rest, names, 2) == 0 && rest.n == 1);
	CHECK_STR(rest.v[0], "ONES=11");
}

/* spawn.S3 promises no_new_privs to a child with another id. */
static void test_gain_needs_same_id(void)
{
	struct spawn s = { .exe = self,
			   .argv = tell_argv,
			   .fds = (int[]){ SPAWN_NULL, SPAWN_NULL, SPAWN_NULL },
			   .n_fds = 3,
			   .id = OTHER_ID,
			   .flags = SPAWN_MAY_GAIN };
	const struct rlimit none = { 0, 0 };
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		struct spawned got = SPAWNED_INIT;
		struct err e = ERR_INIT;

		close(2);
		_exit(setrlimit(RLIMIT_CORE, &none) < 0 || spawn_start(&s, &got, &e) < 0);
	}
	CHECKF(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
	       "%s: SPAWN_MAY_GAIN with another id is a bug of the caller", who);
}

static void test_all(void)
{
	apart(test_strongest);
	apart(test_flags);
	apart(test_fds);
	apart(test_signals);
	apart(test_unknown_end);
	apart(test_signals_begin);
	apart(test_orphan);
	apart(test_path);
	apart(test_later);
	apart(test_death);
	apart(test_dead_already);
	test_failures();
	apart(test_exec);
	apart(test_gain_needs_same_id);
}

static void as_user(void)
{
	who = "user";
	if (setresgid(ORDINARY, ORDINARY, ORDINARY) < 0 || setresuid(ORDINARY, ORDINARY, ORDINARY) < 0)
		_exit(255);
	test_all();
}

/* uid 0 there, with every capability there. */
static void as_namespace_root(void)
{
	char map[64];

	who = "namespace root";
	snprintf(map, sizeof(map), "0 %u 1", getuid());
	if (unshare(CLONE_NEWUSER) < 0 || fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) < 0) {
		tap_skip("programs are started as root of a user namespace",
			 "no user namespace can be made here");
		return;
	}
	test_all();
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[0], "tell"))
		return tell(argc, argv);
	self = fcntl(open("/proc/self/exe", O_PATH | O_CLOEXEC), F_DUPFD_CLOEXEC, 50);
	close(3);
	who = geteuid() == 0 ? "root" : "user";
	setbuf(stdout, NULL);
	test_env();
	test_all();
	if (geteuid() == 0)
		apart(as_user);
	apart(as_namespace_root);
	return tap_done();
}
