/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use up one resource each, and `spare`, which tells whether anything is left of it for the
 * same user outside. A bomb that is stopped by an error exits with that errno, so that the runner can tell
 * how it was stopped; one that is killed has no say in it.
 */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define MIB (1UL << 20)

/*
 * False when the bomb is to stop by itself: the control outside says in $BOMB_STOP how many it wants to see
 * taken, more than any sandbox gives.
 */
static bool more(long taken)
{
	const char *stop = getenv("BOMB_STOP");

	if (!stop || taken < strtol(stop, NULL, 10))
		return true;
	errno = 0;
	return false;
}

/* Tells what was taken, and with $BOMB_HOLD keeps it while the runner looks whether the host has any left. */
static int hold(const char *what, long count)
{
	int err = errno;

	printf("took %ld %s, then %s\n", count, what, err ? errno_name(err) : "stopped by itself");
	fflush(stdout);
	if (getenv("BOMB_HOLD"))
		sleep(1);
	return err;
}

static int b_fork(const char *arg)
{
	signal(SIGCHLD, SIG_IGN);
	while (arg)
		fork();
	return 0;
}

/* Ends by itself, with an error, once no more processes are given. */
static int b_fork_fail(const char *arg)
{
	pid_t pid, group = getpid();
	long n = 0;
	int err;

	(void)arg;
	setpgid(0, 0);
	while (more(n) && (pid = fork()) >= 0) {
		if (pid == 0) {
			pause();
			_exit(0);
		}
		n++;
	}
	err = hold("processes", n);
	signal(SIGTERM, SIG_IGN);
	kill(-group, SIGTERM);
	return err;
}

static int wait_forever(void *arg)
{
	while (!arg)
		pause();
	return 0;
}

static int b_threads(const char *arg)
{
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		char *stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (stack == MAP_FAILED ||
		    clone(wait_forever, stack + 8192, CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
			  NULL) < 0)
			break;
	}
	return hold("threads", n);
}

static int b_memory(const char *arg)
{
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			break;
		memset(p, 1, MIB);
	}
	return hold("MiB of memory", n);
}

/* Children that each take some: the kernel may kill any of them. */
static int b_memory_tree(const char *arg)
{
	for (int i = 0; i < 8; i++) {
		if (fork() == 0)
			_exit(b_memory(arg));
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

static int b_file(const char *dir)
{
	static char block[MIB];
	char path[4096];
	autoclose int fd = open(path_f(path, "%s/filled", dir), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	long n = 0;

	if (fd < 0)
		return errno;
	memset(block, 'x', sizeof(block));
	while (more(n) && write(fd, block, sizeof(block)) > 0)
		n++;
	return hold("MiB of file", n);
}

static int b_files(const char *dir)
{
	char path[4096];
	long n = 0;

	for (; more(n); n++) {
		int fd = open(path_f(path, "%s/many-%ld", dir, n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		if (fd < 0)
			break;
		close(fd);
	}
	return hold("files", n);
}

static int b_deep(const char *dir)
{
	if (chdir(dir) < 0)
		return errno;
	for (int i = 0; i < 2000; i++) {
		if (mkdir("d", 0755) < 0 || chdir("d") < 0)
			return errno;
	}
	return 0;
}

static int b_fds(const char *arg)
{
	long n = 0;

	(void)arg;
	while (more(n) && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		n++;
	return hold("descriptors", n);
}

static int b_output(const char *arg)
{
	static char block[65536];

	(void)arg;
	memset(block, 'y', sizeof(block));
	for (int i = 0; i < 1024; i++) {
		if (write(STDOUT_FILENO, block, sizeof(block)) < 0)
			return errno;
	}
	return 0;
}

static int zombies(void)
{
	autoclosedir DIR *d = opendir("/proc");
	int n = 0;

	for (struct dirent *de = d ? readdir(d) : NULL; de; de = readdir(d)) {
		char path[4096], text[512];

		if (de->d_name[0] >= '0' && de->d_name[0] <= '9' &&
		    read_small(path_f(path, "/proc/%s/stat", de->d_name), text, sizeof(text)) > 0)
			n += strstr(text, ") Z ") != NULL;
	}
	return n;
}

static int b_zombies(const char *arg)
{
	(void)arg;
	for (int i = 0; i < 600; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() >= 0)
				_exit(0);
			_exit(1);
		}
		if (pid < 0 || wait_exit(pid) != 0)
			usleep(1000);
	}
	for (int i = 0; i < 2000 && zombies() > 0; i++)
		usleep(10000);
	return zombies() > 0 ? ECHILD : 0;
}

static int b_ptys(const char *arg)
{
	long n = 0;

	(void)arg;
	while (more(n) && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
		n++;
	return hold("terminals", n);
}

static int b_sysv(const char *arg)
{
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		int id = shmget(IPC_PRIVATE, 16 * MIB, IPC_CREAT | 0600);
		char *p = id < 0 ? NULL : shmat(id, NULL, 0);

		if (!p || (intptr_t)p == -1)
			break;
		/* outside a sandbox nobody else would take it away */
		if (getenv("BOMB_STOP"))
			shmctl(id, IPC_RMID, NULL);
		memset(p, 1, 16 * MIB);
	}
	return hold("segments of shared memory", n);
}

static int b_pipes(const char *arg)
{
	static char block[65536];
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		int p[2];

		if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
			break;
		fcntl(p[1], F_SETPIPE_SZ, MIB);
		while (write(p[1], block, sizeof(block)) > 0)
			;
	}
	return hold("pipes", n);
}

static int b_keys(const char *arg)
{
	char name[32];
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		snprintf(name, sizeof(name), "k%ld", n);
		if (syscall(SYS_add_key, "user", name, "x", 1, KEY_SPEC_PROCESS_KEYRING) < 0)
			break;
	}
	return hold("keys", n);
}

static int b_inotify(const char *arg)
{
	long n = 0;

	(void)arg;
	while (more(n) && inotify_init1(IN_CLOEXEC) >= 0)
		n++;
	return hold("inotify instances", n);
}

static int b_timers(const char *arg)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG };
	timer_t t;
	long n = 0;

	(void)arg;
	while (more(n) && syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &t) == 0)
		n++;
	return hold("timers", n);
}

static int b_queues(const char *arg)
{
	struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	char name[64];
	long n = 0;

	(void)arg;
	for (; more(n); n++) {
		snprintf(name, sizeof(name), "/coffer-bomb-%ld", n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, &attr) < 0)
			break;
		if (getenv("BOMB_STOP"))
			mq_unlink(name);
	}
	return hold("message queues", n);
}

/* Sends `fd` over `sock` as a right, which stays in flight as long as nobody receives it. */
static int send_right(int sock, int fd)
{
	char data = 'x';
	struct iovec iov = { &data, 1 };
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int b_rights(const char *arg)
{
	long n = 0;

	(void)arg;
	while (more(n)) {
		int s[2];

		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, s) < 0)
			break;
		while (send_right(s[0], s[0]) == 0)
			n++;
		if (errno == ETOOMANYREFS)
			break;
	}
	return hold("descriptors in flight", n);
}

static int b_spin(const char *arg)
{
	for (int i = 0; i < 7; i++) {
		if (fork() == 0)
			break;
	}
	while (arg)
		__asm__ volatile("");
	return 0;
}

/* A program that some process ran: its file, by a descriptor that outlives it. */
struct program {
	ino_t ino;
	int fd; /* -1: looked at, cannot be written */
};

static struct program programs[64];
static size_t n_programs;

static void keep_program(const char *pid, ino_t self)
{
	char path[4096];
	struct stat st;
	autoclose int fd = open(path_f(path, "/proc/%s/exe", pid), O_PATH | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino == self || n_programs == ARRAY_SIZE(programs))
		return;
	for (size_t i = 0; i < n_programs; i++) {
		if (programs[i].ino == st.st_ino)
			return;
	}
	programs[n_programs++] = (struct program){ .ino = st.st_ino, .fd = TAKE_FD(fd) };
}

/* True when one of them could be opened for writing; those that are only busy are tried again. */
static bool write_program(void)
{
	for (size_t i = 0; i < n_programs; i++) {
		char path[4096];
		struct statvfs fs;
		int fd;

		if (programs[i].fd < 0)
			continue;
		fd = open(path_f(path, "/proc/self/fd/%d", programs[i].fd), O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			return true;
		/* busy as long as the sandbox lives, for pid 1 runs it too: what then holds is the mount */
		if (errno == ETXTBSY && (fstatvfs(programs[i].fd, &fs) < 0 || !(fs.f_flag & ST_RDONLY)))
			continue;
		printf("exe-watch: held (%s)\n", errno == ETXTBSY ? "read-only mount" : errno_name(errno));
		programs[i].fd = fd_close(programs[i].fd);
	}
	return false;
}

/*
 * The overwrite of a container's runtime, the patient way: keeps the program file of every process that
 * appears and is not ours, and opens it for writing once it is no longer busy. `arg` is how long, in seconds.
 */
static int b_exe_watch(const char *arg)
{
	time_t end = time(NULL) + strtol(arg, NULL, 10);
	struct stat self;

	if (stat("/proc/self/exe", &self) < 0)
		return errno;
	while (time(NULL) < end) {
		autoclosedir DIR *d = opendir("/proc");

		for (struct dirent *de = d ? readdir(d) : NULL; de; de = readdir(d)) {
			if (de->d_name[0] >= '0' && de->d_name[0] <= '9')
				keep_program(de->d_name, self.st_ino);
		}
		if (write_program()) {
			printf("exe-watch: BROKEN opened a program for writing\n");
			return 1;
		}
	}
	for (size_t i = 0; i < n_programs; i++) {
		if (programs[i].fd >= 0)
			printf("exe-watch: BROKEN only busy, and on a mount that can be written\n");
	}
	printf("exe-watch: ended, saw %zu programs\n", n_programs);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const char *arg);
} bombs[] = {
	{ "fork", b_fork },
	{ "fork-fail", b_fork_fail },
	{ "threads", b_threads },
	{ "memory", b_memory },
	{ "memory-tree", b_memory_tree },
	{ "file", b_file },
	{ "files", b_files },

	{ "deep", b_deep },
	{ "fds", b_fds },
	{ "output", b_output },
	{ "zombies", b_zombies },
	{ "ptys", b_ptys },
	{ "sysv", b_sysv },
	{ "pipes", b_pipes },
	{ "keys", b_keys },
	{ "inotify", b_inotify },
	{ "timers", b_timers },
	{ "queues", b_queues },
	{ "rights", b_rights },
	{ "spin", b_spin },
	{ "exe-watch", b_exe_watch },
};

int bomb_main(const char *name, const char *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(bombs); i++) {
		if (strcmp(bombs[i].name, name) == 0)
			return bombs[i].run(arg);
	}
	fprintf(stderr, "probe: no bomb is called %s\n", name);
	return 2;
}

static int failed(const char *what)
{
	printf("spare: no %s (%s)\n", what, errno_name(errno));
	return 1;
}

/* One of each: what a bomb of the same user must have left over. */
int spare_main(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG };
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 64 };
	char name[64];
	timer_t t;
	int bad = 0, s[2], shm;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	bad += pid < 0 ? failed("process") : wait_exit(pid);
	bad += inotify_init1(IN_CLOEXEC) < 0 ? failed("inotify instance") : 0;
	bad += open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0 ? failed("terminal") : 0;
	bad += syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &t) < 0 ? failed("timer") : 0;
	shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	bad += shm < 0 || shmctl(shm, IPC_RMID, NULL) < 0 ? failed("shared memory") : 0;
	snprintf(name, sizeof(name), "/coffer-spare-%d", getpid());
	bad += mq_open(name, O_CREAT | O_RDWR, 0600, &attr) < 0 ? failed("message queue") : 0;
	mq_unlink(name);
	/* counted by user id alone, and no namespace or limit of the sandbox's lowers it: said, not failed */
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, s) < 0 || send_right(s[0], s[0]) < 0)
		failed("descriptor in flight");
	return bad ? 1 : 0;
}
